"""Three noisy sums of every group whose members are public: value, square, people with a value.

Under replace-one with a public roster and public groups a replaced person changes the answers of
its own groups alone, with the same weights: w z moves by at most 2 w, w z^2 and w by at most w, and
all three together cost no more than the first alone (docs/proofs/groups.md, section 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from privmean.array_types import Floats
from privmean.data.group_pairs import PairSums
from privmean.mechanisms.choose_lattice import LatticeChoice, RoundingCost, place, placed
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE, Relation

Sums = tuple[int, int, int]
MULTIPLES = (2, 4, 4)  # noise scales of the three sums, in people times epsilon over most


@dataclass(frozen=True)
class GroupSums(RoundingCost):
    """Sums of w z, w z^2 and w over people with a value, on boxes of their own.

    steps: of the box of each group. parts: a full person in parts of a weight. most: bound on the
    weights of one person over its groups. affected: answers that one person can move.

    Guarantees: epsilon-DP under replace-one where the groups of every person, and hence all
    weights, are public.
    """

    name: str
    epsilon: Fraction
    steps: tuple[int, ...]
    parts: int
    most: int
    affected: int
    relation: Relation = field(default=REPLACE_ONE, init=False)

    @property
    def scale(self) -> Fraction:
        """most over epsilon: the three scales are 2, 4 and 4 of it, in people."""
        return self.most / self.effective

    def _drawn(self, steps: int) -> tuple[LatticeChoice, ...]:
        """For each sum of one group: bits of its lattice, a person and the scale there."""
        units = (self.parts * steps, self.parts * steps * steps, self.parts)
        return tuple(
            place(unit, self.scale * multiple)
            for unit, multiple in zip(units, MULTIPLES, strict=True)
        )

    def exact(self, sums: Sequence[PairSums]) -> list[Sums]:
        """The sums of every group, in steps. w: of people with a value."""
        return [(item.wz, item.wzz, item.w) for item in sums]

    def draw(self, exact: Sequence[Sums], noise: Noise) -> Floats:
        """The noisy sums in people, shape (groups, 3)."""
        noisy = np.empty((len(exact), 3))
        for steps in sorted(set(self.steps)):
            places = [g for g, own in enumerate(self.steps) if own == steps]
            for j, (bits, unit, scale) in enumerate(self._drawn(steps)):
                draws = noise.laplace(len(places), scale).tolist()
                for g, draw in zip(places, draws, strict=True):
                    noisy[g, j] = float((placed(exact[g][j], bits) + draw) / unit)
        return noisy

    def sensitivity_share(
        self, exact: Sequence[Sums], other: Sequence[Sums]
    ) -> tuple[Fraction, ...]:
        """What a pair of exact answers costs, over what is billed."""
        cost = Fraction(0)
        for steps, one, two in zip(self.steps, exact, other, strict=True):
            for (bits, _, scale), a, b in zip(self._drawn(steps), one, two, strict=True):
                cost += abs(placed(a, bits) - placed(b, bits)) / scale
        return (cost / self.epsilon,)
