"""Several weighted sums of one clipped column, released together; the weights are public.

A unit i with clipped value z_i in [-1, 1] adds w_ij z_i to sum j. Whoever has weight in few of the
sums pays for few of them: the noise is set by the unit whose weights add up to most
(docs/proofs/longitudinal.md, section 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.data.array_kernels import big_sum
from privmean.data.grids import GRID_BITS
from privmean.data.person_table import ClipInterval
from privmean.mechanisms.gaussian_sums import GaussianSums
from privmean.mechanisms.laplace_sums import JointLaplace
from privmean.mechanisms.minimum_loss import require_loss
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Laplace, PrivacyEvent

WEIGHT_BITS = 20
SQUARE = 2.7725  # as in ratio.md: what the square may cost beside the value


@dataclass(frozen=True)
class PointSum:
    """Noisy weighted means of z and of z^2 at one point, with the scales of their noise."""

    value: float
    square: float
    value_noise: float
    square_noise: float


@dataclass(frozen=True, eq=False)
class WeightedSums:
    """weights: whole numbers from 0 to 2^20, shape (units, points). Exactly one of `epsilon`
    (Laplace) and `mu` (Gaussian) is given.

    Guarantees: epsilon-DP or mu-GDP for one unit, replace-one, for any values and any box.
    """

    name: str
    weights: Integers
    epsilon: Fraction | None = None
    mu: float | None = None

    def __post_init__(self) -> None:
        loss = self.mu if self.epsilon is None else self.epsilon
        assert loss is not None
        require_loss(self.name, loss)

    @property
    def reach(self) -> int:
        """What one unit's weights add up to, at most (for Gaussian noise their squares)."""
        w = self.weights if self.epsilon is not None else self.weights**2
        return int(w.sum(axis=1).max())

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        if self.epsilon is not None:
            moved = Fraction(2 * self.reach << GRID_BITS)
            return (
                Laplace(self.name, moved, moved / self.epsilon, joint=True, neighbors=REPLACE_ONE),
            )
        return self.gaussian(1 << GRID_BITS).events

    @property
    def noise(self) -> tuple[float, float]:
        """Laplace scales, or deviations, of the two sums in units of one step of weight."""
        if self.epsilon is not None:
            return 2 * self.reach / float(self.epsilon), 4 * self.reach / float(self.epsilon)
        assert self.mu is not None
        sd = math.sqrt(self.reach) / self.mu * (1 + 1e-12)
        return 2 * sd, 2 * sd / math.sqrt(SQUARE)

    def over(self, box: ClipInterval) -> WeightedSumsOver:
        """The sums of values limited to one public box."""
        return WeightedSumsOver(self.name, self.weights, self.epsilon, self.mu, box=box)

    def gaussian(self, steps: int) -> GaussianSums:
        """The Gaussian mechanism of all sums, of values in so many steps."""
        assert self.mu is not None
        first, second = self.noise
        sds = (steps * first, steps**2 * second) * self.weights.shape[1]
        return GaussianSums(self.name, sds, self.mu, relation=REPLACE_ONE)


@dataclass(frozen=True, eq=False)
class WeightedSumsOver(WeightedSums):
    """`WeightedSums` of values in a public box."""

    box: ClipInterval = field(kw_only=True)

    @property
    def _units(self) -> tuple[int, ...]:
        """Of z and of z^2, for every point."""
        return (self.box.steps, self.box.steps**2) * int(self.weights.shape[1])

    @property
    def _noisy(self) -> JointLaplace | GaussianSums:
        if self.epsilon is None:
            return self.gaussian(self.box.steps)
        multiples = (2 * self.reach, 4 * self.reach) * self.weights.shape[1]
        return JointLaplace(self._units, multiples, self.epsilon, REPLACE_ONE)

    def exact(self, values: Floats) -> list[int]:
        """values: shape (units,); a missing value counts as the middle of the box."""
        z = grid_values(values, self.box)
        found = []
        for column in self.weights.T:
            found += [big_sum(column * z), big_sum(column * (z * z))]
        return found

    def sensitivity_share(self, exact: Sequence[int], other: Sequence[int]) -> tuple[Fraction, ...]:
        return self._noisy.sensitivity_share(exact, other)

    def draw(self, exact: Sequence[int], noise: Noise) -> list[PointSum]:
        mechanism = self._noisy
        if isinstance(mechanism, JointLaplace):
            read = mechanism.draw(exact, noise)
        else:
            noisy = mechanism.draw(exact, noise)
            read = [
                float(Fraction(x, unit << bits))
                for x, unit, bits in zip(noisy, self._units, mechanism.bits, strict=True)
            ]
        totals = self.weights.sum(axis=0)
        return [
            PointSum(*(float(x / total) for x in (*read[2 * j : 2 * j + 2], *self.noise)))
            for j, total in enumerate(totals.tolist())
        ]


def whole_weights(raw: Floats) -> Integers:
    """Public weights, shape (units, points), as whole numbers: 2^20 for the largest of a point."""
    top = raw.max(axis=0, keepdims=True)
    result: Integers = np.floor(raw / top * (1 << WEIGHT_BITS)).astype(np.int64)
    return result


def grid_values(values: Floats, box: ClipInterval) -> Integers:
    """z of every value as `Box` defines it; 0 for a missing one."""
    with np.errstate(all="ignore"):
        inside = np.clip(values, box.lower, box.upper)
        z = np.floor((inside - box.middle) / box.step + 0.5)
    result: Integers = np.where(np.isnan(z), 0.0, np.clip(z, -box.steps, box.steps)).astype(
        np.int64
    )
    return result
