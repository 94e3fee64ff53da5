"""From shares of a budget to noise scales: one scalar root."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from privmean.privacy.budget import Budget
from privmean.privacy.compose import DIGITS, pure_epsilon, total_delta, total_rho
from privmean.privacy.distribution import grid_helps
from privmean.privacy.loss import Loss

GRID_TOLERANCE = 1e-6  # finer than the grid itself
CURVES = "privacy loss distributions"


def within(
    losses: Sequence[Loss], budget: Budget, *, grid: bool = True, again: bool = True
) -> bool:
    """Whether the composed loss is at most the budget.

    Pure epsilons are compared exactly, deltas and rho to twelve digits. grid: whether privacy loss
    distributions are tried; again: those of verification too.
    """
    if budget.rho is not None:
        return total_rho(losses) <= budget.rho * (1 + DIGITS)
    assert budget.epsilon is not None
    pure = pure_epsilon(losses)
    if pure is not None and pure <= budget.largest_pure_epsilon():
        return True
    if budget.delta <= 0:
        return False
    return delta_within(losses, budget.epsilon, budget.delta, grid=grid, again=again) is not None


def delta_within(
    losses: Sequence[Loss],
    epsilon: float,
    delta: float,
    *,
    grid: bool = True,
    again: bool = True,
) -> tuple[float, str] | None:
    """A bound on the composed delta that is at most `delta`, and its rule; None if there is none.

    The bounds are tried from the fastest to the slowest.
    """
    rules: list[tuple[str, dict[str, bool]]] = [
        ("basic composition", {"zcdp": False, "grid": False}),
        ("sums of rho", {"grid": False}),
    ]
    if grid and again:
        rules.append((CURVES, {"again": True}))
    if grid:
        rules.append((CURVES, {}))
    for rule, means in rules:
        found = total_delta(losses, epsilon, **means)
        if found <= delta * (1 + DIGITS):
            return found, rule
    return None


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
    its loss must grow with t. Returns 0 when even `smallest` is over the budget. The closed forms
    are searched first; a grid of privacy losses then refines the answer (to 1e-6 at best).
    """

    def fits(strength: float, *, with_grid: bool) -> bool:
        return within(bill(strength), budget, grid=with_grid, again=False)

    low = 0.0
    if fits(smallest, with_grid=False):
        low = _root(lambda t: fits(t, with_grid=False), smallest, largest, 4.0, tolerance)
    if not grid or low >= largest or budget.delta <= 0:
        return low
    start = low or smallest
    if not grid_helps(bill(start)) or not fits(start, with_grid=True):
        return low
    return _root(
        lambda t: fits(t, with_grid=True), start, largest, 1.1, max(tolerance, GRID_TOLERANCE)
    )


def _root(
    fits: Callable[[float], bool], low: float, largest: float, stride: float, tolerance: float
) -> float:
    """The largest t in [low, largest] that fits, to a relative tolerance; `low` must fit."""
    high = low
    while True:
        if high >= largest:
            return largest
        high = min(high * stride, largest)
        if not fits(high):
            break
        low, stride = high, stride * stride
    while high / low > 1 + tolerance:
        middle = (low * high) ** 0.5
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
