"""The statistical test kit: one false-alarm rate, exact laws where possible.

ALPHA is the chance that one correct test fails. Every Monte Carlo test names the number of draws
and uses these helpers, so that no tolerance is chosen by eye. Seeds only save time.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import stats

from plans import planned  # noqa: F401 - of benchmarks/, which runs without the tests
from privmean.inference.group_table import MeanSum
from privmean.inference.laplace_normal import allowance_half_lengths, bounded_quantiles, quantile

ALPHA = 1e-6
Z = float(stats.norm.isf(ALPHA / 2))  # two-sided normal limit, 4.89


def drawn_sums(mechanism, boxes, sums, noise, *, max_records=None, far=None):
    """What `ClippedSums` gives for these exact sums, without people or a bill."""
    over = mechanism.over(boxes, max_records=max_records)
    return over.draw(over.exact(sums, far), noise)


def half_length(tau: float, alpha: float) -> float:
    """What Lap(1) + N(0, tau^2) exceeds in absolute value with probability alpha."""
    return quantile(alpha / 2, (1.0,), tau)


def allowance_half_length(tau: float, rho: float, alpha: float, scales=(1.0,)) -> float:
    """The half length of one row of `allowance_half_lengths`."""
    one = np.array([tau], float), np.array([rho], float), alpha, np.array([scales], float)
    return float(allowance_half_lengths(*one)[0])


def bounded_quantile(level: float, width: float, scales, sd: float) -> float:
    """The quantile of one row of `bounded_quantiles`."""
    one = np.array([width]), np.array([scales], dtype=float), np.array([sd])
    return float(bounded_quantiles(level, *one)[0])


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


def law_p_value(draws, pmf: Callable[[np.ndarray], np.ndarray], *, expected: float = 50.0) -> float:
    """The chi-square p-value of integer draws against an exact law.

    `pmf` gives the probabilities of an array of integers. Values are pooled from the smallest up,
    and the upper tail is pooled, so that every cell expects at least `expected` draws.
    """
    x = np.asarray(draws)
    reach = int(np.abs(x).max()) + 2
    values = np.arange(-reach, reach + 1)
    p = np.asarray(pmf(values), dtype=float)
    counts = np.bincount(x + reach, minlength=len(values))
    cells, wanted, seen, mass = [], [], 0, 0.0
    for value_p, count in zip(p, counts, strict=True):
        seen, mass = seen + int(count), mass + float(value_p)
        if mass * len(x) >= expected:
            cells.append(seen)
            wanted.append(mass * len(x))
            seen, mass = 0, 0.0
    cells[-1] += seen
    wanted[-1] += len(x) - sum(wanted)  # with what lies beyond every draw
    statistic = sum((a - b) ** 2 / b for a, b in zip(cells, wanted, strict=True))
    return float(stats.chi2.sf(statistic, len(cells) - 1))


def assert_law(draws, pmf: Callable[[np.ndarray], np.ndarray]) -> None:
    """Integer draws follow the exact law `pmf` (chi-square at ALPHA)."""
    p = law_p_value(draws, pmf)
    assert p >= ALPHA, p


def cdf_p_value(draws, quantile: Callable[[np.ndarray], np.ndarray], cells: int = 64) -> float:
    """The chi-square p-value of draws against a continuous law, on a grid of its quantiles."""
    edges = np.asarray(quantile(np.arange(1, cells) / cells))
    counts = np.bincount(np.searchsorted(edges, np.asarray(draws)), minlength=cells)
    return float(stats.chisquare(counts).pvalue)


def choice_p_value(choices, probabilities) -> float:
    """The chi-square p-value of indices against exact probabilities (all positive)."""
    counts = np.bincount(choices, minlength=len(probabilities))
    return float(stats.chisquare(counts, np.asarray(probabilities) * len(choices)).pvalue)


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


def combined(made, weights, level, **more):
    """The line of one weighted sum of all groups."""
    used = np.flatnonzero(weights)
    return made.lines([MeanSum(used, weights[used])], level, **more)[0]
