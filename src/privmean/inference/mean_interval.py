"""Intervals for one mean from a joint Laplace (or Gaussian) release of sums.

Everything here is post-processing of noisy sums of z = (clip(x, a, c) - middle)/radius over
people. The sum of squares is released beside the sum at no extra privacy loss
(docs/proofs/intervals.md, section 1); the variance of the mean comes from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import ndtri

from privmean.inference.laplace_normal import (
    allowance_half_lengths,
    gaussian_margin,
    margin,
    normal_half_length,
    quantile,
)

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
        return min(1.0, max(-1.0, self.value / self.n)) if self.ratio else self.raw_mean

    @property
    def raw_mean(self) -> float:
        return self.value / self.n

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
    return float(-ndtri(alpha / 2)) * math.hypot(*scales) / sums.n


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
    return allowance.scale * float(-ndtri(alpha / 2)) / sums.n


@dataclass(frozen=True)
class ClipUnits:
    """x = middle + radius*z, limited to `region`."""

    middle: float
    radius: float
    region: tuple[float, float]

    def of(self, z: float) -> float:
        return self.middle + self.radius * z


PLAIN = ClipUnits(0.0, 1.0, (-math.inf, math.inf))
