"""Power series, that is lower-triangular Toeplitz matrices stored by their first column.

The product of two such matrices is the product of the series, the inverse the reciprocal series.
All in float64: a strategy and its inverse that disagree would be a privacy bug, not a rounding
error, so whoever rounds one recomputes the other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LONGEST = 10**7  # steps that are planned for: plans hold numbers for each of them
DIRECT = 64  # below this length the quadratic recursion is faster than a transform


def multiply(a: Floats, b: Floats, n: int) -> Floats:
    """The first n coefficients of the product of two series."""
    a, b = a[:n], b[:n]
    if min(len(a), len(b)) <= DIRECT:
        return _padded(np.convolve(a, b), n)
    size = 1 << (len(a) + len(b) - 2).bit_length()
    product = np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size), size)
    return _padded(product[: len(a) + len(b) - 1], n)


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
        divided: Floats = lfilter([1.0], c[:taps], impulse)
        return divided
    start = min(n, DIRECT)
    head = _padded(c, start)
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


def _padded(a: Floats, n: int) -> Floats:
    if len(a) >= n:
        return np.array(a[:n], dtype=np.float64)
    return np.concatenate([a, np.zeros(n - len(a))])
