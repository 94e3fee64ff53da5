"""Where values lie: a private median, two limits about it, and a clipping radius for streams.

The median is over numbers with few binary digits, drawn without reading every person. Candidates
are 0 and the numbers +-2^e (1 + k/2^b), k odd, b < 24, each with a public prior that falls with the
number b of its digits, so that a value which many people share is met at once, and digits are used
only as far as they gain people. A person counts at the next candidate away from 0, at most 2^-23 of
the value away. A candidate is scored by the larger of the numbers of people below and above it.
Cells of candidates are proposed by a bound of their scores, and a candidate of the cell is accepted
by the part that its own score has of the bound: the law is that of the exponential mechanism over
all candidates, however the cells were made.

A limit is scored by the larger of two numbers of people: those beyond it, and how many are missing
from the half octaves just inside of it. A limit far out in the empty therefore scores badly, and a
limit among the people too. Both limits are one choice, whose score is that of the worse one.

Proof: docs/proofs/center-and-limits.md. Source: private quantiles by the exponential mechanism are
Smith (2011), the mechanism McSherry and Talwar (2007); the prior by number of digits, the draw by
cells, the score by a maximum of counts and its settings are our own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.data.grids import WIDE_GRID
from privmean.data.person_table import ColumnCounts
from privmean.mechanisms.choices import (
    ScoredChoice,
    exponentials,
    weighted_draw,
    weighted_pair,
)
from privmean.mechanisms.noisy_counts import moved_counts
from privmean.noise.noise_source import Noise, accept
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Selection

WEIGHT = 2**20  # parts of a weight of 1
STEP = 8  # binary digits by which a cell is opened: one pass, whose answer has 256 counts
OPEN = 0.25  # nats that the scores in a cell may differ by before it is opened


@dataclass(frozen=True)
class ShortNumbers:
    """Numbers 2^e (1 + k/2^b) of either sign, b below `digits` (at b = 0 the number 2^(e+1)), for
    octaves low <= e < high, and 0.

    The prior of 0 is 1/16; of another number its octave's 1/(1 + |e + 1/2|) times 1/(b + 1) times
    2^-(b - 1) (1 at b = 0), normalized; in whole parts of 2^-20, so that it is an exact rational.
    """

    low: int = -64
    high: int = 64
    digits: int = 24

    def cell(self, value: float) -> tuple[float, float]:
        """The least and the largest value that count at this candidate."""
        if value == 0:
            return -(2.0**self.low), 2.0**self.low
        size = abs(value)
        half, exponent = math.frexp(size)
        # a power of two is the end of the octave below it
        octave = exponent - 2 if half == 0.5 else exponent - 1
        inner = math.nextafter(size - math.ldexp(1.0, octave - self.digits + 1), math.inf)
        return (inner, size) if value > 0 else (-size, -inner)

    def rounded(self, values: Floats) -> Floats:
        """The candidates at which these values count; infinite beyond all of them."""
        size = np.abs(values)
        half, exponent = np.frexp(size)
        with np.errstate(over="ignore"):
            up = np.ldexp(np.ceil(np.ldexp(half, self.digits)), exponent - self.digits)
        up = np.where(size > 2.0**self.high, np.inf, up)
        return np.where(size <= 2.0**self.low, 0.0, np.copysign(up, values))

    @cached_property
    def octave_weights(self) -> Integers:
        e = np.arange(self.low, self.high)
        weights: Integers = np.rint(WEIGHT / (1 + np.abs(e + 0.5))).astype(np.int64)
        return weights

    @cached_property
    def digit_weights(self) -> Integers:
        return np.rint(WEIGHT / (1.0 + np.arange(self.digits))).astype(np.int64)

    @cached_property
    def deeper(self) -> Integers:
        """Weights of more than d digits together, for d = 0 .. digits - 1."""
        found: Integers = np.cumsum(self.digit_weights[::-1])[::-1] - self.digit_weights
        return found

    @cached_property
    def zero_weight(self) -> Fraction:
        both = 2 * int(self.octave_weights.sum()) * int(self.digit_weights.sum())
        return Fraction(both, 15)


SHORT = ShortNumbers()


class _Cells:
    """Cells of candidates, one an entry: those of depth d hold sign 2^e (1 + t) for
    i/2^d < t <= (i + 1)/2^d. beyond: people farther from 0 on that side; inside: people in the
    cell. facts: all of these, shape (6, cells)."""

    def __init__(self, facts: Integers) -> None:
        self.facts = facts
        self.sign, self.octave, self.depth, self.index, self.beyond, self.inside = facts

    def replaced(self, at: int, parts: _Cells) -> _Cells:
        """The same with one cell in parts."""
        before, after = self.facts[:, :at], self.facts[:, at + 1 :]
        return _Cells(np.concatenate([before, parts.facts, after], axis=1))


@lru_cache(maxsize=16)
def _whole_octaves(numbers: ShortNumbers) -> tuple[Integers, Floats]:
    """Sign, octave, depth and index of the cells that are whole octaves; their weights, and last
    that of 0."""
    octave = np.tile(np.arange(numbers.low, numbers.high), 2)
    zeros = np.zeros_like(octave)
    places = np.array([np.repeat([1, -1], len(octave) // 2), octave, zeros, zeros])
    one_side = numbers.octave_weights.astype(np.float64) * _shares(numbers, 0, zeros[:1])
    return places, np.concatenate([one_side, one_side, [float(numbers.zero_weight)]])


@lru_cache(maxsize=64)
def _shares_of_parts(numbers: ShortNumbers, depth: int, deeper: int) -> Floats:
    """`_shares` of the parts down to `deeper` of the first cell of a depth."""
    return _shares(numbers, deeper, np.arange(1 << (deeper - depth)))


def _shares(numbers: ShortNumbers, depth: int, index: Integers) -> Floats:
    """The weights of cells over that of their octave, as doubles."""
    within = math.ldexp(float(numbers.deeper[depth]), -depth)
    digits = _digits(depth, index)
    end = numbers.digit_weights[digits] * np.ldexp(1.0, np.minimum(1 - digits, 0))
    return np.asarray(within + end, dtype=np.float64)


@dataclass
class _Table:
    """The cells of one draw, opened as far as they were needed."""

    counts: ColumnCounts
    numbers: ShortNumbers
    unit: Fraction
    present: int = field(init=False)
    cells: _Cells = field(init=False)
    weights: Floats = field(init=False)  # of the cells; that of 0 is last
    zero_bound: int = field(init=False)

    def __post_init__(self) -> None:
        bins = self.counts.half_octaves(0.0)
        self.present = int(bins.sum())
        middle = WIDE_GRID.bins
        inside, out = _octaves(np.array([bins[:middle], bins[middle + 1 :]]), self.numbers)
        beyond = inside[:, ::-1].cumsum(axis=1)[:, ::-1] - inside + out
        places, self.weights = _whole_octaves(self.numbers)
        self.cells = _Cells(np.concatenate([places, [beyond.ravel(), inside.ravel()]]))
        self.zero_bound = int((inside.sum(axis=1, keepdims=True) + out).max())

    # --- cells ------------------------------------------------------------------------------------
    def draw(self, noise: Noise) -> tuple[float, float]:
        """A candidate and its last binary digit (0 for 0)."""
        bounds = self._open_heaviest()
        while True:
            at = weighted_draw(
                bounds - bounds.min(), self.unit, self.weights, self._exact_weight, noise
            )
            if at == self._count:
                return 0.0, 0.0
            value, digit = self._candidate(at, noise)
            if self._is_deepest(at):  # of one candidate, whose score is the bound
                return value, digit
            (word,) = noise.bits64(1).tolist()
            gap = max(self.counts.outside(*self.numbers.cell(value))) - int(bounds[at])
            if accept(word, self.unit * gap, noise.bits64):
                return value, digit
            if self._is_uneven(at):
                self._open(at)
                bounds = self._bounds()

    @property
    def _count(self) -> int:
        return len(self.cells.sign)

    def _bounds(self) -> Integers:
        """At least as few people as any candidate of a cell has on its worse side; 0 is last."""
        nearer = self.present - self.cells.beyond - self.cells.inside
        bounds = np.full(self._count + 1, self.zero_bound)
        np.maximum(self.cells.beyond, nearer, out=bounds[:-1])
        return bounds

    def _exact_weight(self, at: int) -> Fraction:
        if at == self._count:
            return self.numbers.zero_weight
        octave = self.numbers.octave_weights[self.cells.octave[at] - self.numbers.low]
        return Fraction(int(octave) * sum(self._parts(at)), 1 << int(self.cells.depth[at]))

    def _parts(self, at: int) -> tuple[int, int]:
        """The prior of the candidates inside of a cell, and of that at its outer end, in parts of
        2^-depth."""
        depth, index = int(self.cells.depth[at]), int(self.cells.index[at])
        digits = _digits_of_one(depth, index)
        end = int(self.numbers.digit_weights[digits]) << (depth - max(digits - 1, 0))
        return int(self.numbers.deeper[depth]), end

    def _is_deepest(self, at: int) -> bool:
        return int(self.cells.depth[at]) == self.numbers.digits - 1

    def _is_uneven(self, at: int) -> bool:
        """Whether the scores in a cell may differ so much that it is worth a pass to open it."""
        inside = int(self.cells.inside[at])
        return not self._is_deepest(at) and float(self.unit) * inside > OPEN

    def _open_heaviest(self) -> Integers:
        """Open octaves as long as one that is uneven is the likeliest proposal; the bounds then."""
        while True:
            bounds = self._bounds()
            shown = exponentials(bounds - bounds.min(), self.unit)
            at = int((self.weights * shown).argmax())
            if at == self._count or self.cells.depth[at] or not self._is_uneven(at):
                return bounds
            self._open(at)

    def _open(self, at: int) -> None:
        """Put one cell in parts, with the people of each."""
        cells, numbers = self.cells, self.numbers
        sign, octave = int(cells.sign[at]), int(cells.octave[at])
        depth, index = int(cells.depth[at]), int(cells.index[at])
        deeper = min(depth + STEP, numbers.digits - 1)
        parts = 1 << (deeper - depth)
        first = (1 << deeper) + index * parts
        facts = np.empty((6, parts), dtype=np.int64)
        opened = _Cells(facts)
        facts[:3] = [[sign], [octave], [deeper]]
        opened.index[:] = np.arange(index * parts, (index + 1) * parts)
        opened.inside[:] = self.counts.parts(sign, 2.0 ** (octave - deeper), first, parts)
        # who is beyond all octaves was counted in the last one
        outside = int(cells.beyond[at]) + int(cells.inside[at])
        opened.beyond[:] = outside - opened.inside.cumsum()
        shares = _shares_of_parts(numbers, depth, deeper)
        if index:  # the end of the last part has the digits of the cell's own end
            last = _shares(numbers, deeper, opened.index[-1:])
            shares = np.concatenate([shares[:-1], last])
        weights = float(numbers.octave_weights[octave - numbers.low]) * shares
        self.weights = np.concatenate([self.weights[:at], weights, self.weights[at + 1 :]])
        self.cells = cells.replaced(at, opened)

    def _candidate(self, at: int, noise: Noise) -> tuple[float, float]:
        """One of a cell's candidates by the prior."""
        cells, numbers = self.cells, self.numbers
        sign, octave = int(cells.sign[at]), int(cells.octave[at])
        depth, index = int(cells.depth[at]), int(cells.index[at])
        within, end = self._parts(at)
        if noise.bernoulli(1, Fraction(end, within + end))[0]:
            digits = _digits_of_one(depth, index)
            value = 2.0**octave * (1 + (index + 1) / 2.0**depth)
            return sign * value, 2.0 ** (octave - digits) if digits else value
        weights = numbers.digit_weights[depth + 1 :].cumsum()
        place = int(noise.below(1, int(weights[-1]))[0])
        digits = depth + 1 + int(weights.searchsorted(place, side="right"))
        odd = 2 * int(noise.below(1, 1 << (digits - 1 - depth))[0]) + 1
        part = (index << (digits - depth)) + odd
        return sign * 2.0**octave * (1 + part / 2.0**digits), 2.0 ** (octave - digits)


