"""Fitting a strategy's free numbers to a participation pattern and a goal. No data are read."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privmean.errors import InfeasibleError, PrivmeanError
from privmean.streams import power_series as series
from privmean.streams.buffered_toeplitz import fit
from privmean.streams.participation_sensitivity import Participation
from privmean.streams.power_series import Floats
from privmean.streams.strategies import (
    Banded,
    BandedInverse,
    DampedToeplitz,
    Decaying,
    LowerToeplitz,
    Toeplitz,
)
from privmean.streams.strategy_error import RMSE, ErrorGoal


def best_toeplitz(
    participation: Participation, steps: int, goal: ErrorGoal = RMSE, *, taps: int | None = None
) -> Toeplitz:
    """The Toeplitz strategy with at most `taps` entries (default: the separation) of least error.

    Minimizes log ||c||^2 + log sum_s w_s g_s^2 over c_1 .. c_{p-1} by L-BFGS, with g = cumsum(1/c).
    With p <= b the sensitivity is sqrt(k) ||c|| for entries of any sign, so nothing constrains
    them. Several starts, because one can stall; a diverging inverse counts as infinite error.
    """
    from scipy.optimize import minimize

    n = steps
    once = participation.within(steps) == 1
    p = min(taps or n, n) if once else min(taps or n, participation.separation, n)
    w = goal.tail_weights(n)

    def objective(free: Floats) -> tuple[float, Floats]:
        c = np.concatenate([np.ones(1), free])
        with np.errstate(all="ignore"):
            r = series.invert(c, n)
            g = np.cumsum(r)
            error = float(np.dot(w, g * g))
            if not math.isfinite(error) or error <= 0:
                return 1e6, np.zeros_like(free)
            h = np.cumsum((2 * w * g)[::-1])[::-1]
            slope = -series.correlate(h, series.multiply(r, r, n))[1:p]
        norm = float(np.dot(c, c))
        return math.log(norm) + math.log(error), 2 * free / norm + slope / error

    best: tuple[float, Floats] | None = None
    i = np.arange(1, p, dtype=np.float64)
    if p == 1:
        return Toeplitz((1.0,), label=f"optimised Toeplitz (p={p})")
    starts = [0.6 * (i + 1) ** -0.7, 0.7 / (i + 1), series.prefix_root(p)[1:]]
    starts += [fit(participation, n, goal, buffers=m).column(p)[1:] for m in (2, 4)]
    with np.errstate(all="ignore"):
        ranked = sorted(starts, key=lambda start: objective(start)[0])
    for start in ranked[: 2 if n <= 50_000 else 1]:
        found = minimize(
            objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 300, "maxcor": 20}
        )
        if best is None or found.fun < best[0]:
            best = (float(found.fun), found.x)
    assert best is not None
    return Toeplitz((1.0, *(float(item) for item in best[1])), label=f"optimised Toeplitz (p={p})")


def best_decaying(participation: Participation, steps: int, goal: ErrorGoal = RMSE) -> Decaying:
    """nu-DP-FTRL with the decay of least error: a grid, then a bounded scalar search."""
    return Decaying(
        _scalar(
            lambda nu: Decaying(nu).rmse(participation, steps, goal), np.geomspace(1e-5, 0.9, 60)
        )
    )


def best_damped(participation: Participation, steps: int, goal: ErrorGoal = RMSE) -> LowerToeplitz:
    """The damped Toeplitz of least error, banded to the separation."""
    p = steps if participation.within(steps) == 1 else min(participation.separation, steps)
    a = _scalar(
        lambda a: Banded(DampedToeplitz(a), p).rmse(participation, steps, goal),
        np.linspace(0.3, 1.0, 15),
    )
    return Banded(DampedToeplitz(a), p)


def best_bandwidth(
    make: Callable[[int], LowerToeplitz],
    participation: Participation,
    steps: int,
    goal: ErrorGoal = RMSE,
) -> LowerToeplitz:
    """`make(p)` with the bandwidth p <= b of least error: a geometric grid, then closer and closer.

    Bandwidths whose sensitivity is unknown count as infinitely bad.
    """
    top = min(participation.separation, steps)
    seen: dict[int, float] = {}

    def error(p: int) -> float:
        if p not in seen:
            try:
                seen[p] = make(p).rmse(participation, steps, goal)
            except PrivmeanError:
                seen[p] = math.inf
        return seen[p]

    grid = sorted({int(item) for item in np.rint(np.geomspace(1, top, 24))})
    while True:
        best = min(grid, key=error)
        if math.isinf(error(best)):
            raise InfeasibleError(
                "no bandwidth of this strategy has a known sensitivity", "use a decreasing strategy"
            )
        at = grid.index(best)
        low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
        if high - low <= 2:
            return make(best)
        grid = sorted({int(item) for item in np.rint(np.linspace(low, high, 9))} | {best})


def best_banded(
    base: LowerToeplitz, participation: Participation, steps: int, goal: ErrorGoal = RMSE
) -> LowerToeplitz:
    """`Banded(base, p)` with the best p up to the separation."""
    return best_bandwidth(lambda p: Banded(base, p), participation, steps, goal)


def best_banded_inverse(
    base: LowerToeplitz, participation: Participation, steps: int, goal: ErrorGoal = RMSE
) -> LowerToeplitz:
    """`BandedInverse(base, p)` with the best p up to the separation."""
    return best_bandwidth(lambda p: BandedInverse(base, p), participation, steps, goal)


def _scalar(error: Callable[[float], float], grid: Floats) -> float:
    from scipy.optimize import minimize_scalar

    values = [error(float(item)) for item in grid]
    at = int(np.argmin(values))
    low, high = float(grid[max(at - 1, 0)]), float(grid[min(at + 1, len(grid) - 1)])
    found = minimize_scalar(error, bounds=(low, high), method="bounded")
    return float(found.x) if found.fun < values[at] else float(grid[at])
