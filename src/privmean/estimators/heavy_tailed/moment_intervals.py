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

from privmean import validate
from privmean.data.person_table import ClipInterval
from privmean.estimators.heavy_tailed import clipping_bias as bias
from privmean.estimators.heavy_tailed.clipping_bias import Tail
from privmean.estimators.heavy_tailed.coarse_center import Outside
from privmean.inference.clipped_intervals import sidak_level
from privmean.inference.interval import INDEPENDENT, Interval
from privmean.inference.laplace_normal import margin, quantile
from privmean.inference.mean_interval import limit, no_interval
from privmean.inference.status import ASSUMPTION_VIOLATED, FAILED, OK
from privmean.mechanisms.clipped_sum import ColumnSums
from privmean.mechanisms.weighted_sums import Law
from privmean.privacy.budget import REPLACE_ONE

MEAN = "mean"


@dataclass(frozen=True)
class NoInterval:
    """The intervals of a failed release: the public range, or the whole line."""

    ranges: tuple[tuple[float, float], ...] | None
    columns: int

    def _make(self, level: float, kind: str) -> Interval:
        if self.ranges is None:
            return no_interval(level, kind=kind, columns=self.columns)
        return Interval(
            tuple(a for a, _ in self.ranges),
            tuple(c for _, c in self.ranges),
            level,
            kind=kind,
            status=FAILED,
        )

    def interval(self, level: float, target: str | None) -> Interval:
        return self._make(level, "interval")

    def noise_interval(self, level: float) -> Interval:
        return self._make(level, "noise_interval")


CLIPPED = "clipped mean"
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


def _limited(
    lower: float, upper: float, bounds: tuple[float, float] | None
) -> tuple[float, float, str]:
    """The ends inside the public range, and the status; all of the range where they do not meet."""
    if bounds is not None and (lower > bounds[1] or upper < bounds[0]):
        return *bounds, ASSUMPTION_VIOLATED
    return *limit(lower, upper, bounds), OK


@dataclass(frozen=True)
class OneColumn:
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

    def interval(self, level: float, target: str | None) -> Interval:
        validate.choice("target", target or MEAN, [MEAN, "clipped", CLIPPED])
        wanted = MEAN if target in (None, MEAN) else CLIPPED
        # a tenth of what may be wrong goes to the bound on those beyond a private radius
        rest = level
        if wanted == MEAN and self.outside is not None:
            rest = 1 - (1 - PAID) * (1 - level)
        center, deviation = self._center, self._deviation(rest)
        half = self._half(rest, deviation)
        lower, upper = center - half, center + half
        parts = {
            "noise": self._half(level, 0.0),
            "sampling": -float(ndtri((1 - level) / 2)) * deviation,
        }
        status = OK
        if wanted == MEAN:
            upper = highest_mean(self.tails, self.box.upper, center + half)
            lower = -highest_mean(self.tails, -self.box.lower, half - center)
            if self.outside is not None:  # both hold at once
                reach = half + self.outside.bias(PAID * (1 - level))
                lower, upper = max(lower, center - reach), min(upper, center + reach)
            parts["clipping allowance"] = max(upper - center, center - lower) - half
            lower, upper, status = _limited(lower, upper, self.bounds)
        return Interval.one(
            (lower, upper),
            level,
            target=wanted,
            assumption=self.assumption if wanted == MEAN else INDEPENDENT,
            region=(self.box.lower, self.box.upper),
            parts=parts,
            status=status,
            advice=ADVICE if status == ASSUMPTION_VIOLATED else "",
        )

    def errors(self) -> tuple[float, float]:
        """Deviations by privacy noise, and by noise and sampling together; NaN for the latter where
        noise hides the sampling variance."""
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

    def noise_interval(self, level: float) -> Interval:
        center, half = self._center, self._half(level, 0.0)
        return Interval.one(
            (center - half, center + half),
            level,
            kind="noise_interval",
            target="clipped mean of these people",
            region=(self.box.lower, self.box.upper),
            parts={"noise": half},
        )


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
class Coordinates:
    """Simultaneous intervals (a box) for the coordinates of a vector mean.

    dimension: of the noise, where some of its coordinates are told alone. scale: of the noise on
    the mean. allowance: bound on the clipping bias of every coordinate at the planned distance of
    the center from the mean. deviation: bound on the sampling deviation of every coordinate.
    outside: what a search for the radius says, which may bound the bias better.
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
    dimension: int | None = None

    def column(self, index: int) -> Coordinates:
        """The intervals of one coordinate for itself."""
        at = slice(index, index + 1)
        return replace(
            self,
            estimate=self.estimate[at],
            center=self.center[at],
            ranges=None if self.ranges is None else self.ranges[at],
            dimension=self._dimension,
        )

    def errors(self) -> tuple[float, float]:
        """Of one coordinate: the deviation of the noise; that of the sample is bounded, not
        known."""
        unit = {"gaussian": 1.0, "laplace": math.sqrt(2)}.get(
            self.law, math.sqrt(self._dimension + 1)
        )
        return unit * self.scale, math.nan

    @property
    def _dimension(self) -> int:
        return len(self.estimate) if self.dimension is None else self.dimension

    def _noise(self, level: float, sd: float) -> float:
        return noise_quantile(self.law, level, self._dimension, self.scale, sd, len(self.estimate))

    def interval(self, level: float, target: str | None) -> Interval:
        validate.choice("target", target or MEAN, [MEAN])
        sd, d = self.deviation, len(self.estimate)
        half, allowance = self._half(level)
        ends = [_limited(x - half, x + half, self._range(j)) for j, x in enumerate(self.estimate)]
        status = (
            ASSUMPTION_VIOLATED if any(item == ASSUMPTION_VIOLATED for *_, item in ends) else OK
        )
        one = sidak_level(level, d)
        return Interval(
            tuple(low for low, *_ in ends),
            tuple(high for _, high, _ in ends),
            level,
            target=MEAN,
            assumption=self.assumption,
            status=status,
            advice=ADVICE if status == ASSUMPTION_VIOLATED else "",
            clip_bounds=tuple(
                (c - self.region_radius, c + self.region_radius) for c in self.center
            ),
            half_widths={
                "noise": (self._noise(level, 0.0),) * d,
                "sampling": (-float(ndtri((1 - one) / 2)) * sd,) * d,
                "clipping allowance": (allowance,) * d,
            },
        )

    def half_length(self, level: float) -> float:
        """Half length of the box, before it is cut to a public range."""
        return self._half(level)[0]

    def _half(self, level: float) -> tuple[float, float]:
        """Half length of the box, and the part of it that allows for clipping."""
        if self.outside is None:
            return self._noise(level, self.deviation) + self.allowance, self.allowance
        # a tenth of what may be wrong goes to the bound on those beyond the radius; the rest to the
        # noise, with either bound, so that the smaller of the two may be taken
        rest, bound = 1 - (1 - PAID) * (1 - level), self.outside.bias(PAID * (1 - level))
        allowance = min(bound, self.allowance)
        return self._noise(rest, self.deviation) + allowance, allowance

    def _range(self, column: int) -> tuple[float, float] | None:
        return None if self.ranges is None else self.ranges[column]

    def noise_interval(self, level: float) -> Interval:
        half = self._noise(level, 0.0)
        return Interval(
            tuple(x - half for x in self.estimate),
            tuple(x + half for x in self.estimate),
            level,
            kind="noise_interval",
            target="clipped mean of these people",
            half_widths={"noise": (half,) * len(self.estimate)},
        )
