"""The parameters of strategies that make an error least. Pure arithmetic, no data are read.

Strategies with buffers are fitted by L-BFGS over one list of numbers: the logits of the decays, the
logarithms of the weights and, for buffers scaled with time, the exponent, the decline of the column
norms and the logarithm of their pace. Column norms with a decline make a strategy front-loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.errors import InfeasibleError, PrivmeanError
from privmean.streams.strategies import (
    DEPTH,
    Buffered,
    LowerToeplitz,
    ScaledBuffered,
    column_scales,
    limit_sensitivity,
    scaled_sensitivity,
)
from privmean.streams.strategy_error import (
    FINAL,
    RMSE,
    AveragingTarget,
    ClampedError,
    ErrorGoal,
    ScaledTracker,
)
from privmean.streams.toeplitz_matrices import (
    ColumnNorms,
    Participation,
    inverse_buffers,
    weighted_pattern,
)


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


DESIGN = 4096  # steps that a fit of buffers scaled with time computes
INTERVALS = 200  # that stand for all later steps
CLAMPED_DEPTH = 12.0
TRIES = 6
LOW = 0.99
REACHES = 3
# Starting points (decays, weights) by number of buffers, spread over the orders of magnitude of
# the steps: slow enough for the late ones and quick enough for the first.
STARTS: dict[int, tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]] = {
    1: (((0.9,), (0.25,)), ((0.6,), (0.3,))),
    2: (((0.6, 0.97), (0.25, 0.06)), ((0.85, 0.99), (0.3, 0.1))),
    3: (
        ((0.587, 0.958, 0.998), (0.25, 0.07, 0.009)),
        ((0.8, 0.99, 0.999), (0.3, 0.13, 0.03)),
    ),
    4: (
        ((0.45, 0.87, 0.98, 0.999), (0.23, 0.09, 0.03, 0.004)),
        ((0.7, 0.95, 0.99, 0.9995), (0.3, 0.12, 0.05, 0.01)),
    ),
}
LIMITS = [(-6.0, 12.0)] * 2 + [(-12.0, 0.0)] * 2 + [(0.0, 2.0), (0.0, 3.0), (-6.0, 8.0)]
START_FRONT_LOADED = (-1.0, 3.3, math.log(0.16), math.log(0.36), 0.95, 0.4, math.log(0.1))
# near the optimum of runs with 4 to 64 participations in 1000 to 8192 steps
START_CLAMPED = (1.7, 5.2, -1.1, -2.2, 0.1, 0.48, -1.0)


def compress(weights: Floats, exact: int = 256, ratio: float = 1.02) -> tuple[Floats, Floats]:
    """Nodes s_k and weights W_k with sum_s w_s f(s) ~ sum_k W_k f(s_k) for smooth f.

    The first `exact` steps are kept; later ones are shared linearly between nodes that grow by
    `ratio`, so that a fit costs the same for a thousand steps and for a million.
    """
    n = len(weights)
    if n <= exact:
        return np.arange(1, n + 1, dtype=np.float64), weights
    count = max(2, math.ceil(math.log(n / exact) / math.log(ratio)))
    nodes = np.unique(np.rint(np.geomspace(exact, n, count)))
    nodes = np.concatenate([np.arange(1, exact, dtype=np.float64), nodes])
    s = np.arange(1, n + 1, dtype=np.float64)
    left = np.clip(np.searchsorted(nodes, s, side="right") - 1, 0, len(nodes) - 2)
    share = (s - nodes[left]) / (nodes[left + 1] - nodes[left])
    shared: Floats = np.bincount(left, weights * (1 - share), len(nodes)).astype(np.float64)
    shared = shared + np.bincount(left + 1, weights * share, len(nodes))
    return nodes, shared


def _least(
    objective: Callable[[Floats], float],
    starts: Sequence[Floats],
    bounds: list[tuple[float, float]],
    **options: float,
) -> Floats:
    """The point of least value that L-BFGS finds from the starts; the first of equal ones."""
    from scipy.optimize import minimize

    found = [
        minimize(objective, start, method="L-BFGS-B", bounds=bounds, options=options)
        for start in starts
    ]
    return np.asarray(min(found, key=lambda item: float(item.fun)).x)


def _starts(buffers: int, shift: float = 0.0, *more: float) -> list[Floats]:
    """Starting points. shift: added to the logarithms of the weights. more: numbers behind them."""
    validate.choice("buffers", buffers, sorted(STARTS))
    result = []
    for decays, weights in STARTS[buffers]:
        odds = np.array(decays) / (1 - np.array(decays))
        result.append(np.concatenate([np.log(odds), np.log(np.array(weights)) + shift, more]))
    return result


def _buffers(x: Floats, buffers: int) -> tuple[Floats, Floats]:
    """(weights, decays) of a point."""
    return np.exp(x[buffers : 2 * buffers]), 1 / (1 + np.exp(-x[:buffers]))


def _ordered(omega: Floats, theta: Floats) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Weights and decays by growing decay, as a strategy has them."""
    order = np.argsort(theta)
    return tuple(omega[order].tolist()), tuple(theta[order].tolist())


