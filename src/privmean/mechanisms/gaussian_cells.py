"""The cells of all groups with Gaussian noise: for many groups a person, and for rho budgets.

The cells of a group are not negative and add up to the weight w, so that their l2 norm is at most w
and, over the groups of a person, the square is at most sum of w^2 <= most
(docs/proofs/groups.md, section 11).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from privmean.array_types import Floats
from privmean.mechanisms.gaussian_sums import GaussianSums
from privmean.mechanisms.group_cells import Cells, CellsOnBoxes
from privmean.noise.noise_source import Noise
from privmean.privacy.privacy_events import Gaussian


@dataclass(frozen=True)
class GaussianCells(CellsOnBoxes):
    """Cells with Gaussian noise of one deviation, in people.

    Guarantees: mu-GDP with the lattice correction of the loss, at deviation sqrt(most)/mu under
    add-remove and sqrt(2 most)/mu under replace-one.
    """

    mu: float

    @property
    def sd(self) -> float:
        """The deviation of the noise of a cell, in people."""
        return math.sqrt(self.reach) / self.mu * (1 + 1e-12)

    @cached_property
    def _units(self) -> list[int]:
        return [self.unit(steps) for steps in self.steps for _ in range(3)]

    @cached_property
    def _sums(self) -> GaussianSums:
        sds = tuple(self.sd * unit for unit in self._units)
        return GaussianSums(self.name, sds, self.mu, self.affected, self.relation)

    @property
    def events(self) -> tuple[Gaussian, ...]:
        return self._sums.events

    def draw(self, exact: Sequence[Cells], noise: Noise) -> Floats:
        """The noisy cells in people, shape (groups, 3)."""
        drawn = self._sums.draw([cell for cells in exact for cell in cells], noise)
        parts = zip(drawn, self._sums.bits, self._units, strict=True)
        return np.array([item / (unit << bits) for item, bits, unit in parts]).reshape(-1, 3)

    def sensitivity_share(
        self, exact: Sequence[Cells], other: Sequence[Cells]
    ) -> tuple[Fraction, ...]:
        one, two = ([cell for cells in item for cell in cells] for item in (exact, other))
        return self._sums.sensitivity_share(one, two)
