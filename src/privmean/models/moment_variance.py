"""The variance between people with nothing given: a center, two limits, one noisy sum of powers.

A center and limits by private choices, a count of the people beyond them, then the sums of 1, a,
a^2 and a^4 of the distances a from the center, over that of the farther limit, clipped at both: the
last says how precise the second moment is. docs/proofs/variance.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from privmean import validate
from privmean.data.collect_rows import collect_rows as rows_of
from privmean.data.person_table import Floats, Integers
from privmean.data.public_shape import PublicShape
from privmean.estimators.locate import (
    RANGE,
    LocationPrices,
    Place,
    center_step,
    find_place,
    limits_step,
)
from privmean.inference.assumptions import dependence
from privmean.inference.status import FAILED, release_status
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.moment_sums import exact_sum
from privmean.mechanisms.noisy_counts import as_counts
from privmean.mechanisms.power_sums import STEPS, PowerSums
from privmean.models.center_scale import refuse_unseen
from privmean.models.column_plan import NOBODY, ColumnPlan, one_column
from privmean.models.moment_variance_intervals import MomentVarianceIntervals, Powers
from privmean.models.noise_budget import Counts, NoiseBudget, ask_counts, deviation, plans_by_law
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.outcome import Outcome

CENTER, LIMITS = 100.0, 150.0  # people times epsilon of the choices: what they need, if possible
CENTER_SHARE = Fraction(3, 100), Fraction(3, 10)  # of the budget, for the center
LIMITS_SHARE = Fraction(2, 10), Fraction(4, 10)  # of the budget, for the limits
COUNT_SHARE = Fraction(8, 100)  # of what is left
DEMAND = 2.25  # as of `private_limits`: half an octave too wide makes the noise of squares double
FEWEST = 90.0  # people times epsilon of the center
UNRESOLVED = "The variance is no more than its noise, or most people have one value."


@dataclass(frozen=True)
class MomentVariance:
    """The variance between people. design_effect: public factor on the sampling variance. excess:
    squared deviations beyond the limit exceed it on average by no more than so many limits.

    Guarantees: the budget given to `plan`, for one person with all records and any data. Public:
    settings and, under replace-one, the number of people. People without a value are left out.
    """

    design_effect: float = 1.0
    excess: float = 0.5

    def __post_init__(self) -> None:
        validate.positive("design_effect", self.design_effect)
        validate.nonnegative("excess", self.excess)

    def plan(self, budget: Budget, shape: PublicShape) -> MomentVariancePlan:
        """Everything decided before data are read; InfeasibleError if the choices would be
        noise."""
        one_column(shape)
        n = shape.number()
        plans = plans_by_law(budget, partial(MomentVariancePlan, budget, n, self))
        refuse_unseen(
            n, budget, max(plan.prices.center for plan in plans), FEWEST,
            "find the values", "a larger epsilon, or within=(smallest, largest)",
        )  # fmt: skip
        fit = [plan for plan in plans if n * plan.prices.center >= FEWEST]
        return min(fit, key=lambda plan: plan.one_noise)


@dataclass(frozen=True)
class MomentVariancePlan(ColumnPlan):
    """Every mechanism."""

    settings: MomentVariance
    parts: NoiseBudget
    estimator = "moment variance"

    @property
    def rationale(self) -> str:
        law = self.parts.word
        return f"a private center and limits, then sums of powers with {law} noise"

    # --- mechanisms -------------------------------------------------------------------------------
    @property
    def shares(self) -> tuple[Fraction, Fraction]:
        """Of the center and of the limits: more where people are few."""
        both = (CENTER, *CENTER_SHARE), (LIMITS, *LIMITS_SHARE)
        center, limits = (
            min(max(self.parts.share(people / self.n), least), most) for people, least, most in both
        )
        return center, limits

    @property
    def prices(self) -> LocationPrices:
        """Epsilon of both choices."""
        center, limits = map(self.parts.epsilon, self.shares)
        return LocationPrices(center, limits)

    @property
    def rest(self) -> Fraction:
        center, limits = self.shares
        return 1 - center - limits

    @property
    def outside(self) -> Counts:
        """The count of the people beyond the limits."""
        return self.parts.counts("count outside limits", self.rest * COUNT_SHARE, self.relation, 1)

    @property
    def powers(self) -> PowerSums:
        share = self.rest * (1 - COUNT_SHARE)
        return PowerSums("powers", self.relation, **self.parts.sums(share))

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        prices, relation = self.prices, self.relation
        steps = center_step(prices.center, relation), limits_step(prices.limits, relation)
        return tuple(event for step in (*steps, self.outside, self.powers) for event in step.events)

    @property
    def one_noise(self) -> float:
        """Deviation of the noise of the sum of u^2, over U^2."""
        return self.powers.sds[2]

    def errors(self, guess: float) -> tuple[float, float]:
        """Of the variance of normal values (limits 3.5 deviations away)."""
        noise = 3.5**2 * guess**2 * self.one_noise / self.n
        return noise, guess**2 * math.sqrt(2 * self.settings.design_effect / self.n)

    def describe(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "budget": self.budget.to_dict(),
            "law": self.parts.law,
            "mechanisms": [loss.to_dict() for loss in self.events],
        }

    # --- the run ----------------------------------------------------------------------------------
    def run(self, curator: Curator) -> Outcome:
        place = find_place(curator, 0, self.prices, self.relation, DEMAND)
        x = rows_of(curator.people, size_is_public=self.relation == REPLACE_ONE)[:, 0]
        far = int(np.count_nonzero((x < place.lower) | (x > place.upper)))
        beyond = float(ask_counts(curator, self.outside, as_counts(far))[0])
        unit = max(place.below, place.above)
        noisy = curator.ask(self.powers, [exact_sum(item) for item in _powers(x, place, unit)])
        made = MomentVarianceIntervals.of(
            Powers(tuple(noisy), self.powers.scales, not self.parts.laplace),
            region=(place.lower, place.upper), unit=unit,
            beyond=beyond, beyond_sd=deviation(self.outside),
            design_effect=self.settings.design_effect, excess=self.settings.excess,
        )  # fmt: skip
        failed = made.nobody or place.holds_end or made.all_outside
        status = FAILED if failed else made.status
        shown = not failed and made.resolved
        why = NOBODY if made.nobody else RANGE if failed else "" if shown else UNRESOLVED
        located = float(sum(self.shares))
        return Outcome(
            np.array([made.variance if shown else math.nan]),
            made.unknown() if failed else made,
            n=self.counted(made.n),
            status=release_status((status,)),
            statuses=(status,),
            advice=why,
            assumptions=(dependence(self.settings.design_effect),),
            shares={"center and limits": located, "powers": 1 - located},
            diagnostics={"center": place.center, "limits": [place.lower, place.upper],
                         "weight": [made.n]},
            estimand="variance between people",
            follows_from_answers=True,
        )  # fmt: skip


def _powers(x: Floats, place: Place, unit: float) -> list[Integers]:
    """The entries of a person's row, from the distance from the center: 0 without a value."""
    there = ~np.isnan(x)
    with np.errstate(all="ignore"):
        near = np.clip(x, place.lower, place.upper) - place.center
        a = np.clip(np.where(there & (unit > 0), near / (unit or 1.0), 0.0), -1.0, 1.0)
    square = a * a
    entries = (np.where(there, 1.0, 0.0), a, square, square * square)
    return [np.trunc(item * STEPS).astype(np.int64) for item in entries]
