"""From zero-concentrated differential privacy to (epsilon, delta), rounded outward.

A rho-zCDP mechanism is (epsilon, delta)-DP with, for every alpha > 1,

    delta = exp((alpha - 1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1)

(Canonne, Kamath and Steinke 2020, Proposition 12). Any alpha gives a valid bound, so an inexact
minimum over alpha costs tightness, never privacy.
"""

from __future__ import annotations

import math


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
    from scipy.optimize import minimize_scalar

    if rho <= 0:
        return 0.0
    if epsilon <= 0:
        return 1.0
    # the exponent is convex in alpha; its least value is near this gap where delta is small
    near = math.log(max((epsilon - rho) / (2 * rho), 1e-2))

    def at(log_gap: float) -> float:
        return _exponent(math.exp(log_gap), rho, epsilon)

    best = minimize_scalar(at, bounds=(min(near, 0.0) - 6, max(near, 0.0) + 3), method="bounded")
    return max(math.exp(min(at(float(best.x)), 0.0)), 5e-324)


def rho_epsilon(rho: float, delta: float) -> float:
    """The smallest epsilon for which a rho-zCDP mechanism is (epsilon, delta)-DP, rounded up."""
    if rho <= 0:
        return 0.0
    if delta <= 5e-324:
        return math.inf
    low, high = 0.0, (rho + 2 * math.sqrt(rho * math.log(1 / min(delta, 1.0)))) * (1 + 1e-12)
    for _ in range(60):
        middle = (low + high) / 2
        if rho_delta(rho, middle) <= delta:
            high = middle
        else:
            low = middle
    return high
