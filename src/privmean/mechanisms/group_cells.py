"""Noisy sums of groups: the cells of all groups, in one joint release.

With z in [-1, 1] the value of a pair on the box of its group and w its weight, the cells
w (1 + z)^2/4, w (1 - z^2)/2 and w (1 - z)^2/4 are not negative and add up to w; first minus last is
w z, first plus last minus middle is w z^2. So one person moves all cells of all groups together by
its weights alone, whatever the groups (docs/proofs/groups.md, section 3). The l2 norm of the cells
of a group is at most w, which sets Gaussian noise: for many groups a person, and for rho budgets
(section 11).

Where keys are private, a key is shown if its three noisy cells reach a threshold, or if an earlier
release of the same run has shown it; a key of one person alone is shown with probability at most
delta (section 8). Where members are public, under replace-one, the sums of w z, w z^2 and w cost no
more than the first alone (section 10).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from privmean.array_types import Floats
from privmean.data.group_pairs import PairSums
from privmean.data.person_table import ClipInterval
from privmean.errors import InfeasibleError
from privmean.mechanisms.noisy_vector import (
    ROUNDING,
    GaussianVector,
    LatticeChoice,
    VectorSums,
    place,
    placed,
)
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Laplace
from privmean.privacy.profile_events import ThresholdOfSum, scales_needed

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


class LaplaceGroups:
    """Three answers of every group with Laplace noise, on the lattices of its box: one line in the
    accounting, and scales that pay what rounding can cost. `affected`: answers that one change of
    neighbors can move."""

    steps: tuple[int, ...]
    name: str
    epsilon: Fraction
    relation: Relation
    affected: int

    def __post_init__(self) -> None:
        if self.epsilon <= self.affected * ROUNDING:
            raise InfeasibleError(
                f"{self.name}: epsilon={float(self.epsilon):.3g} is too small for {self.affected} "
                "answers per person",
                "give more epsilon",
            )

    @property
    def events(self) -> tuple[Laplace, ...]:
        return (
            Laplace(self.name, Fraction(1), 1 / self.epsilon, joint=True, neighbors=self.relation),
        )

    @cached_property
    def effective(self) -> Fraction:
        """The epsilon that scales use: less what rounding can cost."""
        return self.epsilon - self.affected * ROUNDING

    def lattices(self, steps: int) -> tuple[LatticeChoice, ...]:
        """Of the three answers of a group on a box of so many steps."""
        raise NotImplementedError

    @property
    def boxes(self) -> Iterator[tuple[int, list[int]]]:
        """Groups by the steps of their boxes: in this order noise is drawn."""
        for steps in sorted(set(self.steps)):
            yield steps, [g for g, own in enumerate(self.steps) if own == steps]

    def cost(self, steps: int, one: Cells, two: Cells) -> Fraction:
        """The loss between two answers of one group, on the lattice on which they are drawn."""
        answers = zip(self.lattices(steps), one, two, strict=True)
        return sum(
            (abs(placed(a, at.bits) - placed(b, at.bits)) / at.scale for at, a, b in answers),
            Fraction(0),
        )

    def sensitivity_share(
        self, exact: Sequence[Cells], other: Sequence[Cells]
    ) -> tuple[Fraction, ...]:
        """What a pair of exact answers costs, over what is billed."""
        parts = zip(self.steps, exact, other, strict=True)
        return (sum((self.cost(*item) for item in parts), Fraction(0)) / self.epsilon,)


@dataclass(frozen=True)
class GroupCells(CellsOnBoxes, LaplaceGroups):
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

    def lattices(self, steps: int) -> tuple[LatticeChoice, ...]:
        return (self.place(steps),) * 3

    def draw(self, exact: Sequence[Cells], noise: Noise) -> Floats:
        """The noisy cells in people, shape (groups, 3)."""
        noisy = np.empty((len(exact), 3))
        for steps, places in self.boxes:
            bits, person, scale = self.place(steps)
            draws = noise.laplace(3 * len(places), scale).tolist()
            for at, g in enumerate(places):
                for cell, answer in enumerate(exact[g]):
                    total = placed(answer, bits) + draws[3 * at + cell]
                    noisy[g, cell] = total * person.denominator / person.numerator
        return noisy

    def drawn(self, steps: int, answer: Cells, noise: Noise) -> tuple[list[int], Fraction]:
        """The noisy cells of one group on a box of so many steps, as whole numbers on their
        lattice, and a person there."""
        bits, person, scale = self.place(steps)
        draws = noise.laplace(3, scale).tolist()
        return [placed(cell, bits) + draw for cell, draw in zip(answer, draws, strict=True)], person


@dataclass(frozen=True)
class GaussianCells(CellsOnBoxes, VectorSums[Sequence[Cells]]):
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
    def vector(self) -> GaussianVector:
        units = tuple(self.unit(steps) for steps in self.steps for _ in range(3))
        sds = tuple(self.sd * unit for unit in units)
        return GaussianVector(self.name, units, sds, self.mu, self.relation, self.affected)

    def answers(self, exact: Sequence[Cells]) -> list[int]:
        return [cell for cells in exact for cell in cells]

    def draw(self, exact: Sequence[Cells], noise: Noise) -> Floats:
        """The noisy cells in people, shape (groups, 3)."""
        return np.array(self.noisy(exact, noise)).reshape(-1, 3)


Key = tuple[str, ...]
LATTICE = 1 + 1e-9  # more than what the lattice and a rounded scale add to the tail


@dataclass(frozen=True)
class KeyCells:
    """shown: keys that were shown before, with the steps of their boxes; usual: the steps of the
    one box of all other keys. kept: most keys of a person. Everything else as in `GroupCells`.

    Nothing of it depends on which keys are touched, or on how many.

    Guarantees: (epsilon, delta)-DP under add-remove at scale most/epsilon, under replace-one at
    2 most/epsilon with the same delta.
    """

    name: str
    relation: Relation
    epsilon: Fraction
    delta: float
    shown: tuple[tuple[Key, int], ...]
    usual: int
    parts: int
    most: int
    kept: int

    @cached_property
    def _cells(self) -> GroupCells:
        """What the lattice is made of: one key stands for all."""
        affected = 3 * self.kept * (2 if self.relation == REPLACE_ONE else 1)
        return GroupCells(
            self.name, self.relation, (self.usual,), self.parts, self.most, affected, self.epsilon
        )

    @property
    def scale(self) -> Fraction:
        return self._cells.scale

    @property
    def unit(self) -> int:
        """A person in steps of the cells of a key that was not shown before."""
        return self._cells.unit(self.usual)

    @cached_property
    def threshold(self) -> float:
        """Noisy people from which a key is shown."""
        needed = scales_needed(self.delta / self.kept / LATTICE)
        return (1 + needed * float(self.scale)) * (1 + 1e-12)

    @property
    def events(self) -> tuple[Laplace, ThresholdOfSum]:
        hidden = ThresholdOfSum(
            f"{self.name}: hidden keys", self.delta, self.threshold, self.scale, self.kept,
            neighbors=self.relation,
        )  # fmt: skip
        return self._cells.events[0], hidden

    def draw(
        self, exact: Mapping[Key, Cells], noise: Noise
    ) -> dict[Key, tuple[float, float, float]]:
        """The noisy cells, in people, of the keys that are shown, in the order of texts."""
        known, cells = dict(self.shown), self._cells
        answers = {**dict.fromkeys(known, (0, 0, 0)), **exact}
        found = {}
        for key in sorted(answers, key=lambda key: tuple(part.encode() for part in key)):
            steps = known.get(key, self.usual)
            noisy, unit = cells.drawn(steps, answers[key], noise)
            # compared as whole numbers, before anything is divided
            if key in known or sum(noisy) >= math.ceil(Fraction(self.threshold) * unit):
                found[key] = tuple(float(item / unit) for item in noisy)
        return found  # type: ignore[return-value]

    def sensitivity_share(
        self, exact: Mapping[Key, Cells], other: Mapping[Key, Cells]
    ) -> tuple[Fraction, ...]:
        """What common keys cost over epsilon, and keys that only one of the two has over those that
        are paid for."""
        known, cells = dict(self.shown), self._cells
        cost, own = Fraction(0), [0, 0]
        nothing = (0, 0, 0)
        for key in exact.keys() | other.keys():
            steps = known.get(key, self.usual)
            alone = (key in exact) != (key in other) and key not in known
            if alone:
                own[key in other] += 1
                unit = cells.unit(steps)
                assert sum(exact.get(key, other.get(key, nothing))) <= unit
            else:
                cost += cells.cost(steps, exact.get(key, nothing), other.get(key, nothing))
        return cost / self.epsilon, Fraction(max(own), self.kept)


Sums = tuple[int, int, int]
MULTIPLES = (2, 4, 4)  # noise scales of the three sums, in people times epsilon over most


@dataclass(frozen=True)
class GroupSums(LaplaceGroups):
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

    def lattices(self, steps: int) -> tuple[LatticeChoice, ...]:
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
        for steps, places in self.boxes:
            for j, (bits, unit, scale) in enumerate(self.lattices(steps)):
                draws = noise.laplace(len(places), scale).tolist()
                for g, draw in zip(places, draws, strict=True):
                    noisy[g, j] = float((placed(exact[g][j], bits) + draw) / unit)
        return noisy