def _octaves(sides: Integers, numbers: ShortNumbers) -> tuple[Integers, Integers]:
    """Bins of half octaves of both sides, shape (2, bins), as octaves from low to high, and the
    people beyond, shape (2, 1): those beyond the last bin are in it."""
    whole = sides.reshape(2, -1, 2).sum(axis=2)
    first = WIDE_GRID.low // 2
    found: Integers = whole[:, numbers.low - first : numbers.high - first]
    return found, whole[:, numbers.high - first :].sum(axis=1, keepdims=True)


def _digits(depth: int, index: Integers) -> Integers:
    """Binary digits of the outer end of a cell: 0 for a power of two."""
    end = index + 1
    lowest = end & -end
    trailing = np.log2(lowest).astype(np.int64)  # exact: powers of two
    digits: Integers = np.maximum(depth - trailing, 0)
    return digits


def _digits_of_one(depth: int, index: int) -> int:
    """The same of one cell."""
    trailing = ((index + 1) & -(index + 1)).bit_length() - 1
    return max(depth - trailing, 0)


@dataclass(frozen=True)
class PrivateCenter(ScoredChoice[ColumnCounts]):
    """The choice of one of `numbers` near the median, with its last binary digit.

    Guarantees: epsilon-DP of bounded range for any data, under replace-one and add-remove, hence
    epsilon^2/8 zCDP. One person replaced moves every score by at most 1 in either direction; one
    added moves none up and none by more than 1. whole: parts of a person that counts are in.
    """

    name: str
    epsilon: Fraction
    relation: Relation
    numbers: ShortNumbers = SHORT
    whole: int = 1
    words = "numbers of people below and above, by one"
    bounded_range = True

    @cached_property
    def unit(self) -> Fraction:
        """Nats a part of a person."""
        return self.epsilon / (moved_counts(self.relation) * self.whole)

    def both_scores(self, exact: ColumnCounts, other: ColumnCounts) -> tuple[Integers, Integers]:
        """Scores of both: at every value of either, and between them."""
        tables = [self._rounded(*item.distribution()) for item in (exact, other)]
        values = np.unique(np.concatenate([values for values, _ in tables]))
        one, two = (np.concatenate(_scores(*table, values)) for table in tables)
        return one, two

    def _rounded(self, values: Floats, people: Integers) -> tuple[Floats, Integers]:
        """Candidates at which people count, in ascending order, and how many do."""
        found, where = np.unique(self.numbers.rounded(values), return_inverse=True)
        return found, np.bincount(where, people, len(found)).astype(np.int64)

    def draw(self, exact: ColumnCounts, noise: Noise) -> tuple[float, float]:
        return _Table(exact, self.numbers, self.unit).draw(noise)


