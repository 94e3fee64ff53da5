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

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from privmean.intervals.laplace_normal import (
    Floats,
    Rows,
    find_root,
    find_roots,
    quantiles,
    survivals,
)

CLOSED = 3  # scales up to here have a stable closed form
STEP, POINTS = 0.1, 4000
SMALL = 1e-4  # of the deviation: scales below this are normal
TOLERANCE = 1e-9
NOTHING = 37.0  # minus the logarithm of what is left out: below the last bit of a double
FAR = 40.0  # deviations from which the tail is nothing, before the rule repeats itself
_T = STEP * np.arange(1, POINTS + 1)


def sum_quantile(tail: float, scales: Sequence[float], sd: float) -> float:
    """The t with P(sum of Laplace(b_i) + Normal(0, sd) > t) = tail; 0 < tail <= 1/2."""
    return float(sum_quantiles(tail, np.array([scales], dtype=float), np.array([sd]))[0])


def sum_quantiles(tail: float, scales: Floats, sd: Floats) -> Floats:
    """Return `sum_quantile` of many sums at once: scales has shape (rows, k), sd (rows,)."""
    large, normal, unit = _parted(scales, sd)
    found = unit.copy()  # nothing and infinity stay what they are
    closed, usable = _closed(large), np.isfinite(unit) & (unit > 0)
    rows = np.flatnonzero(closed & usable)
    found[rows] *= quantiles(tail, large[rows], normal[rows])
    for row in np.flatnonzero(~closed & usable):
        above = _tail(large[row], normal[row])
        low, high = 0.0, 1.5 * float(-ndtri(tail)) + 1.0
        while above(high) > tail:
            low, high = high, 2 * high
        found[row] *= find_root(lambda x, above=above: above(x) - tail, low, high, TOLERANCE)  # type: ignore[misc]
    return found


def sum_tail(x: float, scales: Sequence[float], sd: float) -> float:
    """P(sum of Laplace(b_i) + Normal(0, sd) > x) for x >= 0, to 1e-9 or so."""
    large, normal, unit = _parted(np.array([scales], dtype=float), np.array([sd]))
    if not (unit[0] > 0 and math.isfinite(unit[0])):
        return 0.0 if unit[0] <= 0 and x > 0 else 0.5
    return float(_tails(large, normal)(np.array([x / unit[0]]), np.array([0]))[0])


def bounded_quantile(level: float, width: float, scales: Sequence[float], sd: float) -> float:
    """The q with P(X > q) + P(X > q + width) = 1 - level (X as above), at least 0: an estimate with
    error X and a bias known to lie in a range of this width is held by the range with q on either
    side at the level or more, whatever the bias (Imbens and Manski 2004). width: 0 gives the
    two-sided quantile, infinity the one-sided one.
    """
    one = np.array([width]), np.array([scales], dtype=float), np.array([sd])
    return float(bounded_quantiles(level, *one)[0])


def bounded_quantiles(level: float, width: Floats, scales: Floats, sd: Floats) -> Floats:
    """Return `bounded_quantile` of many sums at once: width and sd have shape (rows,), scales
    (rows, k)."""
    outside = 1 - level
    found = sum_quantiles(outside / 2, scales, sd)
    usable = np.isfinite(found) & (found > 0) & (width > 0)
    rows = np.flatnonzero(usable & np.isinf(width))
    found[rows] = sum_quantiles(outside, scales[rows], sd[rows]) if outside < 0.5 else 0.0
    rows = np.flatnonzero(usable & ~np.isinf(width))
    large, normal, unit = _parted(scales[rows], sd[rows])
    tails, room = _tails(large, normal), width[rows] / unit

    def excess(q: Floats, some: Rows) -> Floats:
        return tails(q, some) + tails(q + room[some], some) - outside

    every = np.arange(len(rows))
    needed = excess(np.zeros(len(rows)), every) > 0
    found[rows[~needed]] = 0.0
    some = np.flatnonzero(needed)
    high = found[rows[some]] / unit[some]
    roots = find_roots(lambda q, at: excess(q, some[at]), np.zeros(len(some)), high, TOLERANCE)
    found[rows[some]] = roots * unit[some]
    return found


def _parted(scales: Floats, sd: Floats) -> tuple[Floats, Floats, Floats]:
    """Scales that count, with 0 for the others, the normal part with these, and the deviation of
    the whole, per row. The first two are in units of the third."""
    used = np.abs(scales)
    largest = np.maximum(used.max(axis=1, initial=0.0), sd)  # squares of its parts are doubles
    with np.errstate(invalid="ignore", divide="ignore"):
        used, normal = used / largest[:, None], sd / largest
        whole = np.sqrt(2 * (used**2).sum(axis=1) + normal**2)
        used, normal = used / whole[:, None], normal / whole
        large = used > SMALL
        rest = np.where(large, 0.0, used)
        closed = large.sum(axis=1) <= CLOSED
        used = np.where(closed[:, None] & ~large, 0.0, used)
        normal = np.where(closed, np.sqrt(normal**2 + 2 * (rest**2).sum(axis=1)), normal)
        unit = np.where((largest > 0) & np.isfinite(largest), whole * largest, largest)
    return used, normal, unit


def _closed(large: Floats) -> npt.NDArray[np.bool_]:
    """Rows whose sum has few enough scales for the closed form."""
    found: npt.NDArray[np.bool_] = np.count_nonzero(large, axis=1) <= CLOSED
    return found


def _tails(large: Floats, normal: Floats) -> Callable[[Floats, Rows], Floats]:
    """P(X > x) of sums of deviation 1 for x >= 0: of one x per row, and the numbers of the rows."""
    closed = _closed(large)
    above = {row: _tail(large[row], normal[row]) for row in np.flatnonzero(~closed)}

    def tails(x: Floats, rows: Rows) -> Floats:
        found = np.zeros(len(x))
        near = closed[rows]
        some = rows[near]
        found[near] = survivals(x[near], large[some], normal[some])
        for at in np.flatnonzero(~near & (x < FAR)):
            found[at] = min(max(above[rows[at]](x[at]), 0.0), 0.5)
        return found

    return tails


def _tail(b: Floats, s: float) -> Callable[[float], float]:
    """P(X > x) for a sum of deviation 1."""
    # one logarithm a scale and t keeps the product of thousands of factors a double
    log_cf = -0.5 * (s * _T) ** 2
    values, times = np.unique(b[b > 0], return_counts=True)
    for item, number in zip(values, times, strict=True):
        log_cf = log_cf - number * np.log1p((item * _T) ** 2)
    kept = max(int(np.searchsorted(-log_cf, NOTHING)), 1)  # it falls in t
    t, curve = _T[:kept], np.exp(log_cf[:kept]) / _T[:kept]
    # the integrand is x at t = 0
    return lambda x: 0.5 - STEP / math.pi * (0.5 * x + float(np.sin(x * t) @ curve))
