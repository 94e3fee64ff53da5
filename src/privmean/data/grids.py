"""The public grids on which people are counted and summed, and the arithmetic of all homes.

Arithmetic is spelled out (which operations on doubles, in which order) because every home must
give the same integers: only IEEE additions, multiplications, divisions, comparisons, square roots
and floors are used, never a logarithm or a library's own rounding. Nothing is divided by a public
number: an engine may turn that into a product with its inverse (Polars does), which is another
double. All homes take the same `quotient`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmean.array_types import Floats

# --- a person's own records -----------------------------------------------------------------------
RESOLUTION = 2.0**-36  # the step of values, and
LIMIT_BITS = 80  # the largest value in steps: 2^44, above a date in milliseconds
TOTAL_BITS = 100  # and of a total
NARROWEST = 2.0**4 * RESOLUTION  # of an interval: of one that is narrower, rounding is a part

# --- signed logarithmic bins: two an octave, both signs, and one zero bin -------------------------
HALF_OCTAVE = 0.7071067811865476  # the double nearest to sqrt(1/2); part of the bins' definition
INWARD = 1 - 2.0**-52  # of normal doubles x: x INWARD >= 2^k exactly if x > 2^k


@dataclass(frozen=True)
class LogGrid:
    """Logarithmic bins of v = (x - origin) * factor; `low` and `bins` are even numbers.

    Bin j = low .. low + bins - 1 holds 2^(j/2) <= |v| < 2^((j+1)/2), the last also what is beyond;
    the zero bin holds |v| < 2^(low/2), and nulls. Layout: the positive bins, the zero bin, the
    negative bins.
    """

    low: int
    bins: int
    factor: float = 1.0

    @property
    def zero(self) -> int:
        """The index of the zero bin."""
        return self.bins

    @property
    def cells(self) -> int:
        return 2 * self.bins + 1

    @property
    def least(self) -> float:
        """The lower edge of the first bin."""
        return 2.0 ** (self.low // 2)

    def edges(self) -> Floats:
        """The lower edges of the positive bins, exactly as every home uses them."""
        edges = np.empty(self.bins)
        for index in range(self.bins):
            j = index + self.low
            edges[index] = (
                math.ldexp(1.0, j // 2) if j % 2 == 0 else math.ldexp(HALF_OCTAVE, (j + 1) // 2)
            )
        return edges


LOG_GRID = LogGrid(-80, 160)  # from 2^-40 to 2^40
WIDE_GRID = LogGrid(-128, 256, INWARD)  # from 2^-64 to 2^64, closed at the outer edges
LOG_LOW, LOG_BINS, LOG_ZERO, LOG_CELLS = LOG_GRID.low, LOG_GRID.bins, LOG_GRID.zero, LOG_GRID.cells

# --- uniform bins: index k holds (origin + 2hk - h, origin + 2hk + h], up to roundings ------------
# k = ceil(half the quotient of x - origin - h by h), each operation rounded: one map for all rows
UNIFORM_LIMIT = 2.0**40  # indices are clamped to +-2^40 before they become integers

# --- clipping grids -------------------------------------------------------------------------------
GRID_BITS = 20
HUGE, SHRINK = 2.0**500, 2.0**-600  # see `reductions.Ball`
TINY, GROW = 2.0**-400, 2.0**600
SLIGHTLY, QUARTER = 1.25, 0.25  # see `reductions.Cut`


def quotient(x: Any, step: float) -> Any:
    """x/step for a public step > 0, as every home has it; x a number, an array or an expression.

    A product with the double nearest to 1/step: within two roundings of x/step, and monotone in x,
    so that what bounds x bounds the quotient. The inverse of a tiny step would be infinite: then
    both are made larger first, exactly. The factors are positive and finite: no product is NaN.
    """
    if step < TINY:
        x, step = x * GROW, step * GROW
    return x * (1 / step)


def unit_of(radius: float) -> float:
    """A power of two that brings `radius` near 1 (as near as doubles allow)."""
    return math.ldexp(1.0, max(-1000, min(1000, -math.frexp(radius)[1])))


def pair_multiplier(n: int) -> int:
    """The public multiplier a of the pairing: position i has rank (a i) mod n, pairs are ranks
    2r and 2r+1. The smallest number from 0.618 n upwards without a common factor with n."""
    if n < 3:
        return 1
    a = max(1, int(0.6180339887498949 * n))
    while math.gcd(a, n) != 1:
        a += 1
    return a % n or 1
