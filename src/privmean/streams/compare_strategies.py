"""Every strategy with its error for one participation pattern, and the choice between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from privmean.array_types import Floats
from privmean.errors import ArgumentError, InfeasibleError, PrivmeanError
from privmean.streams.fit_strategies import (
    best_bandwidth,
    fit,
    fit_loaded,
    fit_scaled,
    fit_shown,
    fit_shown_buffered,
    fit_target,
)
from privmean.streams.strategies import (
    Banded,
    Buffered,
    Identity,
    LowerToeplitz,
    MeanToeplitz,
    PrefixRoot,
    ScaledBuffered,
    Strategy,
)
from privmean.streams.strategy_error import (
    FINAL,
    RMSE,
    RUNNING,
    AveragingTarget,
    ErrorGoal,
    clamped_square,
    first_usable,
)
from privmean.streams.toeplitz_matrices import Participation

SEARCHED = 100_000  # up to this length bandwidths are searched
FITTED = 2_000_000


@dataclass(frozen=True)
class Candidate:
    """A strategy with its error per unit of noise: sensitivity times norms of B.

    rmse: over all steps (the quantity of published tables); rmse_goal: over the steps that matter
    (for what is shown: in clip radii, after clamping); rmse_final: at the last step; at: (step,
    error) at the steps a goal names. state: numbers kept a coordinate while streaming. endless:
    whether it can run without a horizon.
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


@dataclass(frozen=True)
class StreamForecast:
    """What a run of `steps` steps will look like; noise in the unit of the values.

    shown_rmse: root mean squared error over all steps of releases clamped to the region, for a
    truth at its center. last_sd: deviation of the noise at the last step. small_from: the first
    step from which on the noise stays below a tenth of the region's width; None: not in this run.
    in_radii: the clipping radius is not known yet, and is the unit.
    """

    steps: int
    shown_rmse: float
    last_sd: float
    small_from: int | None
    in_radii: bool = False

    def __str__(self) -> str:
        unit = " clip radii" if self.in_radii else ""
        small = (
            f"noise stays above 10% of the region in all {self.steps:,} steps"
            if self.small_from is None
            else f"noise is below 10% of the region from step {self.small_from:,} on"
        )
        return (
            f"{small}; root mean squared error over {self.steps:,} steps "
            f"{self.shown_rmse:.4g}{unit}, noise sd at the last step {self.last_sd:.4g}{unit}"
        )

    @classmethod
    def of(cls, sds: Floats, clip_radius: float | None, dimension: int) -> StreamForecast:
        """sds: of the noise of a coordinate at steps 1..n."""
        size = clip_radius or 1.0
        return cls(
            len(sds),
            size * math.sqrt(float(np.mean(clamped_square(sds / size, dimension)))),
            float(sds[-1]),
            first_usable(sds, size, dimension),
            clip_radius is None,
        )


def norms_of(strategy: Strategy, steps: int, target: AveragingTarget = RUNNING) -> Floats:
    """||B_t|| for t = 1..n: deviation of the estimate with unit noise and one record a step."""
    if target.running:
        variances = strategy.variances(steps)
    else:
        variances = target.variances(require_toeplitz(strategy, target).inverse(steps))
    return np.sqrt(variances) / target.sizes(steps)


def require_toeplitz(strategy: Strategy, target: AveragingTarget) -> LowerToeplitz:
    """Refuse other strategies for windows and decayed means: all steps must be alike."""
    if isinstance(strategy, LowerToeplitz):
        return strategy
    raise ArgumentError(
        "strategy", strategy.name, f"is not for a {target.describe()}", "use a Toeplitz strategy"
    )


def evaluate(
    strategy: Strategy,
    participation: Participation,
    steps: int,
    goal: ErrorGoal,
    target: AveragingTarget,
) -> Candidate:
    """The errors of one strategy over `steps` steps."""
    sens = strategy.sensitivity(participation, steps)
    norms = sens * norms_of(strategy, steps, target)
    times = [step for step in goal.times if step <= steps]
    return Candidate(
        strategy,
        sensitivity=sens,
        rmse=RMSE.of_norms(norms),
        rmse_goal=goal.of_norms(norms),
        rmse_final=float(norms[-1]),
        state=strategy.state_rows(steps),
        endless=strategy.endless(participation),
        at=tuple((step, float(norms[step - 1])) for step in times),
    )


