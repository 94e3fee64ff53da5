"""A quantile of distances, by bisection over a public grid of radii with noisy counts.

A quantile by the exponential mechanism would tie at all radii of one cell; counts do not. Proof:
docs/proofs/anisotropic.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.array_types import Floats
from privmean.mechanisms.row_sums import root_above
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Gaussian

NOISE_STEPS = 2.0**24  # least lattice steps a standard deviation of noise


@dataclass(frozen=True)
class RadiusGrid:
    """Radii unit * 2^(j/fineness) with |j| <= reach, found by a fixed number of halvings."""

    fineness: int
    reach: int

    @property
    def rounds(self) -> int:
        return math.ceil(math.log2(2 * self.reach + 1))

    def radius(self, j: int) -> float:
        return float(2.0 ** (j / self.fineness))


FINE = RadiusGrid(8, 127)  # 2^-16 to 2^16 times the unit
WIDE = RadiusGrid(2, 255)  # for the unit itself: 2^-127 to 2^127


@dataclass(frozen=True)
class Counting:
    """Noise of a bisection over a grid of radii: rho in all, the same for each count."""

    rho: float
    grid: RadiusGrid = FINE

    @property
    def steps(self) -> int:
        return int(2 ** max(0, math.ceil(math.log2(NOISE_STEPS / self.deviation))))

    @property
    def deviation(self) -> float:
        """Noise of a count, in pairs."""
        return math.sqrt(self.grid.rounds / (2 * self.rho))

    def loss(self, name: str) -> Gaussian:
        steps, rounds = float(self.steps), self.grid.rounds
        return Gaussian(
            name, root_above(rounds) * steps, steps * self.deviation, rounds, neighbors=REPLACE_ONE
        )


@dataclass(frozen=True)
class NoisyQuantile:
    """The smallest radius of the grid with about `quantile` of the distances within it.

    Bisection with a fixed number of noisy counts. The caller owes that replacing one person
    replaces one distance at most, whose number is public.

    Guarantees: rho-zCDP in all for replace-one neighbors, whatever the distances.
    """

    name: str
    quantile: float
    counting: Counting

    @property
    def events(self) -> tuple[Gaussian, ...]:
        return (self.counting.loss(self.name),)

    def sensitivity_share(self, exact: Floats, other: Floats) -> tuple[Fraction, ...]:
        """The square of the largest change of a count, at any radius of the grid."""
        grid = self.counting.grid
        edges = np.array([grid.radius(j) for j in range(-grid.reach, grid.reach + 1)])
        one, two = (np.searchsorted(np.sort(x), edges, side="right") for x in (exact, other))
        return (Fraction(int(np.abs(one - two).max())) ** 2,)

    def draw(self, exact: Floats, noise: Noise) -> float:
        grid, steps = self.counting.grid, self.counting.steps
        low, high = -grid.reach - 1, grid.reach
        for _ in range(grid.rounds):
            middle = (low + high) // 2 if high - low > 1 else high  # a spare round is charged too
            within = int(np.count_nonzero(exact <= grid.radius(middle)))
            (drawn,) = noise.gaussian(1, steps * self.counting.deviation).tolist()
            if within * steps + drawn >= self.quantile * len(exact) * steps:
                high = middle
            elif middle < high:
                low = middle
        return grid.radius(high)
