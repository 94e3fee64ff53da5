"""The geometry of a spherical cap: its size, and its best height.

A report in a cap around the pole (PrivUnit, Bhowmick et al. 2018) is what the reports of more and
more candidates come near to. U is uniform on the unit sphere of d dimensions; (1 + U_1)/2 has the
Beta law with both parameters (d-1)/2. Pure Python.
"""

from __future__ import annotations

import math
from functools import lru_cache


def mean_height(dimension: int) -> float:
    """h_d = E|U_1|."""
    half = dimension / 2
    return math.exp(math.lgamma(half) - math.lgamma(half + 0.5)) / math.sqrt(math.pi)


def _continued_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete Beta function (modified Lentz)."""
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    result = d
    for m in range(1, 10_000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + numerator / c
            c = c if abs(c) > tiny else tiny
            result *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return result


@lru_cache(maxsize=4096)
def cap_share(cap: float, dimension: int) -> float:
    """q = P(U_1 >= cap) for a cap in [0, 1)."""
    a = (dimension - 1) / 2
    x = (1.0 - cap) / 2  # the upper tail at (1 + cap)/2 is the lower one at (1 - cap)/2
    if cap == 0.0:
        return 0.5
    front = math.exp(math.lgamma(2 * a) - 2 * math.lgamma(a) + a * (math.log(x) + math.log1p(-x)))
    return front * _continued_fraction(a, a, x) / a


def shrinkage(epsilon: float, cap: float, dimension: int) -> float:
    """m with E[Z] = m V: a report stands for r Z/m, and E||report||^2 = r^2/m^2."""
    q = cap_share(cap, dimension)
    p = 1.0 / (1.0 + math.exp(-epsilon) * (1.0 - q) / q)
    a = dimension / 2
    edge = math.exp(
        math.lgamma(a) - math.lgamma(a - 0.5) + (dimension - 1) / 2 * math.log1p(-cap * cap)
    ) / (math.sqrt(math.pi) * (dimension - 1))
    return edge * (p / q - (1.0 - p) / (1.0 - q))


def best_cap(epsilon: float, dimension: int) -> float:
    """The cap that maximizes `shrinkage`, by golden section (the function has one top)."""
    ratio = (math.sqrt(5) - 1) / 2
    low, high = 0.0, min(0.999, 1.5 * math.sqrt(2 * (epsilon + 2) / dimension))
    for _ in range(60):
        first, second = high - ratio * (high - low), low + ratio * (high - low)
        if shrinkage(epsilon, first, dimension) < shrinkage(epsilon, second, dimension):
            low = first
        else:
            high = second
    best = round((low + high) / 2, 6)
    return best if shrinkage(epsilon, best, dimension) > shrinkage(epsilon, 0.0, dimension) else 0.0