def _scores(values: Floats, people: Integers, points: Floats) -> tuple[Integers, Integers]:
    """Scores at these points (which hold all values), and of what lies between two of them."""
    ends = np.concatenate([[0], np.cumsum(people)])
    below = ends[np.searchsorted(values, points, side="left")]
    upto = ends[np.searchsorted(values, points, side="right")]
    every = int(ends[-1])
    between = np.concatenate([[0], upto])
    return np.maximum(below, every - upto), np.maximum(between, every - between)


DEMAND = 1.5  # scales of the choice that every half octave inwards must hold: above ln 2 = .69, by
# which half an octave of width too much doubles the variance of the noise
PLATEAU = 12.0  # and at most so many: false limits together have a probability of 10^-4
SLOPE = math.log(2) / 2  # more of them for every half octave beyond 1, as the noise grows
DEMANDS = 38  # half octaves that are looked at: more would demand nothing more
AT_CENTER = {True: 40, False: 8}  # weight of the limit at the center: for a center of 0, any other
CANDIDATES = WIDE_GRID.bins + 1  # the center itself, and half octaves about it


def edges() -> Floats:
    """The distances of candidate limits from the center: 0, then half octaves; shape
    (CANDIDATES,)."""
    return _EDGES.copy()


_EDGES: Floats = np.concatenate([[0.0], WIDE_GRID.edges()])
_OCTAVES: Floats = (np.arange(WIDE_GRID.bins) + WIDE_GRID.low) / 2


