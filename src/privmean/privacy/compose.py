"""Composition: the total loss of several mechanism calls, each fixed or adaptively chosen.

Several valid upper bounds are computed and the smallest is taken:

* basic: pure epsilons add, Gaussian mu^2 add and are converted exactly, added deltas add;
* zCDP: rho adds and is converted by the optimal bound of Canonne, Kamath and Steinke (2020);
* privacy loss distributions (dp-accounting), rounded pessimistically, on a grid whose step follows
  the size of the loss so that memory stays bounded at any epsilon.

The first two are closed forms; the third is used only where it can win.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from privmean.privacy.gdp import gaussian_delta, gaussian_epsilon
from privmean.privacy.loss import Curve, Gaussian, Laplace, Loss, Selection

GRID_POINTS = 2**15


def pure_epsilon(losses: Sequence[Loss]) -> Fraction | None:
    """The exact sum of epsilons if every loss is pure, else None."""
    if any(loss.mu or loss.added_delta or loss.added_epsilon for loss in losses):
        return None
    return sum((loss.pure for loss in losses), Fraction(0))


def total_rho(losses: Sequence[Loss]) -> float:
    """zCDP of the composition; infinite if some part has a delta of its own.

    Discrete Gaussian noise is mu^2/2-zCDP on any lattice, so no lattice correction is needed.
    """
    if any(loss.added_delta for loss in losses):
        return math.inf
    return math.fsum(loss.rho for loss in losses)


def _parts(losses: Sequence[Loss]) -> tuple[Fraction, float, float, float, float]:
    pure = sum((loss.pure for loss in losses), Fraction(0))
    mu = math.sqrt(math.fsum(loss.mu**2 for loss in losses))
    added_delta = math.fsum(loss.added_delta for loss in losses)
    added_epsilon = math.fsum(loss.added_epsilon for loss in losses)
    factor = math.prod(loss.delta_factor for loss in losses)
    return pure, mu, added_delta, added_epsilon, factor


def rho_delta(rho: float, epsilon: float) -> float:
    """The delta of a rho-zCDP mechanism at epsilon (Canonne, Kamath, Steinke 2020, Cor. 13)."""
    from scipy.optimize import minimize_scalar

    if rho <= 0:
        return 0.0

    def exponent(log_alpha: float) -> float:
        gap = math.exp(log_alpha)
        alpha = 1 + gap
        return gap * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha) - math.log(gap)

    start = math.log(max((epsilon - rho) / (2 * rho), 1e-6))
    best = minimize_scalar(exponent, bounds=(start - 3, start + 3), method="bounded")
    # any alpha > 1 gives a valid bound, so an inexact minimiser costs tightness, not privacy
    return min(1.0, math.exp(min(exponent(float(best.x)), 0.0)))


def rho_epsilon(rho: float, delta: float) -> float:
    """The smallest epsilon for which a rho-zCDP mechanism is (epsilon, delta)-DP."""
    if rho <= 0:
        return 0.0
    if delta <= 0:
        return math.inf
    low, high = 0.0, rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-12
    for _ in range(100):
        middle = (low + high) / 2
        if rho_delta(rho, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def _distribution(losses: Sequence[Loss]) -> Any:
    """The composed privacy loss distribution of the noise parts, pessimistic."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    pure, mu, _, _, _ = _parts(losses)
    span = float(pure) + mu * (mu / 2 + 12)
    interval = span / GRID_POINTS
    total: Any = None
    gaussian = 0.0
    for loss in losses:
        piece: Any = None
        if isinstance(loss, Gaussian):
            gaussian = math.hypot(gaussian, loss.mu)
        elif isinstance(loss, Laplace):
            one = pld.from_laplace_mechanism(
                float(loss.scale * loss.spread / loss.sensitivity),
                value_discretization_interval=interval,
            )
            piece = one.self_compose(loss.spread) if loss.spread > 1 else one
        elif loss.pure:
            piece = pld.from_privacy_parameters(
                _parameters(float(loss.pure)), value_discretization_interval=interval
            )
        if piece is not None:
            total = piece if total is None else total.compose(piece)
    if gaussian:
        piece = pld.from_gaussian_mechanism(1 / gaussian, value_discretization_interval=interval)
        total = piece if total is None else total.compose(piece)
    return total


