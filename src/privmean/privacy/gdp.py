"""The analytic Gaussian: the trade-off of one Gaussian mechanism, exactly.

Gaussian noise of standard deviation s on a query of l2 sensitivity D is mu-GDP with mu = D/s, and

    delta(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)

(Balle and Wang 2018; Dong, Roth and Su 2022). Adaptive compositions add mu^2. Valid for all eps.
"""

from __future__ import annotations

import math


def _log_phi(x: float) -> float:
    from scipy.special import log_ndtr

    return float(log_ndtr(x))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """delta(epsilon) of a mu-GDP Gaussian mechanism."""
    if mu <= 0:
        return 0.0
    upper = _log_phi(-epsilon / mu + mu / 2)
    lower = epsilon + _log_phi(-epsilon / mu - mu / 2)
    if lower >= upper:
        return 0.0
    return math.exp(upper) * -math.expm1(lower - upper)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose Gaussian mechanism is (epsilon, delta)-DP; 0 if delta is 0."""
    if delta <= 0 or epsilon < 0:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(high, epsilon) <= delta:
        low, high = high, 2 * high
        if high > 1e8:
            return high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if gaussian_delta(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon for which a mu-GDP mechanism is (epsilon, delta)-DP."""
    if mu <= 0:
        return 0.0
    if delta <= 0:
        return math.inf
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(mu, high) > delta:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if gaussian_delta(mu, middle) <= delta:
            high = middle
        else:
            low = middle
    return high
