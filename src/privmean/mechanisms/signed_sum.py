"""One noisy signed sum of two public arms: the difference of their means, at the noise of one.

With z in [-1, 1] the value of a person on the box of both arms, 0 where there is none, and public
sizes T and C of the arms, the difference of mean z is sum_T z/T - sum_C z/C. A replaced person
stays in its arm and moves it by 2/min(T, C) at most; two sums by themselves have noise that adds
up. Squares and numbers of values of both arms come with it at no further price
(docs/proofs/groups.md, section 12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from privmean.errors import Infeasible
from privmean.mechanisms.group_cells import ROUNDING
from privmean.mechanisms.group_sums import Floats, at_bits, on_lattice
from privmean.noise.base import Noise
from privmean.people.pairs import PairSums
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.loss import Laplace

AFFECTED = 3  # answers that one person can move: the signed sum, and two of the own arm
Signed = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class SignedSum:
    """C sum_T z - T sum_C z, and of each arm sums of z^2 and of persons with a value.

    steps: of the box of both arms. sizes: public numbers of persons T and C, at least 1 each.

    Guarantees: epsilon-DP under replace-one where arms and roster are public.
    """

    name: str
    epsilon: Fraction
    steps: int
    sizes: tuple[int, int]

    def __post_init__(self) -> None:
        if self.effective <= 0:
            raise Infeasible(
                f"epsilon={float(self.epsilon):.3g} is too small for two arms", "give more epsilon"
            )

    @property
    def losses(self) -> tuple[Laplace, ...]:
        return (
            Laplace(self.name, Fraction(1), 1 / self.epsilon, joint=True, relation=REPLACE_ONE),
        )

    @cached_property
    def effective(self) -> Fraction:
        """The epsilon that scales use: less what rounding can cost."""
        return self.epsilon - AFFECTED * ROUNDING

    @property
    def scale(self) -> Fraction:
        """1/epsilon: the scales are 2 of it in the difference times the smaller arm, and 4 in the
        squares and the numbers, in persons."""
        return 1 / self.effective

    @cached_property
    def _lattices(self) -> tuple[tuple[int, Fraction, Fraction], ...]:
        whole = on_lattice(self.steps * max(self.sizes), 2 * self.scale)
        square = on_lattice(self.steps * self.steps, 4 * self.scale)
        number = on_lattice(1, 4 * self.scale)
        return whole, square, number, square, number

    def exact(self, arms: Sequence[PairSums]) -> Signed:
        """From the sums of both arms, the treated one first, in steps. w: persons with a value."""
        one, two = arms
        signed = self.sizes[1] * one.wz - self.sizes[0] * two.wz
        return signed, one.wzz, one.w, two.wzz, two.w

    def draw(self, exact: Signed, noise: Noise) -> Floats:
        """The difference of mean z, then squares and numbers of both arms in persons; shape (5,).
        Noise of the first: scale 2/(epsilon min(T, C))."""
        noisy = np.empty(5)
        for j, (bits, unit, scale) in enumerate(self._lattices):
            (draw,) = noise.laplace(1, scale).tolist()
            noisy[j] = float((at_bits(exact[j], bits) + draw) / unit)
        noisy[0] /= min(self.sizes)
        return noisy

    def moved(self, exact: Signed, other: Signed) -> tuple[Fraction, ...]:
        """What a pair of exact answers costs, over what is billed."""
        cost = Fraction(0)
        for (bits, _, scale), a, b in zip(self._lattices, exact, other, strict=True):
            cost += abs(at_bits(a, bits) - at_bits(b, bits)) / scale
        return (cost / self.epsilon,)
