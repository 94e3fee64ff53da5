"""Gaussian and zero-concentrated differential privacy.

The analytic Gaussian: the trade-off of one Gaussian mechanism, exactly.

Gaussian noise of standard deviation s on a query of l2 sensitivity D is mu-GDP with mu = D/s, and

    delta(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)

(Balle and Wang 2018; Dong, Roth and Su 2022). Adaptive compositions add mu^2. Valid for all eps.

Doubles are rounded outward: a returned delta is never below the exact one, a returned mu never
above it.

From zero-concentrated differential privacy to (epsilon, delta), rounded outward.

A rho-zCDP mechanism is (epsilon, delta)-DP with, for every alpha > 1,

    delta = exp((alpha - 1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1)

(Canonne, Kamath and Steinke 2020, Proposition 12). Any alpha gives a valid bound, so an inexact
minimum over alpha costs tightness, never privacy.
"""

from __future__ import annotations

import math
from functools import lru_cache

from privmean.bisection import bisect

SMALL_MU = 0.5
SMALLEST = 5e-324  # the smallest positive double: a delta is never reported as zero


def _log_phi(x: float) -> float:
    from scipy.special import log_ndtr

    return float(log_ndtr(x))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """delta(epsilon) of a mu-GDP Gaussian mechanism, rounded up. epsilon may be negative."""
    if mu <= 0:
        return max(0.0, -math.expm1(min(epsilon, 0.0)))
    low = epsilon / mu - mu / 2
    if mu < SMALL_MU and low > -5:
        return _small_mu_delta(mu, low)
    upper = _log_phi(-low)
    lower = epsilon + _log_phi(-epsilon / mu - mu / 2)
    if upper == -math.inf:
        return SMALLEST
    # the logarithms carry a few units in the last place of their own size and of their arguments'
    slack = 2e-15 * (1 + abs(upper) + abs(epsilon) + mu * mu)
    value = math.exp(min(upper + slack, 0.0)) * -math.expm1(min(lower - upper - slack, 0.0))
    return min(1.0, max(value, SMALLEST))


def _small_mu_delta(mu: float, low: float) -> float:
    """The same without cancellation: phi(low) times the integral of 1 - x R(x) on [low, low + mu].

    R(x) = Phi(-x)/phi(x) is the ratio of Mills, whose derivative is x R(x) - 1.
    """
    from scipy.special import erfcx

    nodes, weights = _gauss_legendre()
    places = [low + mu * node for node in nodes]
    ratios = erfcx([x / math.sqrt(2) for x in places]).tolist()  # one call: most of it is overhead
    total = 0.0
    for x, ratio, weight in zip(places, ratios, weights, strict=True):
        total += weight * (1 - x * math.sqrt(math.pi / 2) * ratio)
    slack = 1e-15 * (8 + 4 * low * low)
    value = math.exp(-low * low / 2) / math.sqrt(2 * math.pi) * mu * total
    return max(value * (1 + slack), SMALLEST)


@lru_cache(maxsize=1)
def _gauss_legendre() -> tuple[list[float], list[float]]:
    """Ten nodes and weights on [0, 1]."""
    import numpy as np

    nodes, weights = np.polynomial.legendre.leggauss(10)
    return ((nodes + 1) / 2).tolist(), (weights / 2).tolist()


@lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose Gaussian mechanism is (epsilon, delta)-DP; 0 if delta is 0."""
    if delta <= SMALLEST or epsilon < 0:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(high, epsilon) <= delta:
        low, high = high, 2 * high
        if high > 1e8:
            return low
    return bisect(lambda mu: gaussian_delta(mu, epsilon) <= delta, low, high)[0]


def _exponent(gap: float, rho: float, epsilon: float) -> float:
    """log delta at alpha = 1 + gap, rounded up: each form where it does not cancel."""
    alpha = 1 + gap
    if gap < 1:
        rest = (gap * math.log(gap), -alpha * math.log1p(gap))
    else:
        rest = (alpha * math.log1p(-1 / alpha), -math.log(gap))
    terms = (gap * alpha * rho, -gap * epsilon, *rest)
    return math.fsum(terms) + 1e-15 * sum(abs(term) for term in terms)


def rho_delta(rho: float, epsilon: float) -> float:
    """The delta of a rho-zCDP mechanism at `epsilon`, rounded up; 0 only for rho = 0."""
    if rho <= 0:
        return 0.0
    if epsilon <= 0:
        return 1.0
    return max(math.exp(min(_exponent(_best_gap(rho, epsilon), rho, epsilon), 0.0)), 5e-324)


def _best_gap(rho: float, epsilon: float) -> float:
    """alpha - 1 where the exponent is least: it is convex, its slope (2 alpha - 1) rho - epsilon +
    log(1 - 1/alpha) rises, and is negative near alpha = 1."""
    low = -40.0  # of the logarithm of alpha - 1
    high = min(max(math.log(epsilon + 1) - math.log(rho), 0.0) + 2, 300.0)

    def falls(log_gap: float) -> bool:
        gap = math.exp(log_gap)
        return (2 * gap + 1) * rho - epsilon - math.log1p(1 / gap) <= 0

    return math.exp(sum(bisect(falls, low, high, 64)) / 2)
