"""Intervals for one mean from a joint Laplace (or Gaussian) release of sums.

Everything here is post-processing of noisy sums of z = (clip(x, a, c) - middle)/radius over
people. The sum of squares is released beside the sum at no extra privacy loss
(docs/proofs/intervals.md, section 1); the variance of the mean comes from it.

How many people have no value (`MissingCount`) is believed firmly, so that complete columns stay
complete; `RatioWithMissing` says what the sums are then divided by (docs/proofs/default-mean.md,
section 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from privmean.inference.laplace_normal import (
    allowance_half_lengths,
    gaussian_margin,
    margin,
    normal_half_length,
    normal_quantile,
    quantile,
)
from privmean.mechanisms.clipped_sum import ColumnSums
from privmean.privacy.budget import REPLACE_ONE

Law = Literal["laplace", "gaussian"]


@dataclass(frozen=True)
class NoisySums:
    """Released sums over people of z in [-1, 1] and of z^2, with the scales of their noise.

    value, square: the noisy sums. persons: what the estimate divides by: a public number, a noisy
    count with Laplace scale `count_scale` (people without a value left out), or with
    `partition` a noisy count from the three cells of the add-remove release, each with scale
    `value_scale`. value_scale, square_scale: Laplace scales, or standard deviations if law is
    "gaussian". missing: the z of people without a value. undetected: the part of all people that
    may have none although `persons` counts them: the mean of the others lies that much farther
    from there, in proportion.
    """

    value: float
    square: float
    n: float
    value_scale: float
    square_scale: float
    law: Law = "laplace"
    count_scale: float = 0.0
    partition: bool = False
    undetected: float = 0.0
    missing: float = 0.0

    @property
    def farther(self) -> tuple[float, float]:
        """What `undetected` adds below and above: only at the end away from `missing`."""
        away = self.mean - self.missing
        size = self.undetected * abs(away)
        return (size, 0.0) if away < 0 else (0.0, size)

    @property
    def mean(self) -> float:
        found = self.value / self.n
        return min(1.0, max(-1.0, found)) if self.ratio else found

    @property
    def ratio(self) -> bool:
        """Whether the estimate divides by a noisy number."""
        return self.partition or self.count_scale > 0

    @property
    def unit(self) -> float:
        """Scale of the noise of `mean`."""
        return self.value_scale / self.n

    def within_bounds(self) -> NoisySums:
        """The same with a mean between the limits, where the true one lies. Errors only shrink, so
        that intervals about it hold."""
        return replace(self, value=min(max(self.value, -self.n), self.n))

    @property
    def variance(self) -> float:
        """Variance of z over people, from the noisy square, between 0 and 1."""
        return min(1.0, max(0.0, self.square / self.n - self.mean**2))

    def scales(self, theta: float) -> tuple[float, ...]:
        """Laplace scales of value - theta*people, whose mean is zero at the true theta."""
        if self.partition:
            return tuple(self.value_scale * abs(item) for item in (1 - theta, theta, 1 + theta))
        if self.count_scale:
            return (self.value_scale, self.count_scale * abs(theta - self.missing))
        return (self.value_scale,)


@dataclass(frozen=True)
class ClippingBiasBound:
    """A noisy bound on what values beyond the limits can add to the mean, in units of the radius.

    total: noisy sum over people, scale: its Laplace scale, reach: the largest amount of one
    person (on average, by assumption). corrected: the value already holds half of every such
    amount, and `total` is the other half.
    """

    total: float
    scale: float
    largest_excess: float
    corrected: bool = False


def sampling_variance(
    sums: NoisySums, level: float, design_effect: float, allowance: ClippingBiasBound | None = None
) -> float:
    """Variance of the sum of z (or of either end point with its allowance), with the margin for
    the noise of the square."""
    n = sums.n
    variance = sums.variance
    if allowance is not None:
        k, share = allowance.largest_excess, max(allowance.total / n, 0.0)
        top = max(abs(sums.mean) - share, 0.0)
        if allowance.corrected:
            share = 2 * share
        variance = sums.square / n + (2 + k) * share - top**2
        variance = min((1 + k) ** 2, max(0.0, variance))
    spread = margin(level) if sums.law == "laplace" else gaussian_margin(level)
    return design_effect * (variance * n + spread * sums.square_scale)


@dataclass(frozen=True)
class Asked:
    """One mean of which ends are asked: of z, or with an allowance of the unclipped z."""

    sums: NoisySums
    design_effect: float = 1.0
    allowance: ClippingBiasBound | None = None


def all_ends(asked: Sequence[Asked], level: float) -> list[tuple[float, float]]:
    """Return the end points of many means, each for itself, all found at once."""
    alpha = 1 - level
    spread = [
        math.sqrt(sampling_variance(one.sums, level, one.design_effect, one.allowance))
        for one in asked
    ]
    means = [one.sums.mean for one in asked]
    first = _halves(asked, spread, means, alpha)
    # value - theta*people has noise that depends on theta: taken at the end point itself
    places = [(i, sign) for sign in (-1.0, 1.0) for i, one in enumerate(asked) if one.sums.ratio]
    thetas = [means[i] + sign * first[i] / asked[i].sums.n for i, sign in places]
    thetas = [min(1.0, max(-1.0, theta)) for theta in thetas]
    known, spreads = [asked[i] for i, _ in places], [spread[i] for i, _ in places]
    again = dict(zip(places, _halves(known, spreads, thetas, alpha), strict=True))
    ends = []
    for i, one in enumerate(asked):
        half, extra = first[i], _extra(one)
        below, above = (again.get((i, sign), half) / one.sums.n + extra for sign in (-1.0, 1.0))
        ends.append(
            (
                one.sums.mean - (below + one.sums.farther[0]),
                one.sums.mean + (above + one.sums.farther[1]),
            )
        )
    return ends


def _extra(one: Asked) -> float:
    return max(one.allowance.total, 0.0) / one.sums.n if one.allowance else 0.0


def _halves(
    asked: Sequence[Asked], spread: Sequence[float], thetas: Sequence[float], alpha: float
) -> list[float]:
    """Half lengths of sums, with the noise that they have at these thetas."""
    found, laplace = [0.0] * len(asked), []
    for i, (one, sd, theta) in enumerate(zip(asked, spread, thetas, strict=True)):
        rho, scales = one.allowance.scale if one.allowance else 0.0, one.sums.scales(theta)
        if one.sums.law == "gaussian":
            total = math.hypot(sd, *scales)
            found[i] = total * normal_half_length(rho / total, alpha)
        else:
            unit = one.sums.value_scale
            laplace.append((i, unit, sd / unit, rho / unit, [item / unit for item in scales]))
    if laplace:
        places, units, tau, rhos, scaled = zip(*laplace, strict=True)
        width = max(map(len, scaled))
        padded = np.array([[*row, *[0.0] * (width - len(row))] for row in scaled])
        halves = allowance_half_lengths(np.array(tau), np.array(rhos), alpha, padded)
        for i, unit, half in zip(places, units, halves.tolist(), strict=True):
            found[i] = unit * half
    return found


def ends_of(
    sums: NoisySums,
    level: float,
    design_effect: float = 1.0,
    allowance: ClippingBiasBound | None = None,
) -> tuple[float, float]:
    """End points for the mean of z (with an allowance: of the unclipped z)."""
    return all_ends([Asked(sums, design_effect, allowance)], level)[0]


def half_of(sums: NoisySums, level: float, design_effect: float = 1.0) -> float:
    """Half length of the interval for the mean of z when `persons` is public."""
    lower, upper = ends_of(sums, level, design_effect)
    return (upper - lower) / 2


def noise_half(sums: NoisySums, level: float) -> float:
    """Half length for the same sample's mean of z: exact for every data set."""
    alpha = 1 - level
    scales = sums.scales(sums.mean)
    if sums.law == "laplace":
        return quantile(alpha / 2, scales, 0.0) / sums.n
    return -normal_quantile(alpha / 2) * math.hypot(*scales) / sums.n


