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

from privmean.dtypes import Floats
from privmean.mechanisms.gaussian import GaussianSums
from privmean.mechanisms.group_cells import GroupCells
from privmean.noise.base import Noise
from privmean.people.pairs import PairSums
from privmean.people.reductions import Box
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.loss import Gaussian

Cells = tuple[int, int, int]


@dataclass(frozen=True)
class GaussianCells:
    """Cells of groups on boxes of their own with Gaussian noise of one deviation, in persons.

    Fields as of `GroupCells`, with mu in the place of epsilon.

    Guarantees: mu-GDP with the lattice correction of the loss, at deviation sqrt(most)/mu under
    add-remove and sqrt(2 most)/mu under replace-one.
    """

    name: str
    relation: Relation
    mu: float
    steps: tuple[int, ...]
    parts: int
    most: int
    affected: int

    @property
    def sd(self) -> float:
        """The deviation of the noise of a cell, in persons."""
        twice = 2 if self.relation == REPLACE_ONE else 1
        return math.sqrt(twice * self.most) / self.mu * (1 + 1e-12)

    @cached_property
    def _units(self) -> list[int]:
        return [4 * self.parts * steps * steps for steps in self.steps for _ in range(3)]

    @cached_property
    def _sums(self) -> GaussianSums:
        sds = tuple(self.sd * unit for unit in self._units)
        return GaussianSums(self.name, sds, self.mu, self.affected, self.relation)

    @property
    def losses(self) -> tuple[Gaussian, ...]:
        return self._sums.losses

    def exact(self, boxes: Sequence[Box], sums: Sequence[PairSums]) -> list[Cells]:
        """The cells of every group, in steps."""
        return GroupCells.cells_of(boxes, sums)

    def draw(self, exact: Sequence[Cells], noise: Noise) -> Floats:
        """The noisy cells in persons, shape (groups, 3)."""
        drawn = self._sums.draw([cell for cells in exact for cell in cells], noise)
        parts = zip(drawn, self._sums.bits, self._units, strict=True)
        return np.array([item / (unit << bits) for item, bits, unit in parts]).reshape(-1, 3)

    def moved(self, exact: Sequence[Cells], other: Sequence[Cells]) -> tuple[Fraction, ...]:
        one, two = ([cell for cells in item for cell in cells] for item in (exact, other))
        return self._sums.moved(one, two)
