"""Choices of clipping limits.

Two limits about a center, by one choice: few people beyond them, and people close within.

A limit is scored by the larger of two numbers of people: those beyond it, and how many are missing
from the half octaves just inside of it. A limit far out in the empty therefore scores badly, and a
limit among the people too. Both limits are one choice, whose score is that of the worse one.
Proof: docs/proofs/center-and-limits.md. Source: the score by a maximum of counts and its settings
are our own; the exponential mechanism is McSherry and Talwar (2007).

A clipping radius found privately, for streams whose values have no known bound.

The first records of the first people wait. When enough people have come, one choice takes the
radius about which few first records lie beyond and some close within: the upper limit of a default
mean's pair, about the public center 0. It is paid for once and never repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.data.grids import WIDE_GRID
from privmean.mechanisms.curator import pure_share
from privmean.mechanisms.exponential import weighted_draw
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Selection

DEMAND = 1.5  # scales of the choice that every half octave inwards must hold: above ln 2 = .69, by
# which half an octave of width too much doubles the variance of the noise
PLATEAU = 12.0  # and at most so many: false limits together have a probability of 10^-4
SLOPE = math.log(2) / 2  # more of them for every half octave beyond 1, as the noise grows
DEMANDS = 38  # half octaves that are looked at: more would demand nothing more
AT_CENTER = {True: 40, False: 8}  # weight of the limit at the center: for a center of 0, any other
WEIGHT = 2**20  # parts of a weight of 1
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
    found = np.cumsum(side[::-1])[::-1]
    every: Integers = np.concatenate([found[:1], found])
    return every


def side_scores(
    beyond: Integers, digit: float, scale: Fraction, demand: float = DEMAND
) -> Integers:
    """The number of people that speak against each candidate limit of one side.

    beyond: as `side_counts`. scale: of the choice, in people. Every number moves by at most 1 when
    one person is replaced, added or removed.
    """
    demands = _demands(digit, scale, demand)
    count = WIDE_GRID.bins
    inward = np.concatenate([np.full(DEMANDS, beyond[0]), beyond[1:]])
    unmet = np.zeros(count, dtype=np.int64)
    for k in range(1, DEMANDS + 1):
        start = DEMANDS - k
        within = inward[start : start + count] - beyond[1:]
        np.maximum(unmet, demands[k - 1] - within, out=unmet)
    scores: Integers = np.maximum(beyond, np.concatenate([[0], unmet]))
    return scores


@lru_cache(maxsize=64)
def _demands(digit: float, scale: Fraction, demand: float) -> Integers:
    """People that k half octaves inwards of each limit must hold, shape (DEMANDS, bins)."""
    most = PLATEAU + SLOPE * np.maximum(2 * (_OCTAVES - math.log2(max(1.0, digit))), 0.0)
    least = np.minimum(demand * np.arange(1, DEMANDS + 1)[:, None], most[None, :])
    demands: Integers = np.ceil(float(scale) * least).astype(np.int64)
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
    """The public weight of each pair."""
    weight = _weights(digit).astype(np.float64)
    weights: Floats = np.multiply.outer(weight, weight).ravel()
    return weights


@dataclass(frozen=True)
class PrivateLimits:
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

    @property
    def scale(self) -> Fraction:
        """People by which the probability of a pair falls to 1/e."""
        return 1 / self.unit

    @property
    def unit(self) -> Fraction:
        """Nats a person."""
        return self.epsilon / 2

    @property
    def events(self) -> tuple[Selection, ...]:
        words = "numbers of people beyond and within, by one each"
        made = Selection(
            self.name, self.epsilon, bounded_range=True, neighbors=self.relation,
            sensitivity_text=words,
        )  # fmt: skip
        return (made,)

    def most_demanded(self, limit: int) -> float:
        """The people who are missing at a candidate limit that holds nobody; 0 at the center."""
        if limit == 0:
            return 0.0
        return float(_demands(self.digit, self.scale, self.demand)[-1, limit - 1])

    def scores(self, sides: tuple[Integers, Integers]) -> tuple[Integers, Integers]:
        """`side_scores` below and above, from `side_counts`."""
        below, above = (side_scores(side, self.digit, self.scale, self.demand) for side in sides)
        return below, above

    def sensitivity_share(
        self, exact: tuple[Integers, Integers], other: tuple[Integers, Integers]
    ) -> tuple[Fraction, ...]:
        """The range of the changes of all pairs' scores."""
        one, two = self.both_scores(exact, other)
        changes = two - one
        return (pure_share(int(changes.max() - changes.min()) * self.unit, self.events[0]),)

    def both_scores(
        self, exact: tuple[Integers, Integers], other: tuple[Integers, Integers]
    ) -> tuple[Integers, Integers]:
        """Scores of both, of all pairs."""
        one, two = (_pairs(*self.scores(sides)).ravel() for sides in (exact, other))
        return one, two

    def draw(self, exact: tuple[Integers, Integers], noise: Noise) -> tuple[int, int]:
        pairs, weight = _pairs(*self.scores(exact)).ravel(), _weights(self.digit)
        pairs -= pairs.min()

        def exact_weight(i: int) -> Fraction:
            below, above = divmod(i, CANDIDATES)
            return Fraction(int(weight[below]) * int(weight[above]))

        i = weighted_draw(pairs, self.unit, _pair_weights(self.digit), exact_weight, noise)
        below, above = divmod(i, CANDIDATES)
        return below, above


def _pairs(below: Integers, above: Integers) -> Integers:
    """The score of every pair: that of the worse limit."""
    scores: Integers = np.maximum.outer(below, above)
    return scores


LEAST, MOST = 2.0**-40, 2.0**40  # of a radius


@dataclass(frozen=True)
class RadiusSearch:
    """How the radius is found: from how many people, at what price.

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
