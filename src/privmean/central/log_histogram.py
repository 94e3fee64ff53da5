"""Reading a noisy signed logarithmic histogram: where the values are, and how far they reach.

Everything here is a function of noisy counts and public numbers: post-processing that reads no
data. Bins have two an octave, from 2^-40 to 2^40, for both signs, and one zero bin
(`privmean.data.person_table`), and there is a cell for people without a value; `scale` is the
Laplace scale of every count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean.data.grids import LOG_BINS, LOG_CELLS, LOG_LOW, LOG_ZERO
from privmean.data.person_table import Integers
from privmean.inference.status import FAILED, OK, POINT_MASS

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.float64]

NEAR, LOOK = 6, 14  # bins beyond the first segment's end: "about as far", and the farthest allowed
NARROW = 8.0  # an inner limit is kept when it is more than this part of the outer one
TOP = LOG_BINS - 1  # the last bin also holds everything beyond 2^40
CELLS = LOG_CELLS + 1  # with that of the people without a value


def cells_of(logarithmic: Integers, missing: int) -> Integers:
    """Exact counts in disjoint cells: those of `People.log_counts`, where nulls are in the zero
    bin, with the nulls in a last cell of their own."""
    cells = np.append(logarithmic, np.int64(missing))
    cells[LOG_ZERO] -= missing
    return cells


@dataclass(frozen=True)
class DetectionRule:
    """What must be seen, in noise scales of one count.

    price: what every further bin of a segment must pay for; main: the first segment's sum beyond
    that, and with `gap` a bin between, that of a further segment of either sign; other: the sum of
    a segment of the other sign that reaches about as far; atom: the zero bin. A half octave of
    false width multiplies the noise by sqrt(2) = e^.35.
    """

    price: float = 2.5
    main: float = 13.0
    gap: float = 0.35
    other: float = 7.0
    atom: float = 6.0


LAPLACE = DetectionRule()


def bin_edge(index: float) -> float:
    """The value at which bin `index` (0 is the bin that starts at 2^-40) begins."""
    return float(2.0 ** ((index + LOG_LOW) / 2))


EDGES: Floats = np.array([bin_edge(i) for i in range(LOG_BINS + 1)])
# of all bins by place, about the origin
LOWER: Floats = np.concatenate([-EDGES[1:][::-1], EDGES[:-1]])
UPPER: Floats = np.concatenate([-EDGES[:-1][::-1], EDGES[1:]])


@dataclass(frozen=True)
class Histogram:
    """Noisy counts: positive[i], zero, negative[i], and the Laplace scale of each; missing: those
    without a value."""

    positive: Counts
    zero: float
    negative: Counts
    scale: float
    missing: float = 0.0

    @classmethod
    def of(cls, cells: npt.NDArray[Any], scale: float) -> Histogram:
        """From the layout of `cells_of`, or that of `People.log_counts`."""
        if cells.shape == (LOG_CELLS,):
            cells = np.append(cells, 0)
        assert cells.shape == (CELLS,)
        x = cells.astype(float)
        negative = x[LOG_ZERO + 1 : LOG_CELLS]
        return cls(x[:LOG_BINS], float(x[LOG_ZERO]), negative, scale, float(x[LOG_CELLS]))

    @property
    def largest(self) -> float:
        """The noisy count of the fullest cell with a value."""
        return max(float(self.positive.max()), self.zero, float(self.negative.max()))

    def pooled(self, other: Histogram) -> Histogram:
        """The average of two histograms of the same cells, weighted by precision."""
        one, two = self.scale**-2, other.scale**-2
        a, b = one / (one + two), two / (one + two)
        return Histogram(
            a * self.positive + b * other.positive,
            a * self.zero + b * other.zero,
            a * self.negative + b * other.negative,
            (one + two) ** -0.5,
            a * self.missing + b * other.missing,
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


FOUND, ATOM_ONLY, NOTHING, BEYOND = OK, POINT_MASS, FAILED, "beyond range"


@dataclass(frozen=True)
class HistogramExtent:
    """What a histogram shows: an outcome and, if values were found, limits around the origin.

    hidden: if only one side was seen, the noisy number of people thinly spread on the other side
    (within LOOK bins) less that of people just beyond the limit; tells where uncounted people
    are likelier to be.
    """

    outcome: str
    lower: float = 0.0
    upper: float = 0.0
    hidden: float = 0.0


def read_reach(
    histogram: Histogram, safety: float, evidence: DetectionRule = LAPLACE
) -> HistogramExtent:
    """The limits that hold the values, seen from the histogram's origin.

    safety: factor on the outer edge of the last occupied bin. A farther segment of the same sign,
    the far side of a lone segment and a segment of the other sign need evidence of their own, which
    grows with distance, so that a runaway becomes exponentially unlikely in the number of empty
    bins it must cross.
    """
    scale = histogram.scale
    price = evidence.price * scale
    up = best_segment(histogram.positive, price)
    down = best_segment(histogram.negative, price)
    positive = up.score >= down.score
    main = up if positive else down
    if main.score < evidence.main * scale:
        return HistogramExtent(ATOM_ONLY if histogram.zero > evidence.atom * scale else NOTHING)
    near, rest = histogram.positive, histogram.negative
    if not positive:
        near, rest = rest, near
    top = _farther(near, main.last, scale, evidence)
    other = best_segment(rest, price, max(main.last - LOOK, 0))
    distance = other.first - top
    needed = evidence.other if distance <= NEAR else evidence.main + evidence.gap * distance
    both = other.score > needed * scale
    end = _farther(rest, other.last, scale, evidence) if both else other.last
    if both and end > top:  # up to there a false segment less than doubles the width
        within = best_segment(near[: end + 1], price, top + 1)
        if within.score > evidence.other * scale:
            top = _farther(near, within.last, scale, evidence)
    if top == TOP or (both and end == TOP):
        return HistogramExtent(BEYOND)
    outer = safety * bin_edge(top + 1)
    inner = 0.0
    nearer = best_segment(rest[: max(main.last - LOOK, 1)], price)
    if both:
        inner = -safety * bin_edge(end + 1)
    elif nearer.score > evidence.main * scale:  # people at or next to the origin, on the far side
        inner = -safety * bin_edge(nearer.last + 1)
    elif histogram.zero <= evidence.atom * scale:
        below = best_segment(near[: max(main.first - 1, 1)], price)
        start = bin_edge(main.first - 1)
        alone = start > outer / NARROW and below.score < evidence.main * scale
        inner = start if alone else 0.0
    hidden = 0.0
    if not both and inner == 0:
        hidden = max(_hidden(rest, main.last), _hidden(rest, top)) - _hidden_beyond(near, top)
    elif both and abs(top - end) > LOOK:
        short, far = (near, rest) if top < end else (rest, near)
        farther = max(top, end)
        hidden = _hidden(short, farther) - _hidden_beyond(far, farther)
    if positive:
        return HistogramExtent(FOUND, inner, outer, hidden)
    return HistogramExtent(FOUND, -outer, -inner, hidden)


def _farther(counts: Counts, last: int, scale: float, evidence: DetectionRule) -> int:
    """The last bin of the segments beyond bin `last` that are believed, one after the other."""
    while last < TOP:
        further = best_segment(counts, evidence.price * scale, last + 1)
        if further.score <= (evidence.main + evidence.gap * (further.first - last)) * scale:
            break
        last = further.last
    return last


def _hidden(counts: Counts, last: int) -> float:
    return float(counts[max(last - LOOK, 0) : last + 1].sum())


def _hidden_beyond(counts: Counts, last: int) -> float:
    return float(counts[last + 1 : last + 1 + NEAR].sum())
