"""Fitting a front-loaded strategy to a participation pattern and a goal. No data are read."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from privmean.streams.column_norms import ColumnNorms, weighted_pattern
from privmean.streams.participation_sensitivity import Participation
from privmean.streams.power_series import Floats
from privmean.streams.scaled_toeplitz import ScaledBuffered, VarianceTracker, column_scales
from privmean.streams.strategy_error import RMSE, ErrorGoal

DESIGN = 4096
INTERVALS = 200
LIMITS = [(-6.0, 12.0)] * 2 + [(-12.0, 0.0)] * 2 + [(0.0, 2.0), (0.0, 3.0), (-6.0, 8.0)]
# logit decays, log weights, exponent, decline, log pace
START = (-1.0, 3.3, math.log(0.16), math.log(0.36), 0.95, 0.4, math.log(0.1))


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

    found = minimize(objective, np.array(START), method="L-BFGS-B", bounds=LIMITS)
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
