"""Where score contributions are shortened: at the length that balances noise and what is cut off.

From noisy counts of lengths on half octaves, which also tell whether lengths are in units that
cannot be theirs. docs/proofs/pooled-regression.md, section 6.
"""

from __future__ import annotations

import math
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
REACHED = 1.5  # deviations that a sum of counts may lack of the number beyond a length
LAPLACE = 2.0  # deviations on top of `SURE` that Laplace noise needs, for tails of 1e-4
MIDDLE, CERTAIN = 2.0, 2.0  # usual size over the median length; deviations of a sum of counts


@dataclass(frozen=True)
class Radius:
    """limit: the length. squares: by how much the squares of rows cut at the length exceed those of
    rows cut at half of it, summed. beyond, beyond_sd: how many people are beyond it, as expected or
    counted, and the deviation of that number."""

    limit: float
    squares: float
    beyond: float
    beyond_sd: float


@dataclass(frozen=True)
class Lengths:
    """Noisy people by length, at `edges`, and the deviation of their noise. The first cell is that
    of the shortest, the last that of all beyond the last edge."""

    counts: Floats
    sd: float
    edges: Floats

    @property
    def middles(self) -> Floats:
        """Of the cells beyond the first edge."""
        edges = self.edges
        return np.append(np.sqrt(edges[:-1] * edges[1:]), edges[-1] * 2**0.25)

    def beyond(self, limit: float, nearer: Radius) -> tuple[float, float]:
        """The noisy people beyond a length, and the deviation of their number: those who lie there,
        and those that were counted beyond a shorter length less those between the two."""
        far = parts_beyond(self.middles, limit)
        near = parts_beyond(self.middles, nearer.limit) - far
        one, other = float(self.counts[1:] @ far), nearer.beyond - float(self.counts[1:] @ near)
        square = self.sd**2 * float(far @ far)
        rest = self.sd**2 * float(near @ near) + nearer.beyond_sd**2
        number = (one * rest + other * square) / (square + rest)
        return number, math.sqrt(square * rest / (square + rest))

    def holding(self, nearer: Radius) -> Floats:
        """The people between edges, as far as they explain those counted beyond a length: up to the
        first cell with which so many lie there, but for `REACHED` deviations. A cell beyond the
        length holds what it adds to the largest sum so far: a sum that only noise moves up and
        down holds nobody."""
        part = parts_beyond(self.middles, nearer.limit)
        within = np.cumsum(self.counts[1:] * part)
        unsure = np.sqrt(self.sd**2 * np.cumsum(part**2) + nearer.beyond_sd**2)
        reached = np.append((within + REACHED * unsure)[:-1] >= nearer.beyond, True)
        cells = int(np.argmax(reached)) + 1
        found = np.maximum(self.counts[1 : cells + 1], 0.0)
        added = np.diff(np.maximum.accumulate(np.append(0.0, within[:cells])))
        outside = part[:cells] > 0
        found[outside] = np.minimum(found[outside], added[outside] / part[:cells][outside])
        return found

    def length_of_least_error(self, noise: float, persons: int) -> tuple[float, float]:
        """The length, at least 1, at which the mean of matrices leaves least of a start's distance,
        which grows with the length, too; and what is cut off there.

        noise: of the matrix, for a length of 1.
        """
        number, tried = self.with_hidden(seen_counts(self.counts, self.sd)), LENGTHS[LENGTHS >= 1]
        cuts = (number * np.maximum(self.middles - tried[:, None], 0.0)).sum(axis=1) / persons
        place = int(np.argmin((noise * tried + cuts) * tried))
        return float(tried[place]), float(cuts[place])

    def with_hidden(self, seen: Floats) -> Floats:
        """The people between edges, as far as they are seen; half a deviation of a cell's count may
        hide in the first cell beyond, and falls as a tail of index 3."""
        hidden = UNSEEN * self.sd * FALL ** np.arange(len(self.middles) - len(seen))
        return np.concatenate([seen, hidden])

    def radius_of_least_width(
        self, noise: float, seen: Floats, *, persons: int, beyond_sd: float
    ) -> Radius:
        """The length that makes the predicted half-width of an interval least: sampling, the noise
        of the sum and of the count of those beyond it in quadrature, what is cut off linearly.

        noise: of the sum, for a length of 1. seen: the people between edges, as far as they are
        seen. beyond_sd: deviation of the count of those beyond the length.
        Half a deviation of a cell's count may hide in the first cell beyond what is seen, and falls
        as a tail of index 3.
        """
        middles = self.middles
        number = self.with_hidden(seen)
        tried = LENGTHS[:, None]
        part = parts_beyond(middles, tried)
        beyond = (number * part).sum(axis=1)
        cuts = (number * np.maximum(middles - tried, 0.0)).sum(axis=1)
        variance = persons + (noise**2 + (beyond_sd / 2) ** 2) * LENGTHS**2
        half = NORMAL * np.sqrt(variance) + np.maximum(LENGTHS * beyond, 2 * cuts) / 2
        place = max(int(np.argmin(half)), int(np.searchsorted(LENGTHS, LEAST)))
        limit = float(LENGTHS[place])
        inside = np.minimum(middles[: len(seen)], limit) ** 2 - (limit / 2) ** 2
        unsure = self.sd * math.sqrt(float((part[place, : len(seen)] ** 2).sum()))
        squares = float((seen * np.maximum(inside, 0)).sum())
        return Radius(limit, squares, float(beyond[place]), unsure)


def parts_beyond(middles: Floats, length: float | Floats) -> Floats:
    """Of each cell of half an octave, the part that lies beyond a length."""
    found: Floats = np.clip(2 * np.log2(middles * 2**0.25 / length), 0.0, 1.0)
    return found


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