def side_counts(half_octaves: Integers) -> tuple[Integers, Integers]:
    """People strictly beyond every candidate limit, below and above the center, from
    `ColumnCounts.half_octaves`."""
    zero = WIDE_GRID.bins
    above, below = half_octaves[:zero], half_octaves[zero + 1 :]
    return _beyond(below), _beyond(above)


def _beyond(side: Integers) -> Integers:
    """Bin j holds those beyond edge j and not beyond the next: the first candidate is the center,
    where values nearer than the first edge count as at the center."""
    every = np.empty(len(side) + 1, dtype=np.int64)
    every[:0:-1] = side[::-1].cumsum()
    every[0] = every[1]
    return every


def side_scores(beyond: Integers, demands: Integers) -> Integers:
    """The number of people that speak against each candidate limit of one side.

    beyond: as `side_counts`. Every number moves by at most 1 when one person is replaced, added or
    removed.
    """
    inward = np.concatenate([np.full(DEMANDS, beyond[0]), beyond[1:]])
    # row r holds, of each limit, the people of the half octave that is DEMANDS - r steps inwards
    within = np.ndarray(demands.shape, inward.dtype, inward, strides=inward.strides * 2)
    scores = beyond.copy()
    np.maximum(beyond[1:], (demands - within).max(axis=0) + beyond[1:], out=scores[1:])
    return scores


