"""The parameters of strategies that make an error least.

Fitting a strategy's bandwidth to a participation pattern and a goal. No data are read.

Fitting a front-loaded strategy to a participation pattern and a goal. No data are read.

Fitting strategies to what is shown: the clamped error of a run. No data are read.

Fitting buffers to windows and decayed means. No data are read.

Strategies that a plan compares, and the noise that each needs.

Every strategy with its error for one participation pattern. Pure arithmetic, no data.

The noise that spends what a budget has left after fixed parts of the accounting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from privmean.errors import ArgumentError, InfeasibleError, PrivmeanError
from privmean.privacy.budget import Budget
from privmean.privacy.compose import calibrate
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.streams.buffered_toeplitz import (
    Buffered,
    ScaledBuffered,
    VarianceTracker,
    column_scales,
    compress,
    fit,
    fit_buffers,
    fit_modes,
    fit_scaled,
    powers,
)
from privmean.streams.strategies import (
    Banded,
    Identity,
    LowerToeplitz,
    MeanToeplitz,
    PrefixRoot,
    Strategy,
)
from privmean.streams.strategy_error import (
    FINAL,
    RMSE,
    RUNNING,
    AveragingTarget,
    ClampedError,
    ErrorGoal,
    clamped_square,
    first_usable,
    row_norms,
)
from privmean.streams.toeplitz_matrices import ColumnNorms, Floats, Participation, weighted_pattern


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


DESIGN = 4096
INTERVALS = 200
LIMITS = [(-6.0, 12.0)] * 2 + [(-12.0, 0.0)] * 2 + [(0.0, 2.0), (0.0, 3.0), (-6.0, 8.0)]
# logit decays, log weights, exponent, decline, log pace
START_FRONT_LOADED = (-1.0, 3.3, math.log(0.16), math.log(0.36), 0.95, 0.4, math.log(0.1))


@lru_cache(maxsize=64)
def fit_loaded(participation: Participation, steps: int, goal: ErrorGoal = RMSE) -> ScaledBuffered:
    """The best front-loaded strategy found, with two buffers, for a goal over `steps` steps.

    The first DESIGN steps are computed, later variances extrapolated, so that a fit costs the same
    for ten thousand steps and for a million. What a strategy guarantees is always computed in full.
    """
    from scipy.optimize import minimize

    k, b = participation.within(steps), participation.separation
    capped = Participation(k, b)
    length = min(steps, DESIGN)
    wanted = goal.weights(steps) / np.arange(1, steps + 1, dtype=np.float64) ** 2
    early, later = wanted[:length], Later(wanted, length)

    def unpack(x: Floats) -> tuple[Floats, Floats, float, ColumnNorms]:
        loading = ColumnNorms(float(x[5]), math.exp(x[6]), b, k)
        return np.exp(x[2:4]), 1 / (1 + np.exp(-x[:2])), float(x[4]), loading

    def objective(x: Floats) -> float:
        omega, theta, exponent, loading = unpack(x)
        if abs(theta[1] - theta[0]) < 1e-7 or omega.sum() ** 2 > omega @ theta:
            return 1e3
        d = loading.factors(0, length)
        tracker = VarianceTracker(omega, theta, exponent)
        known = tracker.advance(column_scales(omega, theta, exponent, length) * d)
        error = float(np.sum(early * known))
        if length < steps:
            error += later.error(known, d, loading, final_rate(omega, theta))
        sens = weighted_pattern(loading.worst(capped), omega, theta, b)
        return 2 * math.log(sens) + math.log(error)

    found = minimize(objective, np.array(START_FRONT_LOADED), method="L-BFGS-B", bounds=LIMITS)
    omega, theta, exponent, loading = unpack(found.x)
    order = np.argsort(theta)
    return ScaledBuffered(
        tuple(omega[order].tolist()), tuple(theta[order].tolist()), exponent, loading
    )


def final_rate(omega: Floats, theta: Floats) -> float:
    """d^2 times the growth of the variance a step, late: Gamma_0/H(1)^2."""
    pairs = np.outer(omega, omega) / (1 - np.outer(theta, theta))
    return (1 + float(pairs.sum())) / (1 + float(np.sum(omega / (1 - theta)))) ** 2


class Later:
    """The weight of the steps after `length`, on intervals that grow with time."""

    def __init__(self, wanted: Floats, length: int) -> None:
        n = len(wanted)
        self.length = length
        edges = np.unique(np.rint(np.geomspace(length, max(n, length), INTERVALS)).astype(np.int64))
        sums = np.concatenate([[0.0], np.cumsum(wanted[length:])])
        self.weights = np.diff(sums[edges - length])
        self.steps = np.diff(edges).astype(np.float64)
        self.middles = np.sqrt(edges[1:] * edges[:-1].astype(np.float64))

    def error(self, known: Floats, d: Floats, loading: ColumnNorms, final: float) -> float:
        """The weighted sum of the variances after the known ones."""
        return float(np.sum(self.weights * self.variances(known, d, loading, final)))

    def variances(self, known: Floats, d: Floats, loading: ColumnNorms, final: float) -> Floats:
        """The variances at `middles`, after the known ones, by their rate of growth.

        A step adds rate/d^2; the rate tends to `final` like 1/t from its mean over the second half
        of the known steps.
        """
        half = self.length // 2
        rate = float(known[-1] - known[half - 1]) / float(np.sum(d[half:] ** -2))
        rates = final + (rate - final) * 0.75 * self.length / self.middles
        added = self.steps * rates / loading.of_blocks(self.middles // loading.width) ** 2
        later: Floats = known[-1] + np.cumsum(added) - added / 2
        return later


# logit decays, log weights, exponent, decline, log pace: near the optimum of runs with 4 to 64
# participations in 1000 to 8192 steps
START_CLAMPED = (1.7, 5.2, -1.1, -2.2, 0.1, 0.48, -1.0)
DEPTH = 12.0
ROUNDS_CLAMPED = 80
TRIES = 6
LOW = 0.99
ENOUGH = 1e-5  # of the logarithm of the loss, a round


@lru_cache(maxsize=64)
def fit_shown(participation: Participation, steps: int, goal: ErrorGoal) -> ScaledBuffered:
    """The `ScaledBuffered` strategy with two buffers found best for what is shown.

    Front-loaded where a person may take part more than once. Minimizes the logarithm of the mean
    clamped squared error by L-BFGS, first without the cap on the last step and then, while it is
    exceeded, with a penalty for that. The first DESIGN steps are computed, later variances
    extrapolated as in `fit_loaded`; whether the cap holds is computed in full.
    """
    from scipy.optimize import minimize

    shown = goal.shown
    assert shown is not None
    k, b = participation.within(steps), participation.separation
    capped = Participation(k, b)
    length = min(steps, DESIGN)
    later = Later(goal.weights(steps), length)
    t = np.concatenate([np.arange(1, length + 1, dtype=np.float64), later.middles, [steps]])
    share = np.concatenate([goal.weights(steps)[:length], later.weights, [0.0]])
    flat = ColumnNorms(0.0, 1.0, b, k)

    def unpack(x: Floats) -> tuple[Floats, Floats, float, ColumnNorms]:
        loading = flat if k == 1 else ColumnNorms(float(x[5]), math.exp(x[6]), b, k)
        return np.exp(x[2:4]), 1 / (1 + np.exp(-x[:2])), float(x[4]), loading

    def norms(x: Floats) -> Floats | None:
        omega, theta, exponent, loading = unpack(x)
        if abs(theta[1] - theta[0]) < 1e-7 or omega.sum() ** 2 > omega @ theta:
            return None
        d = loading.factors(0, length)
        scales = column_scales(omega, theta, exponent, length, depth=DEPTH) * d
        v = VarianceTracker(omega, theta, exponent).advance(scales)
        if length < steps:
            after = later.variances(v, d, loading, final_rate(omega, theta))
            v = np.concatenate([v, after, after[-1:]])
        else:
            v = np.concatenate([v, v[-1:]])
        sens = weighted_pattern(loading.worst(capped), omega, theta, b)
        result: Floats = sens * np.sqrt(np.maximum(v, 1e-300)) / t
        return result

    def objective(x: Floats, judged: ClampedError) -> float:
        found = norms(x)
        return 1e3 if found is None else _objective(judged, found, share)

    def best(start: Floats, judged: ClampedError) -> Floats:
        limits = LIMITS[: len(start)]
        settings = {"maxiter": ROUNDS_CLAMPED, "ftol": ENOUGH}
        found = minimize(
            objective, start, (judged,), method="L-BFGS-B", bounds=limits, options=settings
        )
        return np.asarray(found.x)

    def strategy(x: Floats) -> ScaledBuffered:
        omega, theta, exponent, loading = unpack(x)
        order = np.argsort(theta)
        return ScaledBuffered(
            tuple(omega[order].tolist()),
            tuple(theta[order].tolist()),
            exponent,
            None if k == 1 else loading,
        )

    x = best(np.array(START_CLAMPED[: 5 if k == 1 else 7]), replace(shown, cap=math.inf))
    judged = replace(shown, cap=math.inf)
    for _ in range(TRIES):
        last = strategy(x).rmse(participation, steps, FINAL)
        reached = norms(x)
        if reached is None or (last <= shown.cap and (judged.price == 0 or last > LOW * shown.cap)):
            break
        # the fit sees the extrapolated last step: its cap is that of the true one
        aim = shown.cap * float(reached[-1]) / last
        judged = judged.priced(float(reached[-1]), 0.9995 * aim)
        x = best(x, judged)
    return strategy(x)


@lru_cache(maxsize=64)
def fit_shown_buffered(
    participation: Participation, steps: int, goal: ErrorGoal, *, buffers: int = 3
) -> Buffered:
    """The `Buffered` strategy found best for what is shown: no end, equal column norms."""
    shown = goal.shown
    assert shown is not None
    nodes, count = compress(np.ones(steps))
    _, share = compress(goal.weights(steps))

    def loss(sens: float, g: Floats) -> float:
        squares = count * g * g
        # half of what a node stands for comes after it
        v = np.cumsum(squares) - (squares - g * g) / 2
        return _objective(shown, sens * np.sqrt(v) / nodes, share)

    return fit_buffers(participation, steps, nodes, loss, buffers=buffers)


def _objective(shown: ClampedError, norms: Floats, share: Floats) -> float:
    return math.log(float(np.dot(share, shown.losses(norms)))) + shown.excess(float(norms[-1]))


ROUNDS_TARGET = 60
REACHES = 3


@lru_cache(maxsize=64)
def fit_target(
    participation: Participation,
    steps: int,
    goal: ErrorGoal,
    target: AveragingTarget,
    *,
    buffers: int = 2,
) -> Buffered:
    """The `Buffered` strategy found best for a window or a decayed mean over `steps` steps.

    Minimizes the logarithm of the mean squared error (clamped, if that is the goal) by L-BFGS. The
    first steps, up to a few times the reach of the target, stand for a longer run: later variances
    have come to rest.
    """
    length = min(steps, DESIGN, max(REACHES * target.reach, 64))
    capped = Participation(participation.within(steps), participation.separation)
    share = goal.weights(steps)
    share = np.append(share[: length - 1], share[length - 1 :].sum())
    sizes = target.sizes(length)
    lags = np.arange(length - 1, dtype=np.float64)

    def loss(sens: float, theta: Floats, weights: Floats) -> float:
        with np.errstate(under="ignore"):
            inverse = np.concatenate([[1.0], -powers(theta, lags) @ weights])
        norms = np.sqrt(target.variances(inverse)) / sizes * sens
        losses = norms**2 if goal.shown is None else goal.shown.losses(norms)
        return math.log(float(share @ losses))

    return fit_modes(capped, loss, buffers=buffers, slowest=12.0, maxiter=ROUNDS_TARGET, ftol=1e-7)


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


class CandidateForecast(NamedTuple):
    """What a candidate would give in the unit of the values, for a budget and a region.

    error_shown: root mean squared error over all steps, clamped to the region. error_rmse: the same
    of the noise. error_final: at the last step. small_from: the first step from which on the noise
    stays below a tenth of the region's width; None: never.
    """

    error_shown: float
    error_rmse: float
    error_final: float
    small_from: int | None

    @classmethod
    def of(
        cls,
        item: Candidate,
        steps: int,
        unit: float,
        radius: float,
        dimension: int,
        target: AveragingTarget,
    ) -> CandidateForecast:
        """steps, target: those of the candidate. unit: noise of a coordinate, in radii, of a
        release whose sens * ||B_t|| is 1."""
        sds = unit * item.sensitivity * norms_of(item.strategy, steps, target)
        scale = unit * radius * math.sqrt(dimension)
        return cls(
            radius * math.sqrt(float(np.mean(clamped_square(sds, dimension)))),
            scale * item.rmse,
            scale * item.rmse_final,
            first_usable(sds, 1.0, dimension),
        )


def norms_of(strategy: Strategy, steps: int, target: AveragingTarget = RUNNING) -> Floats:
    """||B_t|| for t = 1..n: deviation of the estimate with unit noise and one record a step."""
    if target.running:
        return row_norms(strategy.variances(steps))
    if not isinstance(strategy, LowerToeplitz):
        raise ArgumentError(
            "strategy",
            strategy.name,
            f"is not for a {target.describe()}",
            "use a Toeplitz strategy",
        )
    norms: Floats = np.sqrt(target.variances(strategy.inverse(steps))) / target.sizes(steps)
    return norms


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
    """All strategies for `steps` steps, best goal first.

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
    for buffers in (1, 2, 3, 4):
        if steps <= FITTED:
            yield fit(participation, steps, goal, buffers=buffers)
        if buffers in (2, 3) and _early(goal, steps):
            yield fit_scaled(participation, steps, goal, buffers=buffers)
    if participation.within(steps) > 1:
        yield fit_loaded(participation, steps, goal)
    if steps > SEARCHED:
        return
    yield best_bandwidth(lambda p: Banded(PrefixRoot(), p), participation, steps, goal)


