"""A `ScaledBuffered` strategy cut to p entries a column, for short separations.

C = diag(t^-gamma) H diag(s^gamma q_s) with the column of H cut to its first p <= b entries. The
columns of one person are then orthogonal and have norm at most 1, so that the sensitivity is
exactly sqrt(k); no other banded matrix is noticeably better. The price is a memory of p rows
a side and a known number of steps, because the variance of the noise is found in O(n^2) time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from privmean import validate
from privmean.continual import series
from privmean.continual.buffered import STARTS
from privmean.continual.error import RMSE, Goal
from privmean.continual.scaled import ScaledBuffered
from privmean.continual.sensitivity import Participation
from privmean.continual.series import Floats
from privmean.continual.strategies import Strategy
from privmean.errors import ArgumentError

LONGEST = 1 << 14
BLOCK = 256
DESIGN = 512
BUFFERS = 3


@dataclass(frozen=True)
class ScaledBanded(Strategy):
    """The first `p` entries of each column of a `ScaledBuffered`, scaled to norm at most 1."""

    weights: tuple[float, ...]
    decays: tuple[float, ...]
    exponent: float
    p: int

    def __post_init__(self) -> None:
        ScaledBuffered(self.weights, self.decays, self.exponent)
        validate.whole("p", self.p, least=1)

    @property
    def name(self) -> str:
        return f"time-scaled band (p={self.p})"

    @property
    def taps(self) -> Floats:
        """The column of H, shape (p,)."""
        return ScaledBuffered(self.weights, self.decays, self.exponent).base.column(self.p)

    def column_scales(self, steps: int) -> Floats:
        """s^gamma q_s for s = 1..n."""
        return column_scales(self.taps, self.exponent, steps)

    def sensitivity(self, participation: Participation, steps: int | None = None) -> float:
        if self.p > participation.separation and participation.most > 1:
            raise ArgumentError(
                "p", self.p, "is beyond the separation", f"give at most {participation.separation}"
            )
        return math.sqrt(participation.within(steps))

    def variances(self, steps: int) -> Floats:
        if steps > LONGEST:
            raise ArgumentError(
                "steps", steps, "is too long for this strategy", "use ScaledBuffered instead"
            )
        return variances(self.taps, self.exponent, steps)

    def state_rows(self, steps: int | None) -> int:
        return 2 * (self.p - 1)

    def endless(self, participation: Participation) -> bool:
        return False


def column_scales(taps: Floats, exponent: float, steps: int) -> Floats:
    """s^gamma q_s with q_s^-2 = sum_{i<p} h_i^2 (s/(s+i))^(2 gamma)."""
    s = np.arange(1, steps + len(taps), dtype=np.float64)
    # sum_i h_i^2 (s+i)^(-2 gamma): a correlation of two positive sequences
    total = np.convolve(s ** (-2 * exponent), (taps * taps)[::-1], mode="valid")
    scales: Floats = 1 / np.sqrt(total[:steps])
    return scales


def variances(taps: Floats, exponent: float, steps: int) -> Floats:
    """sum over columns j of (row t of E C^-1)^2 for t = 1..n, in blocks of columns."""
    inverse = series.invert(taps, steps)
    scales = column_scales(taps, exponent, steps)
    entering = np.arange(1, steps + 1, dtype=np.float64) ** (2 * exponent)
    total = np.zeros(steps)
    for first in range(0, steps, BLOCK):
        columns = np.arange(first, min(first + BLOCK, steps))
        lag = np.arange(first, steps)[:, None] - columns[None, :]
        rows = np.where(lag >= 0, inverse[np.maximum(lag, 0)], 0.0) / scales[first:, None]
        np.cumsum(rows, axis=0, out=rows)
        total[first:] += (rows * rows) @ entering[columns]
    return total


@lru_cache(maxsize=64)
def fit_scaled_banded(
    participation: Participation, steps: int, goal: Goal = RMSE, *, design: int = DESIGN
) -> ScaledBanded:
    """The best `ScaledBanded` strategy found with p = min(b, n), fitted on `design` steps."""
    from scipy.optimize import minimize

    length = min(steps, max(design, 20 * goal.first))
    once = participation.within(steps) == 1
    p = steps if once else min(participation.separation, steps)
    t = np.arange(1, length + 1, dtype=np.float64)
    share = goal.weights(length) / t**2

    def unpack(x: Floats) -> tuple[tuple[float, ...], tuple[float, ...], float]:
        weights = np.exp(x[BUFFERS:-1])
        decays = 1 / (1 + np.exp(-x[:BUFFERS]))
        return tuple(weights.tolist()), tuple(decays.tolist()), float(x[-1])

    def objective(x: Floats) -> float:
        try:
            strategy = ScaledBanded(*unpack(x), min(p, length))
        except ArgumentError:
            return 1e3
        return math.log(float(share @ variances(strategy.taps, strategy.exponent, length)))

    best: tuple[float, Floats] | None = None
    limits = [(-6.0, 16.0)] * BUFFERS + [(-12.0, 0.0)] * BUFFERS + [(0.0, 2.0)]
    for decays, weights in STARTS[BUFFERS][1:]:
        odds = np.array(decays) / (1 - np.array(decays))
        start = np.concatenate([np.log(odds), np.log(np.array(weights)), [0.9]])
        found = minimize(
            objective, start, method="L-BFGS-B", bounds=limits, options={"ftol": 1e-11}
        )
        if best is None or found.fun < best[0]:
            best = (float(found.fun), found.x)
    assert best is not None
    return ScaledBanded(*unpack(best[1]), p)
