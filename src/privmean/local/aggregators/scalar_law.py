"""Estimates of means in [-1, 1] from one-bit, piecewise and hybrid reports.

Proofs: docs/proofs/local-scalar.md.

How much each level of the menu counts.

Source: Aliakbarpour, Fallah, Roy and Stevens (2025), with the weights that are minimax at every
epsilon (docs/proofs/local-scalar.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.local.aggregators.tally import Batch, Tally, branches, int32_of, piecewise_branch
from privmean.local.clients.randomizers import Window, hybrid_share, window
from privmean.local.exact_coins import exact_epsilon, signal
from privmean.local.mechanisms import HYBRID, ONE_BIT, PIECEWISE
from privmean.local.round import Round

MINIMAX, UNIFORM, TESTED = "minimax", "uniform", "tested"
FEW = 50  # reports of a level whose own spread is not relied upon
CHOICES = (MINIMAX, UNIFORM, TESTED)
BANDS = 8  # groups of levels that are compared, where a ladder has very many


def level_weights(
    counts: Integers,
    variances: Floats,
    *,
    weights: str = MINIMAX,
) -> tuple[Floats, float]:
    """The weight of one report of each level (sum over reports is 1), and sum w^2 v.

    counts: reports a level. variances: worst-case variance of a report of each level.
    "minimax": inversely to the variance, which minimizes the worst case at every epsilon.
    "uniform": every report counts the same, as it must if epsilon may depend on the value.
    """
    validate.choice("weights", weights, [MINIMAX, UNIFORM])
    raw = 1.0 / variances if weights == MINIMAX else np.ones(len(variances))
    total = float((counts * raw).sum())
    if total <= 0:
        return np.zeros(len(variances)), float("inf")
    result = raw / total
    return result, float((counts * result**2 * variances).sum())


def bands(counts: Floats, variances: Floats) -> Integers:
    """The band of each level, rising from 0: about equally much information in each.

    As many bands as levels with reports if these are no more than BANDS.
    """
    told = np.where(counts > 0, counts / variances, 0.0)
    if np.count_nonzero(told) <= BANDS:
        ranks: Integers = np.maximum(np.cumsum(told > 0) - 1, 0)
        return ranks
    place = (np.cumsum(told) - told / 2) / told.sum()
    _, result = np.unique(
        np.minimum((place * BANDS).astype(np.int64), BANDS - 1), return_inverse=True
    )
    return np.asarray(result, dtype=np.int64)


def banded(
    groups: Integers, counts: Floats, sums: Floats, variances: Floats
) -> tuple[Floats, Floats]:
    """The mean of each band and its variance (NaN without reports); within a band every report
    counts by what its level tells.

    counts, sums of the reports, variances of one: shape (levels,). A level alone is its band.
    """
    number = int(groups.max()) + 1
    variances = np.maximum(variances, np.finfo(float).tiny ** 0.5)
    told = np.bincount(groups, counts / variances, minlength=number)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: Floats = np.bincount(groups, sums / variances, minlength=number) / told
        variance = 1.0 / told
    return mean, np.where(told > 0, variance, np.nan)


def freedom(counts: Floats, parts: Floats) -> float:
    """Degrees of freedom of a sum of variances, one part a level (Satterthwaite 1946).

    A level with few reports counts as FEW: its variance is not taken from them.
    """
    total = float(parts.sum())
    if not 0 < total < float("inf"):
        return float(FEW)
    return total**2 / float((parts**2 / np.maximum(counts - 1, FEW - 1)).sum())


def distance(counts: Floats, weights: Floats, variances: Floats) -> Floats:
    """The standard deviation of the estimate with these weights minus that with equal ones.

    counts, weights: shape (levels,). variances: of one report, shape (levels,) or (levels, width).
    """
    gap = counts * (weights - 1.0 / counts.sum()) ** 2
    result: Floats = np.sqrt(np.tensordot(gap, variances, axes=1))
    return result


def unevenness(counts: Floats, weights: Floats) -> float:
    """sum (w_i - 1/n)^2: times the variance between people, what a weighted mean of the people
    who reported is off their plain mean, if epsilon is not related to the values."""
    return float((counts * (weights - 1.0 / counts.sum()) ** 2).sum())


@dataclass(frozen=True)
class Weighing:
    """How a round's reports are weighed: the rule, and the epsilon that each level's weight is
    computed from."""

    rule: str
    epsilons: list[float]

    @classmethod
    def of(cls, round_: Round, rule: str, cap: object | None, used: Sequence[int]) -> Weighing:
        """used: the levels that are looked at, by their numbers."""
        levels = capped_levels(round_, cap)
        return cls(rule, [levels[k] for k in used])

    def weights(self, counts: Integers, variances: Floats) -> Floats:
        """The weight of one report of each level: see `level_weights`."""
        return level_weights(counts, variances, weights=self.rule)[0]


def capped_levels(round_: Round, epsilon_cap: object | None) -> list[float]:
    """The epsilon from which each level's weight is computed: at most the cap.

    A cap limits what a client gains by claiming a large epsilon; reports stay unbiased.
    """
    levels = [float(item) for item in round_.menu]
    if epsilon_cap is None:
        return levels
    cap = float(exact_epsilon("epsilon_cap", epsilon_cap))
    return [min(level, cap) for level in levels]


@dataclass(frozen=True)
class ScalarLaw:
    """What a server knows of the reports of one level, for values in [-1, 1].

    units: the value of one step of the payload, a branch. noise: the largest variance of a report
    given the value. variance: the largest variance of a report at all. reach: the largest
    |report|. jump: the width of what one report does to a sum, for approximate intervals.
    """

    units: tuple[float, ...]
    noise: float
    variance: float
    reach: float
    jump: float

    def at(self, sigma: float) -> float:
        """The largest variance of a report if the values' standard deviation is at most sigma."""
        return min(self.variance, self.noise + min(sigma, 1.0) ** 2)


