"""What the published forms share: what they ask of a budget, and a plan with nothing but its price.

A published algorithm takes people and a budget, and gives an estimate with its guarantee. It
predicts no error and has no interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privmean.array_types import Floats
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.inference.interval import NoInterval
from privmean.inference.status import FAILED, OK, release_status
from privmean.pipeline import PlanBase
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.compose import within
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.result_numbers import PERSONS, Outcome

MARK = "as published, for study"
NOT_FOUND = "The private search found nothing. A second try is a second charge."


def require_relation(budget: Budget, relation: str = REPLACE_ONE) -> None:
    """Refuse neighbors other than those of the paper."""
    if budget.neighbors != relation:
        remedy = f"use neighbors={relation!r}"
        problem = "is not the relation of the paper"
        raise ArgumentError("neighbors", budget.neighbors, problem, remedy)


def require_delta(budget: Budget, relation: str = REPLACE_ONE) -> float:
    """The epsilon of a budget that has a delta beside it, for neighbors of the paper."""
    require_relation(budget, relation)
    if budget.epsilon is None or budget.delta == 0:
        raise InfeasibleError(
            f"the published algorithms require epsilon and delta, not {budget.describe()}",
            "give epsilon and a delta such as 1e-6",
        )
    return budget.epsilon


def require_theorem(losses: Sequence[PrivacyEvent], budget: Budget, remedy: str) -> None:
    """Refuse what the published composition theorem does not hold for."""
    if not within(losses, budget):
        raise ArgumentError(
            "epsilon", budget.epsilon, "must satisfy the published composition theorem", remedy
        )


def one_column(shape: PublicShape) -> int:
    """The number of people; refuses several columns."""
    if shape.dimension != 1:
        raise ArgumentError("dimension", shape.dimension, "must be 1", "give one column at a time")
    return shape.number(least=2)


@dataclass(frozen=True)
class PublishedPlan(PlanBase):
    """A published algorithm with a budget for n people. settings: its public arguments."""

    settings: Any
    budget: Budget
    n: int
    dimension: int
    public = ("n", "columns", "settings")
    rationale = MARK

    @property
    def estimator(self) -> str:
        """The algorithm, marked."""
        return f"{self.settings.name} ({MARK})"

    @property
    def shape(self) -> PublicShape:
        return PublicShape.of(self.dimension, self.n)

    def describe(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "columns": self.dimension,
            "budget": self.budget.to_dict(),
            "settings": repr(self.settings),
        }

    def predict(self, guess_sd: float) -> dict[str, float]:
        raise ArgumentError(
            "guess_sd", guess_sd, "is not used: published algorithms predict no error",
            "use pm.WinsorizedMean, pm.HeavyTailedMean or pm.Variance",
        )  # fmt: skip

    def outcome(
        self,
        estimate: Floats,
        statuses: Sequence[str] = (),
        estimand: str = PERSONS,
        **diagnostics: object,
    ) -> Outcome:
        """The estimate by itself. statuses: one a column, where some column failed."""
        status = release_status(statuses) if statuses else OK
        return Outcome(
            estimate,
            NoInterval(self.dimension, status=status),
            n=self.n,
            status=status,
            statuses=tuple(statuses),
            advice=NOT_FOUND if FAILED in statuses else "",
            estimand=estimand,
            diagnostics=diagnostics,
            follows_from_answers=True,
        )
