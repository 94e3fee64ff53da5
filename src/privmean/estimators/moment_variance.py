"""The variance between people, from sums of powers.

A center and limits by private choices, a count of the people beyond them, then the sums of 1, a,
a^2 and a^4 of the distances a from the center, over that of the farther limit, clipped at both: the
last says how precise the second moment is (docs/proofs/variance.md). The searches of Roth and
Avella-Medina (2025), Algorithms 10-14, are `privmean.published.VarianceAsPublished`. A release of a
variance tells the standard deviation too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.data.array_kernels import big_sum
from privmean.data.person_table import collect_rows as rows_of
from privmean.data.schema import PublicShape
from privmean.estimators.column_plan import NOBODY, ColumnPlan, one_column
from privmean.estimators.locate import (
    RANGE,
    LocationPrices,
    Place,
    center_step,
    find_place,
    limits_step,
)
from privmean.estimators.noise_budget import Counts, NoiseBudget, ask_counts, plans_by_law
from privmean.estimators.regression.pooled_intervals import HIDDEN, SEEN, Coefficients
from privmean.estimators.regression.private_scale import refuse_unseen
from privmean.inference.interval import (
    INDEPENDENT,
    NOISE,
    Ends,
    IntervalText,
    NoInterval,
    RowIntervals,
    Rows,
    dependence,
    joined,
    no_undetected,
    outliers_within_times,
)
from privmean.inference.status import (
    FAILED,
    MODIFIED_TARGET,
    NOT_IDENTIFIED,
    OK,
    OUTLIERS_CLIPPED,
    OUTLIERS_UNCHECKED,
    release_status,
)
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import as_counts
from privmean.mechanisms.row_sums import STEPS, PowerSums
from privmean.pipeline import Step
from privmean.plain_data import plain
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.release.release import VARIANCE_LABELS, Release
from privmean.release.result_numbers import Outcome
from privmean.release.stored_release import Row

ANY = (0.0, math.inf)  # a variance of which nothing is known
VARIANCE = "variance"
CLIPPED = "clipped"
FEWEST_DEVIATIONS = 8.0  # deviations of its noise that the number of people must reach
ABOVE = 3.0  # and the variance
HEAVIER = 2.25  # times the excess for people seen beyond what noise explains
THICKEST = 15.0  # people beyond the limit over the noise of a sum: the limit was misled
# Where the assumption on the tail decides and no released number speaks for it
UNSEEN_PART = 0.15  # of the variance: what people whom the count misses may add
ON_LIMIT, RARE = 0.5, 4.0  # parts of the fourth power: most squares lie near the limit; few people
# squared deviations beyond the limit exceed it on average by no more than so many limits
EXCESS = 0.5
STEP = 3.0  # the same where they do: of counts that are 0 or 1, a 2 is four times a squared 1
THIN, TINY = 3.0, 1e-300  # kurtosis of a normal law: of longer tails they do in proportion to it
HEAVY = 15.0  # kurtosis of the clipped values: beyond, the tail is that of a lognormal law


@dataclass(frozen=True, eq=False)
class MomentVarianceIntervals(RowIntervals):
    """variance: about the mean, in the column's own unit squared. nobody: whether no more people
    are seen than noise shows. weights: of the sums in it, by the first derivative; sums: these as
    weighted ones; tail: the status by who lies beyond the limit."""

    variance: float
    n: float
    nobody: bool
    weights: Floats
    sums: Coefficients
    tail: str
    excess: float
    region: tuple[float, float]
    beyond: float

    @classmethod
    def of(
        cls,
        powers: Sequence[float],
        scales: Sequence[float],
        *,
        gaussian: bool,
        region: tuple[float, float],
        unit: float,
        beyond: float,
        beyond_sd: float,
        design_effect: float,
    ) -> MomentVarianceIntervals:
        """powers: noisy sums of 1, a, a^2, a^4, of distances over the farther limit; scales: of
        their noise (deviations if `gaussian`, else Laplace scales). region, unit: the limits, and
        the farther one's distance from the center; beyond: noisy people beyond them."""
        n, law = max(powers[0], 1.0), 1.0 if gaussian else math.sqrt(2)
        mean, square, fourth = (item / n for item in powers[1:])
        value = square - mean * mean
        unit = unit**2
        weights = np.array([2 * mean * mean - square, -2 * mean, 1.0]) * (unit / n)
        # deviations of u^2 and of 2 m u add up at most; the fourth power's noise is not forgotten
        error = fourth + law * scales[3] / n / 2 - square * square
        sd = math.sqrt(min(max(error, 0.0), 0.25)) + 2 * abs(mean) * math.sqrt(max(value, 0.0))
        sampling = np.zeros((3, 3))
        sampling[2, 2] = design_effect * n * sd * sd
        on_limit = fourth > max(ON_LIMIT * square, RARE * square**2)
        usual = STEP if on_limit else EXCESS
        # the longer the tail inside, the farther out go those beyond
        excess = min(max(usual * fourth / max(THIN * square**2, TINY), usual), STEP)
        sure = max(beyond - SEEN * beyond_sd, 0.0)
        counted = min(max(beyond, 0.0), SEEN * beyond_sd) + beyond_sd + HEAVIER * sure
        tail = OK
        if beyond > SEEN * beyond_sd:
            thick = beyond > THICKEST * law * scales[2]
            tail = MODIFIED_TARGET if thick else OUTLIERS_CLIPPED
        elif usual * SEEN * beyond_sd > UNSEEN_PART * n * value or fourth > HEAVY * square**2:
            tail = OUTLIERS_UNCHECKED
        added = 0.0 if tail == MODIFIED_TARGET else excess * counted
        made = Coefficients(
            ("1", "u", "u^2"), (OK,) * 3, "gaussian" if gaussian else "laplace", (0, 1, 2),
            np.array(powers[:3]), sampling, np.zeros((3, 3)), np.array(scales[:3]),
            np.array([0.0, 0.0, 1.0]), np.zeros(3), added, 0.0,
            tail, excess, HIDDEN * beyond_sd,
        )  # fmt: skip
        return cls(
            value * unit,
            powers[0],
            powers[0] < max(FEWEST_DEVIATIONS * law * scales[0], 1.0),
            weights,
            made,
            tail,
            excess,
            region,
            sure,
        )

    @property
    def resolved(self) -> bool:
        """Whether the variance is more than its noise, and not only that of people beyond the
        limits, whose squares are at most 1."""
        one_noise = self.sums.scales[2] * (1.0 if self.sums.law == "gaussian" else math.sqrt(2))
        inside = self.sums.values[2] - self.beyond > ABOVE * one_noise
        return bool(inside) and self.variance > ABOVE * self.errors()[0]

    @property
    def status(self) -> str:
        return self.tail if self.resolved else NOT_IDENTIFIED

    number = 1
    targets = (VARIANCE, CLIPPED)

    def row_errors(self, row: int) -> tuple[float, float]:
        noise = math.sqrt(float(self.weights @ self.sums.noise @ self.weights))
        sampling = max(float(self.weights @ self.sums.sampling @ self.weights), 0.0)
        return noise, math.sqrt(noise * noise + sampling)

    def ends(self, level: float, wanted: str, rows: Rows) -> list[Ends]:
        low, high = self._ends(level, sampling=wanted != NOISE, clipped=wanted != VARIANCE)
        return [(low if self.resolved or wanted == NOISE else 0.0, high)]

    def words(self, wanted: str, rows: Rows) -> IntervalText:
        if wanted == NOISE:
            return {"target": "clipped variance of these people"}
        found: IntervalText = {"status": self.status}
        if wanted == CLIPPED or self.tail == MODIFIED_TARGET:
            return {**found, "target": "variance of clipped values", "assumption": INDEPENDENT}
        beyond = f"squared {outliers_within_times(self.excess)}"
        words = joined((INDEPENDENT, beyond, no_undetected(self.sums.hidden)))
        return {**found, "target": VARIANCE, "assumption": words}

    def regions(self, wanted: str, rows: Rows) -> tuple[Ends, ...]:
        return () if wanted == NOISE else (self.region,)

    def _ends(self, level: float, *, sampling: bool, clipped: bool) -> tuple[float, float]:
        """Clipped values vary no more than others: what is beyond the limits moves the upper end
        alone."""
        value, _, low, _ = self.sums.combined(self.weights, level, sampling=sampling, clipped=True)
        high = self.sums.combined(self.weights, level, sampling=sampling, clipped=clipped)[3]
        return max(self.variance - (value - low), 0.0), self.variance + (high - value)


