"""The default mean of a column that was located already: a count outside the limits, then the sums.

Every price is a public number, and the accounting of any run is these two lines.
docs/proofs/study.md, section 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np

from privmean import validate
from privmean.central.find_region import ATOM_ONLY, BEYOND, FOUND, ClippingRegion
from privmean.central.shared_location import SingleRegionPlan
from privmean.data.schema import PublicShape
from privmean.errors import InfeasibleError
from privmean.estimators.locate import RANGE, Place
from privmean.estimators.means.default_mean_plan import (
    FEW_VALUES,
    PUBLIC,
    SUMS,
    TYPICAL_WIDTH,
    ColumnRun,
    count_and_sums,
    count_step,
)
from privmean.estimators.pure_budget import require_epsilon
from privmean.inference.status import FAILED
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.curator import Curator
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.outcome import Outcome, by_cause, estimand_of


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
        return RegionMeanPlan(budget, shape, epsilon, self.excess, self.design_effect)


@dataclass(frozen=True)
class RegionMeanPlan(SingleRegionPlan):
    """The two prices, and the place of the values."""

    budget: Budget
    shape: PublicShape
    epsilon: Fraction
    excess: float = 1.0
    design_effect: float = 1.0
    target: str | None = None
    estimator = "default mean"
    rationale = (
        "limits from a shared location query, a count of people outside them, "
        "then one Laplace release"
    )
    fixed = True  # the accounting of any run is covered by these lines

    def after(self, places: tuple[ClippingRegion, ...]) -> Self:
        """The plan that runs from what was found, and tells what was not."""
        (place,) = places
        return replace(self, place=place)

    @property
    def check(self) -> Fraction:
        """Price of the count outside the limits."""
        return self._prices[0]

    @property
    def final(self) -> Fraction:
        """Price of the clipped sums."""
        return self._prices[1]

    @property
    def _prices(self) -> tuple[Fraction, Fraction]:
        return count_and_sums(self.epsilon, self.target, self.budget.is_zcdp)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        last = ClippedSums(SUMS, self.relation, epsilon=self.final)
        return (*count_step(self.check, self.relation).events, *last.events)

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted error by cause, for a guess of the deviation of people's values (limits about 7
        deviations apart)."""
        sd = validate.positive("guess_sd", guess_sd)
        n = self.shape.counted()
        noise = math.sqrt(2) * TYPICAL_WIDTH * sd / (n * float(self.final))
        sampling = math.sqrt(self.design_effect / n) * sd
        return by_cause(sampling, noise)

    def describe(self) -> dict[str, Any]:
        return {
            "target": "mean",
            "excess": self.excess,
            "design effect": self.design_effect,
            "epsilon of the count beyond the limits": float(self.check),
            "epsilon of the clipped sums": float(self.final),
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
            made = run.located(Place(center, *arms), missing, self.check, self.final)
        else:
            run.shares["unspent"] = 1.0
            made = run.nothing(FAILED, RANGE if region.outcome == BEYOND else FEW_VALUES)
        return Outcome(
            np.array([made.estimate]),
            made.intervals,
            n=n,
            status=made.status,
            statuses=(made.status,),
            advice=made.advice,
            assumptions=made.assumptions,
            shares=made.shares,
            diagnostics=made.diagnostics,
            estimand=estimand_of(curator.people.max_records),
            follows_from_answers=True,
        )

    @property
    def public(self) -> tuple[str, ...]:
        return PUBLIC[self.relation]
