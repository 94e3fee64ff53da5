"""Exact laws used by several tests of the heavy-tailed estimators."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from privmean.estimators.heavy_tailed.clipping_bias import BoundedMoment


def two_point_bias(order: float, records: int, radius: float, chances: int = 300) -> float:
    """The largest exact clipping bias over two-point laws with k-th moment 1.

    A record is b with probability p and 0 otherwise, centred; a person's value is the mean of
    `records` of them. Every p of a logarithmic grid is enumerated binomially.
    """
    worst = 0.0
    for p in np.geomspace(1e-16, 0.5, chances):
        b = (p * (1 - p) ** order + (1 - p) * p**order) ** (-1 / order)
        most = min(records, int(stats.binom.isf(1e-18, records, p)) + 2)
        jumps = np.arange(most + 1)
        weight = stats.binom.pmf(jumps, records, p)
        value = b * (jumps / records - p)
        above = np.sum(weight * np.maximum(value - radius, 0))
        below = np.sum(weight * np.maximum(-value - radius, 0))
        worst = max(worst, abs(above - below))
    return worst


def tails(order: float, records: float = 1, dimension: int = 1, bound: float = 1.0):
    return BoundedMoment(order, bound, records).tails(dimension)


def slope(first: float, second: float, ratio: float) -> float:
    """The exponent by which a quantity changes when its argument grows by `ratio`."""
    return math.log(second / first) / math.log(ratio)
