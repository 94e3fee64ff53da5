"""The length at which rows are shortened, where what is cut off balances the noise: from noisy
counts of lengths on half octaves. Reads no data. docs/proofs/pooled-regression.md, section 5."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privmean.people.reductions import Floats

PRICE = 1.5  # deviations of a count that a cell must add to belong to what is seen
HIDDEN = 0.2  # deviations of a count that may hide in the first cell beyond
LEAST = 0.35


@dataclass(frozen=True)
class Radius:
    """limit: the length; cut: what persons lose beyond it, summed over persons."""

    limit: float
    cut: float

    def times(self, unit: float) -> Radius:
        return Radius(self.limit * unit, self.cut * unit)


def best_radius(
    counts: Floats, sd: float, edges: Floats, noise: float, fall: float = 0.5
) -> Radius:
    """counts: noisy persons below the first edge, between edges, beyond the last. noise: deviation
    of the sum's noise over the length. fall: persons who may hide in a cell, over those in the one
    before."""
    best, current, end = -np.inf, 0.0, 0
    for place, count in enumerate(counts):
        current = max(current, 0.0) + float(count) - PRICE * sd
        if current > best:
            best, end = current, place
    middles = np.append(np.sqrt(edges[:-1] * edges[1:]), edges[-1] * 2**0.25)
    seen = np.maximum(counts[1 : end + 1], 0.0)
    left = len(middles) - len(seen)
    number = np.concatenate([seen, HIDDEN * sd * fall ** np.arange(left)])
    tried = 2.0 ** (np.arange(-28, 37) / 4)
    cuts = np.array([float((np.maximum(middles - t, 0.0) * number).sum()) for t in tried])
    chosen = int(np.argmin((cuts / 2) ** 2 + (noise * tried) ** 2))
    limit = max(float(tried[chosen]), LEAST)
    return Radius(limit, float(np.interp(limit, tried, cuts)))
