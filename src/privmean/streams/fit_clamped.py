"""Fitting strategies to what is shown: the clamped error of a run. No data are read."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from privmean.streams.buffered_toeplitz import Buffered, compress, fit_buffers
from privmean.streams.clamped_error import ClampedError
from privmean.streams.column_norms import ColumnNorms, weighted_pattern
from privmean.streams.fit_front_loaded import DESIGN, Later, final_rate
from privmean.streams.participation_sensitivity import Participation
from privmean.streams.power_series import Floats
from privmean.streams.scaled_toeplitz import ScaledBuffered, VarianceTracker, column_scales
from privmean.streams.strategy_error import FINAL, ErrorGoal

LIMITS = [(-6.0, 12.0)] * 2 + [(-12.0, 0.0)] * 2 + [(0.0, 2.0), (0.0, 3.0), (-6.0, 8.0)]
# logit decays, log weights, exponent, decline, log pace: near the optimum of runs with 4 to 64
# participations in 1000 to 8192 steps
START = (1.7, 5.2, -1.1, -2.2, 0.1, 0.48, -1.0)
DEPTH = 12.0
ROUNDS = 80
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
        settings = {"maxiter": ROUNDS, "ftol": ENOUGH}
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

    x = best(np.array(START[: 5 if k == 1 else 7]), replace(shown, cap=math.inf))
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
