"""Every strategy with its error for one participation pattern. Pure arithmetic, no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from privmean.continual import optimize
from privmean.continual.buffered import Buffered, fit
from privmean.continual.error import FINAL, RMSE, Goal, row_norms
from privmean.continual.loaded_fit import fit_loaded
from privmean.continual.scaled import ScaledBuffered, fit_scaled
from privmean.continual.sensitivity import Participation
from privmean.continual.strategies import (
    Banded,
    BandedInverse,
    Identity,
    LowerToeplitz,
    MeanToeplitz,
    PrefixRoot,
    Strategy,
)
from privmean.errors import Infeasible, PrivmeanError

SEARCHED = 100_000  # up to this length bandwidths and free columns are searched
FITTED = 2_000_000


@dataclass(frozen=True)
class Candidate:
    """A strategy with its error per unit of noise: sensitivity times norms of B.

    rmse: over all steps (the quantity of published tables); rmse_goal: over the steps that matter;
    rmse_final: at the last step; at: (step, error) at the steps a goal names. state: numbers kept a
    coordinate while streaming. endless: whether it can run without a horizon.
    """

    strategy: Strategy
    sensitivity: float
    rmse: float
    rmse_goal: float
    rmse_final: float
    state: int
    endless: bool
    at: tuple[tuple[int, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        strategy = self.strategy
        result: dict[str, Any] = {
            "name": strategy.name,
            "rmse": self.rmse,
            "rmse_goal": self.rmse_goal,
            "rmse_final": self.rmse_final,
            "sensitivity": self.sensitivity,
            "state_per_coordinate": self.state,
            "endless": self.endless,
        }
        if self.at:
            result["at"] = [{"step": step, "rmse": error} for step, error in self.at]
        if isinstance(strategy, Buffered | ScaledBuffered):
            result["weights"] = list(strategy.weights)
            result["decays"] = list(strategy.decays)
        elif isinstance(strategy, LowerToeplitz):
            result["taps"] = strategy.taps
            result["inverse_taps"] = strategy.inverse_taps
        if isinstance(strategy, ScaledBuffered):
            result["exponent"] = strategy.exponent
            if strategy.loading is not None:
                result["loading"] = asdict(strategy.loading)
        return result


def evaluate(
    strategy: Strategy, participation: Participation, steps: int, goal: Goal = RMSE
) -> Candidate:
    """The errors of one strategy over `steps` steps."""
    variances = strategy.variances(steps)
    sens = strategy.sensitivity(participation, steps)
    times = [step for step in goal.times if step <= steps]
    return Candidate(
        strategy,
        sensitivity=sens,
        rmse=sens * RMSE.error(variances),
        rmse_goal=sens * goal.error(variances),
        rmse_final=sens * FINAL.error(variances),
        state=strategy.state_rows(steps),
        endless=strategy.endless(participation),
        at=tuple((step, sens * float(np.sqrt(variances[step - 1])) / step) for step in times),
    )


def candidates(
    participation: Participation,
    steps: int,
    goal: Goal = RMSE,
    *,
    watch: Callable[[str], None] | None = None,
) -> list[Candidate]:
    """All strategies for `steps` steps, best goal first.

    Up to 100 000 steps every family is searched; for longer streams the searches that take more
    than a moment are left out. watch: told the name of each strategy before it is evaluated.
    """
    found: list[Candidate] = []
    names: set[str] = set()
    for strategy in _strategies(participation, steps, goal):
        if strategy.name not in names:
            names.add(strategy.name)
            if watch is not None:
                watch(strategy.name)
            try:
                found.append(evaluate(strategy, participation, steps, goal))
            except PrivmeanError:  # no exact sensitivity is known: not offered
                continue
    return sorted(found, key=lambda item: item.rmse_goal)


def _strategies(participation: Participation, steps: int, goal: Goal) -> Iterator[Strategy]:
    once = participation.within(steps) == 1
    band = steps if once else min(participation.separation, steps)
    yield Identity()
    yield PrefixRoot()
    yield MeanToeplitz()
    for p in {band, max(1, int(math.log(max(band, 2))))}:
        yield Banded(PrefixRoot(), p)
        yield BandedInverse(PrefixRoot(), p)
        yield Banded(MeanToeplitz(), p)
        yield BandedInverse(MeanToeplitz(), p)
    for buffers in (1, 2, 3, 4):
        if steps <= FITTED:
            yield fit(participation, steps, goal, buffers=buffers)
        if buffers in (2, 3) and _early(goal, steps):
            yield fit_scaled(participation, steps, goal, buffers=buffers)
    if not once:
        yield fit_loaded(participation, steps, goal)
    if steps > SEARCHED:
        return
    yield optimize.best_decaying(participation, steps, goal)
    yield optimize.best_damped(participation, steps, goal)
    yield optimize.best_toeplitz(participation, steps, goal)
    for search in (optimize.best_banded, optimize.best_banded_inverse):
        for base in (PrefixRoot(), MeanToeplitz()):
            yield search(base, participation, steps, goal)


def _early(goal: Goal, steps: int) -> bool:
    """Whether the goal counts early steps, where scaling with time helps."""
    return not goal.times and 0 < goal.first <= min(400, steps / 40)


def choose(found: list[Candidate], *, endless: bool, memory: int) -> Candidate:
    """The least state among the candidates within 0.3 percent of the least error.

    endless: only strategies that need no horizon, and front-loaded ones only if they are no worse
    at the last step either: what comes after it is most of such a stream. memory: most numbers kept
    a coordinate.
    """
    usable = [item for item in found if item.state <= memory and (item.endless or not endless)]
    equal = [item for item in usable if not _loaded(item)]
    if endless and equal:
        last = min(equal, key=lambda item: item.rmse_goal).rmse_final
        usable = [item for item in usable if not _loaded(item) or item.rmse_final <= last]
    if not usable:
        raise Infeasible(
            f"no strategy fits into a memory of {memory} numbers a coordinate",
            "allow at least memory=8",
        )
    least = min(item.rmse_goal for item in usable)
    return min(
        (item for item in usable if item.rmse_goal <= 1.003 * least),
        key=lambda item: (item.state, item.rmse_goal),
    )


def _loaded(item: Candidate) -> bool:
    return isinstance(item.strategy, ScaledBuffered) and item.strategy.loading is not None


def curve(strategy: Strategy, participation: Participation, steps: int) -> list[tuple[int, float]]:
    """(step, error) at about ten steps a decade, for tables and plots."""
    norms = row_norms(strategy.variances(steps)) * strategy.sensitivity(participation, steps)
    at = np.unique(np.rint(np.geomspace(1, steps, max(2, round(10 * math.log10(steps)) + 1))))
    return [(int(item), float(norms[int(item) - 1])) for item in at]
