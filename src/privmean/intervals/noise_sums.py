"""Sums of many Laplace noises and a normal one: quantiles for any scales, equal ones too.

Three scales and fewer have a closed form (`laplace_normal.py`), whose partial fractions cancel
where many scales are close. Here the tail is found from the characteristic function

    P(X > x) = 1/2 - (1/pi) int_0^inf sin(t x)/t exp(-sd^2 t^2/2) prod 1/(1 + b_i^2 t^2) dt

(Gil-Pelaez 1951), by the trapezoidal rule: in units of the deviation of X its error is the tail of
X beyond 60 deviations, plus what lies beyond the last t. Nothing reads data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from privmean.intervals.laplace_normal import Floats, find_root, quantile, survival

CLOSED = 3  # scales up to here have a stable closed form
STEP, POINTS = 0.1, 4000
SMALL = 1e-4  # of the deviation: scales below this are normal
TOLERANCE = 1e-9
NOTHING = 37.0  # minus the logarithm of what is left out: below the last bit of a double
FAR = 40.0  # deviations from which the tail is nothing, before the rule repeats itself
_T = STEP * np.arange(1, POINTS + 1)


def sum_quantile(tail: float, scales: Sequence[float], sd: float) -> float:
    """The t with P(sum of Laplace(b_i) + Normal(0, sd) > t) = tail; 0 < tail <= 1/2."""
    return _sum_quantile(tail, tuple(scales), sd)


@lru_cache(maxsize=512)  # a release is shown as a text, as rows and as a table
def _sum_quantile(tail: float, scales: tuple[float, ...], sd: float) -> float:
    large, normal, whole = _parted(scales, sd)
    if whole <= 0:
        return 0.0
    if not math.isfinite(whole):
        return whole
    if len(large) <= CLOSED:
        return quantile(tail, large.tolist(), normal)
    above = _tail(large / whole, sd / whole)
    low, high = 0.0, 1.5 * float(-ndtri(tail)) + 1.0
    while above(high) > tail:
        low, high = high, 2 * high
    return find_root(lambda x: above(x) - tail, low, high, TOLERANCE) * whole


def sum_tail(x: float, scales: Sequence[float], sd: float) -> float:
    """P(sum of Laplace(b_i) + Normal(0, sd) > x) for x >= 0, to 1e-9 or so."""
    whole = _parted(scales, sd)[2]
    if whole <= 0 or not math.isfinite(whole):
        return 0.0 if whole <= 0 and x > 0 else 0.5
    return _tail_of(scales, sd)(x)


def bounded_quantile(level: float, width: float, scales: Sequence[float], sd: float) -> float:
    """The q with P(X > q) + P(X > q + width) = 1 - level (X as above), at least 0: an estimate with
    error X and a bias known to lie in a range of this width is held by the range with q on either
    side at the level or more, whatever the bias (Imbens and Manski 2004). width: 0 gives the
    two-sided quantile, infinity the one-sided one.
    """
    return _bounded_quantile(level, width, tuple(scales), sd)


@lru_cache(maxsize=512)
def _bounded_quantile(level: float, width: float, scales: tuple[float, ...], sd: float) -> float:
    outside = 1 - level
    high = sum_quantile(outside / 2, scales, sd)
    if width <= 0 or high <= 0 or not math.isfinite(high):
        return high
    tail = _tail_of(scales, sd)
    if math.isinf(width):
        return sum_quantile(outside, scales, sd) if outside < 0.5 else 0.0
    if tail(0.0) + tail(width) <= outside:
        return 0.0
    return find_root(lambda q: tail(q) + tail(q + width) - outside, 0.0, high, TOLERANCE)


def _tail_of(scales: Sequence[float], sd: float) -> Callable[[float], float]:
    """P(X > x) for x >= 0 as a function of x; the deviation of X is above 0."""
    large, normal, whole = _parted(scales, sd)
    if len(large) <= CLOSED:
        return lambda x: float(survival(x, large.tolist(), normal))
    above = _tail(large / whole, sd / whole)
    return lambda x: min(max(above(x / whole), 0.0), 0.5) if x < FAR * whole else 0.0


def _parted(scales: Sequence[float], sd: float) -> tuple[Floats, float, float]:
    """Scales that count, the normal part with all others, and the deviation of the whole."""
    used = np.abs(np.asarray([item for item in scales if item], dtype=float))
    whole = math.sqrt(float(2 * (used**2).sum()) + sd * sd)
    large = used[used > SMALL * whole]
    rest = float(2 * (used[used <= SMALL * whole] ** 2).sum())
    return (large if len(large) <= CLOSED else used), math.sqrt(sd * sd + rest), whole


def _tail(b: Floats, s: float) -> Callable[[float], float]:
    """P(X > x) for a sum of deviation 1."""
    # one logarithm a scale and t keeps the product of thousands of factors a double
    log_cf = -0.5 * (s * _T) ** 2
    values, times = np.unique(b, return_counts=True)
    for item, number in zip(values, times, strict=True):
        log_cf = log_cf - number * np.log1p((item * _T) ** 2)
    kept = max(int(np.searchsorted(-log_cf, NOTHING)), 1)  # it falls in t
    t, curve = _T[:kept], np.exp(log_cf[:kept]) / _T[:kept]
    # the integrand is x at t = 0
    return lambda x: 0.5 - STEP / math.pi * (0.5 * x + float(np.sin(x * t) @ curve))
