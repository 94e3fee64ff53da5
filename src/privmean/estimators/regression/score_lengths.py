"""Where score contributions are shortened: at the length that balances noise and what is cut off.

From noisy counts of lengths on half octaves, which also tell whether lengths are in units that
cannot be theirs. docs/proofs/pooled-regression.md, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privmean.array_types import Floats

PRICE = 1.5  # deviations of a count that a cell must add to belong to what is seen
UNSEEN, FALL = 0.5, 2.0**-1.5  # the same of a sum's interval, and from cell to cell
LEAST = 0.35
LENGTHS: Floats = 2.0 ** (np.arange(-28, 37) / 4)  # that are tried
NORMAL = 1.96
LONG = 8.0  # deviations
MANY, SURE = 4.0, 4.0
LAPLACE = 2.0  # deviations on top of `SURE` that Laplace noise needs, for tails of 1e-4
MIDDLE, CERTAIN = 2.0, 2.0  # usual size over the median length; deviations of a sum of counts


@dataclass(frozen=True)
class Radius:
    """limit: the length; cut: what people lose beyond it, summed over people. squares: by how much
    the squares of rows cut at the length exceed those of rows cut at half of it, summed."""

    limit: float
    cut: float
    squares: float = 0.0

    def times(self, unit: float) -> Radius:
        return Radius(self.limit * unit, self.cut * unit, self.squares)


def radius_of_least_width(
    counts: Floats, sd: float, edges: Floats, noise: float, *, persons: int, beyond_sd: float
) -> Radius:
    """The length that makes the predicted half-width of an interval least: sampling, the noise of
    the sum and of the count of those beyond it in quadrature, what is cut off linearly.

    counts, sd, edges, noise: as for `best_radius`. beyond_sd: deviation of the count's noise. Half
    a deviation of `counts` may hide in the first cell beyond what is seen, and falls as a tail of
    index 3.
    """
    middles = np.append(np.sqrt(edges[:-1] * edges[1:]), edges[-1] * 2**0.25)
    seen = seen_counts(counts, sd)
    number = np.concatenate([seen, UNSEEN * sd * FALL ** np.arange(len(middles) - len(seen))])
    tried = LENGTHS[:, None]
    part = np.clip(2 * np.log2(middles * 2**0.25 / tried), 0.0, 1.0)  # of a cell beyond a length
    beyond = (number * part).sum(axis=1)
    cuts = (number * np.maximum(middles - tried, 0.0)).sum(axis=1)
    variance = persons + (noise**2 + (beyond_sd / 2) ** 2) * LENGTHS**2
    half = NORMAL * np.sqrt(variance) + np.maximum(LENGTHS * beyond, 2 * cuts) / 2
    limit = max(float(LENGTHS[np.argmin(half)]), LEAST)
    inside = np.minimum(middles[: len(seen)], limit) ** 2 - (limit / 2) ** 2
    return Radius(
        limit, float(np.interp(limit, LENGTHS, cuts)), float((seen * np.maximum(inside, 0)).sum())
    )


def seen_counts(counts: Floats, sd: float) -> Floats:
    """The noisy people between edges, up to the last cell that noise does not explain."""
    best, current, end = -np.inf, 0.0, 0
    for place, count in enumerate(counts):
        current = max(current, 0.0) + float(count) - PRICE * sd
        if current > best:
            best, end = current, place
    return np.maximum(counts[1 : end + 1], 0.0)


def usual_size(counts: Floats, sd: float, edges: Floats) -> float:
    """A power of two, at most 1, of which most lengths are a part: an influence is the mean of a
    person's records, and in units of one record the shorter the more there are."""
    below = np.cumsum(counts[:-1])
    sure = below - CERTAIN * sd * np.sqrt(np.arange(1, len(below) + 1)) > counts.sum() / 2
    median = edges[np.argmax(sure)] if sure.any() else 1.0
    return float(np.exp2(min(np.floor(np.log2(MIDDLE * median)), 0.0)))


def misread(counts: Floats, sd: float, edges: Floats, persons: int, *, laplace: bool) -> bool:
    """Whether the units cannot be those of the score contributions: more than 4/r^2 of the people
    (and more than noise explains, but in 1e-4) are above r deviations for an r from 8 on, where
    Chebyshev's inequality leaves 1/r^2. laplace: whether the counts' noise is."""
    long = edges >= LONG
    above = np.cumsum(counts[1:][long][::-1])
    least = np.maximum(
        persons * MANY / edges[long][::-1] ** 2,
        sd * (SURE * np.sqrt(np.arange(1, len(above) + 1)) + LAPLACE * laplace),
    )
    return bool(np.any(above > least))
