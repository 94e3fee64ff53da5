"""How much each level of the menu counts.

Source: Aliakbarpour, Fallah, Roy and Stevens (2025), with the weights that are minimax at every
epsilon (docs/proofs/local-scalar.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.local.exact_coins import exact_epsilon
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
