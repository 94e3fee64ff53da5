"""Intervals for the population mean under a known moment bound: post-processing only.

The clipped mean differs from the mean by at most the excess beyond the clipping limits, which the
assumption bounds as a function of the unknown mean itself; the interval holds every mean that is
compatible with the released clipped mean (docs/proofs/heavy-tails.md, Intervals).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from privmean.data.person_table import ClipInterval
from privmean.estimators.heavy_tailed import clipping_bias as bias
from privmean.estimators.heavy_tailed.clipping_bias import Tail
from privmean.estimators.heavy_tailed.coarse_center import Outside
from privmean.inference.interval import (
    INDEPENDENT,
    MEAN,
    NOISE,
    THESE_PEOPLE,
    Ends,
    Interval,
    IntervalText,
    RowIntervals,
    Rows,
    limit,
    sidak_level,
)
from privmean.inference.laplace_normal import margin, quantile
from privmean.inference.status import ASSUMPTION_VIOLATED, OK
from privmean.mechanisms.clipped_sum import ColumnSums
from privmean.mechanisms.weighted_sums import Law
from privmean.privacy.budget import REPLACE_ONE

ADVICE = (
    "The released sums leave no mean inside the public range. Widen the range or the bound on the "
    "moment."
)
PAID = 0.1  # of what may be wrong, for a bound on the people beyond a private radius


def highest_mean(tails: Sequence[Tail], limit_above: float, clipped: float) -> float:
    """The largest mean t whose excess over `limit_above` allows a clipped mean of `clipped`.

    E clip(Y) >= t - E(Y - limit)+, and with x = limit - t the excess is at most
    (sqrt(sd^2 + x^2) - x)/2 for every x, and at most the clipping bias bound for x > 0.
    Infinite if the clipped mean may be at the limit.
    """
    gap = limit_above - clipped
    if gap <= 0:
        return math.inf
    spread = min(tail.spread for tail in tails)
    top = clipped + spread**2 / (4 * gap)  # solves t - (sqrt(sd^2 + x^2) - x)/2 = clipped
    grid = np.linspace(clipped, top, 301)
    excess = bias.one_dimension(tails, limit_above - grid, 0.0)
    allowed = np.flatnonzero(grid - excess <= clipped)
    last = int(allowed[-1]) if len(allowed) else 0
    return float(grid[min(last + 1, len(grid) - 1)])


def limited(found: Interval, ranges: Sequence[Ends] | None) -> Interval:
    """The intervals inside the public ranges; where they do not meet, all of the range."""
    if ranges is None:
        return found
    pairs = list(zip(found.lower, found.upper, ranges, strict=True))
    off = [lower > top or upper < least for lower, upper, (least, top) in pairs]
    ends = [
        bounds if apart else limit(lower, upper, bounds)
        for apart, (lower, upper, bounds) in zip(off, pairs, strict=True)
    ]
    status, advice = (ASSUMPTION_VIOLATED, ADVICE) if any(off) else (OK, "")
    return replace(
        found,
        lower=tuple(low for low, _ in ends),
        upper=tuple(high for _, high in ends),
        status=status,
        advice=advice,
    )


@dataclass(frozen=True)
class OneColumn(RowIntervals):
    """Intervals of one column released as clipped sums with Laplace noise.

    sums: the release, in units of the box's radius; share: clipped mean minus its middle in the
    same units; weight: what divided the sum, the noisy number of people or a public one. The
    sampling variance is the smaller of its estimate from the free sum of squares and the
    assumption's bound.
    """

    sums: ColumnSums
    share: float
    weight: float
    box: ClipInterval
    tails: tuple[Tail, ...]
    assumption: str
    bounds: tuple[float, float] | None = None
    outside: Outside | None = None

    @property
    def _center(self) -> float:
        return self.box.middle + self.box.radius * self.share

    number = 1

    def checked(self, found: Interval, wanted: str, rows: Rows) -> Interval:
        if wanted != MEAN:
            return found
        reach = max(found.upper[0] - self._center, self._center - found.lower[0])
        extra = {"clipping allowance": (reach - self._half(*self._sampling(found.level)),)}
        ranges = None if self.bounds is None else [self.bounds]
        return limited(replace(found, half_widths={**found.half_widths, **extra}), ranges)

    def ends(self, level: float, wanted: str, rows: Rows = (0,)) -> list[Ends]:
        center, box = self._center, self.box
        if wanted != MEAN:
            sd = 0.0 if wanted == NOISE else self._deviation(level)
            half = self._half(level, sd)
            return [(center - half, center + half)]
        half = self._half(*self._sampling(level))
        upper = highest_mean(self.tails, box.upper, center + half)
        lower = -highest_mean(self.tails, -box.lower, half - center)
        if self.outside is not None:  # both hold at once
            reach = half + self.outside.bias(PAID * (1 - level))
            lower, upper = max(lower, center - reach), min(upper, center + reach)
        return [(lower, upper)]

    def _sampling(self, level: float) -> tuple[float, float]:
        """The level of noise and sampling in an interval for the mean, and the deviation there: a
        tenth of what may be wrong goes to the bound on those beyond a private radius."""
        rest = level if self.outside is None else 1 - (1 - PAID) * (1 - level)
        return rest, self._deviation(rest)

    def words(self, wanted: str, rows: Rows = (0,)) -> IntervalText:
        if wanted == NOISE:
            return {"target": THESE_PEOPLE}
        return {"target": wanted, "assumption": self.assumption if wanted == MEAN else INDEPENDENT}

    def regions(self, wanted: str, rows: Rows = (0,)) -> list[Ends]:
        return [(self.box.lower, self.box.upper)]

    def parts(self, level: float, wanted: str, rows: Rows = (0,)) -> dict[str, tuple[float]]:
        noise = {"noise": (self._half(level, 0.0),)}
        if wanted == NOISE:
            return noise
        sd = self._sampling(level)[1] if wanted == MEAN else self._deviation(level)
        return {**noise, "sampling": (-float(ndtri((1 - level) / 2)) * sd,)}

    def row_errors(self, row: int) -> tuple[float, float]:
        """NaN for noise and sampling where noise hides the sampling variance."""
        unit = self.box.radius / self.weight
        noise = unit * math.sqrt(2) * math.hypot(*self.sums.ratio_noise(self.share))
        square = self.sums.square / self.weight - self.share**2
        if square <= 0:
            return noise, math.nan
        return noise, math.hypot(noise, self.box.radius * math.sqrt(square / self.weight))

    def _deviation(self, level: float) -> float:
        """Standard deviation of the clipped mean, in the units of the values."""
        square = max(0.0, self.sums.square / self.weight - self.share**2)
        noisy = square + margin(level) * self.sums.square_noise / self.weight
        spread = min(tail.spread for tail in self.tails)
        return math.sqrt(min(spread**2, self.box.radius**2 * noisy) / self.weight)

    def _half(self, level: float, deviation: float) -> float:
        if self.weight == self.sums.weight or self.sums.relation != REPLACE_ONE:
            scales = [x * self.box.radius / self.weight for x in self.sums.ratio_noise(self.share)]
            return quantile((1 - level) / 2, scales, deviation)
        # divided by the public number: people without a value, at most so many with probability
        # 1 - (1 - level)/10, pull the answer to the middle
        hidden = self.sums.noise[2] * math.log(5 / (1 - level)) - self.sums.weight
        pull = abs(self.share) * max(0.0, 1 + hidden / self.weight)
        scale = self.sums.noise[0] * self.box.radius / self.weight
        return quantile(0.45 * (1 - level), [scale], deviation) + self.box.radius * pull


def noise_quantile(
    law: Law, level: float, dimension: int, scale: float, sd: float, together: int | None = None
) -> float:
    """Half length of a box that holds noise plus a normal error together in all coordinates.

    dimension: of the noise. together: the number of coordinates held, all if None. scale: of the
    noise on the mean (see `ClipAndNoise.scale`); sd: deviation of the normal error of every
    coordinate, of any correlation (Sidak's inequality, conditionally on mixing scales).
    """
    held = dimension if together is None else together
    one = sidak_level(level, held)
    if law == "gaussian":
        return -float(ndtri((1 - one) / 2)) * math.hypot(scale, sd)
    if law == "laplace":
        return quantile((1 - one) / 2, (scale,), sd)
    # l2 K-norm noise is normal with variance scale^2 V, V chi-square with d + 1 degrees of freedom
    mixing = stats.chi2.ppf((np.arange(400) + 0.5) / 400, dimension + 1)
    deviations = np.sqrt(scale**2 * mixing + sd**2)

    def excess(t: float) -> float:
        return float(np.mean((2 * ndtr(t / deviations) - 1) ** held)) - level

    return float(brentq(excess, 0.0, 40 * float(deviations.max()), rtol=1e-9))


@dataclass(frozen=True)
class Coordinates(RowIntervals):
    """Simultaneous intervals (a box) for the coordinates of a vector mean.

    scale: of the noise on the mean. allowance: bound on the clipping bias of every coordinate at
    the planned distance of the center from the mean. deviation: bound on the sampling deviation of
    every coordinate. outside: what a search for the radius says, which may bound the bias better.
    """

    estimate: tuple[float, ...]
    law: Law
    scale: float
    deviation: float
    allowance: float
    region_radius: float
    center: tuple[float, ...]
    assumption: str
    ranges: tuple[tuple[float, float], ...] | None = None
    outside: Outside | None = None
    targets = (MEAN,)

    @property
    def number(self) -> int:
        return len(self.estimate)

    def row_errors(self, row: int) -> tuple[float, float]:
        """The deviation of the noise; that of the sample is bounded, not known."""
        unit = {"gaussian": 1.0, "laplace": math.sqrt(2)}.get(self.law, math.sqrt(self.number + 1))
        return unit * self.scale, math.nan

    def row_level(self, level: float, rows: Rows) -> float:
        """The law of the noise is of all coordinates together."""
        return level

    def _noise(self, level: float, sd: float, together: int) -> float:
        return noise_quantile(self.law, level, self.number, self.scale, sd, together)

    def checked(self, found: Interval, wanted: str, rows: Rows) -> Interval:
        if wanted == NOISE or self.ranges is None:
            return found
        return limited(found, [self.ranges[row] for row in rows])

    def ends(self, level: float, wanted: str, rows: Rows) -> list[Ends]:
        if wanted == NOISE:
            half = self._noise(level, 0.0, len(rows))
        else:
            half, _ = self._half(level, len(rows))
        return [(self.estimate[row] - half, self.estimate[row] + half) for row in rows]

    def words(self, wanted: str, rows: Rows) -> IntervalText:
        if wanted == NOISE:
            return {"target": THESE_PEOPLE}
        return {"target": wanted, "assumption": self.assumption}

    def regions(self, wanted: str, rows: Rows) -> list[Ends]:
        if wanted == NOISE:
            return []
        radius = self.region_radius
        return [(self.center[row] - radius, self.center[row] + radius) for row in rows]

    def parts(self, level: float, wanted: str, rows: Rows) -> dict[str, tuple[float, ...]]:
        d = len(rows)
        found = {"noise": (self._noise(level, 0.0, d),) * d}
        if wanted == NOISE:
            return found
        sampling = -float(ndtri((1 - sidak_level(level, d)) / 2)) * self.deviation
        allowance = self._half(level, d)[1]
        return {**found, "sampling": (sampling,) * d, "clipping allowance": (allowance,) * d}

    def half_length(self, level: float) -> float:
        """Half length of the box, before it is cut to a public range."""
        return self._half(level, self.number)[0]

    def _half(self, level: float, together: int) -> tuple[float, float]:
        """Half length of the box, and the part of it that allows for clipping."""
        if self.outside is None:
            return self._noise(level, self.deviation, together) + self.allowance, self.allowance
        # a tenth of what may be wrong goes to the bound on those beyond the radius; the rest to the
        # noise, with either bound, so that the smaller of the two may be taken
        rest, bound = 1 - (1 - PAID) * (1 - level), self.outside.bias(PAID * (1 - level))
        allowance = min(bound, self.allowance)
        return self._noise(rest, self.deviation, together) + allowance, allowance
