"""Steps of the published variance stage: groups, stable histograms, columns above a level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.stats import chi2

from privmean.noise.base import Noise
from privmean.people.reductions import Floats, Integers
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.loss import Laplace, Loss, Selection, Threshold

BINS = 200  # variances from 4^-200 to 4^200
ZERO_BIN = -BINS - 1


def group_pairs(dimension: int) -> int:
    """The least pairs a group for which all variances are right within 2 w.p. 7/8 or more.

    A union bound over columns, which may be dependent.
    """
    pairs = 1
    while True:
        wrong = float(chi2.sf(2 * pairs, pairs) + chi2.cdf(pairs / 2, pairs))
        if dimension * wrong <= 1 / 8:
            return pairs
        pairs += 1


def group_variances(x: Floats, pairs: int) -> Floats:
    """Variances by group of 2 `pairs` persons in the roster's order, shape (m, d)."""
    m = len(x) // (2 * pairs)
    rows = x[: 2 * pairs * m].reshape(m * pairs, 2, x.shape[1])
    with np.errstate(all="ignore"):
        square = (rows[:, 0] - rows[:, 1]) ** 2
    square = np.where(np.isfinite(square), square, 0.0)
    return np.asarray(square.reshape(m, pairs, -1).sum(axis=1) / (2 * pairs))


@dataclass(frozen=True)
class Histogram:
    """A stable histogram (Algorithm 6) at epsilon and delta: Laplace(2/epsilon), one threshold."""

    epsilon: Fraction
    delta: float

    @property
    def threshold(self) -> int:
        return 1 + math.ceil(2 * math.log(1 / self.delta) / float(self.epsilon))

    def losses(self, name: str) -> tuple[Loss, ...]:
        return (
            Laplace(name, Fraction(2), 2 / self.epsilon, spread=2, relation=REPLACE_ONE),
            Threshold(
                name,
                self.delta,
                float(self.threshold),
                scale=2 / self.epsilon,
                relation=REPLACE_ONE,
            ),
        )

    def bin(self, values: Floats, noise: Noise) -> int | None:
        """The bin b of the most values in [4^b, 4^(b+1)); ties to the smallest; None if too few."""
        with np.errstate(divide="ignore"):
            b = np.floor(np.log2(values) / 2)
        b = np.where(values > 0, np.clip(b, -BINS, BINS), ZERO_BIN).astype(np.int64)
        bins, counts = np.unique(b, return_counts=True)
        noisy = counts + noise.laplace(len(bins), 2 / self.epsilon)
        best = int(np.argmax(noisy)) if len(bins) else 0
        if not len(bins) or noisy[best] < self.threshold:
            return None
        return int(bins[best])

    def variance(self, values: Floats, noise: Noise) -> float | None:
        """2*4^b: between a quarter of and four times the truth where most groups are right."""
        found = self.bin(values, noise)
        if found is None:
            return None
        return 0.0 if found == ZERO_BIN else 2 * 4.0**found


def kth_largest(variances: Floats, k: int, histogram: Histogram, noise: Noise) -> float | None:
    """Algorithm 5: the k-th largest variance."""
    d = variances.shape[1]
    return histogram.variance(np.partition(variances, d - k, axis=1)[:, d - k], noise)


def top_columns(
    variances: Floats, level: float, k: int, epsilon: Fraction, noise: Noise
) -> Integers:
    """Algorithm 4: columns in order whose variance is above `level` in most groups, at most k.

    Above-threshold runs with fresh noise after each hit: Laplace(2/epsilon) on the threshold and
    Laplace(4/epsilon) on each count, each run epsilon-DP. In the order of columns, as published.
    """
    counts = np.count_nonzero(variances >= level, axis=0)
    half = len(variances) / 2
    hits: list[int] = []
    start = 0
    while len(hits) < k and start < len(counts):
        cut = half + int(noise.laplace(1, 2 / epsilon)[0])
        noisy = counts[start:] + noise.laplace(len(counts) - start, 4 / epsilon)
        above = np.flatnonzero(noisy >= cut)
        if len(above) == 0:
            break
        hits.append(start + int(above[0]))
        start = hits[-1] + 1
    return np.array(hits, dtype=np.int64)


def hits_loss(epsilon: Fraction, k: int) -> Selection:
    """k runs above a threshold, each with fresh noise."""
    return Selection(
        "columns",
        epsilon,
        choices=k,
        relation=REPLACE_ONE,
        moved="each count of groups, by one (above a noisy threshold, one answer a run)",
    )


def stage_losses(
    location: Histogram, hit_epsilon: Fraction, single: Histogram, k: int
) -> tuple[Loss, ...]:
    """The worst-case bill of the variance stage."""
    bill = [*location.losses("largest variances"), hits_loss(hit_epsilon, k)]
    for _ in range(k + 1):
        bill += single.losses("variance of a column")
    return tuple(bill)
