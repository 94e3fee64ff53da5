"""The plan of the default mean: prices of all stages, predictions, and the release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from privmean import validate
from privmean.central.default_bounds import AGAIN, BACK
from privmean.central.default_column import ColumnRelease, Settings, release_column
from privmean.central.find_region import FEW, LEAN, RoundSchedule
from privmean.central.log_histogram import CELLS
from privmean.central.pure_budget import PureBudgetSpender
from privmean.data.public_shape import PublicShape
from privmean.inference.clipped_intervals import MEAN, BoxIntervals
from privmean.inference.outlier_check import OutlierCheck
from privmean.inference.status import release_status
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import NoisyCounts, as_counts
from privmean.pipeline import PlanBase
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.privacy_events import Laplace, PrivacyEvent
from privmean.release.outcome import Outcome, by_cause, estimand_of

COUNT_SHARE = 0.02  # of epsilon for the number of people, under add-remove
TYPICAL_WIDTH = 7.0  # width of the limits in standard deviations that a prediction assumes
LEFT_OUT = 60.0  # people*epsilon of a group apart from the rest that the limits may leave out
MOST_SPLIT = 400.0  # people*epsilon of each column that epsilon is split over

PUBLIC = {
    REPLACE_ONE: ("n", "roster of people", "column names"),
    ADD_REMOVE: ("column names",),
}


@dataclass(frozen=True, kw_only=True)
class DefaultPlan(PlanBase):
    """What is asked of a default mean, of one column or of many; see `DefaultMean`."""

    budget: Budget
    shape: PublicShape
    target: str | None = None
    excess: float = 1.0
    design_effect: float = 1.0


@dataclass(frozen=True, kw_only=True)
class DefaultMeanPlan(DefaultPlan):
    """The stages and their prices. epsilon is that of one column."""

    epsilon: Fraction
    estimator = "default mean"

    @property
    def rationale(self) -> str:
        words = {
            None: "estimate first, with a count of outliers for its interval",
            MEAN: "interval for the mean first, the value corrected at the clipping bounds",
            "clipped": "all on the clipped mean, nothing on the tails",
        }[self.target]
        return (
            f"no bounds are needed: limits are found privately, then one Laplace release ({words})"
        )

    def schedule(self, persons: int, doubt: float = 0.0) -> RoundSchedule:
        """The prices for a number of persons: n, or a paid noisy count (of noise scale `doubt`)."""
        counts_people = self.target is None
        return RoundSchedule.of(persons, self._purse(), doubt, parts=True, counted=counts_people)

    def _purse(self) -> Fraction:
        """Epsilon of one column after the count under add-remove."""
        if self.relation == REPLACE_ONE:
            return self.epsilon
        return self.epsilon - PureBudgetSpender(self.epsilon, self.relation).share(COUNT_SHARE)

    def _column_settings(self, persons: int) -> Settings:
        lean = float(persons * self.epsilon) < LEAN
        return Settings.of(self.target, self.excess, self.design_effect, self.relation, lean)

    @property
    def left_out(self) -> int:
        """About how many people apart from the rest the limits may leave out."""
        return math.ceil(LEFT_OUT / self.epsilon)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """An accounting of one path; every path composes to at most epsilon, exactly."""
        return self._bill

    @cached_property
    def _bill(self) -> tuple[PrivacyEvent, ...]:
        purse = PureBudgetSpender(self._purse(), self.relation)
        moved = 2 if self.relation == REPLACE_ONE else 1
        steps: list[NoisyCounts] = []
        if self.shape.n is not None:
            schedule = self.schedule(self.shape.n)
            settings = self._column_settings(self.shape.n)
            for _ in range(schedule.rounds):
                steps.append(purse.counts("coarse location", schedule.price, moved, spread=moved))
            tails = purse.share(schedule.share)
            steps.append(purse.counts("tail histogram", tails, moved, spread=moved))
            if settings.check:
                steps.append(purse.counts("count outside bounds", purse.share(settings.check), 1))
        else:
            steps.append(purse.counts("location", purse.share(0.5), moved, spread=moved))
        bill = [step.loss for step in steps]
        last = 1 / purse.left
        bill.append(Laplace("clipped sums", Fraction(1), last, joint=True, neighbors=self.relation))
        if self.relation == ADD_REMOVE:
            price = self.epsilon - self._purse()
            bill.append(Laplace("count of people", Fraction(1), 1 / price, neighbors=self.relation))
        return tuple(bill) * self.shape.dimension

    def final_epsilon(self, persons: int) -> float:
        """What the last stage gets on a usual path (at most two rounds, one search, one count)."""
        schedule, settings = self.schedule(persons), self._column_settings(persons)
        left = float(self._purse()) - min(2, schedule.rounds) * float(schedule.price)
        return left * (1 - schedule.share) * (1 - settings.check)

    def tail_check(self, persons: int) -> OutlierCheck | None:
        """What the counts of people beyond the limits can see on a usual path, if nobody is
        there: its `planned` status and the largest group that may be `hidden`."""
        settings = self._column_settings(persons)
        if not settings.check:
            return None
        final = self.final_epsilon(persons)
        beyond = (1 - settings.check) / settings.check / final
        far = (2 if self.relation == REPLACE_ONE else 1) / final
        return OutlierCheck(float(persons), 0.0, beyond, 0.0, far)

    def predicted(self, sd: float, persons: int | None = None) -> float:
        """Predicted root mean square error around the population mean, for a guess of the standard
        deviation of people's values (limits about 7 deviations apart; heavier tails cost more)."""
        return self.predict(sd, persons)["rmse"]

    def predict(self, guess_sd: float, persons: int | None = None) -> dict[str, float]:
        """Predicted error by cause, for the plan's number of people or another one.

        Under add-remove the number is `n_guess`; without it a prediction is refused.
        """
        sd = validate.positive("guess_sd", guess_sd)
        count = persons if persons is not None else self.shape.counted()
        bound = 2.0
        if self.target == MEAN:
            bound += 0.5 * self.excess * (1 + 1 / 0.7)
        scale = TYPICAL_WIDTH * sd / 2 * bound / (count * self.final_epsilon(count))
        sampling = math.sqrt(self.design_effect / count) * sd
        noise = math.sqrt(2) * scale
        return by_cause(sampling, noise)

    def describe(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "target": self.target or "mean, estimate first",
            "excess": self.excess,
            "design effect": self.design_effect,
            "epsilon a column": float(self.epsilon),
            "histogram cells": CELLS,
            "people apart who may be left out": self.left_out,
        }
        if self.shape.n is not None:
            schedule = self.schedule(self.shape.n)
            facts["n*epsilon"] = float(self.shape.n * self.epsilon)
            facts["rounds at most"] = schedule.rounds
            facts["epsilon a round"] = float(schedule.price)
            facts["share of the tail histogram"] = schedule.share
            settings = self._column_settings(self.shape.n)
            facts["share of the count beyond"] = settings.check
            if schedule.choice:
                after = "the first round" if schedule.at_once else "a new start"
                facts[f"epsilon a choice after {after}"] = float(schedule.choice)
            if settings.check and not settings.lean:
                facts["share of a second count beyond, if a tail falls off slowly"] = AGAIN
                facts["share of each of two counts, if a round left a group behind"] = BACK
            check = self.tail_check(self.shape.n)
            if check is not None:
                facts["tail check"] = check.planned
                facts["people far beyond who may go undetected"] = math.ceil(check.hidden)
        else:
            facts["share of the count of people"] = COUNT_SHARE
        return facts

    def column(
        self, curator: Curator, column: int, spender: PureBudgetSpender, persons: int, doubt: float
    ) -> ColumnRelease:
        """The release of one column; persons: n, or a paid noisy number (of scale `doubt`)."""
        schedule, settings = self.schedule(persons, doubt), self._column_settings(persons)
        return release_column(curator, column, spender, schedule, settings, self.relation)

    def notes(self) -> list[str]:
        """What holds for every release, in words."""
        return [
            f"no group of fewer than about {self.left_out} people lies apart from the rest (it may "
            "be left out)"
        ]

    def run(self, curator: Curator) -> Outcome:
        people, results = curator.people, []
        count: int | None = self.shape.n
        for column in range(self.shape.dimension):
            spender, doubt = PureBudgetSpender(self.epsilon, self.relation), 0.0
            if self.relation == ADD_REMOVE:
                step = spender.counts("count of people", self.epsilon - self._purse(), 1)
                (found,) = curator.ask(step, as_counts(people.size()))
                count, doubt = max(int(found), 1), float(step.scale)
            assert count is not None
            results.append(self.column(curator, column, spender, count, doubt))
        statuses = tuple(item.status for item in results)
        notes = [item for result in results for item in result.assumptions]
        notes += self.notes()
        if self.shape.n is not None and float(self.shape.n * self.epsilon) < FEW:
            notes.append("fewer than 400 people*epsilon: expect a wide interval or a failure")
        one_column = self.shape.dimension == 1
        return Outcome(
            np.array([item.estimate for item in results]),
            results[0].intervals
            if one_column
            else BoxIntervals([item.intervals for item in results]),
            n=count,
            status=release_status(statuses),
            statuses=statuses,
            advice=" ".join(dict.fromkeys(item.advice for item in results if item.advice)),
            assumptions=tuple(dict.fromkeys(notes)),
            shares=_added([item.shares for item in results]),
            diagnostics=results[0].diagnostics
            if one_column
            else {people.columns[j]: item.diagnostics for j, item in enumerate(results)},
            estimand=estimand_of(people.max_records),
        )

    @property
    def public(self) -> tuple[str, ...]:
        return PUBLIC[self.relation]


def _added(shares: Sequence[dict[str, float]]) -> dict[str, float]:
    """Shares of the whole budget by purpose, over columns that have an equal part each."""
    total: dict[str, float] = {}
    for column in shares:
        for name, value in column.items():
            total[name] = total.get(name, 0.0) + value / len(shares)
    return total
