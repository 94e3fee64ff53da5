"""How far the released mean of a step can be from the mean of the same clipped records.

The noise of all steps is jointly Gaussian (to within the lattice) with a public law, so the bands
read no data and cost no privacy. All factors multiply the standard deviation of one coordinate.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TypeVar

import numpy as np

from privmean.streams.toeplitz_matrices import Floats

Real = TypeVar("Real", float, Floats)  # one number, or an array of them


@lru_cache(maxsize=64)
def pointwise(level: float, dimension: int = 1) -> float:
    """Radius factor for one fixed step: the root of a chi-squared quantile."""
    from scipy.stats import chi2

    return math.sqrt(float(chi2.ppf(level, dimension)))


@lru_cache(maxsize=64)
def simultaneous(level: float, steps: int, dimension: int = 1) -> float:
    """Radius factor that holds for all `steps` steps together, whatever their correlation.

    Centered Gaussian balls are positively correlated (Royen 2014; Sidak 1967 for d = 1), so each
    step needs level^(1/n) only.
    """
    from scipy.stats import chi2

    return math.sqrt(float(chi2.isf(-math.expm1(math.log(level) / steps), dimension)))


def open_ended(level: float, step: int, dimension: int = 1) -> float:
    """Radius factor of step t such that all steps of an endless stream hold together.

    Step t may miss with probability (1 - level) 6/(pi^2 t^2).
    """
    from scipy.stats import chi2

    return math.sqrt(float(chi2.isf((1 - level) * 6 / (math.pi * step) ** 2, dimension)))


def together(level: float, step: int, steps: int | None, dimension: int = 1) -> float:
    """Radius factor of a step such that all steps hold together, with a horizon or without one."""
    if steps is not None:
        return simultaneous(level, steps, dimension)
    return open_ended(level, step, dimension)


def sampling_radius(clip_radius: float, level: float, sample: Real) -> Real:
    """How far a mean of clipped rows is from its expectation, in l2, by bounded differences.

    sample: 1 over the sum over people of (their weight in the mean)^2, as for `population`.
    """
    reach = clip_radius * (1 + math.sqrt(2 * math.log(1 / (1 - level))))
    radius: Real = reach / np.sqrt(sample)
    return radius


def population(
    noise: Real,
    sample: Real,
    level: float,
    dimension: int,
    *,
    radius: float,
    sd: float | None = None,
) -> Real:
    """How far a release is from the expectation of clipped records, noise and sampling together.

    noise: deviation of a coordinate, shape (m,) or one number. sample: independent rows of equal
    weight that would be as exact, likewise: 1 over the sum over people of c^2, with c the sum of
    |weights| of a person's rows in the estimate. sd: public limit of the deviation of a coordinate
    of a row, for a normal interval; without it, Hoeffding's inequality over people (bounded
    differences for rows of several coordinates) and the noise share the misses equally.
    """
    if sd is not None:
        together: Real = pointwise(level, dimension) * np.sqrt(noise * noise + sd**2 / sample)
        return together
    each = (1 + level) / 2
    if dimension == 1:
        variance = 2 * math.log(2 / (1 - each)) / sample
        sampling = radius * (math.sqrt(variance) if type(variance) is float else np.sqrt(variance))
    else:
        sampling = sampling_radius(radius, each, sample)
    apart: Real = pointwise(each, dimension) * noise + sampling
    return apart


def clamp(rows: Floats, radius: float) -> Floats:
    """Rows projected on the ball around 0: never farther from a mean that lies inside."""
    if rows.shape[-1] == 1:
        return np.minimum(np.maximum(rows, -radius), radius)
    size = np.sqrt(np.sum(rows * rows, axis=-1, keepdims=True))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(size > radius, rows * (radius / size), rows)
