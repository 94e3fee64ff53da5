"""How a tail that falls off slowly goes on beyond the limits, by the noisy bins before and behind.

The noisy count beyond limits may say nobody where some per cent of a skewed law are. A parabola in
the logarithms of counts and distances (lognormal laws are one, Pareto laws a line) is drawn through
the bins about a limit, and goes on beyond it where it bends no more than laws with long tails do
(docs/proofs/groups.md, section 6). Everything here is a function of noisy counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privmean.central.groups.pooled_tail import PooledTail
from privmean.central.log_histogram import EDGES, Histogram
from privmean.data.grids import LOG_BINS
from privmean.data.person_table import Floats

BEFORE, BEHIND, ON = 7, 3, 9  # bins through which the curve is drawn, and to which it goes on
RISES = 1 / 6  # of the fullest bin: one before it with less does not belong to the tail
HEAP = 3.0  # times the next bin: a fullest one with more is a heap, and the tail begins behind it
BENT, STRAIGHT = -0.08, -0.05  # bends of a curve that is not believed, and of one that is
USUAL, SPREAD = -0.15, 0.1  # what is known of bends beforehand, so that noise decides nothing
TURNS, NEAR_ENOUGH = 60, 1e-6


@dataclass(frozen=True)
class TailDecay:
    """Masses beyond both limits, even within intervals, over those of everybody. a, b: the ends."""

    a: Floats
    b: Floats
    mass: Floats
    lower: float
    upper: float

    @classmethod
    def of(cls, seen: Histogram, tail: PooledTail, most: float) -> TailDecay:
        """Beyond the limits of `tail`. most: the largest share that a count leaves room for."""
        parts = []
        for counts, sign, limit in (
            (seen.positive, 1.0, tail.upper), (seen.negative, -1.0, tail.lower)
        ):  # fmt: skip
            a, b, mass = _beyond(counts, seen.scale, sign * (limit - tail.origin))
            ends = tail.origin + sign * a, tail.origin + sign * b
            parts.append((np.minimum(*ends), np.maximum(*ends), mass / tail.total))
        a, b, mass = (np.concatenate(items) for items in zip(*parts, strict=True))
        mass *= min(1.0, most / max(float(mass.sum()), 1e-300))
        return cls(a, b, mass, tail.lower, tail.upper)

    def excess(self, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean excess over the upper limit of each group, below the lower one, and the mean square
        of both, means over everybody."""
        middle, above = (self.a + self.b) / 2, self.a >= self.upper
        up = np.clip(middle - high[:, None], 0.0, None) * above
        down = np.clip(low[:, None] - middle, 0.0, None) * ~above
        return up @ self.mass, down @ self.mass, (up**2 + down**2) @ self.mass


def _beyond(counts: Floats, scale: float, arm: float) -> tuple[Floats, Floats, Floats]:
    """Bins of one side beyond the limit, from 0: begin, end, noisy mass by the curve."""
    last = int(np.searchsorted(EDGES, arm * (1 + 1e-9))) - 2  # the last bin before the limit
    if arm <= 0 or not 1 <= last < LOG_BINS - BEHIND:
        return np.empty(0), np.empty(0), np.empty(0)
    first = max(last - BEFORE + 1, 0)
    fullest = first + int(np.argmax(counts[first : last + 1]))
    if fullest < last - 1 and counts[fullest] > HEAP * counts[fullest + 1]:
        first = fullest + 1
        fullest = first + int(np.argmax(counts[first : last + 1]))
    scarce = np.flatnonzero(counts[first:fullest] < RISES * counts[fullest])
    first = min(first + int(scarce[-1]) + 1 if len(scarce) else first, last - 1)
    place = np.arange(first - last, BEHIND + 1.0)
    curve = _curve(place, counts[first : last + BEHIND + 1], scale)
    believed = float(np.clip((curve[2] - BENT) / (STRAIGHT - BENT), 0.0, 1.0))
    on = np.arange(1, min(ON, LOG_BINS - 1 - last) + 1)
    a, b = np.maximum(EDGES[last + on], arm), EDGES[last + on + 1]
    part = np.clip((b - a) / (b - EDGES[last + on]), 0.0, 1.0)
    mass = believed * part * np.exp(np.clip(_powers(on.astype(float)) @ curve, -30.0, 30.0))
    return a[part > 0], b[part > 0], mass[part > 0]


def _powers(place: Floats) -> Floats:
    return np.stack([np.ones(len(place)), place, place**2], axis=1)


def _curve(place: Floats, counts: Floats, scale: float) -> Floats:
    """Coefficients of log(people) by the place of a bin: quasi-likelihood of counts whose variance
    is their mean and that of the noise, by Fisher's scoring; never bent outwards, nor rising from
    the last bin on."""
    powers = _powers(place)
    found = np.array([np.log(max(float(counts[place <= 0].mean()), 1.0)), -0.3, USUAL])
    for _ in range(TURNS):
        mean = np.exp(np.clip(powers @ found, -12.0, 30.0))
        weight = mean / (mean + 2 * scale**2)
        known = (powers * (weight * mean)[:, None]).T @ powers + 1e-6 * np.eye(3)
        slope = powers.T @ (weight * (counts - mean))
        known[2, 2] += SPREAD**-2
        slope[2] -= (found[2] - USUAL) / SPREAD**2
        step = np.linalg.solve(known, slope)
        step *= min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
        found = found + step
        found[1:] = np.minimum(found[1:], 0.0)
        if np.abs(step).max() < NEAR_ENOUGH:
            break
    return found