@lru_cache(maxsize=64)
def _demands(digit: float, scale: float, demand: float) -> Integers:
    """People that k = DEMANDS, .., 1 half octaves inwards of each limit must hold, shape (DEMANDS,
    bins), for a digit of at least 1."""
    most = PLATEAU + SLOPE * np.maximum(2 * (_OCTAVES - math.log2(digit)), 0.0)
    least = np.minimum(demand * np.arange(DEMANDS, 0, -1)[:, None], most[None, :])
    demands: Integers = np.ceil(scale * least).astype(np.int64)
    return demands


@lru_cache(maxsize=256)
def _weights(digit: float) -> Integers:
    """The public weight of each candidate: by the octaves between it and the last digit of the
    center."""
    apart = np.abs(_OCTAVES - math.log2(digit or 1.0))
    return np.concatenate([[AT_CENTER[digit == 0] * WEIGHT], np.rint(WEIGHT / (1 + apart))]).astype(
        np.int64
    )


@lru_cache(maxsize=8)
def _pair_weights(digit: float) -> Floats:
    weight = _weights(digit).astype(np.float64)
    weights: Floats = np.multiply.outer(weight, weight)
    return weights


@dataclass(frozen=True)
class PrivateLimits(ScoredChoice[tuple[Integers, Integers]]):
    """The choice of a pair of candidate limits (below, above), as indices of `edges`.

    digit: the last binary digit of the center (0 for a center of 0), a released number. demand:
    as `DEMAND`, a public number.

    Guarantees: epsilon-DP of bounded range for any data, under replace-one and add-remove: one
    person moves every score by at most 1 in either direction, and P is proportional to
    exp(-epsilon score/2). Hence epsilon^2/8 zCDP.
    """

    name: str
    epsilon: Fraction
    relation: Relation
    digit: float
    demand: float = DEMAND
    words = "numbers of people beyond and within, by one each"
    bounded_range = True

    @cached_property
    def scale(self) -> Fraction:
        """People by which the probability of a pair falls to 1/e."""
        return 1 / self.unit

    @cached_property
    def unit(self) -> Fraction:
        return self.epsilon / 2

    def most_demanded(self, limit: int) -> float:
        """The people who are missing at a candidate limit that holds nobody; 0 at the center."""
        if limit == 0:
            return 0.0
        return float(self._demands[0, limit - 1])

    @cached_property
    def _demands(self) -> Integers:
        return _demands(max(1.0, self.digit), float(self.scale), self.demand)

    def scores(self, sides: tuple[Integers, Integers]) -> tuple[Integers, Integers]:
        """`side_scores` below and above, from `side_counts`."""
        below, above = (side_scores(side, self._demands) for side in sides)
        return below, above

    def both_scores(
        self, exact: tuple[Integers, Integers], other: tuple[Integers, Integers]
    ) -> tuple[Integers, Integers]:
        """Scores of both, of all pairs."""
        one, two = (_pairs(*self.scores(sides)).ravel() for sides in (exact, other))
        return one, two

    def draw(self, exact: tuple[Integers, Integers], noise: Noise) -> tuple[int, int]:
        weight, shown = _weights(self.digit), _pair_weights(self.digit)
        return weighted_pair(self.scores(exact), self.unit, weight, shown, noise)


