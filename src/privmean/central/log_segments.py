"""Reading a noisy signed logarithmic histogram: where the values are, and how far they reach.

Everything here is a function of noisy counts and public numbers: post-processing that reads no
data. Bins have two an octave, from 2^-40 to 2^40, for both signs, and one zero bin
(`privmean.people.reductions`); `scale` is the Laplace scale of every count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean.people.reductions import LOG_BINS, LOG_CELLS, LOG_LOW, LOG_ZERO

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.float64]

NEAR, LOOK = 6, 14  # bins beyond the first segment's end: "about as far", and the farthest allowed
NARROW = 8.0  # an inner limit is kept when it is more than this part of the outer one
TOP = LOG_BINS - 1  # bin 79 holds everything beyond 2^40


@dataclass(frozen=True)
class Evidence:
    """What must be seen, in noise scales of one count.

    price: what every further bin of a segment must pay for; main: the first segment's sum beyond
    that; other: the sum of a segment of the other sign that reaches about as far; atom: the zero
    bin.
    """

    price: float = 2.5
    main: float = 13.0
    other: float = 7.0
    atom: float = 6.0


LAPLACE = Evidence()


def bin_edge(index: float) -> float:
    """The value at which bin `index` (0 is the bin that starts at 2^-40) begins."""
    return float(2.0 ** ((index + LOG_LOW) / 2))


_MIDDLES: Floats = np.array([(bin_edge(i) + bin_edge(i + 1)) / 2 for i in range(LOG_BINS)])


@dataclass(frozen=True)
class Histogram:
    """Noisy counts: positive[i], zero, negative[i], and the Laplace scale of each."""

    positive: Counts
    zero: float
    negative: Counts
    scale: float

    @classmethod
    def of(cls, cells: npt.NDArray[Any], scale: float) -> Histogram:
        """From the layout of `People.log_counts`."""
        assert cells.shape == (LOG_CELLS,)
        x = cells.astype(float)
        return cls(x[:LOG_BINS], float(x[LOG_ZERO]), x[LOG_ZERO + 1 :], scale)

    def pooled(self, other: Histogram) -> Histogram:
        """The average of two histograms of the same cells, weighted by precision."""
        one, two = self.scale**-2, other.scale**-2
        a, b = one / (one + two), two / (one + two)
        return Histogram(
            a * self.positive + b * other.positive,
            a * self.zero + b * other.zero,
            a * self.negative + b * other.negative,
            (one + two) ** -0.5,
        )


@dataclass(frozen=True)
class Segment:
    """Bins first..last of one side and their sum of (count - price)."""

    score: float
    first: int
    last: int


def best_segment(counts: Counts, price: float, start: int = 0) -> Segment:
    """The segment within start..79 with the largest sum of (count - price)."""
    total = np.concatenate([[0.0], np.cumsum(counts[start:] - price)])
    lowest = np.minimum.accumulate(total[:-1])
    gain = total[1:] - lowest
    last = int(np.argmax(gain))
    first = int(np.flatnonzero(total[: last + 1] == lowest[last])[-1])
    return Segment(float(gain[last]), start + first, start + last)


def concentrated(histogram: Histogram, window: int) -> tuple[float, float]:
    """The largest noisy number of persons in `window` neighbouring bins of one side, and the
    weighted middle of that window (with its sign)."""
    best, move = -np.inf, 0.0
    for sign, counts in ((1.0, histogram.positive), (-1.0, histogram.negative)):
        sums = np.convolve(counts, np.ones(window), "valid")
        at = int(np.argmax(sums))
        if sums[at] > best:
            weights = np.maximum(counts[at : at + window], 0.0)
            total = float(weights.sum())
            middle = float(weights @ _MIDDLES[at : at + window]) / total if total > 0 else 0.0
            best, move = float(sums[at]), sign * middle
    return best, move


FOUND, ATOM_ONLY, NOTHING, BEYOND = "ok", "atom", "failed", "beyond range"


@dataclass(frozen=True)
class Reach:
    """What a histogram shows: an outcome and, if values were found, limits around the origin.

    hidden: if only one side was seen, the noisy number of persons thinly spread on the other side
    (within LOOK bins) less that of persons just beyond the limit; tells where uncounted persons
    are likelier to be.
    """

    outcome: str
    lower: float = 0.0
    upper: float = 0.0
    hidden: float = 0.0

    @property
    def away(self) -> bool:
        """Whether the limits leave the origin out: the values lie on one side of it."""
        return self.lower > 0 or self.upper < 0


def read_reach(histogram: Histogram, safety: float, evidence: Evidence = LAPLACE) -> Reach:
    """The limits that hold the values, seen from the histogram's origin.

    safety: factor on the outer edge of the last occupied bin. The far side of a lone segment and
    a second segment of the other sign need evidence of their own; evidence grows with distance, so
    that a runaway becomes exponentially unlikely in the number of empty bins it must cross.
    """
    scale = histogram.scale
    price = evidence.price * scale
    up = best_segment(histogram.positive, price)
    down = best_segment(histogram.negative, price)
    positive = up.score >= down.score
    main = up if positive else down
    if main.score < evidence.main * scale:
        return Reach(ATOM_ONLY if histogram.zero > evidence.atom * scale else NOTHING)
    rest = histogram.negative if positive else histogram.positive
    other = best_segment(rest, price, max(main.last - LOOK, 0))
    distance = other.first - main.last
    needed = evidence.other if distance <= NEAR else evidence.main + distance
    both = other.score > needed * scale
    if main.last == TOP or (both and other.last == TOP):
        return Reach(BEYOND)
    outer = safety * bin_edge(main.last + 1)
    inner = 0.0
    if both:
        inner = -safety * bin_edge(other.last + 1)
    elif histogram.zero <= evidence.atom * scale:
        start = bin_edge(main.first - 1)
        inner = start if start > outer / NARROW else 0.0
    hidden = 0.0
    if not both and inner == 0:
        side = histogram.positive if positive else histogram.negative
        beyond = side[main.last + 1 : main.last + 1 + NEAR]
        hidden = float(rest[max(main.last - LOOK, 0) : main.last + 1].sum() - beyond.sum())
    if positive:
        return Reach(FOUND, inner, outer, hidden)
    return Reach(FOUND, -outer, -inner, hidden)
