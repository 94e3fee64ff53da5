"""How far one person can move the rows C X of a strategy matrix C.

A person takes part in at most `max_participations` steps, any two at least `min_separation` steps
apart, and moves a row by at most 1 in l2 norm. For a lower-triangular Toeplitz C with first column
c the largest Frobenius norm of C(X - X') is known exactly in two cases, and only these are allowed:

* c is non-negative and non-increasing: the worst person takes part at steps 1, 1+b, 1+2b, ...
  (Kalinin and Lampert 2024, Theorem 2), also for rows of any dimension and any signs;
* c vanishes from b on, or k = 1: a person's columns are orthogonal, the value is sqrt(k) ||c||.

With negative or increasing entries the first formula is not even a bound, so such a c is refused.
A column computed by transforms can miss monotonicity by rounding (below 1e-10): then its decreasing
majorant is used and the difference e is paid for by k ||e||, so that the value stays a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privmean import validate
from privmean.errors import InfeasibleError
from privmean.streams.power_series import LONGEST, Floats

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


def _majorant(column: Floats) -> Floats:
    """The smallest non-negative non-increasing sequence that is nowhere below `column`."""
    return np.maximum(np.maximum.accumulate(column[::-1])[::-1], 0.0)


def _excess(column: Floats, majorant: Floats) -> float:
    return float(np.max(majorant - column))


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
    majorant = _majorant(c)
    excess = _excess(c, majorant)
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