def _usable(omega: Floats, theta: Floats) -> bool:
    """Whether buffers can be scaled with time: distinct decays and a log-convex column."""
    gap = np.min(np.diff(np.sort(theta)), initial=1.0)
    return bool(gap >= 1e-7 and omega.sum() ** 2 <= omega @ theta)


@lru_cache(maxsize=64)
def fit(
    participation: Participation, steps: int, goal: ErrorGoal = RMSE, *, buffers: int = 3
) -> Buffered:
    """The best `Buffered` strategy found for a goal over `steps` steps.

    Minimizes log sens^2 + log sum_s w_s g_s^2; see `fit_buffers`.
    """
    nodes, weights = compress(goal.tail_weights(steps))

    def loss(sens: float, g: Floats) -> float:
        return math.log(sens**2) + math.log(float(np.dot(weights, g * g)))

    return fit_buffers(participation, steps, nodes, loss, buffers=buffers)


def fit_buffers(
    participation: Participation,
    steps: int,
    nodes: Floats,
    loss: Callable[[float, Floats], float],
    *,
    buffers: int,
) -> Buffered:
    """The `Buffered` strategy of least loss found over `steps` steps.

    loss: of the sensitivity and of g, the cumulated inverse column, at the steps `nodes` (from 1).
    The sensitivity is that without a horizon, so the strategy can run on.
    """
    capped = Participation(participation.within(steps), participation.separation)

    def of_modes(sens: float, theta: Floats, weights: Floats) -> float:
        scale = weights / (1 - theta)
        with np.errstate(under="ignore"):
            g = 1 - scale.sum() + powers(theta, nodes - 1) @ scale
        return loss(sens, g)

    return fit_modes(capped, of_modes, buffers=buffers, slowest=18.0)


def fit_modes(
    participation: Participation,
    loss: Callable[[float, Floats, Floats], float],
    *,
    buffers: int,
    slowest: float,
    **options: float,
) -> Buffered:
    """The `Buffered` strategy of least loss.

    loss: of the sensitivity without a horizon, and of the modes of the inverse: its eigenvalues and
    their weights. slowest: the largest logit of a decay. options: of the search, by L-BFGS over
    (logit decay, log weight) from fixed starting points.
    """

    def unpack(x: Floats) -> tuple[Floats, Floats]:
        omega, decays = _buffers(x, buffers)
        total = omega.sum()
        return (omega if total <= 1 else omega / (total * (1 + 1e-12))), decays

    def objective(x: Floats) -> float:
        omega, decays = unpack(x)
        if np.min(np.diff(np.sort(decays)), initial=1.0) < 1e-9 or decays.max() > 1 - 1e-9:
            return 1e3
        weights, theta = inverse_buffers(omega, decays)
        return loss(limit_sensitivity(omega, decays, participation), theta, weights)

    bounds = [(-6.0, slowest)] * buffers + [(-16.0, 0.0)] * buffers
    return Buffered(*_ordered(*unpack(_least(objective, _starts(buffers), bounds, **options))))


