"""Buffers with a memory that grows with time: the best strategy known for a running mean.

C = diag(t^-gamma) H diag(s^gamma q_s d_s), where H is a `Buffered` column h, q_s scales column s to
norm at most 1, and d_s is 1 or a `Loading`, which makes later columns shorter. Running means are
dominated by their first steps, whose noise must be nearly independent, while late steps behave like
prefix sums, whose noise must be strongly correlated: the factor (s/t)^gamma blends between the two.
With h the prefix root this comes within 0.1 percent of the optimum over *all* lower-triangular
matrices for one participation (Toeplitz strategies stay 2 to 8 percent away).

Sensitivity, proved in docs/proofs/continual.md, section 2: column s has norm at most d_s and the
inner product of columns s and s+q is at most d_s d_{s+q} Gamma_q/Gamma_0 of H, if h is log-convex.
So without a loading sens(C) <= sens(H)/||h|| on a stream without end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.streams.buffered_toeplitz import STARTS, Buffered, Buffers, limit_sensitivity
from privmean.streams.column_norms import ColumnNorms, weighted_pattern
from privmean.streams.participation_sensitivity import Participation
from privmean.streams.power_series import Floats
from privmean.streams.strategy_error import RMSE, ErrorGoal

SCALED_STEPS = 1 << 16  # from here on q_s is its limit, which is never too large
DESIGN = 4096
DEPTH = 40.0


def _first_order(decay: float, rows: Floats, start: float = 0.0) -> Floats:
    """y_t = rows_t + decay y_{t-1}, with y_{-1} = start."""
    if len(rows) == 1:  # the same two operations, without a library's preparations
        return rows + decay * start
    from scipy.signal import lfilter

    out, _ = lfilter([1.0, 0.0], [1.0, -decay], rows, zi=[decay * start])
    result: Floats = out
    return result


@dataclass(frozen=True)
class ScaledBuffered(Buffers):
    """Strategy diag(t^-exponent) H diag(s^exponent q_s d_s) with buffers in H.

    Parameters
    ----------
    weights, decays : tuple of float
        The buffers of H, as for `Buffered`.
    exponent : float
        Exponent of the scaling.
    loading : ColumnNorms, optional
        The column norms d_s. Default: 1.
    """

    exponent: float
    loading: ColumnNorms | None = None

    def __post_init__(self) -> None:
        base = self.base
        if not 0 <= validate.number("exponent", self.exponent) <= 2:
            raise ArgumentError("exponent", self.exponent, "must lie in [0, 2]", "give about 0.85")
        total = sum(base.weights)
        if total**2 > sum(w * d for w, d in zip(base.weights, base.decays, strict=True)):
            raise ArgumentError(
                "weights", self.weights, "must give a log-convex column", "give smaller weights"
            )

    @property
    def base(self) -> Buffered:
        return Buffered(self.weights, self.decays)

    @property
    def name(self) -> str:
        kind = "time-scaled" if self.loading is None else "front-loaded"
        return f"{kind} buffers ({len(self.weights)} buffers)"

    def sensitivity(self, participation: Participation, steps: int | None = None) -> float:
        # the value without a horizon bounds every horizon
        capped = Participation(participation.within(steps), participation.separation)
        weights, decays = np.array(self.weights), np.array(self.decays)
        if self.loading is None:
            return scaled_sensitivity(weights, decays, capped)
        return weighted_pattern(self.loading.worst(capped), weights, decays, capped.separation)

    def variances(self, steps: int) -> Floats:
        weights, decays = np.array(self.weights), np.array(self.decays)
        scales = column_scales(weights, decays, self.exponent, steps)
        if self.loading is not None:
            scales = scales * self.loading.factors(0, steps)
        return VarianceTracker(weights, decays, self.exponent).advance(scales)


def scaled_sensitivity(weights: Floats, decays: Floats, participation: Participation) -> float:
    """sens(H)/||h||, the sensitivity of the scaled matrix on a stream without end."""
    norm = limit_sensitivity(weights, decays, Participation(1, 1))
    return limit_sensitivity(weights, decays, participation) / norm


def column_scales(
    weights: Floats, decays: Floats, exponent: float, steps: int, *, depth: float = DEPTH
) -> Floats:
    """s^gamma q_s for s = 1..n; depth as in `column_norms`."""
    s = np.arange(1, steps + 1, dtype=np.float64)
    norms = column_norms(weights, decays, exponent, steps, depth=depth)
    scales: Floats = s**exponent / np.sqrt(norms)
    return scales


@lru_cache(maxsize=8)
def norm_table(
    weights: tuple[float, ...], decays: tuple[float, ...], exponent: float
) -> tuple[Floats, float]:
    """N_s for s = 1 .. SCALED_STEPS, and the limit that is used afterwards."""
    norms = column_norms(np.array(weights), np.array(decays), exponent, SCALED_STEPS + 1)
    return norms[:-1], float(norms[-1])


def column_norms(
    weights: Floats, decays: Floats, exponent: float, steps: int, *, depth: float = DEPTH
) -> Floats:
    """N_s = sum_i h_i^2 (s/(s+i))^(2 gamma) for s = 1..n, never too small; q_s = 1/sqrt(N_s).

    depth: sums are followed until their terms have fallen by e^-depth; the rest is bounded.
    """
    products = np.outer(decays, decays)
    pairs = np.outer(weights, weights)
    limit = 1 + float((pairs / (1 - products)).sum())
    exact = min(steps, SCALED_STEPS)
    margin = min(math.ceil(depth / (1 - float(products.max()))), 1 << 18)
    s = np.arange(1, exact + margin + 1, dtype=np.float64)
    powers = s ** (-2 * exponent)
    total = np.ones(exact)
    for a in range(len(weights)):
        for b in range(a + 1):
            # T(s) = sum_{i>=1} x^(i-1) (s+i)^(-2 gamma) runs backwards: T(s) = p(s+1) + x T(s+1);
            # starting from its upper bound p/(1-x) keeps every N_s an upper bound
            x = float(products[a, b])
            backwards = _first_order(x, powers[:0:-1], powers[-1] / (1 - x))
            tail = backwards[::-1][:exact]
            total += (1 if a == b else 2) * pairs[a, b] * tail / powers[:exact]
    return np.concatenate([np.minimum(total, limit), np.full(steps - exact, limit)])


def variances(weights: Floats, decays: Floats, exponent: float, steps: int) -> Floats:
    """The variances of the prefix sums of C^-1 times unit noise, t = 1..n."""
    return VarianceTracker(weights, decays, exponent).advance(
        column_scales(weights, decays, exponent, steps)
    )


class VarianceTracker:
    """The variance of the released prefix sums, step by step, in O(M^2) numbers.

    The inverse of H is a bank of buffers b_m(t+1) = theta_m b_m(t) + t^gamma y_t, the estimate
    x_t = (t^gamma y_t - sum_m omega_m b_m(t))/(t^gamma q_t), and S_t = S_{t-1} + x_t. The
    covariances of the buffers, of each with S, and the variance of S follow first-order recursions.
    """

    def __init__(self, weights: Floats, decays: Floats, exponent: float) -> None:
        inverse = Buffered(tuple(weights.tolist()), tuple(decays.tolist())).inverse_buffers
        self.omega, self.theta = inverse
        self.exponent = exponent
        m = len(self.theta)
        self.steps = 0
        self.buffers = np.zeros((m, m))  # covariances of b(t+1) after step t
        self.crossed = np.zeros(m)  # covariances of b(t+1) and S_t
        self.total = 0.0

    def advance(self, scales: Floats) -> Floats:
        """Variances after the next steps, whose column scales s^gamma q_s are given."""
        omega, theta, m = self.omega, self.theta, len(self.theta)
        t = np.arange(self.steps + 1, self.steps + len(scales) + 1, dtype=np.float64)
        entering = t ** (2 * self.exponent)
        held = np.empty((m, m, len(t)))  # covariances of b(t)
        for a in range(m):
            for b in range(m):
                after = _first_order(theta[a] * theta[b], entering, self.buffers[a, b])
                held[a, b] = np.concatenate([[self.buffers[a, b]], after[:-1]])
                self.buffers[a, b] = after[-1]
        mixed = np.einsum("b,abt->at", omega, held)
        change = (entering + omega @ mixed) / scales**2
        for a in range(m):
            drive = (entering - theta[a] * mixed[a]) / scales
            after = _first_order(theta[a], drive, self.crossed[a])
            before = np.concatenate([[self.crossed[a]], after[:-1]])
            self.crossed[a] = after[-1]
            change -= 2 * omega[a] * before / scales
        result = np.cumsum(np.concatenate([[self.total], change]))[1:]
        self.total = float(result[-1])
        self.steps += len(scales)
        return result

    def numbers(self) -> Floats:
        """The whole state as one flat array."""
        ends = [self.total, float(self.steps)]
        return np.concatenate([self.buffers.ravel(), self.crossed, ends])

    def restore(self, numbers: Floats) -> None:
        """Continue exactly from `numbers()`."""
        m = len(self.theta)
        self.buffers = numbers[: m * m].reshape(m, m).copy()
        self.crossed = numbers[m * m : m * m + m].copy()
        self.total, self.steps = float(numbers[-2]), int(numbers[-1])


@lru_cache(maxsize=64)
def fit_scaled(
    participation: Participation, steps: int, goal: ErrorGoal = RMSE, *, buffers: int = 2
) -> ScaledBuffered:
    """The best `ScaledBuffered` strategy found for a goal over `steps` steps.

    Fitted on at most DESIGN steps: what lies beyond hardly moves a goal that counts early steps.
    """
    from scipy.optimize import minimize

    length = min(steps, max(DESIGN, 20 * goal.first))
    t = np.arange(1, length + 1, dtype=np.float64)
    share = goal.weights(length) / t**2
    capped = Participation(participation.within(steps), participation.separation)

    def unpack(x: Floats) -> tuple[Floats, Floats, float]:
        return np.exp(x[buffers:-1]), 1 / (1 + np.exp(-x[:buffers])), float(x[-1])

    def objective(x: Floats) -> float:
        omega, theta, exponent = unpack(x)
        gap = np.min(np.diff(np.sort(theta)), initial=1.0)
        if gap < 1e-7 or theta.max() > 1 - 1e-9 or omega.sum() ** 2 > omega @ theta:
            return 1e3
        error = float(share @ variances(omega, theta, exponent, length))
        return 2 * math.log(scaled_sensitivity(omega, theta, capped)) + math.log(error)

    best: tuple[float, Floats] | None = None
    limits = [(-6.0, 16.0)] * buffers + [(-12.0, 0.0)] * buffers + [(0.0, 2.0)]
    for decays, weights in STARTS[buffers]:
        odds = np.array(decays) / (1 - np.array(decays))
        start = np.concatenate([np.log(odds), np.log(np.array(weights)) + 0.2, [0.85]])
        found = minimize(objective, start, method="L-BFGS-B", bounds=limits)
        if best is None or found.fun < best[0]:
            best = (float(found.fun), found.x)
    assert best is not None
    omega, theta, exponent = unpack(best[1])
    order = np.argsort(theta)
    return ScaledBuffered(tuple(omega[order].tolist()), tuple(theta[order].tolist()), exponent)
