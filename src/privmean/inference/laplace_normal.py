"""Laws of sums of noise.

Sums of Laplace and normal variables: tails, quantiles and half lengths of intervals.

The privacy noise of a released sum is Laplace and known; the sampling error of a mean is close to
normal with an estimated deviation. Their sum has a closed-form tail, written here so that no
exponent is ever positive (docs/proofs/intervals.md, section 3). Nothing reads data.

Sums of many Laplace noises and a normal one: quantiles for any scales, equal ones too.

Three scales and fewer have a closed form (above), whose partial fractions cancel
where many scales are close. Here the tail is found from the characteristic function

    P(X > x) = 1/2 - (1/pi) int_0^inf sin(t x)/t exp(-sd^2 t^2/2) prod 1/(1 + b_i^2 t^2) dt

(Gil-Pelaez 1951), by the trapezoidal rule: in units of the deviation of X its error is the tail of
X beyond 60 deviations, plus what lies beyond the last t. Nothing reads data.

The normal distribution itself is written here because importing SciPy's special functions takes as
long as a question; tests compare with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean.array_types import Flags, Floats

Rows = npt.NDArray[np.intp]
Curve = Callable[[float], list[float]]  # a decreasing probability, its slope and its curvature

_ROOT_HALF = math.sqrt(0.5)
_FAR = 25.0  # roots of 2 deviations beyond the meeting point of the two tails
SMALLEST_RATIO = 1e-9  # a normal part below this many Laplace scales is replaced by it
APART = 1e-3  # equal scales are moved apart by this relative amount (tail error below 1e-4)
_TAIL_CELLS, _TAIL_TERMS = 512, 4  # cells of 1/(1 + x), and coefficients in each: 2e-13 relative
_ASYMPTOTIC = 25.0  # beyond, a short series is exact to the last bits
_STANDARD = NormalDist()


def normal_quantile(probability: float) -> float:
    """The x with P(Normal(0, 1) <= x) = probability."""
    if 0 < probability < 1:
        return _STANDARD.inv_cdf(probability)
    return math.copysign(math.inf, probability - 0.5)


def normal_cdf(x: Floats) -> Floats:
    """P(Normal(0, 1) <= x), elementwise, to a relative 1e-12."""
    upper = 0.5 * np.exp(-0.5 * x * x) * scaled_tail(np.abs(x) * math.sqrt(0.5))
    return np.where(x < 0, upper, 1.0 - upper)


def scaled_tail(x: Floats) -> Floats:
    """exp(x^2) erfc(x), elementwise, to a relative 2e-13; x >= -26."""
    cells = _TAIL_CELLS / (1.0 + np.abs(x))
    cell = cells.astype(np.intp)
    part = cells - cell
    terms = _tail_table().take(cell, axis=-1, mode="clip")
    found: Floats = terms[-1] * part
    for term in terms[-2:0:-1]:
        found += term
        found *= part
    found += terms[0]
    found *= cells
    below = x < 0
    if below.any():
        found[below] = 2.0 * np.exp(np.square(x[below])) - found[below]
    return found


def _tail_of_one(x: float) -> float:
    """The same of one x >= 0, from the error function of Python."""
    if x > _ASYMPTOTIC:
        step = 0.5 / (x * x)
        series = 1.0
        for odd in range(13, 0, -2):
            series = 1.0 - odd * step * series
        return series / (x * math.sqrt(math.pi))
    near = math.floor(16 * x) / 16  # whose square is exact
    return math.exp(near * near) * math.exp((x - near) * (x + near)) * math.erfc(x)


@lru_cache(maxsize=1)
def _tail_table() -> Floats:
    """Coefficients of exp(x^2) erfc(x) / cells on every cell of cells = _TAIL_CELLS/(1 + x), by
    powers of the part of a cell, from its values at Chebyshev nodes; the last is x = 0 alone."""
    nodes = 0.5 + 0.5 * np.cos(np.pi * (np.arange(_TAIL_TERMS) + 0.5) / _TAIL_TERMS)
    places = nodes[:, None] + np.arange(_TAIL_CELLS)
    values = [[_tail_of_one(_TAIL_CELLS / cells - 1.0) / cells for cells in row] for row in places]
    table = np.zeros((_TAIL_TERMS, _TAIL_CELLS + 1))
    table[:, :-1] = np.linalg.solve(np.vander(nodes, increasing=True), np.array(values))
    table[0, -1] = 1.0 / _TAIL_CELLS
    return table


def _tail(t: Floats, scale: float | Floats, sd: float | Floats) -> Floats:
    """P(Laplace(scale) + Normal(0, sd) > t) for scale > 0, elementwise."""
    s = np.maximum(sd, SMALLEST_RATIO * scale)
    x, c = np.abs(t) * (_ROOT_HALF / s), _ROOT_HALF * s / scale
    off = c - x
    far = off < -_FAR  # where only the Laplace tail is left
    upper = np.zeros(x.shape)
    if not far.all():
        # the normal tail and both exponential ones, each over the density: no exponent is positive
        normal, near, away = scaled_tail(np.array([x, np.maximum(off, -_FAR), c + x]))
        upper = np.exp(-x * x) * (0.5 * normal + 0.25 * (near - away))
    if far.any():
        upper = np.where(far, 0.5 * np.exp(np.minimum(c * c - np.abs(t) / scale, 0.0)), upper)
    if t.min(initial=0.0) < 0:
        upper = np.where(t >= 0, upper, 1.0 - upper)
    return np.asarray(upper)


def _apart(scales: Sequence[float]) -> list[float]:
    """The positive scales, equal ones moved apart so that partial fractions exist."""
    moved: list[float] = []
    for scale in sorted(abs(item) for item in scales if item):
        low = moved[-1] * (1 + APART) if moved else 0.0
        moved.append(max(scale, low))
    return moved


def survival(t: npt.ArrayLike, scales: Sequence[float], sd: float) -> Floats:
    """P(sum of Laplace(b_i) + Normal(0, sd) > t), elementwise in t.

    scales: Laplace scales b_i (zeros are dropped; any number of them); sd: deviation of the normal
    part, >= 0.
    """
    return _mixture(np.asarray(t, float), _apart(scales), sd)


def _mixture(t: Floats, moved: Sequence[float | Floats], sd: float | Floats) -> Floats:
    """The tail by partial fractions in the scales, each a number or one number per row of t."""
    if not moved:
        with np.errstate(divide="ignore", invalid="ignore"):
            normal = normal_cdf(-t / sd)
        return np.where(np.asarray(sd) > 0, normal, np.where(t < 0, 1.0, 0.0))
    if len(moved) == 1:
        return _tail(t, moved[0], sd)
    total = np.zeros(t.shape)
    for weight, b in zip(_parts(moved), moved, strict=True):
        total = total + weight * _tail(t, b, sd)
    return np.clip(total, 0.0, 1.0)


def _parts(moved: Sequence[Any]) -> list[Any]:
    """The weight of every scale in the partial fractions, which add up to 1."""
    found = []
    for i, b in enumerate(moved):
        weight: Any = 1.0
        for j, c in enumerate(moved):
            if j != i:
                weight = weight * (b * b / ((b - c) * (b + c)))
        found.append(weight)
    return found


def survivals(t: Floats, scales: Floats, sd: Floats) -> Floats:
    """Return `survival` of one t per row: scales has shape (rows, k), t and sd (rows,)."""
    found = np.empty(len(t))
    for rows, moved in _by_number(scales):
        found[rows] = _mixture(t[rows], moved, sd[rows])
    return found


def _by_number(scales: Floats) -> list[tuple[Rows, list[Floats]]]:
    """Rows with the same number of positive scales, and their scales as `_apart` moves them."""
    ordered = np.sort(np.abs(scales), axis=1)
    numbers = (ordered != 0).sum(axis=1)
    found = []
    for number in sorted(set(numbers.tolist())):
        rows = np.flatnonzero(numbers == number)
        moved: list[Floats] = []
        for scale in ordered[rows, ordered.shape[1] - number :].T:
            moved.append(np.maximum(scale, moved[-1] * (1 + APART)) if moved else scale)
        found.append((rows, moved))
    return found


def quantile(tail: float, scales: Sequence[float], sd: float) -> float:
    """The t with P(sum of Laplace(b_i) + Normal(0, sd) > t) = tail; 0 < tail <= 1/2."""
    return float(quantiles(tail, np.array([scales], dtype=float), np.array([sd]))[0])


def quantiles(tail: float, scales: Floats, sd: Floats) -> Floats:
    """Return `quantile` of many sums at once: scales has shape (rows, k), sd (rows,)."""
    found = np.empty(len(sd))
    for every, used in _by_number(scales):
        rows, moved, s = every, used, sd[every]
        if not moved:
            found[rows] = -normal_quantile(tail) * s
            continue
        if len(moved) == 1:
            alone = s <= SMALLEST_RATIO * moved[0]
            found[rows[alone]] = moved[0][alone] * math.log(0.5 / tail)
            rows, moved, s = rows[~alone], [moved[0][~alone]], s[~alone]
        if not len(rows):
            continue
        high = sum(moved) * math.log(1 / tail) + s * math.sqrt(2 * math.log(1 / tail)) + 1e-300
        while (short := _mixture(high, moved, s) > tail).any():
            high = np.where(short, 2 * high, high)

        def beyond(t: Floats, some: Rows, moved: list[Floats] = moved, s: Floats = s) -> Floats:
            return _mixture(t, [b[some] for b in moved], s[some])

        found[rows] = find_roots(beyond, tail, np.zeros(len(rows)), high)
    return found


# --- with a floored noisy allowance ---------------------------------------------------------------
# The end points are v +- (max(w + rho L, 0) + h), where w >= 0 is the true allowance, L the noise
# of the released one in units of v's noise, and v's error is Lap(1) + N(0, tau^2). The worst case
# for a bias within +-w is a bias of w itself, so a miss has probability
#   mean over L of sf(h + max(w + rho L, 0) - w) + sf(h + max(w + rho L, 0) + w).
# L is averaged over cells of its law, finer towards the tails; the allowances form a grid.
_CELLS = np.concatenate([[0.0], np.geomspace(1e-5, 0.5, 40)])
_LOWER: Floats = np.log(_CELLS[:-1] + _CELLS[1:])
_LAPLACE: Floats = np.concatenate([_LOWER, -_LOWER])
_WEIGHTS: Floats = np.tile(np.diff(_CELLS), 2)
_ALLOWANCES: Floats = np.concatenate([[0.0], np.geomspace(0.1, 60.0, 20)])


_ROWS = 32  # rows whose tails are computed together
_SOON, _CLOSE = 12, 3e-5  # steps to a root, and the last of them
_EQUAL = 1e-11  # of a probability


def allowance_half_lengths(tau: Floats, rho: Floats, alpha: float, scales: Floats) -> Floats:
    """Return h(tau; rho, alpha) per row: the half length to add to a floored noisy allowance.

    tau: deviation of the normal part, rho: Laplace scale of the released allowance, both of shape
    (rows,). scales: those of the value, of shape (rows, k). All of a row are in one unit. rho = 0
    (no allowance released) gives the plain quantile.
    """
    found = np.empty(len(tau))
    plain, bought = np.flatnonzero(rho <= 0), np.flatnonzero(rho > 0)
    if len(plain):
        found[plain] = quantiles(alpha / 2, scales[plain], tau[plain])
    for same, moved in _by_number(scales[bought]):
        for first in range(0, len(same), _ROWS):
            some = slice(first, first + _ROWS)
            rows = bought[same[some]]
            part = _Allowed(tau[rows], rho[rows], [b[some] for b in moved])
            found[rows] = part.half_lengths(alpha)
    return found


def allowance_miss(half: float, tau: float, rho: float, scales: Sequence[float] = (1.0,)) -> float:
    """Return the largest miss probability over all allowances w for the half length `half`."""
    moved = [np.array([item]) for item in _apart(scales)]
    one, row = _Allowed(np.array([tau], float), np.array([rho], float), moved), np.array([0])
    return float(one.misses(np.array([half]), row, _ALLOWANCES[None, :]).max())


@dataclass(frozen=True)
class _Allowed:
    """Rows with the same number of scales: tau, rho and every scale have shape (rows,)."""

    tau: Floats
    rho: Floats
    moved: list[Floats]

    def misses(self, half: Floats, rows: Rows, allowances: Floats) -> Floats:
        """Return the miss probability of these rows at allowances of shape (rows or 1, a)."""
        h, w, noise, weights = self._cells(half, rows, allowances)
        # where the noisy allowance is above 0 one end is as far from the bias for every allowance
        far = (2 * w)[:, :, None] + (h + noise)[:, None]
        near, below, above, beyond = self._tails(
            rows, h + noise, h - w, h + w, far.reshape(len(w), -1)
        )
        floored = (1.0 - weights.sum(axis=-1)) * (below + above)
        ends = near[:, None] + beyond.reshape(far.shape)
        missed: Floats = floored + (weights * ends).sum(axis=-1)  # alike for any rows
        return missed

    def bounds(self, half: Floats, rows: Rows, allowances: Floats) -> Floats:
        """Return what the same are at most: the far end is 2 w beyond the near one, where the tail
        is less by a factor that falls on the way out (docs/proofs/intervals.md, section 3)."""
        h, w, noise, weights = self._cells(half, rows, allowances)
        at_half, near, below, above, beyond = self._tails(
            rows, h, h + noise, h - w, h + w, h + 2 * w
        )
        parts, middle = weights * near[:, None], len(_LOWER)
        less, more = parts[:, :, :middle].sum(axis=-1), parts[:, :, middle:].sum(axis=-1)
        below, at_half = np.maximum(below, _LEAST_TAIL), np.maximum(at_half, _LEAST_TAIL)
        floored = (1.0 - weights.sum(axis=-1)) * (below + above)
        bound: Floats = floored + less * (1 + above / below) + more * (1 + beyond / at_half)
        return bound

    def _cells(self, half: Floats, rows: Rows, allowances: Floats) -> tuple[Floats, ...]:
        """Half lengths and allowances as columns and rows, the noise of the cells of the noisy
        allowance, and the weights of those that are above 0."""
        rho = self.rho[rows, None]
        w = allowances * np.maximum(rho, 1.0)
        noise = rho * _LAPLACE
        weights = np.where(w[:, :, None] + noise[:, None] > 0, _WEIGHTS, 0.0)
        return half[:, None], w, noise, weights

    def _tails(self, rows: Rows, *points: Floats) -> list[Floats]:
        """The probabilities of being above points of these rows, all at once."""
        scales, tau = [b[rows, None] for b in self.moved], self.tau[rows, None]
        tails, first, found = _mixture(np.concatenate(points, axis=1), scales, tau), 0, []
        for item in points:
            found.append(tails[:, first : first + item.shape[1]])
            first += item.shape[1]
        return found

    def _quick(self, row: int, allowance: float, most: float) -> Curve | None:
        """`misses` of one row and allowance, where half lengths up to `most` stay in the middle of
        the law: there one formula serves all cells."""
        if not self.moved:
            return None
        scales = np.array([b[row] for b in self.moved])
        s, rho = float(self.tau[row]), float(self.rho[row])
        if s <= SMALLEST_RATIO * scales[-1]:
            return None
        unit, c = _ROOT_HALF / s, (_ROOT_HALF * s / scales)[:, None]
        w = allowance * max(rho, 1.0)
        noise = rho * _LAPLACE
        seen = w + noise > 0
        noise, weights = noise[seen], _WEIGHTS[seen]
        # many ends are the same: the noisy allowance is 0 there
        places = unit * np.concatenate([noise, 2 * w + noise, [-w, w]])
        weights = np.concatenate([weights, weights, [1.0 - weights.sum()] * 2])
        if not w:  # both ends are alike
            places, weights = places[len(noise) : -1], 2.0 * weights[len(noise) : -1]
        if places.min() < -_FAR or places.max() + unit * most > c[-1, 0] + _FAR:
            return None
        parted, k = 0.25 * np.array(_parts(scales.tolist())), len(scales)
        mixed = np.zeros((3, 1 + 2 * k))
        mixed[:, 1 : k + 1] = parted, -parted / scales, parted / scales**2
        mixed[:, k + 1 :] = mixed[:, 1 : k + 1] * [[-1.0], [1.0], [-1.0]]
        mixed[0, 0] = 0.5
        signs = np.repeat([1.0, -1.0, 1.0], [1, len(c), len(c)])[:, None]
        starts = signs * places + np.concatenate([[[0.0]], c, c])

        def missed(h: float) -> list[float]:
            tails = starts + signs * (unit * h)
            density = weights * np.exp(-np.square(tails[0]))
            found: list[float] = (mixed @ (scaled_tail(tails) @ density)).tolist()
            return found

        return missed

    def half_lengths(self, alpha: float) -> Floats:
        rows = np.arange(len(self.tau))
        high = (sum(self.moved) + self.rho) * math.log(1 / alpha)
        high = high + self.tau * math.sqrt(2 * math.log(1 / alpha))
        # solve for one allowance, look which other is worst there, until none is; h only grows
        half, solved = np.zeros(len(rows)), np.zeros((len(rows), len(_ALLOWANCES)), bool)
        worst = np.zeros(len(rows), np.intp)
        while len(rows):
            solved[rows, worst] = True
            roots = self._roots(rows, _ALLOWANCES[worst], high, alpha)
            half[rows] = np.maximum(half[rows], roots)
            least = np.where(solved[rows], math.inf, alpha * (1 + _EQUAL))
            over = self.bounds(half[rows], rows, _ALLOWANCES[None, :]) - least
            row, at = np.nonzero(over > 0)
            if len(row):
                known = self.misses(half[rows[row]], rows[row], _ALLOWANCES[at, None])[:, 0]
                over[row, at] = known - least[row, at]
            new = over.max(axis=1) > 0
            rows, worst = rows[new], over.argmax(axis=1)[new]
        return half

    def _roots(self, rows: Rows, allowances: Floats, high: Floats, alpha: float) -> Floats:
        """Half lengths of rows, each at one allowance; `high` grows where it is too low."""
        pairs = zip(rows.tolist(), allowances.tolist(), strict=True)
        roots = np.array([self._quick_root(*pair, float(high[pair[0]]), alpha) for pair in pairs])
        others = np.flatnonzero(np.isnan(roots))
        if len(others):
            roots[others] = self._slow_roots(rows[others], allowances[others], high, alpha)
        return roots

    def _quick_root(self, row: int, allowance: float, most: float, alpha: float) -> float:
        """That of one row, where `_quick` serves it; else NaN."""
        missed = self._quick(row, allowance, most)
        if missed is None:
            return math.nan
        variance = self.tau[row] ** 2 + 2 * sum(b[row] ** 2 for b in self.moved)
        start = -normal_quantile(alpha / 2) * math.sqrt(variance)
        root = find_smooth_root(missed, alpha, start, most)
        return math.nan if root is None else root

    def _slow_roots(self, rows: Rows, allowances: Floats, high: Floats, alpha: float) -> Floats:
        """Those of any rows."""

        def missed(h: Floats, at: Rows) -> Floats:
            return self.misses(h, rows[at], allowances[at, None])[:, 0]

        short = np.arange(len(rows))
        while len(short := short[missed(high[rows[short]], short) > alpha]):
            high[rows[short]] *= 1.2
        return find_roots(missed, alpha, np.zeros(len(rows)), high[rows])


_HALF: Floats = np.array([normal_quantile(p) for p in (_CELLS[:-1] + _CELLS[1:]) / 2])
_NORMAL: Floats = np.concatenate([_HALF, -_HALF])
_NORMAL_ALLOWANCES: Floats = np.concatenate([[0.0], np.geomspace(0.05, 12.0, 24)])
_FINE = 16.0  # steps an octave of the noise of an allowance, for which half lengths are kept
_LEAST = 2.0**-8  # noise of an allowance, in deviations of the value, that changes nothing


def normal_half_length(rho: float, alpha: float) -> float:
    """The same for a value and an allowance that both have normal errors: in deviations of the
    value, rho that of the allowance, rounded up to a sixteenth of an octave."""
    if rho <= _LEAST:
        return -normal_quantile(alpha / 2)
    return _normal_half(math.ceil(_FINE * math.log2(rho)), alpha)


@lru_cache(maxsize=4096)
def _normal_half(step: int, alpha: float) -> float:
    rho = 2.0 ** (step / _FINE)
    w = (_NORMAL_ALLOWANCES * max(rho, 1.0))[:, None]
    allowed = np.maximum(w + rho * _NORMAL[None, :], 0.0)

    def most_missed(half: Floats, _: Rows) -> Floats:
        missed = normal_cdf(np.array([w - half - allowed, -half - allowed - w])).sum(0) @ _WEIGHTS
        return np.array([missed.max()])

    most = np.array([2 * (1 + rho) * -normal_quantile(alpha / 2)])
    return float(find_roots(most_missed, alpha, np.zeros(1), most)[0])


def find_smooth_root(curve: Curve, target: float, start: float, most: float) -> float | None:
    """Where a decreasing probability reaches a target, from slope and curvature: Halley's rule for
    its logarithm. None if that is beyond `most` or not found soon."""
    x = min(start, most)
    for _ in range(_SOON):
        value, slope, bend = curve(x)
        if value <= 0 or (x == most and value > target):
            return None
        away, first = math.log(value / target), slope / value
        bottom = 2 * first**2 - away * (bend / value - first**2)
        if not bottom > 0:
            return None
        root = min(max(x - 2 * away * first / bottom, x / 2), 2 * x, most)
        if abs(root - x) <= _CLOSE * root:  # the error is of the third power
            return root
        x = root
    return None


def find_roots(
    tails: Callable[[Floats, Rows], Floats],
    target: float,
    low: Floats,
    high: Floats,
    tolerance: float = 1e-11,
) -> Floats:
    """Return where decreasing probabilities reach a target, from above to a relative tolerance:
    the Illinois rule for their logarithms, which are nearly lines.

    tails takes one argument per row and the numbers of these rows; rows that are done are not
    asked. Written here because importing a library of optimizers would double the start of a
    command.
    """
    low, high = low.copy(), high.copy()
    rows = np.arange(len(low))

    def logs(x: Floats, some: Rows) -> Floats:
        return np.log(np.maximum(tails(x, some) / target, _LEAST_TAIL))

    at_low, at_high = logs(low, rows), logs(high, rows)
    last = np.zeros(len(low))
    while len(rows := np.flatnonzero(high - low > tolerance * high)):
        a, b, at_a, at_b = low[rows], high[rows], at_low[rows], at_high[rows]
        apart = at_b - at_a
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = np.where(apart == 0, (a + b) / 2, (a * at_b - b * at_a) / apart)
        step = 0.5 * tolerance * b
        middle = np.minimum(np.maximum(middle, a + step), b - step)
        value = logs(middle, rows)
        above, side = value > 0, last[rows]
        at_a, at_b = np.where(side < 0, at_a / 2, at_a), np.where(side > 0, at_b / 2, at_b)
        low[rows], at_low[rows] = np.where(above, middle, a), np.where(above, value, at_a)
        high[rows], at_high[rows] = np.where(above, b, middle), np.where(above, at_b, value)
        last[rows] = np.where(above, 1, -1)
    return high


_LEAST_TAIL = 1e-300


_PARTS = 32  # of the largest scale, to which others are rounded up


def margin(level: float) -> float:
    """kappa: how many Laplace scales of the noisy square are added to the estimated variance.

    Keeps the coverage at its level although the variance is itself noisy, for epsilon up to 5
    (docs/proofs/intervals.md, section 4).
    """
    return 1.0 if level <= 0.95 else 1 + 0.62 * math.log(0.05 / (1 - level))


def margin_of(kappa: float, scales: Sequence[float]) -> float:
    """What a sum of Laplace noises exceeds as often as one noise exceeds kappa of its scales,
    rounded up by a few percent at most."""
    largest = max(scales, default=0.0)
    if largest <= 0:
        return 0.0
    parts = tuple(math.ceil(_PARTS * scale / largest) for scale in scales)
    return largest * _margin_of(kappa, tuple(sorted(parts)))


@lru_cache(maxsize=4096)
def _margin_of(kappa: float, parts: tuple[int, ...]) -> float:
    return quantile(math.exp(-kappa) / 2, [part / _PARTS for part in parts], 0.0)


def gaussian_margin(level: float) -> float:
    """kappa for Gaussian noise: deviations of the noisy square added to the variance (1, 1.5, 3
    and 4 at 90, 95, 99 and 99.5 %, by interpolation in between and beyond)."""
    known = [(0.9, 1.0), (0.95, 1.5), (0.99, 3.0), (0.995, 4.0)]
    points = [-math.log(1 - item) for item, _ in known]
    values = [item for _, item in known]
    x = -math.log(1 - level)
    if x > points[-1]:
        return values[-1] + (x - points[-1]) / (points[-1] - points[-2])
    return float(np.interp(x, points, values))


CLOSED = 3  # scales up to here have a stable closed form
STEP, POINTS = 0.1, 4000
SMALL = 1e-4  # of the deviation: scales below this are normal
NOTHING = 37.0  # minus the logarithm of what is left out: below the last bit of a double
FAR = 40.0  # deviations from which the tail is nothing, before the rule repeats itself
TOGETHER = 32  # factors up to 1e5, so that their product is a double
BLOCK = 64  # points whose sines are computed together
SUMS = 256  # sums whose tails are computed together
_T = STEP * np.arange(1, POINTS + 1)
_INNER = STEP * np.arange(1, BLOCK + 1)


def sum_quantile(tail: float, scales: Sequence[float], sd: float) -> float:
    """The t with P(sum of Laplace(b_i) + Normal(0, sd) > t) = tail; 0 < tail <= 1/2."""
    return float(sum_quantiles(tail, np.array([scales], dtype=float), np.array([sd]))[0])


def sum_quantiles(tail: float, scales: Floats, sd: Floats) -> Floats:
    """Return `sum_quantile` of many sums at once: scales has shape (rows, k), sd (rows,)."""
    return np.concatenate(
        [np.empty(0), *(_Sums(scales[some], sd[some]).quantiles(tail) for some in _some(sd))]
    )


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
    parts = (_Sums(scales[some], sd[some]).bounded(1 - level, width[some]) for some in _some(sd))
    return np.concatenate([np.empty(0), *parts])


def _some(rows: Floats) -> list[slice]:
    """Rows that are computed together, so that memory does not grow with their number."""
    return [slice(first, first + SUMS) for first in range(0, len(rows), SUMS)]


class _Sums:
    """Many sums, each in units of its deviation `unit`; see `_parted` for `large` and `normal`."""

    def __init__(self, scales: Floats, sd: Floats) -> None:
        self.large, self.normal, self.unit = _parted(scales, sd)
        self.closed = np.count_nonzero(self.large, axis=1) <= CLOSED
        self.usable = np.isfinite(self.unit) & (self.unit > 0)

    @cached_property
    def _curves(self) -> tuple[Rows, Floats]:
        """The integrands of the sums without a closed form, but for the sine, in blocks of points;
        and the place of every row among these."""
        rows = np.flatnonzero(~self.closed & self.usable)
        found = [_curve(self.large[row], float(self.normal[row])) for row in rows.tolist()]
        curves = np.zeros((len(rows), max(map(len, found), default=0), BLOCK))
        for curve, own in zip(curves, found, strict=True):
            curve[: len(own)] = own
        places = np.zeros(len(self.closed), np.intp)
        places[rows] = np.arange(len(rows))
        return places, curves

    def tails(self, x: Floats, rows: Rows) -> Floats:
        """P(X > x) for x >= 0, of one x for each of these rows."""
        found, near = np.zeros(len(x)), self.closed[rows]
        if near.any():
            some = rows[near]
            found[near] = survivals(x[near], self.large[some], self.normal[some])
        if not near.all():
            places, curves = self._curves
            found[~near] = _upper_tails(x[~near], curves[places[rows[~near]]])
        return found

    def quantiles(self, tail: float, which: Flags | bool = True) -> Floats:
        """The t of every one of these sums with P(X > t) = tail, in units of the caller."""
        found = self.unit.copy()  # nothing and infinity stay what they are
        rows = np.flatnonzero(self.closed & self.usable & which)
        found[rows] *= quantiles(tail, self.large[rows], self.normal[rows])
        rows = np.flatnonzero(~self.closed & self.usable & which)
        low, high = np.zeros(len(rows)), np.full(len(rows), 1.5 * -normal_quantile(tail) + 1.0)
        while (short := self.tails(high, rows) > tail).any():
            low, high = np.where(short, high, low), np.where(short, 2 * high, high)
        found[rows] *= find_roots(lambda x, at: self.tails(x, rows[at]), tail, low, high)
        return found

    def bounded(self, outside: float, width: Floats) -> Floats:
        """`bounded_quantiles` of these sums."""
        found = self.quantiles(outside / 2)
        usable = self.usable & (found > 0) & (width > 0)
        far = usable & np.isinf(width)
        found[far] = self.quantiles(outside, far)[far] if outside < 0.5 else 0.0
        between = usable & ~np.isinf(width)
        room = width / np.where(between, self.unit, 1.0)

        def beyond(q: Floats, at: Rows) -> Floats:
            return self.tails(q, at) + self.tails(q + room[at], at)

        rows = np.flatnonzero(between)
        needed = beyond(np.zeros(len(rows)), rows) > outside
        found[rows[~needed]] = 0.0
        rows = rows[needed]
        high = found[rows] / self.unit[rows]
        roots = find_roots(lambda q, at: beyond(q, rows[at]), outside, np.zeros(len(rows)), high)
        found[rows] = roots * self.unit[rows]
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


def _curve(b: Floats, s: float) -> Floats:
    """The characteristic function of a sum of deviation 1 over t, as far as it counts, in blocks of
    points."""
    values, times = np.unique(b[b > 0], return_counts=True)
    kept, points = POINTS, 2 * BLOCK
    while True:  # it falls in t, mostly at once
        t = _T[:points]
        log_cf = -0.5 * (s * t) ** 2
        # a logarithm for some factors together, whose product is a double
        for number in np.unique(times):
            alike = values[times == number]
            for first in range(0, len(alike), TOGETHER):
                factors = 1 + np.square(alike[first : first + TOGETHER, None] * t)
                log_cf -= number * np.log(factors.prod(axis=0))
        kept = max(int(np.searchsorted(-log_cf, NOTHING)), 1)
        if kept < len(t) or len(t) == POINTS:
            break
        points *= 4
    curve = np.zeros(-(-kept // BLOCK) * BLOCK)
    curve[:kept] = np.exp(log_cf[:kept]) / t[:kept]
    return curve.reshape(-1, BLOCK)


def _upper_tails(x: Floats, curves: Floats) -> Floats:
    """P(X > x) for sums of deviation 1: x has shape (rows,), `_curve` of each (rows, blocks, points
    of a block)."""
    # the sine of a sum: far fewer sines than points. The integrand is x at t = 0
    inner, outer = x[:, None] * _INNER, x[:, None] * (STEP * BLOCK * np.arange(curves.shape[1]))
    cosines, sines = (np.matmul(curves, f(inner)[:, :, None])[:, :, 0] for f in (np.cos, np.sin))
    whole = (np.sin(outer) * cosines + np.cos(outer) * sines).sum(axis=1)
    upper = np.clip(0.5 - STEP / math.pi * (0.5 * x + whole), 0.0, 0.5)
    return np.where(x >= FAR, 0.0, upper)
