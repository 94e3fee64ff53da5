"""Buffered linear Toeplitz: a strategy whose memory is a few buffers, whatever the length.

c_0 = 1 and c_i = sum_m omega_m theta_m^(i-1), omega_m >= 0, 0 <= theta_m < 1, sum omega <= 1.
Such a column is non-negative and decreasing, so its sensitivity is known exactly, also without a
horizon; the inverse has the same form (`inverse_buffers`), so that both sides of a stream keep M
rows. Two or three buffers come within one percent of the best Toeplitz strategy.

Form: Dvijotham, McMahan, Pillutla, Steinke and Thakurta (2024); fit for running means and the
closed forms: docs/proofs/continual.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.streams.participation_sensitivity import Participation
from privmean.streams.power_series import Floats
from privmean.streams.strategies import LowerToeplitz, Strategy
from privmean.streams.strategy_error import RMSE, ErrorGoal


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
