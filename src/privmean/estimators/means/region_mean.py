"""Means from a search of a column that other questions share, or that a stage took before.

One private search, at prices fixed beforehand: a center and a histogram of the tails about it.
Then the default mean of a column that was located so: a count outside the limits and the sums.
Every price is a public number, and the accounting of any run is these lines. docs/proofs/study.md,
section 5.

Limits moved out for people who were counted beyond them, and for a sum that follows: functions of
noisy numbers. docs/proofs/groups.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np

from privmean.data.schema import PublicShape
from privmean.errors import InfeasibleError
from privmean.estimators.find_region import (
    ATOM_ONLY,
    BEYOND,
    FOUND,
    ClippingRegion,
    bin_edge,
    center_price,
    histogram,
    priced,
    settled,
    tail_share,
)
from privmean.estimators.locate import RANGE, Place, center_step
from privmean.estimators.means.default_mean import (
    FEW_VALUES,
    SUMS,
    ColumnRun,
    DefaultMeanPlan,
    count_and_sums,
    count_step,
)
from privmean.inference.status import FAILED
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.curator import Curator
from privmean.pipeline import PlanBase
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation, floor_epsilon, require_epsilon
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.result_numbers import Outcome

FEWEST_SHARED = 600  # people times epsilon below which no location is shared
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
        if persons * epsilon < FEWEST_SHARED:
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


@dataclass(frozen=True)
class RegionMean:
    """The estimator; excess, design_effect: as for `DefaultMean`, whose target here is the estimate
    first. A plan of it is given the location before it runs.

    Guarantees: the budget given to `plan`, besides what the look cost, for one person with all
    records and any data, under replace-one.
    """

    excess: float = 1.0
    design_effect: float = 1.0

    def plan(self, budget: Budget, shape: PublicShape) -> RegionMeanPlan:
        """Prices of the two lines. InfeasibleError for an epsilon below the steps of prices."""
        if budget.neighbors != REPLACE_ONE or shape.dimension != 1 or shape.n is None:
            raise InfeasibleError(
                "a mean from a shared location requires one column and a public n", ""
            )
        epsilon = require_epsilon(budget.pure_epsilon())
        return RegionMeanPlan(
            budget=budget, shape=shape, epsilon=epsilon, excess=self.excess,
            design_effect=self.design_effect,
        )  # fmt: skip


@dataclass(frozen=True)
class RegionMeanPlan(SingleRegionPlan, DefaultMeanPlan):
    """The default mean of one column but for its location: a count outside the limits and sums."""

    fixed = True  # the accounting of any run is covered by these lines

    @property
    def rationale(self) -> str:
        return (
            "limits from a shared location query, a count of people outside them, "
            "then one Laplace release"
        )

    def after(self, places: tuple[ClippingRegion, ...]) -> Self:
        """The plan that runs from what was found, and tells what was not."""
        (place,) = places
        return replace(self, place=place)

    @property
    def own_prices(self) -> tuple[Fraction, Fraction]:
        """Of the count outside the limits, and of the clipped sums."""
        return count_and_sums(self.epsilon, self.target, self.budget.is_zcdp)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        check, final = self.own_prices
        last = ClippedSums(SUMS, self.relation, epsilon=final)
        return (*count_step(check, self.relation).events, *last.events)

    def final_epsilon(self, persons: int) -> float:
        return float(self.own_prices[1])

    def describe(self) -> dict[str, Any]:
        check, final = map(float, self.own_prices)
        return {
            "target": "mean",
            "excess": self.excess,
            "design effect": self.design_effect,
            "epsilon of the count beyond the limits": check,
            "epsilon of the clipped sums": final,
        }

    def run(self, curator: Curator) -> Outcome:
        """Statuses as of the default mean."""
        region, n = self.found, self.shape.known()
        center = min(max(region.origin, region.lower), region.upper)
        arms = center - region.lower, region.upper - center
        if region.outcome == ATOM_ONLY:
            arms = 0.0, 0.0
        run = ColumnRun(self, curator, 0, math.ceil(n - region.missing.believed))
        missing = [(region.missing.number, region.missing.scale)]
        if region.outcome in (FOUND, ATOM_ONLY):
            made = run.located(Place(center, *arms), missing, *self.own_prices)
        else:
            run.shares["unspent"] = 1.0
            made = run.nothing(FAILED, RANGE if region.outcome == BEYOND else FEW_VALUES)
        return self.told([run], [made])


TRUST = 1.0  # noise scales taken off a count
WIDEN, WIDEST = 0.9, 6.0  # how far the limits are moved out for the people counted
LEAST = 1.2  # and the least factor that is worth it
HIDDEN = 8.0  # noise scales of the histogram: more people than a thin tail beyond can hold


def first_step(place: ClippingRegion, persons: float, left: Fraction) -> tuple[float, float]:
    """The limits after the first count.

    A tail: the limits are moved out until clipping bias and noise are about equal, for a tail whose
    excess falls like the inverse of the distance. More people than a thin tail can hold, and only
    one side was seen: they are spread thinly on the other side, which is opened as far.
    """
    up, down = place.upper - place.origin, place.origin - place.lower
    if min(persons, place.hidden) > HIDDEN * place.scale:
        return place.origin - max(up, down), place.origin + max(up, down)
    return moved_for(place.origin, (place.lower, place.upper), persons, left)


def moved_for(
    origin: float, limits: tuple[float, float], persons: float, left: Fraction
) -> tuple[float, float]:
    """Limits moved out for so many people beyond them, with `left` to spend on the sum: by a factor
    (at most `WIDEST`), the nearer one at most to where the farther one was: nobody knows on which
    side those beyond are, and up to there it costs little.

    An inner limit (both on one side of the origin) goes back to the origin and nothing else moves.
    """
    factor = WIDEN * math.sqrt(max(persons, 0.0) * float(left) / math.sqrt(2))
    if factor <= LEAST:
        return limits
    factor = min(factor, WIDEST)
    up, down = limits[1] - origin, origin - limits[0]
    near, far = min(up, down), max(up, down)
    if near < 0:
        near = 0.0
    else:
        near, far = max(near, min(near * factor, far)), far * factor
    return (origin - near, origin + far) if up >= down else (origin - far, origin + near)
