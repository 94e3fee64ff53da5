"""Bounds on the bias of clipping, for one coordinate and for a ball.

The bounds describe the worst law (one large record) and are attained by it. They are proved only
for order 2 or one record a person. They are functions of public numbers; the derivations are in
docs/proofs/heavy-tails-bias.md.

Source: Agarwal et al. (2024), Corollaries 3.7 and 3.13 and Theorem 4.2 (rates); Michel (1976),
Nagaev (1979), Rio (2009) for the tails behind the constants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import ndtr

from privmean.central.heavy_tailed.bounded_moment import Tail

Floats = npt.NDArray[np.float64]

JUMPS = np.geomspace(1e-3, 1e6, 300)[:, None]  # candidate jump sizes, in radii
MIDPOINTS = (np.arange(64) + 0.5) / 64
ORDERS = 17  # orders between 2 and k tried by the bounds of moments


def jump_constant(order: float) -> float:
    """h_k = (k-1)^(k-1)/k^k, the largest x^(-k) (x - 1): E(|Z| - r)+ <= h_k E|Z|^k / r^(k-1)."""
    return float((order - 1) ** (order - 1) / order**order)


def normal_excess(z: Floats) -> Floats:
    """E(N - z)+ for a standard normal N."""
    result = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * ndtr(-z)
    return np.asarray(np.maximum(result, 0.0))


def one_dimension(tails: Sequence[Tail], radius: npt.ArrayLike, offset: float) -> Floats:
    """Bound on |E clip(Y) - E Y| when Y is clipped to center -+ radius, |center - mean| <= offset.

    Infinite where radius <= offset. Shape as `radius`.
    """
    reach = np.asarray(radius, dtype=float) - offset
    floor = 1e-3 * _largest(tails)  # below it the bound is the largest possible anyway
    safe = np.maximum(reach, floor)
    best = np.full(np.shape(reach), np.inf)
    for tail in tails:
        bound = jump_constant(tail.order) * tail.jump * (safe / tail.jump) ** (1 - tail.order)
        if tail.order > 2:
            bound = bound + tail.spread * normal_excess(safe / tail.spread)
        best = np.minimum(best, np.minimum(bound, _moment_excess(tail, safe)))
    return np.where(reach > 0, np.minimum(best, _largest(tails)), np.inf)


def _largest(tails: Sequence[Tail]) -> float:
    """One-sided excess over any level above the mean: E(Y - mean)+ <= sd/2."""
    return min(tail.spread for tail in tails) / 2


def moment_root(tail: Tail, order: float) -> float:
    """Bound on (E|<value - mean, v>|^q)^(1/q), 2 <= q <= k (Rio's inequality, or Minkowski's)."""
    if order == 2:
        return tail.spread
    return min(math.sqrt(order - 1) * tail.root, tail.whole)


def _orders(tail: Tail) -> Floats:
    return np.linspace(2.0, tail.order, ORDERS if tail.order > 2 else 1)


def _moment_excess(tail: Tail, reach: Floats) -> Floats:
    best = np.full(np.shape(reach), np.inf)
    for q in _orders(tail):
        root = moment_root(tail, float(q))
        best = np.minimum(best, jump_constant(float(q)) * root * (reach / root) ** (1 - q))
    return best


def of_share(tails: Sequence[Tail], share: float, offset: float) -> float:
    """Bound on the bias of clipping, in any direction, where at most a `share` of the population is
    clipped and the center is within `offset` (Hoelder, at every order up to the assumed one)."""
    bounds = (
        moment_root(tail, float(q)) * share ** (1 - 1 / float(q)) + offset * share
        for tail in tails
        for q in _orders(tail)
    )
    return float(min(bounds))


def ball(tails: Sequence[Tail], radius: npt.ArrayLike, offset: float) -> Floats:
    """Bound on the l2 bias of clipping to a ball of `radius` whose center is within `offset`.

    The bias of one large record in the worst direction plus the pull of the ball on the bulk; it
    also holds for a radius below the offset (then it is of its order).
    """
    rho = np.atleast_1d(np.asarray(radius, dtype=float))
    best = np.full(rho.shape, np.inf)
    for tail in tails:
        best = np.minimum(best, _ball_of_jump(tail, rho, offset))
        best = np.minimum(best, _ball_of_moments(tail, rho, offset))
    return best.reshape(np.shape(radius))


@lru_cache(maxsize=64)
def _chi_squares(dimension: float) -> Floats:
    result = np.asarray(stats.chi2.ppf(MIDPOINTS, dimension), dtype=float)
    result.setflags(write=False)
    return result


def bulk_squares(tail: Tail) -> Floats:
    """64 quantile midpoints of ||bulk||^2 of a value around the mean."""
    return _chi_squares(tail.dimension) * (tail.size**2 / tail.dimension)


def usual(tail: Tail, radius: float, offset: float) -> float:
    """The pull of a ball on a bulk without large single values, center off by `offset`."""
    around = np.sqrt(offset**2 + bulk_squares(tail))
    return offset * float(np.maximum(0.0, 1 - radius / around).mean())


def _ball_of_jump(tail: Tail, rho: Floats, offset: float) -> Floats:
    d = tail.dimension
    bulk = bulk_squares(tail)
    around = offset**2 + bulk.mean()
    r = JUMPS * rho[None, :]
    with np.errstate(over="ignore", under="ignore"):
        chance = np.minimum(1.0, (math.sqrt(d) * tail.jump / r) ** tail.order)
    # the worst record points along the offset as far as the directional moment lets it
    along = 2 * offset * r / math.sqrt(d)
    cut = np.maximum(0.0, 1 - rho / np.sqrt(r * r + around + along))
    jump = np.max(chance * (r / math.sqrt(d) + offset) * cut, axis=0)
    if offset == 0:
        return np.asarray(jump)
    pull = np.maximum(0.0, 1 - rho[None, :] / np.sqrt(offset**2 + bulk)[:, None]).mean(axis=0)
    return np.asarray(jump + offset * pull)


def _ball_of_moments(tail: Tail, rho: Floats, offset: float) -> Floats:
    reach = np.maximum(rho - offset, 1e-3 * tail.spread)
    best = np.full(rho.shape, np.inf)
    for q in _orders(tail):
        root = moment_root(tail, float(q))
        norm = tail.size if q == 2 else root * math.sqrt(tail.dimension)
        x = np.minimum(norm / reach, 1e100)
        best = np.minimum(best, root * x ** (q - 1) + offset * np.minimum(1.0, x**q))
    limit = tail.size + offset
    return np.where(rho > offset, np.minimum(best, limit), np.inf)