def powers(base: Floats, exponents: Floats) -> Floats:
    """base^exponents for whole exponents; shape (exponents, bases)."""
    size = np.exp(np.outer(exponents, np.log(np.maximum(np.abs(base), 1e-300))))
    signs = np.where((base < 0)[None, :] & (exponents % 2 == 1)[:, None], -1.0, 1.0)
    return np.asarray(size * signs)


@lru_cache(maxsize=64)
def fit_scaled(
    participation: Participation, steps: int, goal: ErrorGoal = RMSE, *, buffers: int = 2
) -> ScaledBuffered:
    """The best `ScaledBuffered` strategy found for a goal over `steps` steps.

    Fitted on at most DESIGN steps: what lies beyond hardly moves a goal that counts early steps.
    """
    length = min(steps, max(DESIGN, 20 * goal.first))
    t = np.arange(1, length + 1, dtype=np.float64)
    share = goal.weights(length) / t**2
    capped = Participation(participation.within(steps), participation.separation)

    def objective(x: Floats) -> float:
        omega, theta = _buffers(x, buffers)
        if not _usable(omega, theta):
            return 1e3
        scales = column_scales(omega, theta, float(x[-1]), length)
        error = float(share @ ScaledTracker(omega, theta, float(x[-1])).advance(scales))
        return 2 * math.log(scaled_sensitivity(omega, theta, capped)) + math.log(error)

    limits = [(-6.0, 16.0)] * buffers + [(-12.0, 0.0)] * buffers + [(0.0, 2.0)]
    x = _least(objective, _starts(buffers, 0.2, 0.85), limits)
    return ScaledBuffered(*_ordered(*_buffers(x, buffers)), float(x[-1]))