def _pairs(below: Integers, above: Integers) -> Integers:
    """The score of every pair: that of the worse limit."""
    scores: Integers = np.maximum.outer(below, above)
    return scores


LEAST, MOST = 2.0**-40, 2.0**40  # of a radius


@dataclass(frozen=True)
class RadiusSearch:
    """How a stream finds a clipping radius where its values have no known bound: from how many
    people, at what price.

    The first records of the first people wait. When enough people have come, one choice takes the
    radius about which few first records lie beyond and some close within: the upper limit of a
    default mean's pair, about the public center 0. It is paid for once and never repeated.

    Guarantees: epsilon-DP, whatever one person's first record is changed to.
    """

    n: int
    epsilon: Fraction

    @classmethod
    def priced(cls, epsilon: Fraction, persons: int | None = None) -> RadiusSearch:
        """A search that spends `epsilon`; by default it waits for 100/epsilon people."""
        return cls(math.ceil(100 / epsilon) if persons is None else persons, epsilon)

    @property
    def loss(self) -> Selection:
        words = "numbers of first records beyond and within, by one each"
        return Selection("clipping radius", self.epsilon, sensitivity_text=words)

    @property
    def mechanism(self) -> PrivateLimits:
        """The choice of the radius, as the upper of two limits about 0."""
        return PrivateLimits("clipping radius", self.epsilon, REPLACE_ONE, 0.0)

    def choose(self, first_records: Floats, noise: Noise) -> float:
        """The radius, from one record a person, shape (people, d); nulls count as 0. The stream
        keeps its own accounting."""
        _, above = self.mechanism.draw(sides_of(first_records), noise)
        return min(max(float(edges()[above]), LEAST), MOST)


def sides_of(first_records: Floats) -> tuple[Integers, Integers]:
    """Nobody below 0, and how many first records are longer than each candidate."""
    rows = np.where(np.isnan(first_records), 0.0, first_records)
    square = np.zeros(len(rows))
    with np.errstate(over="ignore"):
        for column in rows.T:  # in a fixed order: a size depends on its own row alone
            square = square + column * column
    size = np.sort(np.minimum(np.sqrt(square), MOST))
    beyond = np.asarray(len(size) - np.searchsorted(size, edges(), side="right"), dtype=np.int64)
    return np.zeros_like(beyond), beyond
