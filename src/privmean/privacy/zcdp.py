"""From zero-concentrated differential privacy to (epsilon, delta), rounded outward.

A rho-zCDP mechanism is (epsilon, delta)-DP with, for every alpha > 1,

    delta = exp((alpha - 1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1)

(Canonne, Kamath and Steinke 2020, Proposition 12). Any alpha gives a valid bound, so an inexact
minimum over alpha costs tightness, never privacy.
"""

from __future__ import annotations

import math

from privmean.bisection import bisect


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


def rho_epsilon(rho: float, delta: float) -> float:
    """The smallest epsilon for which a rho-zCDP mechanism is (epsilon, delta)-DP, rounded up."""
    if rho <= 0:
        return 0.0
    if delta <= 5e-324:
        return math.inf
    low, high = 0.0, (rho + 2 * math.sqrt(rho * math.log(1 / min(delta, 1.0)))) * (1 + 1e-12)
    return bisect(lambda epsilon: rho_delta(rho, epsilon) > delta, low, high, 60)[1]
