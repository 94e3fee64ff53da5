"""The default mean: a center, two limits, a count of the people beyond them, the clipped sums.

Nothing is given but the privacy budget. Four steps at fixed prices; no step is repeated and none is
left out. One column, or each of a few; more are located together (`default_vector`). Algorithm,
proof and settings: docs/proofs/default-mean.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from privmean import validate
from privmean.data.person_table import ClipInterval, IntervalSums
from privmean.data.schema import PublicShape
from privmean.errors import InfeasibleError
from privmean.estimators.locate import (
    RANGE,
    LocationPrices,
    Place,
    center_step,
    find_place,
    limits_step,
)
from privmean.inference.clipped_intervals import (
    SEEN,
    BoxIntervals,
    ColumnIntervals,
    HiddenPeople,
    OutlierCheck,
)
from privmean.inference.interval import CLIPPED, MEAN, RowIntervals, missing_count_at
from privmean.inference.mean_interval import (
    TOO_FEW,
    ClippingBiasBound,
    ClipUnits,
    MissingCount,
    RatioWithMissing,
)
from privmean.inference.status import FAILED, POINT_MASS, release_status
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import NoisyCounts, as_counts
from privmean.output import count_noun
from privmean.pipeline import PlanBase
from privmean.privacy.budget import (
    ADD_REMOVE,
    REPLACE_ONE,
    Budget,
    Relation,
    floor_epsilon,
    require_epsilon,
    root_epsilon,
)
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.result_numbers import Outcome, by_cause, estimand_of
from privmean.validate import known_keywords

if TYPE_CHECKING:
    from privmean.estimators.means.default_vector import DefaultVectorPlan

PRESENT_SHARE = Fraction(2, 100)  # of the budget for the number of people with a value
COUNT_SHARES = {None: 0.22, MEAN: 0.4, "clipped": 0.05}  # of the rest after the limits, by target
FEWEST = 200  # people with a value times epsilon, and times five times the price of the center
CERTAINTY = 5
FARTHEST = Fraction(1, 2)  # of the radius: from the middle to where people without a value count
MOST_COLUMNS = 3  # epsilon is split over columns up to here,
MOST_SPLIT = 400.0  # with at least so many people*epsilon for each
TYPICAL_WIDTH = 7.0  # width of the limits in standard deviations that a prediction assumes
TYPICAL_PEOPLE = 10_000  # for the accounting of a path, where the number of people is private

PUBLIC = {REPLACE_ONE: ("n", "roster of people", "column names"), ADD_REMOVE: ("column names",)}
SUMS = "clipped sums"
FEW_VALUES = (
    "Almost no person has a readable value, or too few for this epsilon. Check that the column is "
    "numeric. In a pair of groups only people in both count (for others use arms)."
)


@known_keywords
@dataclass(frozen=True)
class DefaultMean:
    """Mean of people's values without given bounds, spread or location.

    Parameters
    ----------
    target : {"mean", "clipped"}, optional
        What the interval is for. Default: the mean, at little cost to the estimate. "mean" spends
        more on the count of outliers, so that the interval for the mean is shorter where noise
        matters. "clipped": the clipped mean, with the least noise.
    excess_ratio : float, default 1.0
        Assumed average distance of outliers beyond the bound, relative to its distance from the
        center. 1 allows Pareto tails of index 2.
    design_effect : float, default 1.0
        Design effect of clustered people.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Pure epsilon for any data under replace-one (n is public) or add-remove (a noisy count is
    charged). Delta is left unspent, and a rho budget runs at epsilon = sqrt(2 rho).

    Notes
    -----
    Source: docs/proofs/default-mean.md.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    pm.mean(people, method=pm.DefaultMean(target="clipped"), epsilon=1.0)
    """

    target: str | None = None
    excess_ratio: float = 1.0
    design_effect: float = 1.0

    def __post_init__(self) -> None:
        validate.choice("target", self.target, [None, MEAN, "clipped"])
        validate.keep(self, validate.positive, "excess_ratio", "design_effect")

    serves_records: ClassVar[bool] = (
        True  # it answers for the mean over records too (one to three columns)
    )

    def plan(self, budget: Budget, shape: PublicShape) -> DefaultMeanPlan | DefaultVectorPlan:
        """Prices of all stages, before any data. A guess of the number of people is used to
        predict errors only.

        Columns up to 3, with at least 400 people*epsilon for each, are located one by
        one with their share of epsilon; more are looked at together with Gaussian noise, which
        needs delta > 0 or rho. Raises InfeasibleError from public numbers only.
        """
        if shape.dimension > 1 and self._together(budget, shape):
            from privmean.estimators.means.default_vector import vector_plan

            return vector_plan(budget, shape, self.target, self.excess_ratio, self.design_effect)
        self.check_alone(budget, shape.n, shape.dimension)
        return self.alone(budget, shape)

    def alone(self, budget: Budget, shape: PublicShape) -> DefaultMeanPlan:
        """The plan that locates columns one by one."""
        return _alone(budget, shape, self.target, self.excess_ratio, self.design_effect)

    @staticmethod
    @lru_cache(maxsize=64)
    def check_alone(budget: Budget, persons: int | None, dimension: int) -> None:
        """Raise InfeasibleError if so many columns cannot be located singly."""
        epsilon = epsilon_of_one(budget, dimension)
        each = " per column" if dimension > 1 else ""
        require_epsilon(epsilon, each)
        needed = FEWEST if dimension == 1 else MOST_SPLIT
        if persons is not None and float(persons * epsilon) < needed:
            least = needed / persons
            if budget.is_zcdp:
                given, more = budget.describe(), f"rho={dimension * least**2 / 2:.3g}"
            else:
                given = f"epsilon={float(epsilon):g}{each}"
                more = f"epsilon={dimension * least:.3g}"
            raise InfeasibleError(
                f"n={persons} is too small at {given}",
                f"provide at least {math.ceil(needed / epsilon)} people, {more}, or bounds",
            )

    def _together(self, budget: Budget, shape: PublicShape) -> bool:
        if shape.dimension > MOST_COLUMNS:
            return True
        each = (shape.n or 0) * epsilon_of_one(budget, shape.dimension)
        return budget.neighbors == REPLACE_ONE and float(each) < MOST_SPLIT


@lru_cache(maxsize=64, typed=True)
def _alone(
    budget: Budget, shape: PublicShape, target: str | None, excess: float, design_effect: float
) -> DefaultMeanPlan:
    """Kept for equal public facts, with its accounting: loops and servers plan once."""
    return DefaultMeanPlan(
        budget=budget,
        shape=shape,
        epsilon=epsilon_of_one(budget, shape.dimension),
        target=target,
        excess=excess,
        design_effect=design_effect,
    )


@dataclass(frozen=True)
class Prices:
    """Epsilon of the four steps of one column. With what was spent before, they compose to its
    epsilon, or under a budget of rho to its rho (epsilon^2/2 a step, a choice epsilon^2/8)."""

    location: LocationPrices
    count: Fraction
    sums: Fraction

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, people: int, epsilon: Fraction, target: str | None, squares: bool) -> Prices:
        """people: with a value, public or noisy. epsilon: what is left; under a budget of rho
        (`squares`) what is left of it is epsilon^2/2."""
        location = LocationPrices.of(people, epsilon)
        if squares:  # twice as much: a choice costs a quarter, and the count sees people sharper
            location = LocationPrices(2 * location.center, 2 * location.limits)
            left = root_epsilon(epsilon**2 - (location.center**2 + location.limits**2) / 4)
        else:
            left = epsilon - location.pure
        return cls(location, *count_and_sums(left, target, squares))


def count_and_sums(left: Fraction, target: str | None, squares: bool) -> tuple[Fraction, Fraction]:
    """What is left, divided among the count outside the limits and the sums.

    Under basic composition the count has COUNT_SHARES. Under a budget of rho the same two errors
    balance at their ratio to the power 3/4: a/x^2 + b/y^2 is least for y/x = (b/a)^(1/3) at a given
    x + y, and for (b/a)^(1/4) at a given x^2 + y^2.
    """
    share = Fraction(COUNT_SHARES[target])
    if not squares:
        count = floor_epsilon(left * share)
        return count, left - count
    ratio = float(share / (1 - share)) ** 0.75
    count = floor_epsilon(left * Fraction(ratio / math.hypot(1, ratio)))
    return count, root_epsilon(left**2 - count**2)


class ColumnRelease(NamedTuple):
    """The private outcome of one column."""

    estimate: float
    intervals: RowIntervals
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DefaultMeanPlan(PlanBase):
    """The steps and their prices, for what `DefaultMean` was asked. epsilon is that of one
    column."""

    budget: Budget
    shape: PublicShape
    epsilon: Fraction
    target: str | None = None
    excess: float = 1.0
    design_effect: float = 1.0
    estimator = "default mean"

    @property
    def rationale(self) -> str:
        words = {
            None: "for the mean",
            MEAN: "for a short interval of the mean",
            "clipped": "for the clipped mean",
        }[self.target]
        return (
            "no bounds are needed: a center and two limits are chosen privately, the people beyond "
            f"them are counted, then one Laplace release {words}"
        )

    # --- prices -----------------------------------------------------------------------------------
    @cached_property
    def _present(self) -> Fraction:
        if self.budget.is_zcdp:
            return root_epsilon(self.epsilon**2 * PRESENT_SHARE)
        return floor_epsilon(self.epsilon * PRESENT_SHARE)

    def prices(self, people: int) -> Prices:
        """Prices of one column for so many people with a value."""
        return Prices.of(people, self._left, self.target, self.budget.is_zcdp)

    @cached_property
    def _left(self) -> Fraction:
        """Of epsilon, after the number of people with a value."""
        if self.budget.is_zcdp:
            return root_epsilon(self.epsilon**2 - self._present**2)
        return self.epsilon - self._present

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """The accounting of one path; every path composes to the budget at most, exactly."""
        return self._bill

    @cached_property
    def _bill(self) -> tuple[PrivacyEvent, ...]:
        prices = self.prices(self.shape.n or TYPICAL_PEOPLE)
        relation = self.budget.neighbors
        last = ClippedSums(SUMS, relation, epsilon=prices.sums)
        steps = (
            present_step(self._present, relation),
            center_step(prices.location.center, relation),
            limits_step(prices.location.limits, relation),
            count_step(prices.count, relation),
            last,
        )
        return tuple(event for step in steps for event in step.events) * self.shape.dimension

    # --- predictions ------------------------------------------------------------------------------
    def final_epsilon(self, persons: int) -> float:
        """What the sums get for so many people with a value."""
        return float(self.prices(persons).sums)

    def tail_check(self, persons: int) -> OutlierCheck:
        """What the count can see if nobody is beyond the limits."""
        return OutlierCheck(float(persons), 0.0, float(1 / self.prices(persons).count))

    def predict(self, guess_sd: float, persons: int | None = None) -> dict[str, float]:
        """Predicted error by cause, for the plan's number of people or another one.

        Under add-remove the number is `n_guess`; without it a prediction is refused.
        """
        sd = validate.positive("guess_sd", guess_sd)
        count = persons if persons is not None else self.shape.number()
        scale = TYPICAL_WIDTH * sd / (count * self.final_epsilon(count))
        sampling = math.sqrt(self.design_effect / count) * sd
        return by_cause(sampling, math.sqrt(2) * scale)

    def describe(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "target": self.target or "mean",
            "excess": self.excess,
            "design effect": self.design_effect,
            "epsilon a column": float(self.epsilon),
            "epsilon of the number of people with a value": float(self._present),
        }
        if self.shape.n is None:
            return facts
        prices = self.prices(self.shape.n)
        check = self.tail_check(self.shape.n)
        return facts | {
            "n*epsilon": float(self.shape.n * self.epsilon),
            "epsilon of the center": float(prices.location.center),
            "epsilon of the limits": float(prices.location.limits),
            "epsilon of the count outside the limits": float(prices.count),
            "epsilon of the clipped sums": float(prices.sums),
            "tail check": check.planned,
            "people outside the limits who may go undetected": math.ceil(check.hidden),
        }

    @property
    def public(self) -> tuple[str, ...]:
        return PUBLIC[self.relation]

    # --- the release ------------------------------------------------------------------------------
    def run(self, curator: Curator) -> Outcome:
        runs = [ColumnRun(self, curator, column) for column in range(self.shape.dimension)]
        return self.told(runs, [run.release(self._present, self.prices) for run in runs])

    def told(self, runs: Sequence[ColumnRun], results: Sequence[ColumnRelease]) -> Outcome:
        """The outcome of the columns together."""
        people, one = runs[0].curator.people, len(results) == 1
        statuses, advice = zip(*(item.intervals.standing() for item in results), strict=True)
        notes = [item for result in results for item in result.assumptions]
        paths = {people.columns[item.column]: item.path for item in runs}
        return Outcome(
            np.array([item.estimate for item in results]),
            results[0].intervals if one else BoxIntervals([item.intervals for item in results]),
            n=self.shape.n if self.shape.n is not None else runs[0].people,
            status=release_status(statuses),
            statuses=statuses,
            advice=" ".join(dict.fromkeys(filter(None, advice))),
            assumptions=tuple(dict.fromkeys(notes)),
            shares=_added([item.shares for item in runs]),
            diagnostics=runs[0].path if one else paths,
            estimand=estimand_of(people.max_records),
            follows_from_answers=True,
        )


@dataclass
class ColumnRun:
    """One column on its way through the steps. people: those with a value, as far as known."""

    plan: DefaultMeanPlan
    curator: Curator
    column: int
    people: int = 0
    shares: dict[str, float] = field(default_factory=dict)
    path: dict[str, Any] = field(default_factory=dict)

    def release(self, present: Fraction, prices: Callable[[int], Prices]) -> ColumnRelease:
        """All steps. present: price of the number of people with a value; prices: of the others,
        for so many people."""
        plan = self.plan
        self.shares["people with a value"] = self._part(present)
        missing = self._ask_present(present_step(present, plan.relation))
        found = prices(self.people)
        sure = min(float(plan.epsilon), CERTAINTY * float(found.location.center))
        if self.people * sure < FEWEST:
            self.shares["unspent"] = 1 - self.shares["people with a value"]
            return self.nothing(FAILED, FEW_VALUES)
        chosen = found.location
        self.shares["center and limits"] = self._part(chosen.center, 4) + self._part(
            chosen.limits, 4
        )
        place = find_place(self.curator, self.column, chosen, plan.relation)
        return self.located(place, missing, found.count, found.sums)

    def located(
        self, place: Place, missing: Sequence[tuple[float, float]], price: Fraction, last: Fraction
    ) -> ColumnRelease:
        """The steps after the location, at these prices. missing: noisy numbers of people without a
        value and their noise scales (replace-one)."""
        self.shares["count outside limits"] = self._part(price)
        count = count_step(price, self.plan.relation)
        (found,) = self.curator.ask(count, as_counts(self._outside(place)))
        tail = float(found), float(count.scale)
        self.path |= {
            "center": place.center,
            "limits": [place.lower, place.upper],
            "people outside the limits": tail[0],
            "noise scale of that number": tail[1],
        }
        # most people outside: their values are beyond all candidates of the center
        if place.holds_end or tail[0] - SEEN * tail[1] > self.people / 2:
            self.shares["unspent"] = self._part(last)
            return self.nothing(FAILED, RANGE)
        self.shares[SUMS] = self._part(last)
        if place.is_point:
            return self._one_value(place, tail, last)
        if self.curator.people.max_records is not None:
            return self._by_records(place, tail, last)
        return self._by_people(place, tail, missing, last)

    def _part(self, price: Fraction, less: int = 1) -> float:
        """Of the column's budget. less: how many times less a choice costs in zCDP."""
        whole = self.plan.epsilon
        # rounded once
        part = price.numerator * whole.denominator / (price.denominator * whole.numerator)
        return part**2 / less if self.plan.budget.is_zcdp else part

    def _ask_present(self, step: NoisyCounts) -> list[tuple[float, float]]:
        """Ask for the number of people with a value. Returned: what it says of the others."""
        people, n = self.curator.people, self.plan.shape.n
        (found,) = self.curator.ask(step, as_counts(people.column_counts(self.column).present))
        scale = float(step.scale)
        self.path |= {"people with a value": float(found), "noise scale of their number": scale}
        if n is None:
            self.people = max(int(found), 1)
            return []
        gone = MissingCount(n - float(found), scale).believed
        self.people = max(min(n, math.ceil(n - gone)), 1)
        return [(n - float(found), scale)]

    def _outside(self, place: Place) -> int:
        """People with a value outside the limits; in a pass with the sums, where there are some."""
        if place.is_point:
            return sum(self.curator.people.count_outside(self.column, place.lower, place.upper))
        sums = self._sums(ClipInterval(place.lower, place.upper))
        return sums.below + sums.above

    def nothing(self, status: str, advice: str, estimate: float = math.nan) -> ColumnRelease:
        """A release without an interval."""
        target = CLIPPED if self.plan.target == "clipped" else MEAN
        made = ColumnIntervals(None, default=target, status=status, advice=advice)
        return ColumnRelease(estimate, made)

    def _one_value(self, place: Place, tail: tuple[float, float], price: Fraction) -> ColumnRelease:
        """The limits coincide: what is left counts the people with a value once more."""
        step = NoisyCounts.at("people with a value again", price, self.plan.relation)
        present = self.curator.people.column_counts(self.column).present
        (found,) = self.curator.ask(step, as_counts(present))
        self.path["people with a value"] = float(found)
        if float(found) * float(self.plan.epsilon) < FEWEST:
            return self.nothing(FAILED, TOO_FEW)
        others = max(round(tail[0]), 0)
        advice = (
            f"About {count_noun(others, 'person')} with a value other than {place.center:.6g} "
            f"(noise scale {tail[1]:.2g}). Give bounds that hold all values to include them."
        )
        return self.nothing(POINT_MASS, advice, place.center)

    def _by_people(
        self,
        place: Place,
        tail: tuple[float, float],
        missing: Sequence[tuple[float, float]],
        price: Fraction,
    ) -> ColumnRelease:
        plan, people = self.plan, self.curator.people
        box = ClipInterval(place.lower, place.upper)
        replaced = plan.relation == REPLACE_ONE
        absent = Fraction(_step_of(place.center, box), box.steps) if replaced else None
        last = ClippedSums(SUMS, plan.relation, epsilon=price, absent=absent)
        sums = self._sums(box)
        nulls = people.size() - sums.present if replaced else 0
        over = last.over([box], billed=(last.loss_at(box.steps),))
        (found,) = self.curator.ask(over, over.exact([sums], nulls=[nulls]))
        spot = None if absent is None else float(absent)
        divided = RatioWithMissing.of(found, plan.shape.n, missing, absent_at=spot)
        self.path["people with a value"] = divided.present
        if divided.sums.n * float(plan.epsilon) < FEWEST:
            return self.nothing(FAILED, TOO_FEW)
        return self._clipped_mean(place, box, divided, tail)

    def _sums(self, box: ClipInterval) -> IntervalSums:
        """Exact sums of this column in a box."""
        columns = range(len(self.curator.people.columns))
        boxes = [box if j == self.column else None for j in columns]
        sums = self.curator.people.interval_sums(boxes)[self.column]
        assert sums is not None
        return sums

    def _clipped_mean(
        self, place: Place, box: ClipInterval, divided: RatioWithMissing, tail: tuple[float, float]
    ) -> ColumnRelease:
        plan, (reach, nearer), sums = self.plan, self._reaches(place), divided.sums
        unit = reach / box.radius
        spot = (place.center - box.middle) / box.radius
        hidden = HiddenPeople(sums, spot, *tail, place.demanded, place.choice_scale)
        check = OutlierCheck(sums.n, *tail, surprise=hidden.surprise)
        clipped = plan.target == "clipped"
        region = place.lower, place.upper
        intervals = ColumnIntervals(
            sums,
            ClipUnits(box.middle, box.radius, region),
            default=CLIPPED if clipped else MEAN,
            allowance=ClippingBiasBound(unit * tail[0], unit * tail[1], unit),
            check=check,
            reach=reach,
            nearer=nearer,
            design_effect=plan.design_effect,
        )
        estimate = min(max(box.middle + box.radius * sums.mean, region[0]), region[1])
        notes: tuple[str, ...] = ()
        if not divided.missing and plan.relation == REPLACE_ONE:
            notes = (missing_count_at(f"{place.center:.6g}, near the median"),)
        return ColumnRelease(estimate, intervals, notes)

    def _reaches(self, place: Place) -> tuple[float, float | None]:
        """By how much people beyond a limit exceed it on average at most, by assumption: beyond the
        farther one and, where that is less, beyond the nearer one."""
        arms = [self.plan.excess * arm for arm in (place.below, place.above)]
        return max(arms), min(arms) if 0 < min(arms) < max(arms) else None

    def _by_records(
        self, place: Place, tail: tuple[float, float], price: Fraction
    ) -> ColumnRelease:
        from privmean.estimators.means.clipped_mean import ClippedMean, RecordIntervals

        plan, people = self.plan, self.curator.people
        box = ClipInterval(place.lower, place.upper)
        last = ClippedSums(SUMS, plan.relation, epsilon=price, cross=True)
        over = last.over([box], max_records=people.max_records, billed=(last.loss_at(box.steps),))
        (found,) = self.curator.ask(over, over.exact([self._sums(box)]))
        ratio = ClippedMean(box, found, None, by_records=True)
        self.path["sum of weights"] = found.weight
        if found.weight <= SEEN * found.weight_noise:
            return self.nothing(FAILED, "There are too few records. Add people or raise epsilon.")
        check = OutlierCheck(float(self.people), *tail)
        clipped = plan.target == "clipped"
        reach, nearer = self._reaches(place)
        intervals = RecordIntervals(
            ratio,
            reach=reach,
            nearer=nearer,
            check=check,
            design_effect=plan.design_effect,
            clipped=clipped,
        )
        return ColumnRelease(ratio.estimate, intervals)


def epsilon_of_one(budget: Budget, columns: int) -> Fraction:
    """What each of so many columns may cost: under a budget of rho, the epsilon of its part."""
    if budget.is_zcdp and columns > 1:
        return root_epsilon(budget.pure_epsilon() ** 2 / columns)
    return budget.pure_epsilon() / columns


@lru_cache(maxsize=1024)
def present_step(price: Fraction, relation: Relation) -> NoisyCounts:
    return NoisyCounts.at("people with a value", price, relation)


@lru_cache(maxsize=1024)
def count_step(price: Fraction, relation: Relation) -> NoisyCounts:
    return NoisyCounts.at("count outside limits", price, relation)


def _step_of(value: float, box: ClipInterval) -> int:
    """The lattice step of a value, at most `FARTHEST` of the radius from the middle."""
    most = box.steps * FARTHEST.numerator // FARTHEST.denominator
    return min(max(math.floor((value - box.middle) / box.step + 0.5), -most), most)


def _added(shares: Sequence[dict[str, float]]) -> dict[str, float]:
    """Shares of the whole budget by purpose, over columns that have an equal part each."""
    total: dict[str, float] = {}
    for column in shares:
        for name, value in column.items():
            total[name] = total.get(name, 0.0) + value / len(shares)
    return total