@lru_cache(maxsize=4096)  # of a level, in every estimate
def window_variance(law: Window, x: float) -> float:
    """Var(report | x) of the piecewise mechanism on its grid (rounding of the start included)."""
    m, w = law.size, law.width
    inside = law.chance
    half = m - w / 2
    position = (x + 1) / 2 * law.outside
    part = position - math.floor(position)
    centre = x * half
    second = centre**2 + part * (1 - part)  # E c^2 with the rounding
    spread = ((w + 1) ** 2 - 1) / 12
    total = m * (m + 1) * (2 * m + 1) / 3
    both = inside - (1 - inside) * (w + 1) / law.outside
    square = both * second + spread * both + (1 - inside) * total / law.outside
    return (square - (law.shrink * centre) ** 2) * law.unit**2


def scalar_law(round_: Round, level: int, epsilon: float | None = None) -> ScalarLaw:
    """The law of a level (of another epsilon, for weights under a cap)."""
    exact = round_.menu[level] if epsilon is None else Fraction(repr(epsilon))
    c = 1.0 / signal(exact)
    bit = ScalarLaw((c,), c * c, c * c, c, 2 * c)
    if round_.mechanism == ONE_BIT:
        return bit
    law = window(exact)
    most = max(window_variance(law, 1.0), window_variance(law, 0.0))
    slack = law.unit**2 / 4  # the rounding between the points that were looked at
    noise, reach = most + slack, law.largest
    piecewise = ScalarLaw((law.unit,), noise, noise + 1, reach, 2 * reach)
    if round_.mechanism == PIECEWISE:
        return piecewise
    assert round_.mechanism == HYBRID
    share = hybrid_share(exact) / 2**32
    if share == 0:
        return ScalarLaw((c, law.unit), c * c, c * c, c, 2 * c)
    at_zero = share * window_variance(law, 0.0) + (1 - share) * c * c
    at_one = share * window_variance(law, 1.0) + (1 - share) * (c * c - 1)
    noise = max(at_zero, at_one) + slack
    reach = max(c, law.largest)
    return ScalarLaw((c, law.unit), noise, noise + 1, reach, 2 * reach)


def level_sums(
    tally: Tally, laws: list[ScalarLaw], levels: list[int] | None = None
) -> tuple[Floats, Floats, Floats]:
    """Counts, sums and sums of squares of the reports in [-1, 1] units: (levels, coordinates).

    laws: of these levels (of all by default).
    """
    levels = list(range(len(laws))) if levels is None else levels
    shape = (len(tally.round.menu), tally.round.sites, branches(tally.round))
    units = np.array([law.units for law in laws])[:, None, :]
    counts = tally.counts.reshape(shape)[levels]
    sums = tally.sums[:, 0].reshape(shape)[levels] * units
    squares = counts * units**2
    if tally.round.mechanism != ONE_BIT:
        raw = np.array([float(item) for item in tally.squares]).reshape(shape)[levels]
        squares = raw * units**2
    return counts.sum(axis=2).astype(float), sums.sum(axis=2), squares.sum(axis=2)


