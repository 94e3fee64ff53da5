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
from functools import cached_property

import numpy as np
import numpy.typing as npt

from privmean.errors import Infeasible
from privmean.mechanisms.laplace import COARSE, FINE_BITS
from privmean.noise.base import Noise
from privmean.people.pairs import PairSums
from privmean.people.reductions import Box
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.loss import Laplace

Floats = npt.NDArray[np.float64]
ROUNDING = Fraction(1, 2**53)  # of a noise scale: what one rounded answer can change more


@dataclass(frozen=True)
class GroupCells:
    """Cells of groups on boxes of their own with Laplace noise of one scale, in persons.

    steps: of the box of each group. parts: a whole person in parts of a weight. most: bound on
    the weights of one person over all groups, in persons. affected: answers that one change of
    neighbours can move. The unit of a cell is 4 parts steps^2 of its own group.

    Guarantees: epsilon-DP under add-remove at scale most/epsilon, under replace-one at 2 most/
    epsilon (docs/proofs/groups.md, sections 3 and 5). Where a noise scale would pass 2^54 steps the
    answer is first rounded down; that is paid for by all scales, by an amount that depends on
    `affected` and epsilon alone.
    """

    name: str
    relation: Relation
    epsilon: Fraction
    steps: tuple[int, ...]
    parts: int
    most: int
    affected: int

    def __post_init__(self) -> None:
        if self.effective <= 0:
            raise Infeasible(
                f"epsilon={float(self.epsilon):.3g} is too small for {len(self.steps)} groups",
                "give more epsilon",
            )

    @property
    def losses(self) -> tuple[Laplace, ...]:
        return (
            Laplace(self.name, Fraction(1), 1 / self.epsilon, joint=True, relation=self.relation),
        )

    @cached_property
    def effective(self) -> Fraction:
        """The epsilon that scales use: less what rounding can cost."""
        return self.epsilon - self.affected * ROUNDING

    @property
    def scale(self) -> Fraction:
        """The Laplace scale of a cell, in persons."""
        return self.most * (2 if self.relation == REPLACE_ONE else 1) / self.effective

    def unit(self, steps: int) -> int:
        """A person in steps of a cell on a box of so many steps."""
        return 4 * self.parts * steps * steps

    def lattice(self, steps: int) -> int:
        """Bits by which cells are made finer (positive) or coarser (negative)."""
        unit = self.unit(steps)
        fine = FINE_BITS if unit < (1 << FINE_BITS) else 0
        scale = self.scale * (unit << fine)
        while scale > COARSE:
            scale /= 2
            fine -= 1
        return fine

    def exact(self, boxes: Sequence[Box], sums: Sequence[PairSums]) -> list[tuple[int, int, int]]:
        """The cells of every group, in steps."""
        return self.cells_of(boxes, sums)

    @staticmethod
    def cells_of(boxes: Sequence[Box], sums: Sequence[PairSums]) -> list[tuple[int, int, int]]:
        """The cells of groups, each in steps of its own box."""
        cells = []
        for box, item in zip(boxes, sums, strict=True):
            k = box.steps
            ends, across = k * k * item.w + item.wzz, 2 * k * item.wz
            cells.append((ends + across, 2 * (k * k * item.w - item.wzz), ends - across))
        return cells

    def draw(self, exact: Sequence[tuple[int, int, int]], noise: Noise) -> Floats:
        """The noisy cells in persons, shape (groups, 3)."""
        noisy = np.empty((len(exact), 3))
        for steps in sorted(set(self.steps)):
            places = [g for g, own in enumerate(self.steps) if own == steps]
            bits, unit = self.lattice(steps), self.unit(steps)
            draws = noise.laplace(3 * len(places), self._scale_at(bits, unit)).tolist()
            for place, g in enumerate(places):
                for cell, answer in enumerate(exact[g]):
                    total = _at(answer, bits) + draws[3 * place + cell]
                    noisy[g, cell] = total / (unit << bits) if bits > 0 else (total << -bits) / unit
        return noisy

    def moved(
        self,
        exact: Sequence[tuple[int, int, int]],
        other: Sequence[tuple[int, int, int]],
    ) -> tuple[Fraction, ...]:
        """What a pair of exact answers costs, over what is billed."""
        parts = zip(self.steps, exact, other, strict=True)
        return (sum((self.cost(*item) for item in parts), Fraction(0)) / self.epsilon,)

    def cost(self, steps: int, one: tuple[int, int, int], two: tuple[int, int, int]) -> Fraction:
        """The loss between two answers of one group, on the lattice on which they are drawn."""
        bits, unit = self.lattice(steps), self.unit(steps)
        change = sum(abs(_at(a, bits) - _at(b, bits)) for a, b in zip(one, two, strict=True))
        return change / self._scale_at(bits, unit)

    def drawn(
        self, steps: int, answer: tuple[int, int, int], noise: Noise
    ) -> tuple[list[int], Fraction]:
        """The noisy cells of one group on a box of so many steps, as whole numbers on their
        lattice, and a person there."""
        bits, unit = self.lattice(steps), self.unit(steps)
        draws = noise.laplace(3, self._scale_at(bits, unit)).tolist()
        noisy = [_at(cell, bits) + draw for cell, draw in zip(answer, draws, strict=True)]
        return noisy, unit * Fraction(2) ** bits

    def _scale_at(self, bits: int, unit: int) -> Fraction:
        return self.scale * unit * Fraction(2) ** bits


def _at(answer: int, bits: int) -> int:
    return answer << bits if bits >= 0 else answer >> -bits