class _LoadedRun:
    """A run with two buffers scaled with time and falling column norms, as a function of a point.

    The first DESIGN steps are computed, later variances extrapolated at the middles of `INTERVALS`
    intervals, so that a fit costs the same for ten thousand steps and for a million. What a
    strategy guarantees is always computed in full.

    middles, lengths: of the intervals. weights: of `wanted` in them; early: in the first steps.
    """

    def __init__(self, participation: Participation, steps: int, wanted: Floats) -> None:
        self._loads = participation.within(steps), participation.separation
        self._capped = Participation(*self._loads)
        self._length = min(steps, DESIGN)
        ends = np.geomspace(self._length, steps, INTERVALS)
        edges = np.unique(np.rint(ends).astype(np.int64))
        sums = np.concatenate([[0.0], np.cumsum(wanted[self._length :])])
        self.early, self.weights = wanted[: self._length], np.diff(sums[edges - self._length])
        self._lengths = np.diff(edges).astype(np.float64)
        self.middles = np.sqrt(edges[1:] * edges[:-1].astype(np.float64))

    def strategy(self, x: Floats) -> ScaledBuffered:
        """The strategy of a point; column norms stay equal where it has no numbers for them."""
        loading = self._loading(x) if len(x) > 5 else None
        return ScaledBuffered(*_ordered(*_buffers(x, 2)), float(x[4]), loading)

    def _loading(self, x: Floats) -> ColumnNorms:
        most, apart = self._loads
        decline, pace = (float(x[5]), math.exp(x[6])) if len(x) > 5 else (0.0, 1.0)
        return ColumnNorms(decline, pace, apart, most)

    def errors(self, x: Floats, depth: float = DEPTH) -> tuple[float, Floats, Floats] | None:
        """Sensitivity, first variances and those at `middles`; None: there is no such strategy."""
        omega, theta = _buffers(x, 2)
        if not _usable(omega, theta):
            return None
        loading, exponent = self._loading(x), float(x[4])
        d = loading.factors(0, self._length)
        scales = column_scales(omega, theta, exponent, self._length, depth=depth) * d
        known = ScaledTracker(omega, theta, exponent).advance(scales)
        pairs = np.outer(omega, omega) / (1 - np.outer(theta, theta))
        # d^2 times the growth of the variance a step, late: Gamma_0/H(1)^2
        final = (1 + float(pairs.sum())) / (1 + float(np.sum(omega / (1 - theta)))) ** 2
        later = self._later(known, d, loading, final)
        sens = weighted_pattern(loading.worst(self._capped), omega, theta, self._capped.separation)
        return sens, known, later

    def _later(self, known: Floats, d: Floats, loading: ColumnNorms, final: float) -> Floats:
        """A step adds rate/d^2; the rate tends to `final` like 1/t from its mean over the second
        half of the known steps."""
        half = self._length // 2
        rate = float(known[-1] - known[half - 1]) / float(np.sum(d[half:] ** -2))
        rates = final + (rate - final) * 0.75 * self._length / self.middles
        added = self._lengths * rates / loading.of_blocks(self.middles // loading.width) ** 2
        return np.asarray(known[-1] + np.cumsum(added) - added / 2)


@lru_cache(maxsize=64)
def fit_loaded(participation: Participation, steps: int, goal: ErrorGoal = RMSE) -> ScaledBuffered:
    """The best front-loaded strategy found, with two buffers, for a goal over `steps` steps."""
    wanted = goal.weights(steps) / np.arange(1, steps + 1, dtype=np.float64) ** 2
    run = _LoadedRun(participation, steps, wanted)

    def objective(x: Floats) -> float:
        found = run.errors(x)
        if found is None:
            return 1e3
        sens, known, later = found
        error = float(np.sum(run.early * known)) + float(np.sum(run.weights * later))
        return 2 * math.log(sens) + math.log(error)

    return run.strategy(_least(objective, [np.array(START_FRONT_LOADED)], LIMITS))


@lru_cache(maxsize=64)
def fit_shown(participation: Participation, steps: int, goal: ErrorGoal) -> ScaledBuffered:
    """The `ScaledBuffered` strategy with two buffers found best for what is shown.

    Front-loaded where a person may take part more than once. Minimizes the logarithm of the mean
    clamped squared error, first without the cap on the last step and then, while it is exceeded,
    with a penalty for that. Whether the cap holds is computed in full.
    """
    shown = goal.shown
    assert shown is not None
    run = _LoadedRun(participation, steps, goal.weights(steps))
    first = np.arange(1, len(run.early) + 1, dtype=np.float64)
    t = np.concatenate([first, run.middles, [steps]])
    share = np.concatenate([run.early, run.weights, [0.0]])
    points = 5 if participation.within(steps) == 1 else 7

    def norms(x: Floats) -> Floats | None:
        found = run.errors(x, CLAMPED_DEPTH)
        if found is None:
            return None
        sens, known, later = found
        v = np.concatenate([known, later])
        return np.asarray(sens * np.sqrt(np.maximum(np.append(v, v[-1]), 1e-300)) / t)

    def best(start: Floats, judged: ClampedError) -> Floats:
        def objective(x: Floats) -> float:
            found = norms(x)
            return 1e3 if found is None else _clamped_loss(judged, found, share)

        # ftol: of the logarithm of the loss, a round
        return _least(objective, [start], LIMITS[:points], maxiter=80, ftol=1e-5)

    judged = replace(shown, cap=math.inf)
    x = best(np.array(START_CLAMPED[:points]), judged)
    for _ in range(TRIES):
        last = run.strategy(x).rmse(participation, steps, FINAL)
        reached = norms(x)
        if reached is None or (last <= shown.cap and (judged.price == 0 or last > LOW * shown.cap)):
            break
        # the fit sees the extrapolated last step: its cap is that of the true one
        aim = shown.cap * float(reached[-1]) / last
        judged = judged.priced(float(reached[-1]), 0.9995 * aim)
        x = best(x, judged)
    return run.strategy(x)


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
        return _clamped_loss(shown, sens * np.sqrt(v) / nodes, share)

    return fit_buffers(participation, steps, nodes, loss, buffers=buffers)


def _clamped_loss(shown: ClampedError, norms: Floats, share: Floats) -> float:
    return math.log(float(np.dot(share, shown.losses(norms)))) + shown.excess(float(norms[-1]))


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

    return fit_modes(capped, loss, buffers=buffers, slowest=12.0, maxiter=60, ftol=1e-7)
