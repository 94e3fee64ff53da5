"""Where a column lies, by a private center and a Laplace histogram of octaves about it.

The histogram lies on a signed logarithmic grid and shows both tails: two bins an octave, from 2^-40
to 2^40, for both signs, one zero bin (`privmean.data.person_table`), and a cell for people without
a value; `scale` is the Laplace scale of every count. Where it shows nothing, fresh noise is bought
once. Every count gets noise, occupied or not, so no threshold and no delta are needed. Reading it
is post-processing. docs/proofs/location-by-histograms.md.

The limits of a value that most people have are narrow, as those of values far from 0 are, but only
the latter show how far from each other they lie (docs/proofs/groups.md, section 6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean.array_types import Floats, Integers
from privmean.data.grids import LOG_BINS, LOG_CELLS, LOG_LOW, LOG_ZERO, NARROWEST
from privmean.estimators.locate import LAST, LocationPrices, center_step
from privmean.estimators.noise_budget import PureBudgetSpender
from privmean.inference.mean_interval import UNKNOWN, MissingCount
from privmean.inference.status import FAILED, OK, POINT_MASS
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import NoisyCounts, moved_counts
from privmean.privacy.budget import Relation, floor_epsilon

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


# What must be seen, in noise scales of one count. A half octave of false width multiplies the noise
# by sqrt(2) = e^.35.
PRICE = 2.5  # what every further bin of a segment must pay for
MAIN = 13.0  # the first segment's sum beyond that, and, with
GAP = 0.35  # a bin between, that of a further segment of either sign
OTHER = 7.0  # the sum of a segment of the other sign that reaches about as far
ATOM = 6.0  # the zero bin


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

    positive: Floats
    zero: float
    negative: Floats
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


def best_segment(counts: Floats, price: float, start: int = 0) -> Segment:
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


def read_reach(histogram: Histogram, safety: float) -> HistogramExtent:
    """The limits that hold the values, seen from the histogram's origin.

    safety: factor on the outer edge of the last occupied bin. A farther segment of the same sign,
    the far side of a lone segment and a segment of the other sign need evidence of their own, which
    grows with distance, so that a runaway becomes exponentially unlikely in the number of empty
    bins it must cross.
    """
    scale = histogram.scale
    price = PRICE * scale
    up = best_segment(histogram.positive, price)
    down = best_segment(histogram.negative, price)
    positive = up.score >= down.score
    main = up if positive else down
    if main.score < MAIN * scale:
        return HistogramExtent(ATOM_ONLY if histogram.zero > ATOM * scale else NOTHING)
    near, rest = histogram.positive, histogram.negative
    if not positive:
        near, rest = rest, near
    top = _farther(near, main.last, scale)
    other = best_segment(rest, price, max(main.last - LOOK, 0))
    distance = other.first - top
    needed = OTHER if distance <= NEAR else MAIN + GAP * distance
    both = other.score > needed * scale
    end = _farther(rest, other.last, scale) if both else other.last
    if both and end > top:  # up to there a false segment less than doubles the width
        within = best_segment(near[: end + 1], price, top + 1)
        if within.score > OTHER * scale:
            top = _farther(near, within.last, scale)
    if top == TOP or (both and end == TOP):
        return HistogramExtent(BEYOND)
    outer = safety * bin_edge(top + 1)
    inner = 0.0
    nearer = best_segment(rest[: max(main.last - LOOK, 1)], price)
    if both:
        inner = -safety * bin_edge(end + 1)
    elif nearer.score > MAIN * scale:  # people at or next to the origin, on the far side
        inner = -safety * bin_edge(nearer.last + 1)
    elif histogram.zero <= ATOM * scale:
        below = best_segment(near[: max(main.first - 1, 1)], price)
        start = bin_edge(main.first - 1)
        alone = start > outer / NARROW and below.score < MAIN * scale
        inner = start if alone else 0.0
    hidden = 0.0
    if not both and inner == 0:
        hidden = max(_hidden(rest, main.last), _hidden(rest, top)) - _hidden_beyond(near, top)
    elif both and abs(top - end) > LOOK:
        short, far = (near, rest) if top < end else (rest, near)
        farther = max(top, end)
        hidden = _hidden(short, farther) - _hidden_beyond(far, farther)
    if outer - inner < NARROWEST:
        return HistogramExtent(ATOM_ONLY)
    if positive:
        return HistogramExtent(FOUND, inner, outer, hidden)
    return HistogramExtent(FOUND, -outer, -inner, hidden)


def _farther(counts: Floats, last: int, scale: float) -> int:
    """The last bin of the segments beyond bin `last` that are believed, one after the other."""
    while last < TOP:
        further = best_segment(counts, PRICE * scale, last + 1)
        if further.score <= (MAIN + GAP * (further.first - last)) * scale:
            break
        last = further.last
    return last


def _hidden(counts: Floats, last: int) -> float:
    return float(counts[max(last - LOOK, 0) : last + 1].sum())


def _hidden_beyond(counts: Floats, last: int) -> float:
    return float(counts[last + 1 : last + 1 + NEAR].sum())


NOBODY = "no person has a value"


@dataclass(frozen=True)
class ClippingRegion:
    """The private outcome: limits of the values, and the path that was paid for.

    origin: a center near the median; seen: the histogram about it; missing: the people without a
    value, as far as they are known; hidden: as in `HistogramExtent`.
    """

    outcome: str
    origin: float
    lower: float
    upper: float
    looks: int = 1
    seen: Histogram | None = field(default=None, repr=False, compare=False)
    missing: MissingCount = UNKNOWN
    hidden: float = 0.0

    @property
    def path(self) -> dict[str, Any]:
        """What was paid for, as a release tells it."""
        return {name: getattr(self, name) for name in ("outcome", "origin", "looks")}

    @property
    def scale(self) -> float:
        """Noise of a count of the histogram."""
        return 0.0 if self.seen is None else self.seen.scale


SNUG = 2**0.25  # factor on the outer edge of the last occupied bin, where a count follows
AGAIN = 0.5  # part of what is left for a second look
SURE = 3.0  # noise scales of the people with a value, or of their private number, in their favor
LEAST = 130.0  # people with a value, times epsilon, that a column with nulls must have
LEAN = 1500.0  # people times epsilon below which more is spent on looking


def tail_share(people: float, epsilon: Fraction) -> float:
    """Part of what is left for the histogram of the tails."""
    signal = float(people * epsilon)
    return 0.4 if signal < LEAN else min(0.4, max(0.1, 0.3 * (4000 / signal) ** 0.25))


def center_price(people: int, epsilon: Fraction) -> Fraction:
    """Price of the center, of `epsilon` in all."""
    return LocationPrices.of(people, epsilon).center


def histogram(curator: Curator, column: int, origin: float, cells: NoisyCounts) -> Histogram:
    """The noisy histogram of x - origin, and of those without a value."""
    people = curator.people
    exact = cells_of(people.log_counts(column, origin), people.missing(column))
    return Histogram.of(curator.ask(cells, exact), float(cells.scale))


def find_region(
    curator: Curator,
    column: int,
    people: int,
    share: float,
    spender: PureBudgetSpender,
    doubt: float = 0.0,
) -> ClippingRegion:
    """Limits that hold the values of `column`; pays for everything from `spender`.

    people: public, or by a noisy count of this noise scale `doubt`. share: part of what is left
    for the histogram. Floats are in parts of a person (`spender.unit`); so is what is returned.
    """
    whole, relation = spender.unit, spender.relation
    step = center_step(spender.spend(center_price(people, spender.left)), relation, whole)
    origin, _ = curator.ask(step, curator.people.column_counts(column))
    seen = _look(curator, column, origin, share, spender)
    nulls, looks = [(seen.missing, seen.scale)], 1
    reach = read_reach(seen, SNUG)
    if reach.outcome in (ATOM_ONLY, NOTHING):
        again = _look(curator, column, origin, AGAIN, spender)
        nulls.append((again.missing, again.scale))
        seen, looks = again.pooled(seen), 2
    number = people * whole, doubt * whole
    return settled(origin, seen, nulls, number, spender.total / whole, looks)


def _look(
    curator: Curator, column: int, origin: float, share: float, spender: PureBudgetSpender
) -> Histogram:
    moved = moved_counts(spender.relation)
    cells = spender.counts("tail histogram", spender.share(share), moved, spread=moved)
    return histogram(curator, column, origin, cells)


def settled(
    origin: float,
    seen: Histogram,
    nulls: list[tuple[float, float]],
    people: tuple[float, float],
    epsilon: Fraction,
    looks: int = 1,
) -> ClippingRegion:
    """What a center and a histogram about it say: post-processing. people: their number and its
    noise scale, in parts of a person; epsilon: of all that the column may cost, for a part."""
    number, doubt = people
    reach = read_reach(seen, SNUG)
    # the zero cell holds values on both sides of the origin
    slack = bin_edge(0) if origin and reach.outcome == FOUND else 0.0
    lower, upper = origin + (reach.lower or -slack), origin + (reach.upper or slack)
    outcome, missing = reach.outcome, MissingCount.pooled(nulls)
    if outcome == ATOM_ONLY:  # only if nearly everybody with a value is seen there
        slack = MAIN * seen.scale + SURE * doubt
        if seen.zero <= number - missing.number - slack:
            outcome = NOTHING
    if outcome == FOUND and not lower < upper:
        outcome = ATOM_ONLY  # the width was lost in the rounding of the origin
    if outcome in (FOUND, ATOM_ONLY) and not (lower > -LAST and upper < LAST):
        outcome = BEYOND  # values at the end of the range may be any values beyond it
    there = number - missing.number + SURE * (missing.scale + doubt)
    if missing.believed > 0 and there * float(epsilon) < LEAST:
        outcome = NOBODY
    return ClippingRegion(outcome, origin, lower, upper, looks, seen, missing, reach.hidden)


def priced(price: Fraction, relation: Relation) -> NoisyCounts:
    """A histogram of the tails at a fixed price."""
    moved = moved_counts(relation)
    return NoisyCounts.at("tail histogram", floor_epsilon(price), relation, moved, moved)


SEEN = 4.0  # noise scales of a cell where somebody is for certain


def is_one_cell(place: ClippingRegion) -> bool:
    """Whether the histogram behind the limits shows people in one cell at most (of those that
    reach into them, and the origin's), so that nothing says how far from each other they are."""
    if place.seen is None:
        return True
    inside = (place.upper - place.origin > LOWER) & (place.lower - place.origin < UPPER)
    cells = np.append(place.seen.negative[::-1], place.seen.positive)
    within = np.append(cells[inside], place.seen.zero)
    return int((within > SEEN * place.seen.scale).sum()) <= 1


def point_mass_value(place: ClippingRegion) -> str:
    """The value that most people have, in the digits in which its limits agree."""
    size, width = max(abs(place.lower), abs(place.upper)), place.upper - place.lower
    if not 0 < width < size:
        return f"{place.origin:.6g}"
    digits = min(max(math.floor(math.log10(size / width)), 1), 15)
    middle = (place.lower + place.upper) / 2
    return f"{float(f'{middle:.{digits}g}'):.15g}"
