"""Column norms that fall with time: what makes a person's later steps cost less.

With equal norms a person who takes part K times moves the stream by sqrt(K) or more, and the first
releases, which decide the error of a running mean, carry all of that. If column s has norm d_s
instead, d non-increasing, the worst person takes part at steps 1, 1+b, 1+2b, ... and costs
sum_j d_{1+jb}^2 (columns of one person being nearly orthogonal): a falling d makes early releases
accurate and late ones noisier, and the error over a whole run two to six times smaller.

d is constant on blocks of `width` steps, because only its value at 1, 1+b, ... is paid for, and
stays constant after the last block, because a person has at most K steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privmean import validate
from privmean.streams.participation_sensitivity import Participation
from privmean.streams.power_series import Floats


@dataclass(frozen=True)
class ColumnNorms:
    """Column norms d_s = (1 + j/pace)^(-decline) with j = min((s-1) // width, blocks-1).

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
        validate.nonnegative("decline", self.decline)
        validate.positive("pace", self.pace)
        object.__setattr__(self, "width", validate.whole("width", self.width, least=1))
        object.__setattr__(self, "blocks", validate.whole("blocks", self.blocks, least=1))

    def of_blocks(self, blocks: Floats) -> Floats:
        """d of blocks counted from 0."""
        reached = np.minimum(blocks, self.blocks - 1)
        factors: Floats = (1 + reached / self.pace) ** -self.decline
        return factors

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