CENTER, LIMITS = 100.0, 150.0  # people times epsilon of the choices: what they need, if possible
CENTER_SHARE = Fraction(3, 100), Fraction(3, 10)  # of the budget, for the center
LIMITS_SHARE = Fraction(2, 10), Fraction(4, 10)  # of the budget, for the limits
COUNT_SHARE = Fraction(12, 100)  # of what is left: with more, errors grow faster than ends come in
DEMAND = 2.25  # as of `private_limits`: half an octave too wide makes the noise of squares double
FEWEST = 90.0  # people times epsilon of the center
UNRESOLVED = "The variance is no more than its noise, or most people have one value."


@dataclass(frozen=True)
class MomentVariance:
    """The variance between people. design_effect: public factor on the sampling variance.

    Guarantees: the budget given to `plan`, for one person with all records and any data. Public:
    settings and, under replace-one, the number of people. People without a value are left out.
    """

    design_effect: float = 1.0

    def __post_init__(self) -> None:
        validate.keep(self, validate.positive, "design_effect")

    def plan(self, budget: Budget, shape: PublicShape) -> MomentVariancePlan:
        """Everything decided before data are read; InfeasibleError if the choices would be
        noise."""
        one_column(shape)
        n = shape.number()
        plans = plans_by_law(budget, partial(MomentVariancePlan, budget, n, self))
        refuse_unseen(
            n, budget, max(plan.prices.center for plan in plans), FEWEST,
            "find the values", "a larger epsilon",
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
    def located(self) -> tuple[Fraction, Fraction]:
        """Shares of the center and of the limits: more where people are few."""
        both = (CENTER, *CENTER_SHARE), (LIMITS, *LIMITS_SHARE)
        center, limits = (
            min(max(self.parts.share(people / self.n), least), most) for people, least, most in both
        )
        return center, limits

    @property
    def prices(self) -> LocationPrices:
        """Epsilon of both choices."""
        center, limits = map(self.parts.epsilon, self.located)
        return LocationPrices(center, limits)

    @property
    def rest(self) -> Fraction:
        center, limits = self.located
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
    def steps(self) -> tuple[Step, ...]:
        prices, relation = self.prices, self.relation
        choices = center_step(prices.center, relation), limits_step(prices.limits, relation)
        return (
            Step("center and limits", 1 - self.rest, choices),
            Step("powers", self.rest, (self.outside, self.powers)),
        )

    @property
    def one_noise(self) -> float:
        """Deviation of the noise of the sum of u^2, over U^2."""
        return self.powers.sds[2]

    def errors(self, guess: float) -> tuple[float, float]:
        """Of the variance of normal values (limits 3.5 deviations away)."""
        noise = 3.5**2 * guess**2 * self.one_noise / self.n
        return noise, guess**2 * math.sqrt(2 * self.settings.design_effect / self.n)

    def details(self) -> dict[str, Any]:
        return {"n": self.n, "law": self.parts.law}

    # --- the run ----------------------------------------------------------------------------------
    def run(self, curator: Curator) -> Outcome:
        place = find_place(curator, 0, self.prices, self.relation, DEMAND)
        x = rows_of(curator.people, size_is_public=self.relation == REPLACE_ONE)[:, 0]
        far = int(np.count_nonzero((x < place.lower) | (x > place.upper)))
        beyond = float(ask_counts(curator, self.outside, as_counts(far))[0])
        unit = max(place.below, place.above)
        noisy = curator.ask(self.powers, [big_sum(item) for item in _powers(x, place, unit)])
        made = MomentVarianceIntervals.of(
            noisy, self.powers.scales, gaussian=not self.parts.laplace,
            region=(place.lower, place.upper), unit=unit,
            beyond=beyond, beyond_sd=self.outside.sd,
            design_effect=self.settings.design_effect,
        )  # fmt: skip
        # most people beyond the limits: their values are in no range of candidates
        failed = made.nobody or place.holds_end or made.beyond > made.n / 2
        status = FAILED if failed else made.status
        shown = not failed and made.resolved
        why = NOBODY if made.nobody else RANGE if failed else "" if shown else UNRESOLVED
        return Outcome(
            np.array([made.variance if shown else math.nan]),
            NoInterval(ranges=[ANY], about=(VARIANCE, "clipped variance")) if failed else made,
            n=self.counted(made.n),
            status=release_status((status,)),
            statuses=(status,),
            advice=why,
            assumptions=(dependence(self.settings.design_effect),),
            shares=self.shares,
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


DEVIATION = "standard deviation"
VARIANCE_TERM = "variance"


@dataclass(frozen=True, repr=False)
class VarianceRelease(Release):
    """A release of one variance and of the standard deviation, its root.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    made = pm.variance(table, "ln_wage", epsilon=1.0)
    variance, deviation = made.rows()
    print(deviation.estimate, deviation.lower, deviation.upper)
    """

    question_kind = "variance"

    @property
    def deviation(self) -> float:
        """The standard deviation between people; NaN where no variance was found."""
        return _root(float(self.estimate[0]))

    def _rows(self, level: float) -> tuple[Row, ...]:
        """The variance, then the standard deviation."""
        (row,) = super()._rows(level)
        error = row.std_error / (2 * self.deviation) if self.deviation > 0 else math.nan
        root = replace(
            row, term=DEVIATION, estimate=self.deviation, std_error=error,
            lower=_root(row.lower), upper=_root(row.upper),
            noise_lower=_root(row.noise_lower), noise_upper=_root(row.noise_upper),
        )  # fmt: skip
        return replace(row, term=VARIANCE_TERM), root

    def labels(self) -> tuple[str, ...]:
        return VARIANCE_LABELS

    def joint_text(self) -> str:
        """The second interval is the root of the first."""
        return ""

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"deviation": plain(self.deviation)}


def _root(value: float) -> float:
    return math.sqrt(value) if value >= 0 else (math.nan if math.isnan(value) else 0.0)
