"""Lower-triangular Toeplitz matrices by their first column: products, sensitivity, filters.

The product of two such matrices is the product of power series, the inverse the reciprocal series.
All in float64: a strategy and its inverse that disagree would be a privacy bug, not a rounding
error, so whoever rounds one recomputes the other.

Sensitivity: a person takes part in at most `max_participations` steps, any two at least
`min_separation` steps apart, and moves a row by at most 1 in l2 norm. For a first column c the
largest Frobenius norm of C(X - X') is known exactly in two cases, and only these are allowed:

* c is non-negative and non-increasing: the worst person takes part at steps 1, 1+b, 1+2b, ...
  (Kalinin and Lampert 2024, Theorem 2), also for rows of any dimension and any signs;
* c vanishes from b on, or k = 1: a person's columns are orthogonal, the value is sqrt(k) ||c||.

With negative or increasing entries the first formula is not even a bound, so such a c is refused.
A column computed by transforms can miss monotonicity by rounding (below 1e-10): then its decreasing
majorant is used and the difference e is paid for by k ||e||, so that the value stays a bound.

Filters are the two sides of a strategy as recursions over time. Rows come as (coordinates, steps)
blocks: the forward side computes C X of the clipped integer rows (private), the backward side
C^-1 Y of the noisy rows (public). Any split into blocks gives the same numbers, and the state is
one array that can be stored.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.errors import InfeasibleError

LONGEST = 10**7  # steps that are planned for: plans hold numbers for each of them
DIRECT = 64  # below this length the quadratic recursion is faster than a transform


def multiply(a: Floats, b: Floats, n: int) -> Floats:
    """The first n coefficients of the product of two series."""
    a, b = a[:n], b[:n]
    if min(len(a), len(b)) <= DIRECT:
        return _zero_padded(np.convolve(a, b), n)
    size = 1 << (len(a) + len(b) - 2).bit_length()
    product = np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size), size)
    return _zero_padded(product[: len(a) + len(b) - 1], n)


def invert(c: Floats, n: int) -> Floats:
    """The first n coefficients of the reciprocal of a series with c[0] != 0.

    Newton's iteration x <- x (2 - c x), doubling the length: O(n log n). A short c is divided
    through step by step instead.
    """
    taps = int(np.flatnonzero(c[:n]).max(initial=0)) + 1
    if taps <= DIRECT < n:
        from scipy.signal import lfilter

        impulse = np.zeros(n)
        impulse[0] = 1.0
        return np.asarray(lfilter([1.0], c[:taps], impulse))
    start = min(n, DIRECT)
    head = _zero_padded(c, start)
    x = np.zeros(start)
    x[0] = 1.0 / head[0]
    for m in range(1, start):
        x[m] = -x[0] * np.dot(head[1 : m + 1], x[m - 1 :: -1] if m > 1 else x[:1])
    length = start
    while length < n:
        length = min(2 * length, n)
        residual = -multiply(c, x, length)
        residual[0] += 2.0
        x = multiply(x, residual, length)
    return x


def prefix_root(n: int) -> Floats:
    """The square root of the all-ones series: binomial(2i, i)/4^i."""
    a = np.ones(n)
    i = np.arange(1, n)
    a[1:] = np.cumprod((2 * i - 1) / (2 * i))
    return a


def _zero_padded(a: Floats, n: int) -> Floats:
    if len(a) >= n:
        return np.array(a[:n], dtype=np.float64)
    return np.concatenate([a, np.zeros(n - len(a))])


MOST = 10**6  # participations: fits count them one by one


@dataclass(frozen=True)
class Participation:
    """How often one person may take part.

    Parameters
    ----------
    most : int
        The most steps of one person.
    separation : int, default 1
        Smallest difference between two steps of one person.
    """

    most: int
    separation: int = 1

    def __post_init__(self) -> None:
        most = validate.whole("max_participations", self.most, least=1, most=MOST)
        apart = validate.whole("min_separation", self.separation, least=1, most=LONGEST)
        object.__setattr__(self, "most", most)
        object.__setattr__(self, "separation", apart)

    def within(self, steps: int | None) -> int:
        """The most steps one person can have within a horizon (None: no horizon)."""
        if steps is None:
            return self.most
        return min(self.most, math.ceil(steps / self.separation))


ROUNDING = 1e-10


def sensitivity(column: Floats, participation: Participation, steps: int | None = None) -> float:
    """The exact l2 sensitivity of C X for rows that move by at most 1.

    column: the first column of C, shape (p,), zero afterwards. steps: the number of steps n, or
    None for a stream without end. Raises `InfeasibleError` where no exact value is known.
    """
    c = np.asarray(column, dtype=np.float64)
    if steps is not None:
        c = c[:steps]
    taps = int(np.flatnonzero(c).max(initial=0)) + 1
    k, b = participation.within(steps), participation.separation
    apart = math.sqrt(k) * float(np.linalg.norm(c)) if taps <= b or k == 1 else math.inf
    # the smallest non-negative non-increasing sequence that is nowhere below c
    majorant = np.maximum(np.maximum.accumulate(c[::-1])[::-1], 0.0)
    excess = float(np.max(majorant - c))
    if excess > ROUNDING:
        if math.isfinite(apart):
            return apart
        raise InfeasibleError(
            "the strategy has negative or increasing entries beyond the separation, for which no "
            "exact sensitivity is known",
            f"band it to at most min_separation={b} entries, or use a decreasing one",
        )
    return min(apart, pattern_norm(majorant, k, b, steps) + k * math.sqrt(len(c)) * excess)


def pattern_norm(column: Floats, k: int, b: int, steps: int | None = None) -> float:
    """The norm of the sum of the columns 0, b, ..., (k-1) b of C, cut at `steps` rows. O(n)."""
    n = steps if steps is not None else (k - 1) * b + len(column)
    blocks = math.ceil(n / b)
    laid = np.zeros(blocks * b)
    laid[: min(n, len(column))] = column[:n]
    summed = np.cumsum(laid.reshape(blocks, b), axis=0).ravel()
    total = summed.copy()
    if k < blocks:
        total[k * b :] -= summed[: -k * b]
    return float(np.linalg.norm(total[:n]))


@dataclass(frozen=True)
class ColumnNorms:
    """Column norms d_s = (1 + j/pace)^(-decline) with j = min((s-1) // width, blocks-1).

    With equal norms a person who takes part K times moves the stream by sqrt(K) or more, and the
    first releases, which decide the error of a running mean, carry all of that. With falling norms
    the worst person, at steps 1, 1+b, 1+2b, ..., costs sum_j d_{1+jb}^2 (columns of one person
    being nearly orthogonal): early releases are accurate, late ones noisier, and the error over a
    whole run is two to six times smaller. Norms are constant on blocks, because only their values
    at 1, 1+b, ... are paid for.

    Parameters
    ----------
    decline : float
        Exponent, at least 0: norms must not grow.
    pace : float
        Blocks until the base 1 + j/pace doubles.
    width, blocks : int
        Steps per block, and number of blocks.
    """

    decline: float
    pace: float
    width: int
    blocks: int

    def __post_init__(self) -> None:
        validate.keep(self, validate.nonnegative, "decline")
        validate.keep(self, validate.positive, "pace")
        object.__setattr__(self, "width", validate.whole("width", self.width, least=1))
        object.__setattr__(self, "blocks", validate.whole("blocks", self.blocks, least=1))

    def of_blocks(self, blocks: Floats) -> Floats:
        """d of blocks counted from 0."""
        reached = np.minimum(blocks, self.blocks - 1)
        return (1 + reached / self.pace) ** -self.decline

    def factors(self, done: int, steps: int) -> Floats:
        """d of the next steps after `done`."""
        return self.of_blocks(np.arange(done, done + steps, dtype=np.float64) // self.width)

    def worst(self, participation: Participation) -> Floats:
        """d at 1, 1+b, ..., 1+(K-1)b: the largest values one person can have, in order."""
        starts = np.arange(participation.most, dtype=np.float64) * participation.separation
        return self.of_blocks(starts // self.width)


def weighted_pattern(loads: Floats, weights: Floats, decays: Floats, separation: int) -> float:
    """sqrt of sum_ij d_i d_j Gamma_{|i-j|b}/Gamma_0 for buffers, d = loads, shape (K,).

    Lags at which Gamma has vanished in float64 are left out.
    """
    pairs = np.outer(weights, weights) / (1 - np.outer(decays, decays))
    norm = 1 + float(pairs.sum())
    k = len(loads)
    slowest = float(decays.max())
    reach = k if slowest <= 0 else math.ceil(46 / -math.log(slowest) / separation) + 1
    lags = np.arange(1, min(k, reach), dtype=np.float64)
    total = float(np.sum(loads * loads))
    if len(lags):
        with np.errstate(under="ignore"):
            before = decays[None, :] ** (separation * lags[:, None] - 1)
            cross = (before * (weights + decays * pairs.sum(axis=0))).sum(axis=1)
        total += 2 * float(np.sum(cross * _products(loads, len(lags)))) / norm
    return math.sqrt(total)


def _products(loads: Floats, lags: int) -> Floats:
    """sum_j d_j d_{j+l} for l = 1 .. lags."""
    if lags <= 8:
        return np.array([np.sum(loads[:-lag] * loads[lag:]) for lag in range(1, lags + 1)])
    size = 1 << (2 * len(loads)).bit_length()
    products: Floats = np.fft.irfft(np.abs(np.fft.rfft(loads, size)) ** 2, size)
    return products[1 : lags + 1].copy()


def inverse_buffers(weights: Floats, decays: Floats) -> tuple[Floats, Floats]:
    """(weights, decays) of the inverse 1 - sum_m weights[m] x/(1 - decays[m] x) of buffers.

    With t = 1/x, C = 1 + u'(t - Theta)^-1 u for u = sqrt(omega), so by the Sherman-Morrison
    identity 1/C = 1 - u'(t - Theta + u u')^-1 u: the eigenvalues of a symmetric matrix.
    """
    u = np.sqrt(weights)
    values, vectors = np.linalg.eigh(np.diag(decays) - np.outer(u, u))
    return (vectors.T @ u) ** 2, values


class Filter(ABC):
    """A causal linear recursion; state: what it keeps between calls."""

    state: Floats

    @abstractmethod
    def run(self, rows: Floats) -> Floats:
        """The outputs for the next rows; shapes (coordinates, steps)."""

    def one(self, row: float) -> float:
        """`run` for one coordinate and one step, by the same operations."""
        result: float = self.run(np.array([[row]])).item()
        return result


def _lfilter(numerator: Floats, denominator: Floats, rows: Floats, state: Floats) -> Floats:
    from scipy.signal import lfilter

    out, state[...] = lfilter(numerator, denominator, rows, axis=-1, zi=state)
    return np.asarray(out)


def first_order(decay: float, rows: Floats, start: float | Floats = 0.0) -> Floats:
    """y_t = rows_t + decay y_{t-1} along the last axis, with y_{-1} = start."""
    pending = np.atleast_1d(decay * start)
    if rows.shape[-1] == 1:  # the same two operations, without a library's preparations
        return np.asarray(rows + pending)
    return _lfilter(np.array([1.0, 0.0]), np.array([1.0, -decay]), rows, pending)


class _Taps(Filter):
    """A recursion by taps."""

    def __init__(self, taps: Floats, coordinates: int) -> None:
        self.taps = _zero_padded(taps, max(len(taps), 2))
        # 1, 0, 0, ...: the recursive code path, which any split leaves unchanged
        self.rest = np.eye(1, len(self.taps))[0]
        self.state = np.zeros((coordinates, len(self.taps) - 1))


class Convolution(_Taps):
    """out_s = sum_j a_j x_{s-j}. With integer rows and taps below 2^53 in sum it is exact."""

    def run(self, rows: Floats) -> Floats:
        if rows.shape[1] > 1:
            return _lfilter(self.taps, self.rest, rows, self.state)
        # one step by hand, in the same order of operations: most of a call is its overhead
        out: Floats = self.state[:, :1] + rows * self.taps[0]
        self.state[:, :-1] = self.state[:, 1:] + rows * self.taps[1:-1]
        self.state[:, -1:] = rows * self.taps[-1]
        return out


class Recursion(_Taps):
    """The inverse of `Convolution` for taps that start with 1."""

    def run(self, rows: Floats) -> Floats:
        if rows.shape[1] > 1:
            return _lfilter(self.rest, self.taps, rows, self.state)
        out: Floats = self.state[:, :1] + rows
        self.state[:, :-1] = self.state[:, 1:] - out * self.taps[1:-1]
        self.state[:, -1:] = -out * self.taps[-1]
        return out


class Bank(Filter):
    """M buffers: out_s = x_s + sum_m weights[m] h_m, then h_m <- decays[m] h_m + x_s."""

    def __init__(self, weights: Floats, decays: Floats, coordinates: int) -> None:
        self.weights, self.decays = weights, decays
        self._numbers: tuple[list[float], list[float]] = weights.tolist(), decays.tolist()
        self._held: list[float] | None = None  # the state of one coordinate, while it is ahead
        self.state = np.zeros((coordinates, len(weights)))

    @property
    def state(self) -> Floats:
        if self._held is not None:
            self._state, self._held = np.array([self._held]), None
        return self._state

    @state.setter
    def state(self, state: Floats) -> None:
        self._state, self._held = state, None

    def one(self, row: float) -> float:
        held = self._state[0].tolist() if self._held is None else self._held
        weights, decays = self._numbers
        total = row
        for weight, h in zip(weights, held, strict=True):
            total += weight * h
        self._held = [decay * h + row for decay, h in zip(decays, held, strict=True)]
        return total

    def run(self, rows: Floats) -> Floats:
        if rows.shape == (1, 1):
            return np.array([[self.one(rows.item())]])
        out = rows.astype(np.float64)
        for m, (weight, decay) in enumerate(zip(self.weights, self.decays, strict=True)):
            before = self.state[:, m : m + 1].copy()
            held = first_order(decay, rows, before)
            out[:, :1] += weight * before
            out[:, 1:] += weight * held[:, :-1]
            self.state[:, m] = held[:, -1]
        return out