def _parameters(epsilon: float) -> Any:
    from dp_accounting.pld import common

    return common.DifferentialPrivacyParameters(epsilon, 0)


def _grid_helps(losses: Sequence[Loss]) -> bool:
    noisy = [loss for loss in losses if loss.pure or loss.mu]
    laplace = any(isinstance(loss, Laplace | Selection) or loss.pure for loss in noisy)
    pieces = sum(loss.spread if isinstance(loss, Laplace) else 1 for loss in noisy)
    return laplace and pieces > 1


def total_delta(losses: Sequence[Loss], epsilon: float, *, grid: bool = True) -> float:
    """An upper bound on delta at `epsilon`; tight where a closed form or a grid is."""
    pure, mu, added_delta, added_epsilon, factor = _parts(losses)
    left = epsilon - added_epsilon
    bounds = [1.0]
    rest = float(Fraction(left) - pure) if left > 0 else -math.inf
    if rest >= 0:
        bounds.append(gaussian_delta(mu, rest) * factor)
    if left > 0:
        rho = math.fsum(loss.rho for loss in losses)
        bounds.append(rho_delta(rho, left) * factor)
        if grid and min(bounds) > 0 and _one_curve(losses) is None and _grid_helps(losses):
            bounds.append(_distribution(losses).get_delta_for_epsilon(left) * factor)
    return min(1.0, added_delta + min(bounds), _curve_delta(losses, epsilon))


def _one_curve(losses: Sequence[Loss]) -> Curve | None:
    """The curve of a bill that has exactly one, and Gaussian parts besides."""
    found = [loss for loss in losses if isinstance(loss, Curve)]
    others = any(loss.pure for loss in losses if not isinstance(loss, Curve))
    return found[0] if len(found) == 1 and not others and len(losses) > 1 else None


def _curve_delta(losses: Sequence[Loss], epsilon: float) -> float:
    """delta of one curve and Gaussian mechanisms, by the law that dominates the curve."""
    curve = _one_curve(losses)
    if curve is None:
        return 1.0
    _, mu, added_delta, added_epsilon, factor = _parts([x for x in losses if x is not curve])
    if epsilon <= added_epsilon:
        return 1.0
    return added_delta + curve.profile().with_gaussian(mu, epsilon - added_epsilon) * factor


def _curve_epsilon(losses: Sequence[Loss], delta: float) -> float:
    if _one_curve(losses) is None or _curve_delta(losses, 1e3) > delta:
        return math.inf
    low, high = 0.0, 1e3
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if _curve_delta(losses, middle) <= delta else (middle, high)
    return high


def total_epsilon(losses: Sequence[Loss], delta: float, *, grid: bool = True) -> float:
    """An upper bound on epsilon at `delta` (infinite if delta is too small for the parts)."""
    pure, mu, added_delta, added_epsilon, factor = _parts(losses)
    left = (delta - added_delta) / factor
    # deltas are sums of doubles: a deficit within rounding is no deficit of privacy
    if left < -1e-12 * max(delta, 1e-300):
        return _curve_epsilon(losses, delta)
    left = max(left, 0.0)
    bounds = [
        float(pure) + gaussian_epsilon(mu, left) + added_epsilon if left or not mu else math.inf
    ]
    if left > 0:
        rho = math.fsum(loss.rho for loss in losses)
        bounds.append(rho_epsilon(rho, left) + added_epsilon)
        if grid and _one_curve(losses) is None and _grid_helps(losses):
            bounds.append(_distribution(losses).get_epsilon_for_delta(left) + added_epsilon)
    return min(*bounds, _curve_epsilon(losses, delta))
