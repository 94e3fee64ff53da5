"""Three noisy cells of every group in one joint release: weight, mean and spread of each.

With z in [-1, 1] the value of a pair on the box of its group and w its weight, the cells
w (1 + z)^2/4, w (1 - z^2)/2 and w (1 - z)^2/4 are not negative and add up to w; first minus last is
w z, first plus last minus middle is w z^2. So one person moves all cells of all groups together by
its weights alone, whatever the groups (docs/proofs/groups.md, section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.array_types import Floats
from privmean.data.group_pairs import PairSums
from privmean.data.person_table import ClipInterval
from privmean.mechanisms.choose_lattice import LatticeChoice, RoundingCost, place, placed
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE, Relation

Cells = tuple[int, int, int]


@dataclass(frozen=True)
class CellsOnBoxes:
    """Cells of groups on boxes of their own, whatever the noise.

    steps: of the box of each group. parts: a full person in parts of a weight. most: bound on
    the weights of one person over all groups, in people. affected: answers that one change of
    neighbors can move. The unit of a cell is 4 parts steps^2 of its own group.
    """

    name: str
    relation: Relation
    steps: tuple[int, ...]
    parts: int
    most: int
    affected: int

    @property
    def reach(self) -> int:
        """How far one change of neighbors can move all cells together, in people."""
        return self.most * (2 if self.relation == REPLACE_ONE else 1)

    def unit(self, steps: int) -> int:
        """A person in steps of a cell on a box of so many steps."""
        return 4 * self.parts * steps * steps

    @staticmethod
    def exact(boxes: Sequence[ClipInterval], sums: Sequence[PairSums]) -> list[Cells]:
        """The cells of every group, each in steps of its own box."""
        cells = []
        for box, item in zip(boxes, sums, strict=True):
            k = box.steps
            ends, across = k * k * item.w + item.wzz, 2 * k * item.wz
            cells.append((ends + across, 2 * (k * k * item.w - item.wzz), ends - across))
        return cells


@dataclass(frozen=True)
class GroupCells(CellsOnBoxes, RoundingCost):
    """Cells with Laplace noise of one scale, in people.

    Guarantees: epsilon-DP under add-remove at scale most/epsilon, under replace-one at 2 most/
    epsilon (docs/proofs/groups.md, sections 3 and 5). Where a noise scale would pass 2^54 steps the
    answer is first rounded down; that is paid for by all scales, by an amount that depends on
    `affected` and epsilon alone.
    """

    epsilon: Fraction

    @property
    def scale(self) -> Fraction:
        """The Laplace scale of a cell, in people."""
        return self.reach / self.effective

    def place(self, steps: int) -> LatticeChoice:
        """Where the cells of a box of so many steps are drawn."""
        return place(self.unit(steps), self.scale)

    def draw(self, exact: Sequence[Cells], noise: Noise) -> Floats:
        """The noisy cells in people, shape (groups, 3)."""
        noisy = np.empty((len(exact), 3))
        for steps in sorted(set(self.steps)):
            places = [g for g, own in enumerate(self.steps) if own == steps]
            bits, person, scale = self.place(steps)
            draws = noise.laplace(3 * len(places), scale).tolist()
            for at, g in enumerate(places):
                for cell, answer in enumerate(exact[g]):
                    total = placed(answer, bits) + draws[3 * at + cell]
                    noisy[g, cell] = total * person.denominator / person.numerator
        return noisy

    def sensitivity_share(
        self,
        exact: Sequence[Cells],
        other: Sequence[Cells],
    ) -> tuple[Fraction, ...]:
        """What a pair of exact answers costs, over what is billed."""
        parts = zip(self.steps, exact, other, strict=True)
        return (sum((self.cost(*item) for item in parts), Fraction(0)) / self.epsilon,)

    def cost(self, steps: int, one: Cells, two: Cells) -> Fraction:
        """The loss between two answers of one group, on the lattice on which they are drawn."""
        bits, _, scale = self.place(steps)
        pairs = zip(one, two, strict=True)
        return sum(abs(placed(a, bits) - placed(b, bits)) for a, b in pairs) / scale

    def drawn(self, steps: int, answer: Cells, noise: Noise) -> tuple[list[int], Fraction]:
        """The noisy cells of one group on a box of so many steps, as whole numbers on their
        lattice, and a person there."""
        bits, person, scale = self.place(steps)
        draws = noise.laplace(3, scale).tolist()
        return [placed(cell, bits) + draw for cell, draw in zip(answer, draws, strict=True)], person
