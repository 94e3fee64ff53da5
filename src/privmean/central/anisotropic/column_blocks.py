"""Columns that share a radius, and the mean half's budget: parts of a plan for unknown scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privmean.central.anisotropic.calibrate_filter import (
    TooFewPeople,
    calibrate,
    gaussian_after,
)
from privmean.central.anisotropic.column_scales import FACTOR, Scales, tail_reach
from privmean.central.anisotropic.ellipsoid import STEPS
from privmean.data.person_table import Floats, Integers
from privmean.errors import InfeasibleError
from privmean.mechanisms.filtered.filtered_noise import FilterCalibration
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.gdp import gaussian_mu
from privmean.privacy.loss_distribution import PrivacyProfile
from privmean.privacy.privacy_events import Gaussian

SHARES = (0.05, 0.07, 0.1, 0.14, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
EXPONENT = 1.5  # shape of the center's noise: Sigma^(3/4) needs the least total
MOST_SUMS = 2  # clipped sums one after the other


@dataclass(frozen=True, eq=False)
class Block:
    """Columns that share a radius. weights: of the center's and the clip's metric (units out)."""

    columns: Integers
    radius: float
    reach: float
    centre_weight: Floats
    clip_weight: Floats

    @property
    def spread(self) -> float:
        """tr of the clip's noise shape."""
        return float((self.clip_weight**-2).sum())

    @property
    def inflation(self) -> float:
        """tr W: how the center's noise appears in the clip's metric."""
        return float(((self.clip_weight / self.centre_weight) ** 2).sum())

    def clip_radius(self, noise: float) -> float:
        """A radius around a center with this noise: the people's own reach, and the center's."""
        w = (self.clip_weight / self.centre_weight) ** 2
        slack = 2 * math.sqrt(3 * float((w**2).sum())) + 6 * float(w.max())
        return math.sqrt(self.reach**2 + noise**2 * (self.inflation + slack))

    def next_radius(self, noise: float) -> float:
        """The same around a clipped sum, whose noise has the clip's own metric."""
        d = len(self.columns)
        return math.sqrt(self.reach**2 + noise**2 * (d + 2 * math.sqrt(3 * d) + 6))


def blocks_of(scales: Scales, dimension: int) -> list[Block]:
    """The metrics that the released scales give."""
    result = []
    if len(scales.top):
        sigma = scales.deviations
        result.append(
            Block(
                scales.top,
                FACTOR * scales.centre,
                tail_reach(scales.clip, scales.middle) / math.sqrt(2),
                sigma ** (-EXPONENT / 2),
                sigma**-0.5,
            )
        )
    if len(scales.top) < dimension:
        rest = np.setdiff1d(np.arange(dimension), scales.top)
        one = np.ones(len(rest))
        result.append(
            Block(rest, FACTOR * scales.rest, FACTOR * scales.rest / math.sqrt(2), one, one)
        )
    return result


def centre_shares(blocks: Sequence[Block]) -> list[float]:
    """How the center's precision is split: least total radius of the clip that follows."""
    cost = [
        item.radius * math.sqrt(item.inflation * math.sqrt(item.spread) / item.reach)
        for item in blocks
    ]
    return [item / sum(cost) for item in cost]


def clip_shares(blocks: Sequence[Block], radii: Sequence[float]) -> list[float]:
    """How the sums' precision is split: least total noise."""
    cost = [r * math.sqrt(item.spread) for item, r in zip(blocks, radii, strict=True)]
    return [item / sum(cost) for item in cost]


@dataclass(frozen=True)
class Stage:
    """The mean half at one share of epsilon for the center. mu: of all clipped sums together."""

    share: float
    epsilon: float
    calibration: FilterCalibration
    mu: float


def clip_losses(
    mu: float, dimensions: Sequence[int], shares: Sequence[float]
) -> tuple[Gaussian, ...]:
    """The accounting of one clipped sum, by block. shares: of its mu^2."""
    return tuple(
        Gaussian(
            "clipped sum", 2.0 * STEPS, 2 * STEPS / (mu * math.sqrt(part)), d, neighbors=REPLACE_ONE
        )
        for d, part in zip(dimensions, shares, strict=True)
    )


def mean_stages(epsilon: float, delta: float, persons: int, dimension: int) -> tuple[Stage, ...]:
    """Feasible shares of epsilon for a center of `persons`, and what is left for clipped sums."""
    made = []
    whole = gaussian_mu(epsilon, delta)
    for share in SHARES:
        try:
            calibration = calibrate(
                share * epsilon, delta / 2, persons, REPLACE_ONE, dimension=dimension
            )
        except InfeasibleError:
            continue
        (curve,) = calibration.events
        assert isinstance(curve, PrivacyProfile)
        mu = gaussian_after(curve, epsilon, delta, MOST_SUMS * dimension)
        if mu > 0:
            made.append(Stage(1 - (mu / whole) ** 2, share * epsilon, calibration, mu))
    if not made:
        raise TooFewPeople(
            f"{2 * persons} people are too few for an unknown covariance at epsilon={epsilon:g}",
            "use more people, a larger epsilon, or give a public bound on the covariance",
        )
    return tuple(made)