def deviations(sums: NoisySums, design_effect: float = 1.0) -> tuple[float, float]:
    """Standard deviations of the mean of z: by privacy noise, and by noise and sampling together.

    NaN for the latter where noise hides the sampling variance (its noisy value is not positive).
    """
    unit = math.sqrt(2) if sums.law == "laplace" else 1.0
    noise = unit * math.hypot(*sums.scales(sums.mean)) / sums.n
    if sums.variance <= 0:
        return noise, math.nan
    return noise, math.hypot(noise, math.sqrt(design_effect * sums.variance / sums.n))


def undetected_half(sums: NoisySums, allowance: ClippingBiasBound, level: float) -> float:
    """Half length for the noise of the allowance alone: for people whom it hides."""
    alpha = 1 - level
    if sums.law == "laplace":
        return allowance.scale * math.log(1 / alpha) / sums.n
    return allowance.scale * -normal_quantile(alpha / 2) / sums.n


@dataclass(frozen=True)
class ClipUnits:
    """x = middle + radius*z, limited to `region`."""

    middle: float
    radius: float
    region: tuple[float, float]

    def of(self, z: float) -> float:
        return self.middle + self.radius * z


PLAIN = ClipUnits(0.0, 1.0, (-math.inf, math.inf))


FIRM = 4.0  # noise scales of the pooled number up to which nobody is believed to be missing


