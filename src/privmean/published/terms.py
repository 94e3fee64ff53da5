"""What the published forms ask of a budget."""

from __future__ import annotations

from collections.abc import Sequence

from privmean.errors import ArgumentError, InfeasibleError
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.calibrate import within
from privmean.privacy.privacy_events import PrivacyEvent


def require_delta(budget: Budget) -> float:
    """The epsilon of a budget that has a delta beside it, for neighbors of the papers."""
    if budget.neighbors != REPLACE_ONE:
        raise ArgumentError(
            "neighbors",
            budget.neighbors,
            "is not the relation of the paper",
            "use neighbors='replace-one'",
        )
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
