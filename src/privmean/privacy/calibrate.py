"""From shares of a budget to noise scales: one scalar root."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from privmean.privacy.budget import Budget
from privmean.privacy.compose import pure_epsilon, total_delta, total_rho
from privmean.privacy.loss import Loss


def within(losses: Sequence[Loss], budget: Budget, *, grid: bool = True) -> bool:
    """Whether the composed loss is at most the budget."""
    if budget.rho is not None:
        return total_rho(losses) <= budget.rho
    assert budget.epsilon is not None
    pure = pure_epsilon(losses)
    if pure is not None and pure <= budget.pure_epsilon():
        return True
    if budget.delta <= 0:
        return False
    return total_delta(losses, budget.epsilon, grid=grid) <= budget.delta * (1 + 1e-12)


def calibrate(
    bill: Callable[[float], Sequence[Loss]],
    budget: Budget,
    *,
    largest: float = 1e9,
    smallest: float = 1e-9,
    tolerance: float = 1e-9,
    grid: bool = True,
) -> float:
    """The largest strength t (relative precision `tolerance`) whose bill(t) is within the budget.

    `bill` maps a strength (larger means less noise, more loss) to the losses of all mechanisms;
    its loss must grow with t. Returns 0 when even `smallest` is over the budget.
    """
    if not within(bill(smallest), budget, grid=grid):
        return 0.0
    low, high = smallest, smallest
    while high < largest:
        high = min(high * 4, largest)
        if not within(bill(high), budget, grid=grid):
            break
        low = high
    else:
        return largest
    while high / low > 1 + tolerance:
        middle = (low * high) ** 0.5
        if within(bill(middle), budget, grid=grid):
            low = middle
        else:
            high = middle
    return low