@dataclass(frozen=True)
class MissingCount:
    """number: noisy number of people without a value, pooled by precision; scale: its noise."""

    number: float = 0.0
    scale: float = float("inf")

    @classmethod
    def pooled(cls, numbers: Sequence[tuple[float, float]]) -> MissingCount:
        """From independent noisy numbers of the same people, each with its noise scale."""
        if not numbers:
            return cls()
        total = sum(scale**-2 for _, scale in numbers)
        mean = sum(number * scale**-2 for number, scale in numbers) / total
        return cls(mean, float(total**-0.5))

    @property
    def believed(self) -> float:
        """0 up to `FIRM` scales, the number itself from twice that on, and between them twice what
        is above: a complete column loses hardly anything by mistake, and no step is large."""
        if self.number <= FIRM * self.scale:
            return 0.0
        return min(self.number, 2 * (self.number - FIRM * self.scale))


UNKNOWN = MissingCount()

MISSING_SDS = 5  # with Gaussian noise: deviations from which nulls count as seen
# noise scales (deviations) of the number of people with a value that it must reach: of nobody at
# all, noise shows more in one release of a hundred
FEWEST = 4.0
TOO_FEW = "Too few people have a value. Add people or raise epsilon."


def is_undetected(column: ColumnSums) -> bool:
    """Whether no more people with a value are seen than noise by itself can show: what is divided
    by their number would be noise over noise."""
    return column.weight < max(1.0, FEWEST * column.weight_noise)


@dataclass(frozen=True)
class RatioWithMissing:
    """sums: ready for intervals, in units of the radius. present: the noisy number of people with
    a value. missing: whether `sums` divide by it, because the number of people is private or
    enough people have no value to be seen. tail, tail_scale: `extra` of the column."""

    sums: NoisySums
    present: float
    missing: bool
    tail: float = 0.0
    tail_scale: float = 0.0

    @classmethod
    def of(
        cls,
        column: ColumnSums,
        persons: int | None,
        earlier: Sequence[tuple[float, float]] = (),
        *,
        absent_at: float | None = None,
    ) -> RatioWithMissing:
        """persons: n under replace-one, where the weights count people. earlier: other noisy
        numbers of the people without a value, and their scales (Laplace noise only); given, those
        who may have none are in the intervals too. absent_at: the z of people without one, whose
        square is 1 (None: both are 0)."""
        value_scale, square_scale, count_scale = column.noise
        present = column.weight
        if column.relation != REPLACE_ONE:
            sums = NoisySums(
                column.value,
                column.square,
                max(present, 1.0),
                value_scale,
                2 * value_scale,
                "gaussian" if column.gaussian else "laplace",
                partition=True,
            )
            return cls(sums, present, True, column.extra, column.extra_noise)
        assert persons is not None
        if column.gaussian:
            missing = persons - present > MISSING_SDS * count_scale
            sums = NoisySums(
                column.value,
                column.square,
                max(present, 1.0) if missing else float(persons),
                value_scale,
                square_scale,
                "gaussian",
                count_scale if missing else 0.0,
            )
            return cls(sums, present, missing, column.extra, column.extra_noise)
        absent = MissingCount.pooled([*earlier, (persons - present, count_scale)])
        gone = absent.believed  # the rest, at most `FIRM` scales, is in the intervals
        sums = NoisySums(
            column.value - (absent_at or 0.0) * gone,
            column.square - (0.0 if absent_at is None else gone),
            max(persons - gone, 1.0),
            value_scale,
            square_scale,
            "laplace",
            absent.scale if gone else 0.0,
            undetected=max(absent.number - gone, 0.0) / persons if earlier else 0.0,
            missing=absent_at or 0.0,
        )
        present = persons - absent.number
        return cls(sums, present, gone > 0, column.extra, column.extra_noise)
