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
from scipy.special import ndtri

from privmean.inference.laplace_normal import (
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
TOGETHER = 32  # factors up to 1e5, so that their product is a double
BLOCK = 64  # points whose sines are computed together
_T = STEP * np.arange(1, POINTS + 1)


def sum_quantile(tail: float, scales: Sequence[float], sd: float) -> float:
    """The t with P(sum of Laplace(b_i) + Normal(0, sd) > t) = tail; 0 < tail <= 1/2."""
    return float(sum_quantiles(tail, np.array([scales], dtype=float), np.array([sd]))[0])


def sum_quantiles(tail: float, scales: Floats, sd: Floats) -> Floats:
    """Return `sum_quantile` of many sums at once: scales has shape (rows, k), sd (rows,)."""
    return _Sums(scales, sd).quantiles(tail)


def sum_tail(x: float, scales: Sequence[float], sd: float) -> float:
    """P(sum of Laplace(b_i) + Normal(0, sd) > x) for x >= 0, to 1e-9 or so."""
    sums = _Sums(np.array([scales], dtype=float), np.array([sd]))
    (unit,) = sums.unit
    if not (unit > 0 and math.isfinite(unit)):
        return 0.0 if unit <= 0 and x > 0 else 0.5
    return float(sums.tails(np.array([x / unit]), np.array([0]))[0])


def bounded_quantiles(level: float, width: Floats, scales: Floats, sd: Floats) -> Floats:
    """Return per sum the q with P(X > q) + P(X > q + width) = 1 - level (X as above), at least 0.

    An estimate with error X and a bias known to lie in a range of this width is held by the range
    with q on either side at the level or more, whatever the bias (Imbens and Manski 2004). width
    and sd have shape (rows,), scales (rows, k); width 0 gives the two-sided quantile, infinity the
    one-sided one.
    """
    outside, sums = 1 - level, _Sums(scales, sd)
    found = sums.quantiles(outside / 2)
    usable = np.isfinite(found) & (found > 0) & (width > 0)
    rows = np.flatnonzero(usable & np.isinf(width))
    found[rows] = sum_quantiles(outside, scales[rows], sd[rows]) if outside < 0.5 else 0.0
    between = usable & ~np.isinf(width)
    room = width / np.where(between, sums.unit, 1.0)

    def excess(q: Floats, at: Rows) -> Floats:
        return sums.tails(q, at) + sums.tails(q + room[at], at) - outside

    rows = np.flatnonzero(between & sums.closed)
    needed = excess(np.zeros(len(rows)), rows) > 0
    found[rows[~needed]] = 0.0
    rows = rows[needed]
    high = found[rows] / sums.unit[rows]
    roots = find_roots(lambda q, at: excess(q, rows[at]), np.zeros(len(rows)), high, TOLERANCE)
    found[rows] = roots * sums.unit[rows]
    for row in np.flatnonzero(between & ~sums.closed).tolist():
        found[row] = _bounded(sums, row, float(found[row]), float(room[row]), outside)
    return found


def _bounded(sums: _Sums, row: int, high: float, room: float, outside: float) -> float:
    """The same of one sum without a closed form, whose two-sided quantile is `high`."""
    above, unit = sums.above(row), float(sums.unit[row])

    def excess(q: float) -> float:
        return above(q) + above(q + room) - outside

    return find_root(excess, 0.0, high / unit, TOLERANCE) * unit if excess(0.0) > 0 else 0.0


class _Sums:
    """Many sums, each in units of its deviation `unit`; see `_parted` for `large` and `normal`."""

    def __init__(self, scales: Floats, sd: Floats) -> None:
        self.large, self.normal, self.unit = _parted(scales, sd)
        self.closed = np.count_nonzero(self.large, axis=1) <= CLOSED
        self._above: dict[int, Callable[[float], float]] = {}

    def above(self, row: int) -> Callable[[float], float]:
        """The tail of a sum without a closed form, at x >= 0."""
        if row not in self._above:
            self._above[row] = _tail(self.large[row], float(self.normal[row]))
        return self._above[row]

    def tails(self, x: Floats, rows: Rows) -> Floats:
        """P(X > x) for x >= 0, of one x for each of these rows."""
        found = np.zeros(len(x))
        near = self.closed[rows]
        some = rows[near]
        found[near] = survivals(x[near], self.large[some], self.normal[some])
        for at in np.flatnonzero(~near).tolist():
            found[at] = self.above(int(rows[at]))(float(x[at]))
        return found

    def quantiles(self, tail: float) -> Floats:
        """The t of every sum with P(X > t) = tail, in units of the caller."""
        found = self.unit.copy()  # nothing and infinity stay what they are
        usable = np.isfinite(found) & (found > 0)
        rows = np.flatnonzero(self.closed & usable)
        found[rows] *= quantiles(tail, self.large[rows], self.normal[rows])
        for row in np.flatnonzero(~self.closed & usable).tolist():
            above = self.above(row)
            low, high = 0.0, 1.5 * float(-ndtri(tail)) + 1.0
            while above(high) > tail:
                low, high = high, 2 * high
            found[row] *= find_root(lambda x, f=above: f(x) - tail, low, high, TOLERANCE)  # type: ignore[misc]
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


def _tail(b: Floats, s: float) -> Callable[[float], float]:
    """P(X > x) for a sum of deviation 1."""
    # a logarithm for some factors together, whose product is a double
    log_cf = -0.5 * (s * _T) ** 2
    values, times = np.unique(b[b > 0], return_counts=True)
    for number in np.unique(times):
        alike = values[times == number]
        for first in range(0, len(alike), TOGETHER):
            factors = 1 + np.square(alike[first : first + TOGETHER, None] * _T)
            log_cf -= number * np.log(factors.prod(axis=0))
    kept = max(int(np.searchsorted(-log_cf, NOTHING)), 1)  # it falls in t
    curve = np.zeros(-(-kept // BLOCK) * BLOCK)
    curve[:kept] = np.exp(log_cf[:kept]) / _T[:kept]
    parts = curve.reshape(-1, BLOCK)
    inner, outer = STEP * np.arange(1, BLOCK + 1), STEP * BLOCK * np.arange(len(parts))

    def above(x: float) -> float:
        if x >= FAR:
            return 0.0
        # the sine of a sum: far fewer sines than points. The integrand is x at t = 0
        cosines, sines = parts @ np.cos(x * inner), parts @ np.sin(x * inner)
        whole = np.sin(x * outer) @ cosines + np.cos(x * outer) @ sines
        return min(max(0.5 - STEP / math.pi * (0.5 * x + float(whole)), 0.0), 0.5)

    return above