def candidates(
    participation: Participation,
    steps: int,
    goal: ErrorGoal = RMSE,
    *,
    watch: Callable[[str], None] | None = None,
    thorough: bool = True,
    target: AveragingTarget = RUNNING,
) -> list[Candidate]:
    """All strategies for `steps` steps with their errors, best goal first; reads no data.

    Up to 100 000 steps every family is searched; for longer streams the searches that take more
    than a moment are left out. watch: told the name of each strategy before it is evaluated.
    thorough: False for the families alone that are fitted to what is shown, which takes a second.
    """
    found: list[Candidate] = []
    names: set[str] = set()
    if target.running:
        offered = _strategies(participation, steps, goal, thorough=thorough)
    else:
        offered = _stationary(participation, steps, goal, target)
    for strategy in offered:
        if strategy.name not in names:
            names.add(strategy.name)
            if watch is not None:
                watch(strategy.name)
            try:
                found.append(evaluate(strategy, participation, steps, goal, target))
            except PrivmeanError:  # no exact sensitivity is known: not offered
                continue
    return sorted(found, key=lambda item: item.rmse_goal)


def _strategies(
    participation: Participation, steps: int, goal: ErrorGoal, *, thorough: bool
) -> Iterator[Strategy]:
    shown = goal.shown
    if shown is not None:
        late = fit(participation, steps, FINAL, buffers=2)
        cap = shown.last_within * late.rmse(participation, steps, FINAL)
        capped = replace(goal, shown=replace(shown, cap=cap))
        yield fit_shown(participation, steps, capped)
        if steps <= FITTED:
            yield fit_shown_buffered(participation, steps, capped, buffers=3)
        yield late
        if not thorough:
            return
    yield Identity()
    yield Banded(PrefixRoot(), _band(participation, steps))
    yield from _searched(participation, steps, replace(goal, shown=None))


def _stationary(
    participation: Participation, steps: int, goal: ErrorGoal, target: AveragingTarget
) -> Iterator[Strategy]:
    """For windows and decayed means: Toeplitz strategies, all steps being alike."""
    yield Identity()
    for buffers in (1, 2, 3):
        yield fit_target(participation, steps, goal, target, buffers=buffers)
    band = _band(participation, steps)
    for p in sorted({band, min(band, target.reach), max(1, round(band**0.5))}):
        yield Banded(PrefixRoot(), p)
        yield Banded(MeanToeplitz(), p)
    yield fit(participation, min(steps, max(target.reach, 2)), FINAL, buffers=2)


def _band(participation: Participation, steps: int) -> int:
    """The longest column whose shifts by the separation are orthogonal."""
    once = participation.within(steps) == 1
    return steps if once else min(participation.separation, steps)


def _searched(participation: Participation, steps: int, goal: ErrorGoal) -> Iterator[Strategy]:
    # scaling with time helps where early steps count
    early = not goal.times and 0 < goal.first <= min(400, steps / 40)
    for buffers in (1, 2, 3, 4):
        if steps <= FITTED:
            yield fit(participation, steps, goal, buffers=buffers)
        if buffers in (2, 3) and early:
            yield fit_scaled(participation, steps, goal, buffers=buffers)
    if participation.within(steps) > 1:
        yield fit_loaded(participation, steps, goal)
    if steps > SEARCHED:
        return
    yield best_bandwidth(lambda p: Banded(PrefixRoot(), p), participation, steps, goal)


def choose(
    found: list[Candidate],
    *,
    endless: bool,
    memory: int,
    within: float = math.inf,
    slack: float = 0.003,
) -> Candidate:
    """The least state among the candidates within 0.3 percent (`slack`) of the least error.

    within: only those whose error at the last step is at most so many times the least of any.
    endless: only strategies that need no horizon, and front-loaded ones only if they are no worse
    at the last step either: what comes after it is most of such a stream. memory: most numbers kept
    a coordinate.
    """
    usable = [item for item in found if item.state <= memory and (item.endless or not endless)]
    equal = [item for item in usable if not is_loaded(item.strategy)]
    if endless and equal:
        last = min(equal, key=lambda item: item.rmse_goal).rmse_final
        usable = [
            item for item in usable if not is_loaded(item.strategy) or item.rmse_final <= last
        ]
    if not usable:
        raise InfeasibleError(
            f"no strategy fits into a memory of {memory} numbers per coordinate",
            "allow at least memory=8",
        )
    last = (1 + 1e-3) * within * min(item.rmse_final for item in usable)
    usable = [item for item in usable if item.rmse_final <= last]
    least = min(item.rmse_goal for item in usable)
    return min(
        (item for item in usable if item.rmse_goal <= (1 + slack) * least),
        key=lambda item: (item.state, item.rmse_goal),
    )


def is_loaded(strategy: Strategy) -> bool:
    """Whether the columns have unequal norms: front-loading."""
    return isinstance(strategy, ScaledBuffered) and strategy.loading is not None