def _early(goal: ErrorGoal, steps: int) -> bool:
    """Whether the goal counts early steps, where scaling with time helps."""
    return not goal.times and 0 < goal.first <= min(400, steps / 40)


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


def curve(strategy: Strategy, participation: Participation, steps: int) -> list[tuple[int, float]]:
    """(step, error) at about ten steps a decade, for tables and plots."""
    norms = row_norms(strategy.variances(steps)) * strategy.sensitivity(participation, steps)
    at = np.unique(np.rint(np.geomspace(1, steps, max(2, round(10 * math.log10(steps)) + 1))))
    return [(int(item), float(norms[int(item) - 1])) for item in at]


def largest_mu(
    noisy: Callable[[float], Sequence[PrivacyEvent]], fixed: Sequence[PrivacyEvent], budget: Budget
) -> float:
    """The largest mu for which the losses `fixed` and noisy(mu) are within the budget."""

    def bill(mu: float) -> Sequence[PrivacyEvent]:
        return [*fixed, *noisy(mu)]

    mu = calibrate(bill, budget, grid=False)
    if mu <= 0:
        raise InfeasibleError("the budget is too small for this stream", "give a larger budget")
    if fixed and budget.rho is None:
        # a loss distribution says what the closed forms leave; three figures are enough
        mu = max(
            mu,
            calibrate(bill, budget, smallest=mu, largest=2 * mu, tolerance=1e-3),
        )
    return mu
