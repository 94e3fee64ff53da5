"""The default of several columns: the method with the smallest predicted error.

With nothing given there are three ways: each column alone with its part of epsilon (Laplace noise),
all columns together (rows in one ball, Gaussian noise), and the coordinate-wise
Winsorized mean with a private scale. Which is cheapest follows from n, d, the budget and the
relation alone: every prediction is for columns of equal spread, and scales with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.concentration import UnknownScale
from privmean.estimators.means.default_mean import TYPICAL_WIDTH, DefaultMean, DefaultMeanPlan
from privmean.estimators.means.default_vector import DefaultVectorPlan, vector_plan
from privmean.estimators.winsorized import WinsorizedMean
from privmean.inference.laplace_normal import normal_quantile
from privmean.inference.mean_interval import ClippingBiasBound, NoisySums, ends_of
from privmean.pipeline import Step, WrapperPlan
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.privacy_events import PrivacyEvent

ALONE, TOGETHER, WINSORIZED = "each column alone", "all columns together", "Winsorized columns"
KNOWN = "the covariance given"
SKEW, NARROW = 1.4, 3  # up to three columns together must guarantee so much less, to be chosen
WORTH = 0.97  # of a predicted error: what is closer is called as good
SUGGESTED_DELTA = 1e-6  # of which a plan says what it would give
LEVEL = 0.95
LONGER_ARM = 1.3  # from the center to the farther limit, over half their distance: of real columns
NEAR = 1.1  # a predicted error over the plain mean's below which no third method is planned
Candidate = DefaultMeanPlan | DefaultVectorPlan | Any


def total(name: str, predicted: dict[str, float], dimension: int) -> float:
    """l2 error over all columns: plans that treat columns one by one predict that of one. Rows in
    one ball do less well where few columns are skewed, which no prediction knows, and their
    intervals are for the clipped mean more often: hence the margin.
    """
    if name != TOGETHER:
        return predicted["rmse"] * math.sqrt(dimension)
    return predicted["rmse"] * (SKEW if dimension <= NARROW else 1.0)


@dataclass(frozen=True)
class ChosenPlan(WrapperPlan):
    """The cheapest plan, and what the others were predicted to cost.

    predicted: l2 error of every feasible method over the sampling error of the plain mean.
    note: of an assumption that is not used. Everything else is the chosen plan's.
    """

    inner: Any
    name: str
    predicted: dict[str, float]
    note: str = ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        found: tuple[PrivacyEvent, ...] = self.inner.events
        return found

    @property
    def steps(self) -> tuple[Step, ...]:
        found: tuple[Step, ...] = self.inner.steps
        return found

    @property
    def fixed(self) -> bool:
        found: bool = self.inner.fixed
        return found

    @property
    def rationale(self) -> str:
        order = sorted(self.predicted, key=self.predicted.__getitem__)
        words = ", ".join(f"{item} {self.predicted[item]:.2f}" for item in order)
        if len(order) == 1:
            said = f"no other method works with these numbers ({words})"
        else:
            said = f"cheapest by predicted error over the plain mean's ({words})"
        return f"{self.inner.rationale}; {said}{self.note}{self._remedies()}"

    def _remedies(self) -> str:
        """What delta or bounds would give, where columns share a pure budget one by one."""
        plan = self.inner
        if self.name != ALONE or plan.budget.is_zcdp or plan.budget.delta:
            return ""
        found = [f"{predicted_half(plan):.3g}"]
        with suppress(InfeasibleError, ArgumentError):
            other = vector_plan(
                replace(plan.budget, delta=SUGGESTED_DELTA),
                plan.shape, plan.target, plan.excess, plan.design_effect,
            )  # fmt: skip
            of = "" if other.holds_mean else " for the clipped mean"
            found.append(f"{other.predicted_half():.3g}{of} with delta={SUGGESTED_DELTA:g}")
        found.append(
            f"{predicted_half(plan, bounded=True):.3g} with bounds {TYPICAL_WIDTH:g} standard "
            "deviations apart"
        )
        return f"; predicted half-width over that without privacy: {', '.join(found)}"

    def describe(self) -> dict[str, Any]:
        return {**self.inner.describe(), "predicted by method": dict(self.predicted)}


@dataclass(frozen=True)
class Cheapest:
    """The default of `mean` with nothing given: `DefaultMean` for one column, else the cheapest.

    settings: those of the default. A target or an excess asks for its intervals, and then only
    the default's own ways are compared. known: an estimator for a public covariance, which is
    compared with the others in the norm that it minimizes. See `DefaultMean` and `WinsorizedMean`
    for what each way guarantees and assumes; the choice reads public numbers only.
    """

    settings: DefaultMean = field(default_factory=DefaultMean)
    known: Any = None

    def plan(self, budget: Budget, shape: PublicShape) -> Any:
        """The plan with the smallest predicted error. Raises what `DefaultMean.plan` raises if no
        method works."""
        known = self.known
        if known is None and shape.dimension == 1:
            return self.settings.plan(budget, shape)
        plans: dict[str, Candidate] = {}
        predicted: dict[str, float] = {}
        first = (ALONE, TOGETHER) if known is None else (KNOWN, ALONE, TOGETHER)
        for names in (first, (WINSORIZED,)) if shape.count else ():
            if min(predicted.values(), default=math.inf) < NEAR:
                break
            found = self.candidates(budget, shape, names)
            plans |= found
            for name, plan in found.items():
                predicted[name] = self._over_plain(name, plan, shape)
        if not plans:
            return (known or self.settings).plan(budget, shape)
        name = min(predicted, key=predicted.__getitem__)
        note = ""
        if known is not None:
            note = f"; compared by the l2 error {known.norm}"
            note += "" if name == KNOWN else "; the covariance given is not used"
        return ChosenPlan(plans[name], name, predicted, note)

    def _over_plain(self, name: str, plan: Candidate, shape: PublicShape) -> float:
        """Predicted l2 error over the sampling error of the plain mean, in the norm of `known`."""
        if name == KNOWN:
            over: float = plan.over_plain  # type: ignore[union-attr]
            return over
        d, n = shape.dimension, shape.number()
        found = total(name, plan.predict(1.0), d) / math.sqrt(d / n)
        if self.known is None:
            return found
        # noise of the same variance in every column, in its standard deviations
        noise = max(found**2 - 1, 0.0)
        return math.sqrt(1 + noise * self.known.spread(d) / d)

    def candidates(
        self,
        budget: Budget,
        shape: PublicShape,
        names: tuple[str, ...] = (ALONE, TOGETHER, WINSORIZED),
    ) -> dict[str, Candidate]:
        """The plans of these names that the public numbers allow."""
        makers: dict[str, Callable[[], Candidate]] = {
            ALONE: lambda: self._alone(budget, shape),
            TOGETHER: lambda: vector_plan(
                budget,
                shape,
                self.settings.target,
                self.settings.excess_ratio,
                self.settings.design_effect,
            ),
        }
        if self.known is not None:
            makers[KNOWN] = lambda: self.known.plan(budget, shape)
        if self.settings == DefaultMean():
            makers[WINSORIZED] = lambda: WinsorizedMean(UnknownScale()).plan(budget, shape)
        found = {}
        for name in names:
            if name not in makers:
                continue
            try:
                found[name] = makers[name]()
            except (InfeasibleError, ArgumentError):  # public: the numbers do not allow it
                continue
        return found

    def _alone(self, budget: Budget, shape: PublicShape) -> DefaultMeanPlan:
        self.settings.check_alone(budget, shape.count, shape.dimension)
        return self.settings.alone(budget, shape)


@lru_cache(maxsize=256)
def predicted_half(plan: DefaultMeanPlan, bounded: bool = False) -> float:
    """Half-width of the 95 % interval of one column, over that without privacy, if nobody is beyond
    limits `TYPICAL_WIDTH` deviations apart; of noisy counts of nobody the mean that is not
    negative. bounded: with such bounds given."""
    n = plan.shape.number()
    prices = plan.prices(n)
    epsilon, allowance = float(plan.epsilon), None
    if not bounded:
        epsilon, scale = float(prices.sums), float(1 / prices.count)
        reach = LONGER_ARM * max(plan.excess, 1.0)
        allowance = ClippingBiasBound(reach * scale / 2, reach * scale, reach)
    replaced = plan.relation == REPLACE_ONE
    radius = TYPICAL_WIDTH / 2
    sums = NoisySums(
        0.0, n / radius**2, n, (2 if replaced else 1) / epsilon, 4 / epsilon,
        partition=not replaced,
    )  # fmt: skip
    low, high = ends_of(sums, LEVEL, plan.design_effect, allowance)
    plain = -normal_quantile((1 - LEVEL) / 2) * math.sqrt(plan.design_effect / n)
    return radius * (high - low) / 2 / plain


def predicted_with_nothing(
    budget: Budget, shape: PublicShape, deviations: Sequence[float]
) -> float | None:
    """Predicted l2 error (rms) of the default for columns of these standard deviations between
    people, None where it does not answer: what an assumption should improve on."""
    found = _with_nothing(budget, shape)
    return None if found is None else found * math.hypot(*deviations)


@lru_cache(maxsize=256)
def _with_nothing(budget: Budget, shape: PublicShape) -> float | None:
    """Over the root of the sum of the columns' variances. The Winsorized columns are left out:
    they take long to plan where there are many."""
    if shape.count is None:
        return None
    found = Cheapest().candidates(budget, shape, (ALONE, TOGETHER))
    errors = (total(name, plan.predict(1.0), shape.dimension) for name, plan in found.items())
    least = min(errors, default=None)
    return None if least is None else least / math.sqrt(shape.dimension)


def instead(nothing: float | None, predicted: float, of: str = "") -> str:
    """The words of a plan with this predicted l2 error where giving nothing would do better; ""
    where it would not."""
    if nothing is None or nothing >= WORTH * predicted:
        return ""
    return (
        "; giving nothing (method='default') would do better here, though for a mean of values "
        f"clipped within limits found privately: predicted l2 error {nothing:.3g} against "
        f"{predicted:.3g}{of}"
    )
