"""From shares of a budget to noise scales: one scalar root."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from privmean.privacy.budget import Budget
from privmean.privacy.compose import DIGITS, pure_epsilon, total_delta, total_rho
from privmean.privacy.gdp import gaussian_mu
from privmean.privacy.loss_distribution import grid_helps
from privmean.privacy.privacy_events import PrivacyEvent

GRID_TOLERANCE = 1e-6  # finer than the grid itself
CURVES = "privacy loss distributions"
CLOSE = 2e-10  # of two strengths that the answers of all others follow from
MOST_SECANTS, USUAL_SLOPE = 10, 20.0  # of log delta by log strength, before it is known


def within(
    losses: Sequence[PrivacyEvent], budget: Budget, *, grid: bool = True, again: bool = True
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
    losses: Sequence[PrivacyEvent],
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
    bill: Callable[[float], Sequence[PrivacyEvent]],
    budget: Budget,
    *,
    largest: float = 1e9,
    smallest: float = 1e-9,
    tolerance: float = 1e-9,
    grid: bool = True,
) -> float:
    """The largest strength t (relative precision `tolerance`) whose accounting(t) is within the
    budget.

    `bill` maps a strength (larger means less noise, more loss) to the losses of all mechanisms;
    its loss must grow with t. Returns 0 when even `smallest` is over the budget. The closed forms
    are searched first; a grid of privacy losses then refines the answer (to 1e-6 at best).
    """

    def fits(strength: float, *, with_grid: bool) -> bool:
        return within(bill(strength), budget, grid=with_grid, again=False)

    low = 0.0
    if fits(smallest, with_grid=False):
        known = _bracketed(lambda t: fits(t, with_grid=False), bill, budget, smallest, largest)
        low = _root(known, smallest, largest, 4.0, tolerance)
    if not grid or low >= largest or budget.delta <= 0:
        return low
    start = low or smallest
    if not grid_helps(bill(start)) or not fits(start, with_grid=True):
        return low
    return _root(
        lambda t: fits(t, with_grid=True), start, largest, 1.1, max(tolerance, GRID_TOLERANCE)
    )


def _bracketed(
    fits: Callable[[float], bool],
    bill: Callable[[float], Sequence[PrivacyEvent]],
    budget: Budget,
    smallest: float,
    largest: float,
) -> Callable[[float], bool]:
    """`fits`, asked only where the answer does not follow from two strengths very close together:
    the one fits, the other does not. Without such a pair it is `fits` itself.

    A search that halves asks forty times; the pair is found from the loss in about six. What the
    search finds is the same, to the last bit, as the loss grows with the strength.
    """
    guess = _crossing(bill, budget, smallest, largest)
    if guess is None:
        return fits
    inside, beyond = guess * (1 - CLOSE), guess * (1 + CLOSE)
    if not (fits(inside) and not fits(beyond)):
        return fits
    return lambda t: t <= inside or (t < beyond and fits(t))


def _crossing(
    bill: Callable[[float], Sequence[PrivacyEvent]], budget: Budget, smallest: float, largest: float
) -> float | None:
    """About where the loss passes the budget: the strength at which a Gaussian of the same rho
    would, then secants of the logarithm of the loss. None where these lead nowhere."""
    if budget.rho is None and budget.delta <= 0:
        return None

    def excess(t: float) -> float:
        losses = bill(t)
        if budget.rho is not None:
            return _log(total_rho(losses) / budget.rho)
        assert budget.epsilon is not None
        return _log(total_delta(losses, budget.epsilon, grid=False) / budget.delta)

    rho = total_rho(bill(1.0))
    if not 0 < rho < math.inf:
        return None
    wanted = budget.rho or gaussian_mu(budget.epsilon or 0.0, budget.delta) ** 2 / 2
    t, before, over = math.sqrt(wanted / rho), 0.0, 0.0
    for turn in range(MOST_SECANTS):
        if not smallest < t < largest:
            return None
        here = excess(t)
        if not math.isfinite(here):
            return None
        slope = (here - over) / math.log(t / before) if turn and t != before else USUAL_SLOPE
        if slope <= 0:
            return None
        before, over = t, here
        t *= math.exp(min(max(-here / slope, -1.0), 1.0))
        if abs(t / before - 1) < CLOSE / 4:
            return t
    return None


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


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
