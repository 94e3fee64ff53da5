"""Estimates of the mean of vectors in a ball, and radii with explicit constants.

Proofs: docs/proofs/local-ball.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privmean.local.aggregators.batch import UNIT_STEPS
from privmean.local.clients.caps import cap_law, cap_share, mean_height, shrinkage
from privmean.local.coins import signal
from privmean.local.descriptor import Round
from privmean.local.entropy import WORD
from privmean.local.mechanisms import PRIV_UNIT

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BallLaw:
    """What a server knows of the reports of one level, in units of the radius.

    scale: the norm B of a report. signal: B h_d over the centre's length (hemisphere: c).
    along: the largest variance of a report in one direction.
    """

    scale: float
    signal: float
    along: float


def ball_law(round_: Round, level: int, epsilon: float | None = None) -> BallLaw:
    """The law of a level (of another epsilon, for weights under a cap)."""
    assert round_.dimension is not None
    d = round_.dimension
    eps = float(round_.menu[level]) if epsilon is None else epsilon
    if round_.mechanism != PRIV_UNIT:
        c = 1.0 / signal(eps)
        scale = c / mean_height(d)
        return BallLaw(scale, c, scale**2 / d)
    cap = round_.caps[level]
    m = shrinkage(eps, cap, d)
    q = cap_share(cap, d)
    if epsilon is None:
        p = cap_law(round_.menu[level], cap, d).threshold / WORD
    else:
        p = 1.0 / (1.0 + math.exp(-eps) * (1.0 - q) / q)
    a = d / 2
    edge = math.exp(math.lgamma(a) - math.lgamma(a - 0.5) + (d - 1) / 2 * math.log1p(-cap * cap))
    edge /= math.sqrt(math.pi) * (d - 1)
    tail = ((d - 1) * cap * edge + q) / d  # E[U_1^2; U_1 >= cap]
    square = p * tail / q + (1 - p) * (1 / d - tail) / (1 - q)
    return BallLaw(1 / m, 1 / m, max(square, (1 - square) / (d - 1)) / m**2)


def kappa(dimension: int) -> float:
    """1/((d-1) h_d^2), the proxy of a report around its pole, in units of c^2."""
    return 1.0 / ((dimension - 1) * mean_height(dimension) ** 2)


def norm_factor(dimension: int, limit: float) -> float:
    """d + 2 sqrt(d L) + 2 L: a sub-Gaussian vector's squared norm stays below this."""
    return dimension + 2 * math.sqrt(dimension * limit) + 2 * limit


def radius(round_: Round, counts: Floats, weights: Floats, beta: float) -> float:
    """The l2 radius in units of the ball's radius, at any weights; may exceed 1."""
    assert round_.dimension is not None
    d = round_.dimension
    laws = [ball_law(round_, k) for k in range(len(round_.menu))]
    rounding = float((counts * weights * np.array([law.scale for law in laws])).sum())
    rounding *= math.sqrt(d) / (2 * UNIT_STEPS)
    if round_.mechanism == PRIV_UNIT:
        return generic_radius(laws, counts, weights, beta) + rounding
    q = float((counts * (weights * np.array([law.signal for law in laws])) ** 2).sum())
    one_sided, two_sided = math.log(1 / beta), math.log(2 / beta)
    if d == 1:
        return math.sqrt(2 * two_sided * q) + rounding
    first = math.sqrt((1 + kappa(d)) * q * norm_factor(d, one_sided))
    second = math.sqrt(q) * (
        math.sqrt(kappa(d) * norm_factor(d, two_sided)) + 1 + math.sqrt(2 * two_sided)
    )
    return min(first, second) + rounding


def generic_radius(laws: list[BallLaw], counts: Floats, weights: Floats, beta: float) -> float:
    """Any unbiased bounded reports (Klein and Rio 2005)."""
    used = counts > 0
    n, w = counts[used], weights[used]
    scale = np.array([law.scale for law in laws])[used]
    along = np.array([law.along for law in laws])[used]
    total = float((n * (w * scale) ** 2).sum())
    direction = float((n * w**2 * along).sum())
    largest = float(max(w * (scale + 1), default=0.0))
    limit = math.log(1 / beta)
    root = math.sqrt(total)
    return root + math.sqrt(2 * limit * (direction + 2 * largest * root)) + 3 * largest * limit
