"""Fitting a strategy's bandwidth to a participation pattern and a goal. No data are read."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privmean.errors import InfeasibleError, PrivmeanError
from privmean.streams.participation_sensitivity import Participation
from privmean.streams.strategies import LowerToeplitz
from privmean.streams.strategy_error import RMSE, ErrorGoal


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
