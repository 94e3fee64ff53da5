"""The published searches for a variance with their printed constants, for study and comparison.

Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025), Algorithms 10-14: budget
a call by advanced composition, twice the noise that coverage and second moments need, and for
bisection the variance whose coverage failed. The one departure is a cap on the rounds: as printed,
constant data never end the bisection. `Variance` is better in every respect (docs/proofs/
variance.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privmean import validate
from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError
from privmean.inference.assumptions import INDEPENDENT, NEAR_NORMAL
from privmean.inference.ratio_with_missing import TOO_FEW
from privmean.inference.status import FAILED, OK
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.curator import Curator
from privmean.models.variance_intervals import PublicRange
from privmean.models.variance_rounds import Search, clip_multiple
from privmean.models.variance_search import Deviations
from privmean.pipeline import PlanBase
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.privacy_events import Laplace, PrivacyEvent
from privmean.published.terms import require_delta, require_theorem
from privmean.published.winsorized import MARK
from privmean.release.outcome import Outcome

METHODS = ("coinpress", "bisection")


@dataclass(frozen=True)
class VarianceAsPublished(Deviations):
    """Algorithms 10 (bisection) and 13 (coinpress): N = ceil(log2(largest^2/smallest^2)) rounds of
    two calls at epsilon/sqrt(16 N ln(1/delta)).

    smallest, largest: public range of the standard deviation. center: public rough center. gamma:
    as in `Variance`. refine_first: bisection refines the center before the first test of coverage
    (as printed, a center off by more than sqrt(2) largest deviations ends it at once).

    Guarantees: (epsilon, delta)-DP under replace-one, for any data; at most N rounds.
    """

    center: float
    method: str = "coinpress"
    gamma: float = 0.05
    refine_first: bool = False

    def __post_init__(self) -> None:
        validate.choice("method", self.method, METHODS)
        super().__post_init__()
        validate.number("center", self.center)
        validate.fraction("gamma", self.gamma)

    @property
    def rounds(self) -> int:
        return math.ceil(2 * math.log2(self.largest / self.smallest))

    def plan(self, budget: Budget, shape: PublicShape) -> PublishedVariancePlan:
        """The plan; InfeasibleError if the budget has no delta. A small n is not refused."""
        epsilon = require_delta(budget)
        if shape.dimension != 1:
            raise ArgumentError(
                "dimension", shape.dimension, "must be 1", "give one column at a time"
            )
        n = shape.number(least=2)
        each = epsilon / math.sqrt(16 * self.rounds * math.log(1 / budget.delta))
        plan = PublishedVariancePlan(self, budget, n, Fraction(math.floor(each * 2**50), 2**50))
        require_theorem(plan.events, budget, "give an epsilon of about 1 or less, or use Variance")
        return plan


@dataclass(frozen=True)
class PublishedVariancePlan(PlanBase):
    """The plan of `VarianceAsPublished`. each: the printed epsilon of a call."""

    settings: VarianceAsPublished
    budget: Budget
    n: int
    each: Fraction
    public = ("column", "n", "settings")

    @property
    def estimator(self) -> str:
        return f"variance by {self.settings.method} ({MARK})"

    @property
    def rationale(self) -> str:
        return f"{MARK}: {self.settings.rounds} rounds at most, by advanced composition"

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        s = self.settings
        second = "second moment" if s.method == "coinpress" else "coverage"
        # the printed noise of the second call is twice what its sensitivity asks for
        one = (*ClippedSums("midpoint", REPLACE_ONE, 1, epsilon=self.each).events,
               Laplace(second, Fraction(1), 2 / self.each, neighbors=REPLACE_ONE))  # fmt: skip
        return one * s.rounds

    def describe(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "budget": self.budget.to_dict(),
            "method": self.settings.method,
            "range_of_sd": [self.settings.smallest, self.settings.largest],
            "calls": 2 * self.settings.rounds,
            "epsilon_of_a_call": float(self.each),
        }

    @property
    def shape(self) -> PublicShape:
        return PublicShape.of(1, self.n)

    def run(self, curator: Curator) -> Outcome:
        """The estimate is a variance; diagnostics hold the deviation."""
        s = self.settings
        search = Search(curator, self.n, REPLACE_ONE, always_n=True)
        variance = (self._coinpress if s.method == "coinpress" else self._bisection)(search)
        return Outcome(
            np.array([variance]),
            PublicRange(s.smallest, s.largest),
            n=self.n,
            status=FAILED if search.empty else OK,
            advice=TOO_FEW if search.empty else "",
            assumptions=(INDEPENDENT, NEAR_NORMAL),
            diagnostics={} if search.empty else {"sd": math.sqrt(variance)},
            estimand="variance between people",
        )

    def _coinpress(self, search: Search) -> float:
        """Algorithm 13: midpoint and second moment in turn, always N times."""
        s, n = self.settings, self.n
        center, sd, beta = s.center, s.largest, clip_multiple(s.gamma)
        for _ in range(s.rounds):
            center, _ = search.midpoint(center, math.sqrt(2) * sd, self.each)
            moment = search.second_moment(center, beta * sd, self.each / 2) * beta**2 / n
            sd *= math.sqrt(max(0.0, moment) + 1 / math.sqrt(n) + 1 / (2 * n))
        return sd**2

    def _bisection(self, search: Search) -> float:
        """Algorithm 10: halve the variance until coverage fails, at most N times."""
        s = self.settings
        center, sd = s.center, s.largest
        for _ in range(s.rounds):
            if s.refine_first:
                center, _ = search.midpoint(center, math.sqrt(2) * sd, self.each)
            inside = search.inside(center, math.sqrt(2) * sd, self.each / 2)
            if inside < (1 - s.gamma) * self.n:
                break
            if not s.refine_first:
                center, _ = search.midpoint(center, math.sqrt(2) * sd, self.each)
            sd = max(sd / math.sqrt(2), s.smallest)
        return sd**2