def report_variances(
    round_: Round,
    laws: list[ScalarLaw],
    counts: Floats,
    sums: Floats,
    squares: Floats,
    groups: Integers,
) -> Floats:
    """The variance of one report of each level, for approximate intervals: (levels, coordinates).

    The reports' own where there are FEW or more, else the largest there can be. Bits are counted
    with two more of each kind (Agresti and Coull 1998), so that a variance is never zero. groups:
    the band of each level; in a band of several every variance is the same part of its largest.
    """
    largest = np.array([law.variance for law in laws])[:, None] + np.zeros_like(counts)
    if int(groups.max()) + 1 < len(laws):
        return _banded_variances(largest, counts, sums, squares, groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        if round_.mechanism == ONE_BIT:
            share = (counts + sums / np.sqrt(largest) + 4) / (2 * counts + 8)
            own = 4 * share * (1 - share) * largest
        else:
            own = np.maximum(squares - sums**2 / counts, 0.0) / (counts - 1)
    return np.where(counts >= FEW, own, largest)


def _banded_variances(
    largest: Floats, counts: Floats, sums: Floats, squares: Floats, groups: Integers
) -> Floats:
    """Every report counts by what its level tells: theirs is a weighted sample variance."""
    result = largest.copy()
    for j in range(counts.shape[1]):
        for k in range(int(groups.max()) + 1):
            mine = (groups == k) & (counts[:, j] > 0)
            n, v = counts[mine, j], largest[mine, j]
            if n.sum() < FEW:
                continue
            mean = (sums[mine, j] / v).sum() / (n / v).sum()
            off = ((squares[mine, j] - 2 * mean * sums[mine, j] + n * mean**2) / v).sum()
            result[mine, j] = v * max(off, 0.0) / (n.sum() - 1)
    return result


def hoeffding(counts: Floats, weights: Floats, laws: list[ScalarLaw], beta: float) -> float:
    """One-bit reports: sqrt(2 ln(2/beta) sum w^2 c^2)."""
    reach = np.array([law.reach for law in laws])
    return math.sqrt(2 * math.log(2 / beta) * float((counts * (weights * reach) ** 2).sum()))


def bennett(counts: Floats, steps: Floats, variances: Floats, beta: float) -> float:
    """Sums of independent bounded terms, by Chernoff and Bennett's bound, over its one parameter.

    counts: terms of each kind; steps: their largest |term - mean|; variances: of one term.
    """
    used = counts > 0
    n, m, v = counts[used], steps[used], variances[used]
    constant = math.log(2 / beta)

    def bound(share: float) -> float:
        lam = 60 * share / float(m.max())
        a = lam * m
        return (float((n * v / m**2 * (np.expm1(a) - a)).sum()) + constant) / lam

    return smallest(bound)


def smallest(function: Callable[[float], float]) -> float:
    """The least value on (0, 1) by golden section on the log scale; any point is a valid bound."""
    ratio = (math.sqrt(5) - 1) / 2
    low, high = -20.0, 20.0  # logit scale

    def at(z: float) -> float:
        return function(1 / (1 + math.exp(-z)))

    for _ in range(50):
        first, second = high - ratio * (high - low), low + ratio * (high - low)
        if at(first) < at(second):
            high = second
        else:
            low = first
    return at((low + high) / 2)


def radius(
    round_: Round,
    laws: list[ScalarLaw],
    counts: Floats,
    weights: Floats,
    beta: float,
    sigma: float = 1.0,
) -> float:
    """The radius of one coordinate in [-1, 1] units, at any weights.

    laws, counts, weights: one a level. sigma: the values' standard deviation is at most this (1:
    any values).
    """
    if round_.mechanism == ONE_BIT:
        return hoeffding(counts, weights, laws, beta)
    steps = weights * np.array([law.reach + 1 for law in laws])
    variances = weights**2 * np.array([law.at(sigma) for law in laws])
    return bennett(counts, steps, variances, beta)


def largest_jump(laws: list[ScalarLaw], counts: Floats, weights: Floats) -> float:
    """The largest width of what one report does to the estimate, in [-1, 1] units."""
    used = counts > 0
    jumps = np.array([law.jump for law in laws])
    return float(max(weights[used] * jumps[used], default=math.inf))


def influence(laws: list[ScalarLaw], counts: Floats, weights: Floats) -> float:
    """2 max w C: how far replacing one report can move the mean, in [-1, 1] units."""
    used = counts > 0
    reach = np.array([law.reach for law in laws])
    return float(max(2 * weights[used] * reach[used], default=math.inf))


def report_values(batch: Batch) -> Floats:
    """The unbiased value in [-1, 1] units that each single report stands for."""
    laws = [scalar_law(batch.round, k) for k in range(len(batch.round.menu))]
    units = np.array([law.units for law in laws])
    branch = np.zeros(len(batch), dtype=np.int64)
    if batch.round.mechanism == HYBRID:
        branch[:] = piecewise_branch(batch.round, batch.nonces, batch.levels)
    unit: Floats = units[batch.levels, branch]
    if batch.round.mechanism == ONE_BIT:
        return (2.0 * batch.payload[:, -1].astype(np.float64) - 1.0) * unit
    return int32_of(batch).astype(np.float64) * unit
