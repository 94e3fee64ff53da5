"""What a server knows of the reports of a round, and how much each level of the menu counts.

Source of the weights: Aliakbarpour, Fallah, Roy and Stevens (2025), with the weights that are
minimax at every epsilon (docs/proofs/local-scalar.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.local.aggregators.tally import Tally
from privmean.local.exact_coins import exact_epsilon
from privmean.local.round import Round

MINIMAX, UNIFORM, TESTED = "minimax", "uniform", "tested"
CHOICES = (MINIMAX, UNIFORM, TESTED)
FEW = 50  # reports of a level whose own spread is not relied upon
BANDS = 8  # groups of levels that are compared, where a ladder has very many


class Weighed(NamedTuple):
    """Reports of one site: how many of each level, the weight of one, and what they come to."""

    site: int
    counts: Floats
    weights: Floats
    raw: Floats

    def squared(self, values: Floats) -> float:
        """The sum over reports of (weight times a value of its level)^2."""
        return float((self.counts * (self.weights * values) ** 2).sum())

    def largest(self, values: Floats) -> float:
        """The largest weight times a value of its level, over the levels with reports."""
        return float(max((self.weights * values)[self.counts > 0], default=0.0))


class RoundLaw(ABC):
    """The law of a round's reports, one subclass per kind of question.

    A round asks for `sites` results (coordinates, or design points of a curve) of `width` numbers
    each. Every number has its unit: a result is `middle` + `scale` times what reports say. Levels
    are those of `used`, by their numbers in the menu. reach: the width of what one report of each
    level does to a sum of reports. groups: the band of each level.

    Arrays have the shape (levels, sites) or, of one site, (levels, width).
    """

    norm: ClassVar[str]
    each: ClassVar[bool] = True  # whether levels are compared number by number
    target: str
    notes: tuple[str, ...] = ()
    width: int
    reach: Floats
    groups: Integers
    counts: Floats  # (levels, sites), of the tally that was read
    sums: Floats  # (levels, sites, width): of the unbiased numbers of its reports

    def __init__(self, round_: Round, used: Sequence[int]) -> None:
        self.round, self.used, self.sites = round_, list(used), round_.sites
        self.middle, self.scale = np.zeros(self.sites), np.ones(self.sites)
        self.groups = np.arange(len(self.used))
        self.laws = [self.level_law(k, None) for k in self.used]
        self.trusted = self.weighed_by(self.laws)

    @abstractmethod
    def level_law(self, level: int, epsilon: float | None) -> Any:
        """The law of one level's reports (of another epsilon, for weights under a cap)."""

    @abstractmethod
    def weighed_by(self, laws: list[Any]) -> Floats:
        """The variance of a report that its weight is computed from: (levels, sites)."""

    def capped(self, epsilon_cap: object | None) -> Floats:
        """The same as if no epsilon were larger than the cap, which limits what a client gains by
        claiming a large one; reports stay unbiased."""
        if epsilon_cap is None:
            return self.trusted
        cap = float(exact_epsilon("epsilon_cap", epsilon_cap))
        levels = ((k, min(float(self.round.menu[k]), cap)) for k in self.used)
        return self.weighed_by([self.level_law(k, epsilon) for k, epsilon in levels])

    def effective(self) -> Floats:
        """The variance that the effective number of reports is computed from: (levels, sites)."""
        return self.trusted

    def planned(self) -> Floats:
        """The variance of a report that a plan expects: (levels, sites)."""
        return self.trusted

    @abstractmethod
    def read(self, tally: Tally) -> None:
        """Take the counts and sums of a tally."""

    @abstractmethod
    def seen(self, site: int, raw: Floats) -> Floats:
        """The variance of one report, for approximate intervals: (levels, width)."""

    @abstractmethod
    def noise(self, site: int, raw: Floats) -> tuple[Floats, Floats | float]:
        """The part of a report's variance that privacy adds, (levels, width); and the variance
        between people, as far as it is apart from that."""

    @abstractmethod
    def radius(self, at: Weighed, beta: float, *, alone: bool = False) -> Floats | float:
        """The radius of all numbers of a site at once, at any weights; or of each one alone."""

    @abstractmethod
    def shown(self, raw: Floats, radii: Floats, project: bool) -> tuple[Floats, Floats, bool]:
        """Values within the public range and their radii, shape (sites, width); and whether the
        radius is no smaller than the range."""

    def in_units(self, values: Floats, *, around: bool = False) -> Floats:
        """Numbers of shape (sites, width) in the units of the values, as an estimate lists them."""
        result = values * self.scale[:, None] + (self.middle[:, None] if around else 0.0)
        if self.width == 1:
            return np.asarray(result[:, 0])
        return np.asarray(result[0] if self.sites == 1 else result)


def level_weights(counts: Floats, variances: Floats, *, weights: str = MINIMAX) -> Floats:
    """The weight of one report of each level; the sum over reports is 1.

    counts: reports a level. variances: worst-case variance of a report of each level.
    "minimax": inversely to the variance, which minimizes the worst case at every epsilon.
    "uniform": every report counts the same, as it must if epsilon may depend on the value.
    """
    validate.choice("weights", weights, [MINIMAX, UNIFORM])
    raw = 1.0 / variances if weights == MINIMAX else np.ones(len(variances))
    total = float((counts * raw).sum())
    return raw / total if total > 0 else np.zeros(len(variances))


def bands(counts: Floats, variances: Floats) -> Integers:
    """The band of each level, rising from 0: about equally much information in each.

    As many bands as levels with reports if these are no more than BANDS.
    """
    told = np.where(counts > 0, counts / variances, 0.0)
    if np.count_nonzero(told) <= BANDS:
        return np.asarray(np.maximum(np.cumsum(told > 0) - 1, 0))
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

    counts: shape (levels,). sums of the reports, variances of one: shape (levels, width). A level
    alone is its band.
    """
    number, n = int(groups.max()) + 1, counts[:, None]
    variances = np.maximum(variances, np.finfo(float).tiny ** 0.5)
    with np.errstate(invalid="ignore", divide="ignore"):
        if number == len(groups):  # each level is a band, of maybe millions of numbers
            return sums / n, np.where(n > 0, variances / n, np.nan)
        mine = (groups == np.arange(number)[:, None]).astype(float)
        told = mine @ (n / variances)
        mean: Floats = (mine @ (sums / variances)) / told
        return mean, np.where(told > 0, 1.0 / told, np.nan)


def freedom(counts: Floats, parts: Floats) -> float:
    """Degrees of freedom of a sum of variances, one part a level (Satterthwaite 1946).

    A level with few reports counts as FEW: its variance is not taken from them.
    """
    total = float(parts.sum())
    if not 0 < total < math.inf:
        return float(FEW)
    return total**2 / float((parts**2 / np.maximum(counts - 1, FEW - 1)).sum())


def unevenness(counts: Floats, weights: Floats) -> Floats:
    """The squared distance of the weights from equal ones, a level: n (w - 1/N)^2.

    Times the variances of reports: the variance of the estimate minus that with equal weights.
    Times the variance between people: what a weighted mean of the people who reported is off their
    plain mean, if epsilon is not related to the values.
    """
    return np.asarray(counts * (weights - 1.0 / counts.sum()) ** 2)
