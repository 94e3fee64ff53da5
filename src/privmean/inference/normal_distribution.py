"""The normal distribution: quantiles of one level, tails of many places.

Written here because importing SciPy's special functions takes as long as the rest of a short
command. Tests compare with them.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    Floats = npt.NDArray[np.float64]

_CELLS, _TERMS = 512, 4  # cells of 1/(1 + x), and coefficients in each: 2e-13 relative
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
    cells = _CELLS / (1.0 + np.abs(x))
    cell = cells.astype(np.intp)
    part = cells - cell
    terms = _table().take(cell, axis=-1, mode="clip")
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


def _scaled_tail(x: float) -> float:
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
def _table() -> Floats:
    """Coefficients of exp(x^2) erfc(x) / cells on every cell of cells = _CELLS/(1 + x), by powers
    of the part of a cell, from its values at Chebyshev nodes; the last cell is x = 0 alone."""
    nodes = 0.5 + 0.5 * np.cos(np.pi * (np.arange(_TERMS) + 0.5) / _TERMS)
    places = nodes[:, None] + np.arange(_CELLS)
    values = [[_scaled_tail(_CELLS / cells - 1.0) / cells for cells in row] for row in places]
    table = np.zeros((_TERMS, _CELLS + 1))
    table[:, :-1] = np.linalg.solve(np.vander(nodes, increasing=True), np.array(values))
    table[0, -1] = 1.0 / _CELLS
    return table
