"""The statistical test kit: one false-alarm rate, exact laws where possible.

ALPHA is the chance that one correct test fails. Every Monte Carlo test names the number of draws
and uses these helpers, so that no tolerance is chosen by eye. Seeds only save time.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

ALPHA = 1e-6
Z = float(stats.norm.isf(ALPHA / 2))  # two-sided normal limit, 4.89


def assert_mean(samples, expected: float, *, slack: float = 0.0) -> None:
    """The mean of independent `samples` agrees with `expected` (plus a stated bias `slack`)."""
    x = np.asarray(samples, dtype=float)
    error = x.std(ddof=1) / math.sqrt(len(x))
    limit = float(stats.t.isf(ALPHA / 2, len(x) - 1)) * error + slack
    assert abs(x.mean() - expected) <= limit, (x.mean(), expected, limit)


def assert_variance(samples, expected: float, *, kurtosis: float = 3.0) -> None:
    """The variance of independent `samples` agrees; `kurtosis` is that of their law."""
    x = np.asarray(samples, dtype=float)
    error = expected * math.sqrt((kurtosis - 1) / len(x))
    assert abs(x.var(ddof=1) - expected) <= Z * error, (x.var(ddof=1), expected, Z * error)


def assert_rate(count: int, draws: int, p: float) -> None:
    """`count` successes of `draws` agree with probability p (exact binomial, two-sided)."""
    low = stats.binom.cdf(count, draws, p)
    high = stats.binom.sf(count - 1, draws, p)
    assert min(low, high) >= ALPHA / 2, (count / draws, p)


def assert_rate_at_most(count: int, draws: int, p: float) -> None:
    """`count` successes are no evidence for a probability above p."""
    assert stats.binom.sf(count - 1, draws, p) >= ALPHA, (count / draws, p)


def assert_rate_at_least(count: int, draws: int, p: float) -> None:
    """`count` successes are no evidence for a probability below p."""
    assert stats.binom.cdf(count, draws, p) >= ALPHA, (count / draws, p)


def epsilon_lower_bound(hits: int, hits_other: int, draws: int, delta: float = 0.0) -> float:
    """A lower confidence bound on epsilon from one event counted under two neighbours.

    `hits` of `draws` under the first, `hits_other` of `draws` under the second; the bound exceeds
    the true epsilon with probability at most ALPHA (Clopper-Pearson, ALPHA/2 each).
    """
    p = float(stats.beta.ppf(ALPHA / 2, hits, draws - hits + 1)) if hits else 0.0
    q = float(stats.beta.ppf(1 - ALPHA / 2, hits_other + 1, draws - hits_other))
    if hits_other >= draws:
        q = 1.0
    return math.log((p - delta) / q) if p > delta else -math.inf
