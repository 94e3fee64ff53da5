"""Intervals for one mean from a joint Laplace (or Gaussian) release of sums.

Everything here is post-processing of noisy sums of z = (clip(x, a, c) - middle)/radius over
persons. The sum of squares is released beside the sum at no extra privacy loss
(docs/proofs/intervals.md, section 1); the variance of the mean comes from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from scipy.special import ndtri

from privmean.intervals.laplace_normal import (
    gaussian_margin,
    half_length,
    margin,
)
from privmean.release import Interval

Law = Literal["laplace", "gaussian"]
UNRELATED = "unrelated persons"


@dataclass(frozen=True)
class NoisySums:
    """Released sums over persons of z in [-1, 1] and of z^2, with the scales of their noise.

    value, square: the noisy sums. persons: what the estimate divides by (a public number).
    value_scale, square_scale: Laplace scales, or standard deviations if law is "gaussian".
    Nulls are persons with z = 0.
    """

    value: float
    square: float
    persons: float
    value_scale: float
    square_scale: float
    law: Law = "laplace"

    @property
    def mean(self) -> float:
        return self.value / self.persons

    @property
    def unit(self) -> float:
        """Scale of the noise of `mean`."""
        return self.value_scale / self.persons

    @property
    def variance(self) -> float:
        """Variance of z over persons, from the noisy square, between 0 and 1."""
        return min(1.0, max(0.0, self.square / self.persons - self.mean**2))


def half_of(sums: NoisySums, level: float, design_effect: float = 1.0) -> float:
    """Half length of the interval for the mean of z: sampling, noise, and the noisy variance."""
    alpha = 1 - level
    unit, n = sums.unit, sums.persons
    noisy = sums.square_scale / n
    if sums.law == "laplace":
        variance = design_effect * (sums.variance + margin(level) * noisy) / n
        return unit * half_length(math.sqrt(variance) / unit, alpha)
    variance = design_effect * (sums.variance + gaussian_margin(level) * noisy) / n
    return float(-ndtri(alpha / 2)) * math.sqrt(variance + unit**2)


def noise_half(sums: NoisySums, level: float) -> float:
    """Half length for the same sample's mean of z: exact for every data set."""
    alpha = 1 - level
    if sums.law == "laplace":
        return sums.unit * math.log(1 / alpha)
    return float(-ndtri(alpha / 2)) * sums.unit


def parts_of(
    sums: NoisySums, level: float, radius: float, design_effect: float = 1.0
) -> dict[str, tuple[float, ...]]:
    """Half lengths by cause, in the units of the data."""
    sampling = float(-ndtri((1 - level) / 2)) * math.sqrt(
        design_effect * sums.variance / sums.persons
    )
    return {"noise": (radius * noise_half(sums, level),), "sampling": (radius * sampling,)}


def assumption_words(design_effect: float, extra: str = "") -> str:
    dependence = UNRELATED if design_effect == 1 else f"design effect {design_effect:g}"
    return "; ".join(item for item in (extra, dependence) if item)


def clipped_interval(
    sums: NoisySums,
    *,
    middle: float,
    radius: float,
    region: tuple[float, float],
    level: float,
    design_effect: float = 1.0,
    bounds: tuple[float, float] | None = None,
    target: str = "clipped mean",
    status: str = "ok",
) -> Interval:
    """Interval for the population mean of values limited to `region`.

    middle, radius: x = middle + radius*z. design_effect: variance of the mean over that of
    unrelated persons (public). bounds: public limits to intersect with. With public bounds as the
    region the target is the mean itself ("mean within bounds"), with no tail assumption.
    """
    half = radius * half_of(sums, level, design_effect)
    center = middle + radius * sums.mean
    lower, upper = limit(center - half, center + half, bounds)
    return Interval(
        (lower,),
        (upper,),
        level,
        target=target,
        assumption=assumption_words(design_effect),
        region=(region,),
        parts=parts_of(sums, level, radius, design_effect),
        status=status,
    )


def noise_interval(
    sums: NoisySums,
    *,
    middle: float,
    radius: float,
    region: tuple[float, float],
    level: float,
    target: str = "clipped mean of these persons",
) -> Interval:
    """Interval for the same quantity of this very sample: privacy noise alone."""
    half = radius * noise_half(sums, level)
    center = middle + radius * sums.mean
    return Interval(
        (center - half,),
        (center + half,),
        level,
        kind="noise_interval",
        target=target,
        region=(region,),
        parts={"noise": (half,)},
    )


def limit(lower: float, upper: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    """The intersection with public bounds (a point on the bounds if they do not meet)."""
    if bounds is None:
        return lower, upper
    a, c = bounds
    return min(max(lower, a), c), max(min(upper, c), a)


def no_interval(
    level: float,
    *,
    bounds: tuple[float, float] | None = None,
    kind: str = "interval",
    target: str = "mean",
    status: str = "failed",
    columns: int = 1,
) -> Interval:
    """The honest interval of a failed release: the public bounds, or the whole line."""
    a, c = bounds if bounds is not None else (-math.inf, math.inf)
    return Interval((a,) * columns, (c,) * columns, level, kind=kind, target=target, status=status)
