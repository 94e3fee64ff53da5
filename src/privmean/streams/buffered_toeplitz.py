"""Buffered Toeplitz strategies, plain and scaled.

Buffered linear Toeplitz: a strategy whose memory is a few buffers, whatever the length.

c_0 = 1 and c_i = sum_m omega_m theta_m^(i-1), omega_m >= 0, 0 <= theta_m < 1, sum omega <= 1.
Such a column is non-negative and decreasing, so its sensitivity is known exactly, also without a
horizon; the inverse has the same form (`inverse_buffers`), so that both sides of a stream keep M
rows. Two or three buffers come within one percent of the best Toeplitz strategy.

Form: Dvijotham, McMahan, Pillutla, Steinke and Thakurta (2024); fit for running means and the
closed forms: docs/proofs/continual.md.

Buffers with a memory that grows with time: the best strategy known for a running mean.

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
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.streams.strategies import LowerToeplitz, Strategy
from privmean.streams.strategy_error import RMSE, ErrorGoal
from privmean.streams.toeplitz_matrices import ColumnNorms, Floats, Participation, weighted_pattern


@dataclass(frozen=True)
class Buffers(Strategy):
    """A strategy whose two sides keep a row a buffer, however long the stream is."""

    weights: tuple[float, ...]
    decays: tuple[float, ...]

    def state_rows(self, steps: int | None) -> int:
        del steps
        return 2 * len(self.weights)

    def endless(self, participation: Participation) -> bool:
        del participation
        return True


@dataclass(frozen=True)
class Buffered(Buffers, LowerToeplitz):
    """Strategy with few buffers: c_0 = 1, c_i = sum_m weights[m] decays[m]^(i-1).

    Parameters
    ----------
    weights : tuple of float
        Shape (M,), non-negative, with a sum of at most 1.
    decays : tuple of float
        Shape (M,), distinct, from 0 (included) to 1 (excluded).
    label : str, optional
        Name of the strategy.

    Notes
    -----
    Source: Dvijotham et al. (2024).
    """

    label: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        weights = tuple(validate.nonnegative("weights", item) for item in self.weights)
        decays = tuple(validate.nonnegative("decays", item) for item in self.decays)
        if len(weights) != len(decays) or not weights:
            raise ArgumentError(
                "decays",
                self.decays,
                "requires one decay per weight",
                "give as many decays as weights",
            )
        if sum(weights) > 1:
            raise ArgumentError("weights", weights, "must sum to at most 1", "give smaller weights")
        if max(decays) >= 1 or len(set(decays)) < len(decays):
            raise ArgumentError("decays", decays, "must be distinct and below 1", "change them")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "decays", decays)

    @property
    def name(self) -> str:
        return self.label or f"buffered ({len(self.weights)} buffers)"

    def column(self, n: int) -> Floats:
        return _response(np.array(self.weights), np.array(self.decays), n)

    def inverse(self, n: int) -> Floats:
        weights, decays = self.inverse_buffers
        return _response(-weights, decays, n)

    @property
    def inverse_buffers(self) -> tuple[Floats, Floats]:
        """(weights, decays) of 1/C = 1 - sum_m weights[m] x/(1 - decays[m] x).

        With t = 1/x, C = 1 + u'(t - Theta)^-1 u for u = sqrt(omega), so by the Sherman-Morrison
        identity 1/C = 1 - u'(t - Theta + u u')^-1 u: the eigenvalues of a symmetric matrix.
        """
        u = np.sqrt(np.array(self.weights))
        values, vectors = np.linalg.eigh(np.diag(self.decays) - np.outer(u, u))
        return (vectors.T @ u) ** 2, values

    def sensitivity(self, participation: Participation, steps: int | None = None) -> float:
        if steps is not None:
            return super().sensitivity(participation, steps)
        return limit_sensitivity(np.array(self.weights), np.array(self.decays), participation)


def _response(weights: Floats, decays: Floats, n: int) -> Floats:
    c = np.zeros(n)
    c[0] = 1.0
    powers = np.arange(n - 1, dtype=np.float64)
    for weight, decay in zip(weights, decays, strict=True):
        if abs(decay) < 1e-300:
            c[1:2] += weight
        else:
            with np.errstate(under="ignore"):
                size = np.exp(powers * math.log(abs(decay)))
            c[1:] += weight * (size if decay > 0 else size * np.where(powers % 2, -1.0, 1.0))
    return c


def limit_sensitivity(weights: Floats, decays: Floats, participation: Participation) -> float:
    """The sensitivity on a stream without end, an upper bound for every horizon.

    Gamma_0 = 1 + sum_ab w_a w_b/(1 - t_a t_b); Gamma_q = sum_b w_b t_b^(q-1)
    + sum_ab w_a w_b t_b^q/(1 - t_a t_b); sens^2 = K Gamma_0 + 2 sum_{l<K} (K-l) Gamma_{lb}.
    """
    k, b = participation.most, participation.separation
    pairs = np.outer(weights, weights) / (1 - np.outer(decays, decays))
    lags = np.arange(1, k, dtype=np.float64) * b
    with np.errstate(under="ignore"):
        before = decays[None, :] ** (lags[:, None] - 1)
        cross = before @ weights + (before * decays) @ pairs.sum(axis=0)
    total = k * (1 + pairs.sum()) + 2 * float(np.dot(k - np.arange(1, k), cross))
    return math.sqrt(total)


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
    from scipy.optimize import minimize

    validate.choice("buffers", buffers, sorted(STARTS))

    def unpack(x: Floats) -> tuple[Floats, Floats]:
        decays = 1 / (1 + np.exp(-x[:buffers]))
        omega = np.exp(x[buffers:])
        total = omega.sum()
        return (omega if total <= 1 else omega / (total * (1 + 1e-12))), decays

    def objective(x: Floats) -> float:
        omega, decays = unpack(x)
        if np.min(np.diff(np.sort(decays)), initial=1.0) < 1e-9 or decays.max() > 1 - 1e-9:
            return 1e3
        u = np.sqrt(omega)
        theta, vectors = np.linalg.eigh(np.diag(decays) - np.outer(u, u))
        return loss(limit_sensitivity(omega, decays, participation), theta, (vectors.T @ u) ** 2)

    best: tuple[float, Floats] | None = None
    for first_decays, first_weights in STARTS[buffers]:
        odds = np.array(first_decays) / (1 - np.array(first_decays))
        start = np.concatenate([np.log(odds), np.log(np.array(first_weights))])
        bounds = [(-6.0, slowest)] * buffers + [(-16.0, 0.0)] * buffers
        found = minimize(objective, start, method="L-BFGS-B", bounds=bounds, options=options)
        if best is None or found.fun < best[0]:
            best = (float(found.fun), found.x)
    assert best is not None
    omega, decays = unpack(best[1])
    order = np.argsort(decays)
    return Buffered(tuple(omega[order].tolist()), tuple(decays[order].tolist()))


def powers(base: Floats, exponents: Floats) -> Floats:
    """base^exponents for whole exponents; shape (exponents, bases)."""
    size = np.exp(np.outer(exponents, np.log(np.maximum(np.abs(base), 1e-300))))
    signs = np.where((base < 0)[None, :] & (exponents % 2 == 1)[:, None], -1.0, 1.0)
    result: Floats = size * signs
    return result


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
