"""The default mean of many columns: looks per octave, then rounds of rows shortened to a ball.

For d > 3 (or too few people to split epsilon over the columns) all columns are looked at together:
noisy counts per octave tell where each lies (`vector_looks`), rounds carry center and scale of each
into its values, and all that is left of the budget goes to one sum of rows, every column in units
of its own scale, clipped to a ball whose radius was chosen privately (`vector_rounds`).
docs/proofs/many-columns.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from privmean import validate
from privmean.data.person_table import PersonTable
from privmean.data.schema import PublicShape
from privmean.errors import InfeasibleError
from privmean.estimators.column_plan import require_roster
from privmean.estimators.find_region import ATOM_ONLY, BEYOND, FOUND
from privmean.estimators.locate import RANGE
from privmean.estimators.means.vector_rounds import (
    ALL_LOOKS,
    CELL_PRICE,
    FIRST,
    LAST_NORMS,
    MAIN,
    MOST_LOOKS,
    MOST_ROUNDS,
    TWO_LOOKS,
    GdpBudgetSpender,
    LastSums,
    OctaveSummary,
    Shares,
    bill,
    look,
    look_counts,
    run,
)
from privmean.inference.clipped_intervals import BoxIntervals, ColumnIntervals, OutlierCheck
from privmean.inference.interval import CLIPPED, MEAN, missing_count_at
from privmean.inference.laplace_normal import normal_half_length
from privmean.inference.mean_interval import ClippingBiasBound, ClipUnits, RatioWithMissing
from privmean.inference.status import FAILED, POINT_MASS, release_status
from privmean.mechanisms.clipped_sum import ColumnSums
from privmean.mechanisms.curator import Curator
from privmean.output import count_noun
from privmean.pipeline import PlanBase
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.compose import calibrate
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.result_numbers import Outcome, by_cause

# radius of the last rows that something is cut off, over that of the others, by target: what those
# rows leave of the privacy loss counts them by column
INNER = {None: 0.95, MEAN: 0.75, "clipped": 1.0}
TYPICAL_ROUNDS = 2  # before the last one, for planning
CHECKED_PART = 0.01  # a group of this part of the people must be seen for an interval of the mean
NARROW, WIDE = 1.0, 1.8  # expected radius in scales: sqrt(d) * (NARROW + WIDE/sqrt(d))


@dataclass(frozen=True, kw_only=True)
class DefaultVectorPlan(PlanBase):
    """What `DefaultMean` was asked, and mu of the whole; the parts of each step are public rules of
    n, d, mu and earlier outputs."""

    persons_only: ClassVar[bool] = True
    estimator = "default mean of many columns"
    public = ("n", "roster of people", "column names")

    budget: Budget
    shape: PublicShape
    mu: float
    target: str | None = None
    excess: float = 1.0
    design_effect: float = 1.0

    @property
    def inner(self) -> float:
        """Part of the radius of the last rows that something is cut off (1: nobody is counted)."""
        return INNER[self.target]

    @property
    def _persons(self) -> int:
        return self.shape.known()

    @property
    def rationale(self) -> str:
        words = (
            "no bounds are needed: noisy counts per octave show where every column lies, and rows "
            "in units of their columns' scales are summed in one ball"
        )
        if self.holds_mean:
            return words
        return f"{words}; with this budget the intervals are for the clipped mean"

    @property
    def holds_mean(self) -> bool:
        """Whether the count of clipped people is sharp enough for intervals for the mean."""
        return self.tail_check is not None and self.tail_check.stands

    @property
    def count_sd(self) -> float:
        """Deviation of the noise of a column's counts after two looks at all, in people."""
        return look_counts(self.shape.dimension, self.mu * math.sqrt(TWO_LOOKS)).sd

    @property
    def seen_from(self) -> float:
        """About how many people a column must show in one octave."""
        return (MAIN + CELL_PRICE) * self.count_sd

    @property
    def last_part(self) -> float:
        """Part of mu^2 of the last sums, if one search and the usual rounds are enough."""
        shares = Shares.of(self.shape.dimension, self._persons, self.mu)
        rounds = TYPICAL_ROUNDS * (shares.round + shares.norms)
        return 1 - FIRST - rounds - shares.norms - LAST_NORMS

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """The accounting of a longest path: every look and every round, all columns released."""
        return self._bill

    @cached_property
    def _bill(self) -> tuple[PrivacyEvent, ...]:
        return bill(self.shape.dimension, self.mu, self.inner < 1)

    @property
    def tail_check(self) -> OutlierCheck | None:
        """What the counts of those cut can see on a usual path, if nobody is: the `planned` status
        and the largest group that may be `hidden`."""
        if self.inner == 1:
            return None
        sd = 2**0.5 / (self.mu * math.sqrt(self.last_part * (1 - self.inner**2)))
        return OutlierCheck(self._persons, 0.0, sd, CHECKED_PART, self.target is None)

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted error by cause, if every column is seen and has this deviation."""
        sd = validate.positive("guess_sd", guess_sd)
        sampling = sd * math.sqrt(self.design_effect * self.shape.dimension / self._persons)
        radius = NARROW * math.sqrt(self.shape.dimension) + WIDE
        strength = self.mu * math.sqrt(self.last_part)
        noise = 2 * radius * sd * math.sqrt(self.shape.dimension) / (self._persons * strength)
        return by_cause(sampling, noise)

    def predicted_half(self) -> float:
        """Half-width of the 95 % interval of one column, over that without privacy, if every column
        is seen and nobody is clipped."""
        n, d, check = self._persons, self.shape.dimension, self.tail_check
        radius = NARROW * math.sqrt(d) + WIDE
        sampling = math.sqrt(self.design_effect / n)
        total = math.hypot(sampling, 2 * radius / (n * self.mu * math.sqrt(self.last_part)))
        reach = self._reach(radius) if self.holds_mean and check is not None else 0.0
        beyond = reach * check.beyond_scale / n if check is not None else 0.0
        half = total * normal_half_length(beyond / total, 0.05) + beyond / math.sqrt(2 * math.pi)
        return half / (normal_half_length(0.0, 0.05) * sampling)

    def _reach(self, radius: float) -> float:
        """What a row that is cut loses on average at most, by assumption: its excess beyond the
        radius, one radius, and what it is shortened by."""
        return (max(self.excess, 1.0) + 1 - self.inner) * radius

    def describe(self) -> dict[str, Any]:
        shares = Shares.of(self.shape.dimension, self._persons, self.mu)
        check = self.tail_check
        counted: dict[str, Any] = {}
        if check is not None:
            counted = {
                "excess": self.excess,
                "tail check": check.planned,
                "clipped people who may go undetected": math.ceil(check.hidden),
            }
        return {
            "target": self.target or "mean, estimate first",
            "mu": self.mu,
            "searches at most": MOST_LOOKS,
            "part of mu^2 of the first search": FIRST,
            "part of mu^2 of all searches, at most": ALL_LOOKS,
            "rounds at most": MOST_ROUNDS,
            "part of mu^2 a round": shares.round + shares.norms,
            "part of mu^2 of the last sums, typically": self.last_part,
            "noise of a count": self.count_sd,
            "people a column must show": self.seen_from,
            "radius of rows that are cut": self.inner,
            **counted,
        }

    def run(self, curator: Curator) -> Outcome:
        """Columns that show nothing are answered 0 (point mass) or NaN (not found)."""
        people, parts = curator.people, GdpBudgetSpender(self.mu)
        seen, looks = look(curator, self._persons, parts)
        outcomes = [item.outcome for item in seen]
        looked = 1 - parts.left
        estimate = np.array([0.0 if item == ATOM_ONLY else math.nan for item in outcomes])
        default = CLIPPED if self.target == "clipped" else MEAN
        makers = [
            ColumnIntervals(None, default=default, status=POINT_MASS if o == ATOM_ONLY else FAILED)
            for o in outcomes
        ]
        shown = [j for j, item in enumerate(outcomes) if item == FOUND]
        diagnostics: dict[str, Any] = {"outcomes": dict(zip(people.columns, outcomes, strict=True))}
        diagnostics["looks"] = looks
        last_part = 0.0
        if shown:
            last = run(curator, seen, self._persons, parts, self.inner)
            last_part = (last.mechanism.mu / self.mu) ** 2
            for k, j in enumerate(shown):
                makers[j], estimate[j] = self._column(last, k, seen[j])
            names = [people.columns[j] for j in shown]
            diagnostics |= {
                "rounds": last.rounds,
                "radius": last.mechanism.radius,
                "centres": dict(zip(names, (u.center for u in last.units), strict=True)),
                "scales": dict(zip(names, (u.scale for u in last.units), strict=True)),
            }
            if last.noisy.tails:
                diagnostics["clipped people"] = dict(zip(names, last.noisy.tails, strict=True))
                diagnostics["noise of that number"] = last.noisy.tails_sd
        intervals = BoxIntervals(makers)
        return Outcome(
            estimate,
            intervals,
            statuses=intervals.statuses,
            n=self._persons,
            status=release_status(intervals.statuses),
            advice=self._advice(people, outcomes, makers),
            assumptions=(
                "values are clipped by column, then rows in units of the columns' scales",
                missing_count_at("the center"),
            ),
            shares={
                "searches (of mu^2)": looked,
                "rounds (of mu^2)": 1 - parts.left - looked - last_part,
                "last sums (of mu^2)": last_part,
            },
            diagnostics=diagnostics,
            follows_from_answers=True,
        )

    def _column(self, last: LastSums, k: int, seen: OctaveSummary) -> tuple[ColumnIntervals, float]:
        """Intervals and estimate of column k of those that were found."""
        unit, noisy = last.units[k], last.noisy
        found = RatioWithMissing.of(_column(last, k, seen, self._persons), self._persons)
        scale = unit.scale * last.step * last.mechanism.tops[k]
        value = unit.center + scale * found.sums.mean
        # a row that is slightly cut loses a quarter of the reach at most
        reach = self._reach(last.mechanism.radius) * unit.scale
        allowance = check = None
        if noisy.tails:
            beyond, sd, part = noisy.tails[k], noisy.tails_sd, reach / scale
            allowance = ClippingBiasBound(part * beyond, part * sd, part)
            check = OutlierCheck(found.sums.n, beyond, sd, CHECKED_PART, self.target is None)
        made = ColumnIntervals(
            found.sums,
            ClipUnits(unit.center, scale, (unit.lower, unit.upper)),
            default=MEAN if noisy.tails else CLIPPED,
            allowance=allowance,
            check=check,
            reach=reach,
            rows=True,
            design_effect=self.design_effect,
        )
        return made, min(max(value, unit.lower), unit.upper)

    def _advice(
        self, people: PersonTable, outcomes: list[str], makers: Sequence[ColumnIntervals]
    ) -> str:
        hidden = [people.columns[j] for j, item in enumerate(outcomes) if item != FOUND]
        words = []
        if hidden:
            words.append(
                f"Columns with fewer than about {math.ceil(self.seen_from)} people away from zero "
                f"go undetected: {_some(hidden)} answered zero (point_mass) or not at all. Raise "
                "epsilon or add people."
            )
        if BEYOND in outcomes:
            words.append(RANGE)
        leaning: dict[str, list[str]] = {}
        for name, maker in zip(people.columns, makers, strict=True):
            if advice := maker.standing()[1]:
                leaning.setdefault(advice, []).append(name)
        words += [f"{_some(names)}: {advice}" for advice, names in leaning.items()]
        return " ".join(words)


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _column(last: LastSums, k: int, seen: OctaveSummary, persons: int) -> ColumnSums:
    """Column k of the last sums in units of its largest value."""
    top, noisy = last.mechanism.tops[k], last.noisy
    return ColumnSums(
        noisy.sums[k] / top,
        noisy.besides[k] / top**2,
        persons - seen.missing,
        (noisy.sd / top, noisy.besides_sds[k] / top**2, seen.missing_sd),
        gaussian=True,
        relation=REPLACE_ONE,
    )


def vector_plan(
    budget: Budget, shape: PublicShape, target: str | None, excess: float, design_effect: float
) -> DefaultVectorPlan:
    """The plan for many columns; needs delta > 0 or rho, and replace-one."""
    dimension, persons = shape.dimension, shape.n or 0
    otherwise = "release the columns one by one"
    require_roster(budget, "is not supported for this many columns", otherwise)
    tails = INNER[target] < 1
    mu = calibrate(lambda t: bill(dimension, t, tails), budget, grid=False)
    if mu <= 0:
        raise InfeasibleError(
            f"{budget.describe()} is too small for {count_noun(dimension, 'column')} without delta",
            "give delta > 0 (or rho), more people, or bounds",
        )
    plan = DefaultVectorPlan(
        budget=budget, shape=shape, target=target, excess=excess, design_effect=design_effect, mu=mu
    )
    if persons < plan.seen_from:
        raise InfeasibleError(
            f"n={persons} is too small to find the values of a column, which requires "
            f"n={math.ceil(plan.seen_from)}",
            "provide more people, a larger epsilon, or bounds",
        )
    return plan
