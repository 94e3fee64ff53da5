"""The published constants, and a tight Laplace count, for comparison and study.

The Gaussian count of `calibration` needs less noise than either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import ndtr

from privmean.bisection import bisect
from privmean.central.anisotropic.calibrate_filter import (
    SAFETY,
    count_lattice,
)
from privmean.data.person_table import Floats
from privmean.mechanisms.filtered.filtered_noise import FilterCalibration
from privmean.privacy.budget import ADD_REMOVE
from privmean.privacy.privacy_events import Approximate

NODES = np.polynomial.legendre.leggauss(200)


def laplace_gaussian_delta(count_epsilon: float, mu: float, epsilon: float) -> float:
    """delta of a Laplace count at `count_epsilon` followed by a Gaussian mechanism of `mu`."""
    nodes, weights = NODES
    u = (nodes + 1) / 2
    # the Gaussian curve at the epsilon left over; the formula holds below zero too
    x = epsilon - count_epsilon * np.concatenate(([1.0, -1.0], 1 - 2 * u))
    curve = ndtr(mu / 2 - x / mu) - np.exp(x) * ndtr(-mu / 2 - x / mu)
    middle = float((weights * np.exp(-count_epsilon * u) * curve[2:]).sum()) / 2
    ends = 0.5 * float(curve[0]) + 0.5 * math.exp(-count_epsilon) * float(curve[1])
    return ends + 0.5 * count_epsilon * middle


@dataclass(frozen=True)
class LaplaceCount:
    """e, t and s of a filtered mean with a Laplace count, for comparison."""

    count_epsilon: float
    offset: float
    multiplier: float


def laplace_count(count_epsilon: float, inner: float, behind: float, bad: float) -> LaplaceCount:
    """t and s behind the filter at (inner, behind), for a Laplace count at `count_epsilon`."""

    def small(mu: float) -> bool:
        return laplace_gaussian_delta(count_epsilon, mu, inner) <= (1 - bad) * behind

    low, _ = bisect(small, 0.0, 10.0, 60)
    offset = math.log(1 / (2 * bad * behind)) / count_epsilon
    return LaplaceCount(count_epsilon, offset, 1 / low if low > 0 else math.inf)


@dataclass(frozen=True)
class PublishedConstants:
    """The constants of the published algorithm (its Algorithm 1) for an overall (epsilon, delta).

    e = epsilon/21 and delta_in = e^-10 delta go into the algorithm, whose overall guarantee is
    (21 e, e^10 delta_in); passing (epsilon, delta) straight through would be a privacy bug.
    """

    epsilon: float
    delta: float

    @property
    def e(self) -> Fraction:
        return Fraction(self.epsilon) / 21

    @property
    def delta_in(self) -> float:
        return math.exp(-10) * self.delta

    @property
    def multiplier(self) -> float:
        return math.sqrt(2 * math.log(1.25 / self.delta_in)) / float(self.e)

    @property
    def offset(self) -> float:
        return math.log(1 / self.delta_in) / float(self.e)

    def calibration(self) -> FilterCalibration:
        """As a calibration of the filtered mean, with a Laplace count."""
        steps = count_lattice(1 / float(self.e))
        return FilterCalibration(
            steps,
            float(steps / self.e),
            math.ceil(self.offset * steps),
            self.multiplier * (1 + SAFETY),
            (
                Approximate(
                    "published filtered mean",
                    Fraction(self.epsilon),
                    self.delta,
                    neighbors=ADD_REMOVE,
                    sensitivity_text="who is kept, their number and their mean, as published",
                ),
            ),
            law="laplace",
        )


def published_radius(eigenvalues: Floats, n_guess: float, beta: float) -> float:
    """The published radius sqrt(2 tr) + 2 sqrt(2 top log(n/beta)), 10 to 14 % larger."""
    top = float(eigenvalues.max())
    return math.sqrt(2 * float(eigenvalues.sum())) + 2 * math.sqrt(
        2 * top * math.log(n_guess / beta)
    )
