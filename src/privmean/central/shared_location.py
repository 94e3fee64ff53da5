"""One private search of a column, at prices fixed beforehand, for many questions.

A private center and a histogram of the tails about it. docs/proofs/study.md, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Self

import numpy as np

from privmean.central.find_region import (
    FOUND,
    ClippingRegion,
    bin_edge,
    center_price,
    histogram,
    priced,
    settled,
    tail_share,
)
from privmean.estimators.locate import center_step
from privmean.estimators.pure_budget import floor_epsilon
from privmean.mechanisms.curator import Curator
from privmean.pipeline import PlanBase
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import PrivacyEvent

FEWEST = 600  # people times epsilon below which no location is shared
BELOW = 0.7  # part of the people whose distance from the origin is below the spread


@dataclass(frozen=True)
class SharedLocationQuery:
    """What one search of `column` costs. epsilon: what a question alone would cost in all, from
    which the prices of the center and of the histogram of the tails follow.

    Guarantees: (center + tails)-DP under replace-one, for any data; both are always asked.
    """

    column: str
    n: int
    epsilon: Fraction
    center: Fraction
    tails: Fraction
    relation: Relation = REPLACE_ONE

    @classmethod
    def of(cls, column: str, persons: int, epsilon: Fraction) -> SharedLocationQuery | None:
        """The search that a mean of `epsilon` would share; None for too few people."""
        if persons * epsilon < FEWEST:
            return None
        center = center_price(persons, epsilon)
        share = tail_share(persons, epsilon)
        tails = floor_epsilon((epsilon - center) * Fraction(share))
        return cls(column, persons, epsilon, center, tails)

    @property
    def left(self) -> Fraction:
        """What a mean has left after its search: a question's own strength."""
        return self.epsilon - self.pure

    @property
    def name(self) -> str:
        return f"shared location of {self.column}"

    @property
    def pure(self) -> Fraction:
        return self.center + self.tails

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        steps = center_step(self.center, self.relation), priced(self.tails, self.relation)
        return tuple(event for step in steps for event in step.events)

    def run(self, curator: Curator) -> ClippingRegion:
        """Look at the only column of the curator's people."""
        step = center_step(self.center, self.relation)
        origin, _ = curator.ask(step, curator.people.column_counts(0))
        seen = histogram(curator, 0, origin, priced(self.tails, self.relation))
        return settled(origin, seen, [(seen.missing, seen.scale)], (self.n, 0.0), self.epsilon)


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
