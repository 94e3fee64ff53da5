"""Means of groups from released numbers: rows, and any weighted sum of them. No data are read.

An interval is the estimate with an allowance for what the limits cut off, and as much for noise and
sampling error as holds the level for every bias that the allowance leaves room for
(docs/proofs/groups.md, section 6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privmean.array_types import Flags, Floats
from privmean.errors import ArgumentError
from privmean.inference.interval import (
    CLIPPED,
    MEAN,
    NOISE,
    THESE_PEOPLE,
    Ends,
    Interval,
    IntervalMaker,
    IntervalText,
    RowIntervals,
    Rows,
    stacked,
)
from privmean.inference.laplace_normal import bounded_quantiles, sum_quantiles, sum_tail
from privmean.inference.status import MODIFIED_TARGET, OK, worst_status


@dataclass(frozen=True)
class SeveralTables(IntervalMaker):
    """One maker a value; each interval stands for its own row alone."""

    tables: tuple[IntervalMaker, ...]

    def interval(self, level: float, target: str | None = None) -> Interval:
        return stacked([item.interval(level, target) for item in self.tables])

    def noise_interval(self, level: float) -> Interval:
        return stacked([item.noise_interval(level) for item in self.tables])


KEPT = 8  # pairs of level and target whose rows a table keeps
COUNTS = 0.1  # of the largest factor: rows below it do not give a sum their status
TOGETHER = 2**20  # weights whose sums are computed together
Places = npt.NDArray[np.intp]


class MeanSum(NamedTuple):
    """A weighted sum of means of groups, none twice. noise: variance of noise in the weights
    themselves."""

    places: Places
    weights: Floats
    noise: float = 0.0


def each_of(level: float, number: int) -> float:
    """The level at which so many intervals hold together at `level`, whatever they share."""
    return 1 - (1 - level) / max(number, 1)


@dataclass(frozen=True)
class LinearCombination:
    """One estimate with its intervals. std_error: of sampling and noise."""

    estimate: float
    std_error: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    noise_lower: float = math.nan
    noise_upper: float = math.nan
    status: str = OK

    def ends(self, wanted: str) -> Ends:
        """Of the interval for a target, or of privacy noise only."""
        if wanted == NOISE:
            return self.noise_lower, self.noise_upper
        return self.lower, self.upper


@dataclass(frozen=True)
class Errors:
    """Estimates and what is known of their errors, one row each.

    scales: of Laplace noise, shape (rows, k). normal: deviation of Gaussian noise. sampling:
    deviation of the sampling error. up, down: allowances for what the limits cut off, infinite
    where nothing is known beyond that side. limits: what public bounds allow the rows, which
    neither an estimate nor an end passes; keeps_open: but for ends that are open.
    """

    estimate: Floats
    scales: Floats
    normal: Floats
    sampling: Floats
    up: Floats
    down: Floats
    limits: tuple[Floats, Floats] | None = None
    keeps_open: bool = False

    def lines(self, level: float, statuses: Sequence[str]) -> list[LinearCombination]:
        """Return the estimates with both intervals of each."""
        noise = sum_quantiles((1 - level) / 2, self.scales, self.normal)
        spread = np.hypot(self.normal, self.sampling)
        whole = bounded_quantiles(level, self.up + self.down, self.scales, spread)
        error = np.sqrt(2 * (self.scales**2).sum(axis=1) + spread**2)
        ends = [
            self.estimate,
            self.estimate - whole - self.down,
            self.estimate + whole + self.up,
            self.estimate - noise,
            self.estimate + noise,
        ]
        if self.limits is not None:
            ends = [
                np.where(self.keeps_open & np.isinf(item), item, np.clip(item, *self.limits))
                for item in ends
            ]
        estimate, *others = (item.tolist() for item in ends)
        rows = zip(estimate, error.tolist(), *others, statuses, strict=True)
        return [LinearCombination(*row) for row in rows]


@dataclass(frozen=True)
class GroupTable(RowIntervals):
    """Numbers of every group, each of shape (groups,); `scales` (groups, 3) are the Laplace scales
    of the mean's noise, `normal` the deviation of Gaussian noise instead.

    above, below: allowances, without which an interval is for the clipped mean; corrected: what was
    added to that mean for what the limits cut off. open_above, open_below: nothing is known beyond
    that side. related: the groups share people, so that errors
    of sampling add up in the worst way. weight: noisy people, `weight_sd` its noise. divisor,
    cell: people that a mean was divided by, and the noise deviation of each of its three parts.
    lower, upper: the limits of values. bounds: public ones, which no end passes. limits:
    what the type of the values allows, to which they are not clipped.
    """

    keys: tuple[str, ...]
    estimate: Floats
    sampling: Floats
    scales: Floats = field(repr=False)
    normal: Floats = field(repr=False)
    above: Floats = field(repr=False)
    below: Floats = field(repr=False)
    corrected: Floats = field(repr=False)
    open_above: Flags = field(repr=False)
    open_below: Flags = field(repr=False)
    weight: Floats = field(repr=False)
    weight_sd: float
    divisor: Floats = field(repr=False)
    cell: float
    lower: Floats = field(repr=False)
    upper: Floats = field(repr=False)
    status: tuple[str, ...]
    counted: bool = True
    clustering: bool = False
    simultaneous: bool = False
    assumption: str = ""
    brief: str = ""
    bounds: tuple[float, float] | None = None
    limits: tuple[float, float] | None = None

    @property
    def shown(self) -> Flags:
        return ~np.isnan(self.estimate)

    @property
    def closed(self) -> Flags:
        """Groups with an estimate and a closed interval."""
        return self.shown & ~self.open_above & ~self.open_below

    @cached_property
    def places(self) -> dict[str, int]:
        return {key: row for row, key in reversed(list(enumerate(self.keys)))}

    def own_level(self, level: float) -> float:
        """The level of one row: of all rows together where that is asked for."""
        return each_of(level, int(self.closed.sum())) if self.simultaneous else level

    def errors_of(
        self,
        places: Places,
        weights: Floats,
        noise: Floats | float = 0.0,
        *,
        clipped: bool = False,
        independent: bool = False,
        open_at: Flags | bool = True,
    ) -> Errors:
        """Of weighted sums of means: both of shape (rows, k), weights are 0 where groups have no
        estimate. clipped: of means of limited values. independent: take errors of sampling as
        independent where groups share people. open_at: weights whose open groups leave a sum
        open."""
        rising, falling = np.maximum(weights, 0.0), np.maximum(-weights, 0.0)
        size = rising + falling
        used = size > 0

        def at(item: Floats) -> Floats:
            return np.where(used, item[places], 0.0)

        nothing = np.zeros(len(self.keys))
        above, below = (at(nothing if clipped else item) for item in (self.above, self.below))
        high, low = self.open_above[places] & open_at, self.open_below[places] & open_at
        far_up = ((rising > 0) & high | (falling > 0) & low).any(axis=1)
        far_down = ((rising > 0) & low | (falling > 0) & high).any(axis=1)
        each = size * at(self.sampling)
        apart = independent or not self.clustering
        scales = np.where(used[:, :, None], self.scales[places], 0.0)
        mean = self.estimate - self.corrected if clipped else self.estimate
        return Errors(
            (weights * at(mean)).sum(axis=1),
            (size[:, :, None] * scales).reshape(len(size), size.shape[1] * scales.shape[2]),
            np.sqrt(((size * at(self.normal)) ** 2).sum(axis=1) + noise),
            np.sqrt((each**2).sum(axis=1)) if apart else each.sum(axis=1),
            np.where(far_up, math.inf, (rising * above + falling * below).sum(axis=1)),
            np.where(far_down, math.inf, (rising * below + falling * above).sum(axis=1)),
            self.allowed(rising.sum(axis=1), falling.sum(axis=1)),
        )

    def lines(
        self,
        sums: Sequence[MeanSum],
        level: float,
        *,
        clipped: bool = False,
        independent: bool = False,
    ) -> list[LinearCombination]:
        """Weighted sums of means with their intervals; those of as many means are found together.
        clipped, independent: as of `errors_of`."""
        found: dict[int, LinearCombination] = {}
        alike: dict[int, list[int]] = {}
        for j, one in enumerate(sums):
            if self.shown[one.places].all():
                alike.setdefault(len(one.places), []).append(j)
            else:
                found[j] = LinearCombination(math.nan, status=self.worst(one.places))
        for size, which in alike.items():
            step = max(TOGETHER // size, 1)
            for first in range(0, len(which), step):
                some = which[first : first + step]
                places, weights, noise = map(np.array, zip(*(sums[j] for j in some), strict=True))
                made = self.errors_of(
                    places, weights, noise, clipped=clipped, independent=independent
                ).lines(level, [self.carried(sums[j]) for j in some])
                found |= dict(zip(some, made, strict=True))
        return [found[j] for j in range(len(sums))]

    def carried(self, one: MeanSum) -> str:
        """The status of a sum: the worst of the groups that carry it."""
        size = np.abs(one.weights)
        return self.worst(one.places[size >= COUNTS * size.max()])

    def allowed(self, rising: Floats, falling: Floats) -> tuple[Floats, Floats] | None:
        """What public bounds and types allow weighted sums of means: their factors above and
        below 0."""
        pairs = [pair for pair in (self.bounds, self.limits) if pair is not None]
        if not pairs:
            return None
        low, high = max(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
        with np.errstate(invalid="ignore"):
            least, most = (
                np.where(rising > 0, rising * a, 0.0) - np.where(falling > 0, falling * b, 0.0)
                for a, b in ((low, high), (high, low))
            )
        return least, most

    def p_value(self, weights: Floats) -> float:
        """The smallest level at which the interval for a weighted sum of means of limited values
        leaves 0 out: NaN without an estimate, 1 where too much lies beyond the limits."""
        used = np.flatnonzero(weights)
        one = MeanSum(used, weights[used])
        (line,) = self.lines([one], 0.95, clipped=True)
        if math.isnan(line.estimate):
            return math.nan
        if line.status == MODIFIED_TARGET:
            return 1.0
        made = self.errors_of(used[None, :], one.weights[None, :], clipped=True)
        sd = math.hypot(float(made.normal[0]), float(made.sampling[0]))
        return 2 * sum_tail(abs(line.estimate), made.scales[0].tolist(), sd)

    def worst(self, used: npt.NDArray[np.intp]) -> str:
        """The status of a sum of these rows."""
        return worst_status(self.status[g] for g in used)

    def rows(self, level: float, *, clipped: bool = False) -> tuple[LinearCombination, ...]:
        """Return the line of every group, the ends of all found at once.

        level: of each row, or of all rows together where intervals are simultaneous. The rows asked
        for last are kept: a text, a frame and a record of one release ask for the same.
        """
        asked = level, clipped
        if asked not in self._kept:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[asked] = self._rows(level, clipped)
        return self._kept[asked]

    @cached_property
    def _kept(self) -> dict[tuple[float, bool], tuple[LinearCombination, ...]]:
        return {}

    def _rows(self, level: float, clipped: bool) -> tuple[LinearCombination, ...]:
        seen = np.flatnonzero(self.shown)
        errors = self.errors_of(seen[:, None], np.ones((len(seen), 1)), clipped=clipped)
        lines = errors.lines(self.own_level(level), [self.status[g] for g in seen])
        found = dict(zip(seen.tolist(), lines, strict=True))
        return tuple(
            found.get(g) or LinearCombination(math.nan, status=status)
            for g, status in enumerate(self.status)
        )

    # --- as intervals of rows ---------------------------------------------------------------------
    @property
    def number(self) -> int:
        return len(self.keys)

    def target(self, asked: str | None) -> str:
        """The mean needs people beyond the limits, who were counted."""
        wanted = super().target(asked or (MEAN if self.counted else CLIPPED))
        if wanted == MEAN and not self.counted:
            raise ArgumentError(
                "target",
                wanted,
                "is not available: outliers were not counted in this release",
                "use target='clipped mean', or make the release without target",
            )
        return wanted

    def row_level(self, level: float, rows: Rows) -> float:
        """`rows` knows which level is that of each."""
        return level

    def ends(self, level: float, wanted: str, rows: Rows) -> list[Ends]:
        lines = self.rows(level, clipped=wanted != MEAN)
        return [lines[row].ends(wanted) for row in rows]

    def words(self, wanted: str, rows: Rows) -> IntervalText:
        status = worst_status(self.status[row] for row in rows)
        if wanted == NOISE:
            return {"target": THESE_PEOPLE, "status": status}
        said = wanted == MEAN
        return {
            "target": wanted,
            "assumption": self.assumption if said else "",
            "short_assumption": self.brief if said else "",
            "status": status,
        }

    def regions(self, wanted: str, rows: Rows) -> list[Ends]:
        if wanted == NOISE:
            return []
        pairs = list(zip(self.lower.tolist(), self.upper.tolist(), strict=True))
        return [pairs[row] for row in rows]
