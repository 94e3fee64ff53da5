"""One private search of a column, at prices fixed beforehand, for many questions.

The looks of the default mean (`locate.py`) with every price a public number and every histogram
asked, whatever the ones before showed: rounds that carry the origin into the data, which stay where
they are once the values are no longer far from it compared with their spread, and a histogram of
the tails, pooled with the rounds that looked from the same place. docs/proofs/study.md, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Self

import numpy as np

from privmean.central.clipping_region import ClippingRegion
from privmean.central.default_bounds import SNUG
from privmean.central.find_region import CLEAR, PART, RoundSchedule, histogram, settled
from privmean.central.log_histogram import FOUND, Histogram, bin_edge, concentrated, read_reach
from privmean.central.overlooked_group import WINDOW
from privmean.central.pure_budget import floor_epsilon
from privmean.inference.missing_count import MissingCount
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import NoisyCounts
from privmean.pipeline import PlanBase
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Laplace

ROUNDS = 4  # at most, all of them paid for; two are usual, the others are pooled with the tails
USUAL = 2
MOVED = 2  # cells that one person replaced leaves and enters
BELOW = 0.7  # part of the people whose distance from the origin is below the spread


@dataclass(frozen=True)
class SharedLocationQuery:
    """What one search of `column` costs. epsilon: what a question alone would cost in all, from
    which the prices follow; price: of a round; tails: of the histogram of the tails.

    Guarantees: (rounds * price + tails)-DP under replace-one, for any data; every line is asked.
    """

    column: str
    n: int
    epsilon: Fraction
    rounds: int
    price: Fraction
    tails: Fraction
    relation: Relation = REPLACE_ONE

    @classmethod
    def of(cls, column: str, persons: int, epsilon: Fraction) -> SharedLocationQuery | None:
        """The look that a default mean of `epsilon` takes on its usual path; None for too few
        people to look in rounds."""
        schedule = RoundSchedule.of(persons, epsilon)
        if not schedule.rounds:
            return None
        rounds = min(schedule.rounds, ROUNDS)
        left = epsilon - min(rounds, USUAL) * schedule.price
        tails = floor_epsilon(left * Fraction(schedule.share))
        return cls(column, persons, epsilon, rounds, schedule.price, tails)

    @property
    def left(self) -> Fraction:
        """What the default mean has left after its usual looks: a question's own strength."""
        return self.epsilon - min(self.rounds, USUAL) * self.price - self.tails

    @property
    def name(self) -> str:
        return f"shared location of {self.column}"

    @property
    def pure(self) -> Fraction:
        return self.rounds * self.price + self.tails

    @property
    def events(self) -> tuple[Laplace, ...]:
        return (self._origin.loss,) * self.rounds + (self._tails.loss,)

    @property
    def _origin(self) -> NoisyCounts:
        return NoisyCounts.at("coarse location", self.price, self.relation, MOVED, MOVED)

    @property
    def _tails(self) -> NoisyCounts:
        return NoisyCounts.at("tail histogram", self.tails, self.relation, MOVED, MOVED)

    def run(self, curator: Curator) -> ClippingRegion:
        """Look at the only column of the curator's people. Every branch follows from noisy counts,
        and none changes what is asked next but for the origin that is looked from."""
        origin, moves, moving = 0.0, 0, True
        nulls: list[tuple[float, float]] = []
        first: Histogram | None = None
        seen: Histogram | None = None
        for mechanism in (*(self._origin,) * self.rounds, self._tails):
            found = histogram(curator, 0, origin, mechanism)
            nulls.append((found.missing, found.scale))
            window = concentrated(found, WINDOW)
            there = self.n - MissingCount.pooled(nulls).believed
            moving &= len(nulls) <= self.rounds
            moving &= window.held >= max(PART * there, CLEAR * found.scale)
            if moving:
                first = found if first is None else first
                origin, moves = origin + window.middle, moves + 1
            else:
                seen = found if seen is None else found.pooled(seen)
        assert seen is not None  # the tails are never moved from
        schedule = RoundSchedule(self.n, self.rounds, self.price, 0.0)
        path = self.rounds, 1, 0
        reach = read_reach(seen, SNUG)
        return settled(reach, origin, seen, nulls, schedule, self.epsilon, path, first)


@dataclass(frozen=True)
class SingleRegionPlan(PlanBase):
    """A plan that runs from a search of one column. place: what that found, once it was taken."""

    place: ClippingRegion | None = field(default=None, kw_only=True)

    def after(self, places: tuple[ClippingRegion, ...]) -> Self | None:
        """The plan that runs from what was found."""
        (place,) = places
        return replace(self, place=place) if place.outcome == FOUND else None

    @property
    def found(self) -> ClippingRegion:
        assert self.place is not None  # the study gives it
        return self.place


def centre_of(place: ClippingRegion) -> float:
    """A place among the values: the origin that was looked from, or the limit next to it."""
    return min(max(place.origin, place.lower), place.upper)


def spread_of(place: ClippingRegion) -> float:
    """How far most people are from the center, to half an octave: read off the histogram that was
    paid for."""
    assert place.outcome == FOUND
    assert place.seen is not None
    both = place.seen.positive + place.seen.negative
    reach = max(place.upper - place.origin, place.origin - place.lower)
    inside = np.array([bin_edge(k) < reach for k in range(len(both))])
    counts = np.where(inside, np.maximum(both, 0.0) - place.seen.scale, 0.0)
    upto = np.maximum.accumulate(np.cumsum(counts))
    total = float(upto[-1])
    if total <= 0:
        return reach / 4
    at = int(np.argmax(upto >= BELOW * total))
    return min(bin_edge(at + 1), reach)
