"""Cells of groups whose keys are private: keys of few people stay hidden.

Every key that a person touches gets three noisy cells; it is shown if their sum reaches a
threshold, or if an earlier release of the same run has shown it. A key of one person alone is shown
with probability at most delta (docs/proofs/groups.md, section 8).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from privmean.mechanisms.group_cells import GroupCells
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Laplace
from privmean.privacy.threshold_of_sum import ThresholdOfSum, scales_needed

Key = tuple[str, ...]
Cells = tuple[int, int, int]
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
