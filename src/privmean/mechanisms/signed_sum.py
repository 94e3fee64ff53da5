"""One noisy signed sum of two public arms: the difference of their means, at the noise of one.

With z in [-1, 1] the value of a person on the box of both arms, 0 where there is none, and public
sizes T and C of the arms, the difference of mean z is sum_T z/T - sum_C z/C. A replaced person
stays in its arm and moves it by 2/min(T, C) at most; two sums by themselves have noise that adds
up. Squares and numbers of values of both arms come with it at no further price
(docs/proofs/groups.md, section 12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from privmean.array_types import Floats
from privmean.data.group_pairs import PairSums
from privmean.mechanisms.choose_lattice import LatticeChoice, RoundingCost, place, placed
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE, Relation

Signed = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class SignedSum(RoundingCost):
    """C sum_T z - T sum_C z, and of each arm sums of z^2 and of people with a value.

    steps: of the box of both arms. sizes: public numbers of people T and C, at least 1 each.

    Guarantees: epsilon-DP under replace-one where arms and roster are public.
    """

    name: str
    epsilon: Fraction
    steps: int
    sizes: tuple[int, int]
    relation: Relation = field(default=REPLACE_ONE, init=False)
    affected: int = field(default=3, init=False)  # the signed sum, and two of the own arm

    @property
    def scale(self) -> Fraction:
        """1/epsilon: the scales are 2 of it in the difference times the smaller arm, and 4 in the
        squares and the numbers, in people."""
        return 1 / self.effective

    @cached_property
    def _lattices(self) -> tuple[LatticeChoice, ...]:
        whole = place(self.steps * max(self.sizes), 2 * self.scale)
        square = place(self.steps * self.steps, 4 * self.scale)
        number = place(1, 4 * self.scale)
        return whole, square, number, square, number

    def exact(self, arms: Sequence[PairSums]) -> Signed:
        """From the sums of both arms, the treated one first, in steps. w: people with a value."""
        one, two = arms
        signed = self.sizes[1] * one.wz - self.sizes[0] * two.wz
        return signed, one.wzz, one.w, two.wzz, two.w

    def draw(self, exact: Signed, noise: Noise) -> Floats:
        """The difference of mean z, then squares and numbers of both arms in people; shape (5,).
        Noise of the first: scale 2/(epsilon min(T, C))."""
        noisy = np.empty(5)
        for j, (bits, unit, scale) in enumerate(self._lattices):
            (draw,) = noise.laplace(1, scale).tolist()
            noisy[j] = float((placed(exact[j], bits) + draw) / unit)
        noisy[0] /= min(self.sizes)
        return noisy

    def sensitivity_share(self, exact: Signed, other: Signed) -> tuple[Fraction, ...]:
        """What a pair of exact answers costs, over what is billed."""
        cost = Fraction(0)
        for (bits, _, scale), a, b in zip(self._lattices, exact, other, strict=True):
            cost += abs(placed(a, bits) - placed(b, bits)) / scale
        return (cost / self.epsilon,)
