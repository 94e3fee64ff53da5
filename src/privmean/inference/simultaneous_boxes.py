"""Simultaneous intervals for several means: the Sidak box and the ellipsoid.

Post-processing of noisy sums (docs/proofs/intervals.md, section 7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincinv

from privmean.inference.assumptions import assumed
from privmean.inference.interval import Interval
from privmean.inference.mean_interval import (
    NoisySums,
    half_of,
    noise_half,
    parts_of,
)
from privmean.inference.status import OK

Floats = npt.NDArray[np.float64]


def sidak_level(level: float, columns: int) -> float:
    """The level of each of `columns` intervals so that all hold together with `level`.

    Valid for normal errors of any correlation; with Laplace noise that is independent over the
    coordinates it holds conditionally on the mixing scales. Not for Laplace noise that
    coordinates share.
    """
    return float(level ** (1.0 / columns))


def sidak_box(
    sums: Sequence[NoisySums],
    *,
    middles: Sequence[float],
    radii: Sequence[float],
    regions: Sequence[tuple[float, float]],
    level: float,
    design_effect: float = 1.0,
    target: str = "clipped mean",
    kind: str = "interval",
    status: str = OK,
) -> Interval:
    """A box that holds all coordinates of the target together with probability `level`.

    One `NoisySums` a coordinate; x_j = middles[j] + radii[j] z_j. kind "noise_interval" gives the
    box for the same sample's clipped means (privacy noise only).
    """
    one = sidak_level(level, len(sums))
    center = [m + r * item.mean for m, r, item in zip(middles, radii, sums, strict=True)]
    if kind == "interval":
        half = [r * half_of(s, one, design_effect) for r, s in zip(radii, sums, strict=True)]
        parts = [parts_of(s, one, r, design_effect) for r, s in zip(radii, sums, strict=True)]
        by_cause = {name: tuple(item[name] for item in parts) for name in parts[0]}
        assumption = assumed(design_effect)
    else:
        half = [r * noise_half(s, one) for r, s in zip(radii, sums, strict=True)]
        by_cause, assumption = {"noise": tuple(half)}, ""
    return Interval(
        tuple(c - h for c, h in zip(center, half, strict=True)),
        tuple(c + h for c, h in zip(center, half, strict=True)),
        level,
        kind=kind,
        target=target,
        assumption=assumption,
        clip_bounds=tuple(regions),
        half_widths=by_cause,
        status=status,
    )


@dataclass(frozen=True)
class Ellipsoid:
    """The set of t with (t - center)' inverse(shape) (t - center) <= threshold."""

    center: Floats
    shape: Floats
    threshold: float
    level: float

    def contains(self, point: npt.ArrayLike) -> bool:
        gap = np.asarray(point, float) - self.center
        return bool(gap @ np.linalg.solve(self.shape, gap) <= self.threshold)

    def half_length(self, direction: npt.ArrayLike) -> float:
        """Half the length of the ellipsoid's shadow on direction't, simultaneous over all."""
        a = np.asarray(direction, float)
        return math.sqrt(self.threshold * float(a @ self.shape @ a))


def ellipsoid(
    value: Floats,
    moments: Floats,
    *,
    persons: float,
    center: Floats,
    radius: float,
    value_sd: float,
    moments_sd: float,
    level: float,
    design_effect: float = 1.0,
) -> Ellipsoid:
    """An ellipsoid for the mean of rows clipped to a ball, from Gaussian releases.

    value: noisy sum of y = (clipped row - center)/radius, |y| <= 1, with noise value_sd a
    coordinate; moments: noisy symmetric sum of y y' with noise moments_sd on the diagonal and
    moments_sd/sqrt(2) off it (free beside the value if moments_sd = sqrt(2) value_sd). The ridge
    that keeps the matrix positive definite is a rule of thumb; coverage was measured with it.
    """
    d, n = len(value), persons
    mean = np.asarray(value, float) / n
    covariance = np.asarray(moments, float) / n - np.outer(mean, mean)
    covariance = (covariance + covariance.T) / 2
    sizes, directions = np.linalg.eigh(covariance)
    ridge = moments_sd * math.sqrt(2 * d) / n
    positive = (directions * (np.maximum(sizes, 0.0) + ridge)) @ directions.T
    shape = design_effect * positive / n + (value_sd / n) ** 2 * np.eye(d)
    return Ellipsoid(
        np.asarray(center, float) + radius * mean,
        radius**2 * shape,
        2 * float(gammaincinv(d / 2, level)),
        level,
    )
