"""Where integer answers are drawn: finer than their own steps, or coarser and paid for."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from privmean.errors import InfeasibleError
from privmean.privacy.budget import Relation
from privmean.privacy.privacy_events import Laplace

FINE_BITS = 20  # answers with small units are scaled by 2^20: their noise has a fine lattice
COARSE = 2**54  # noise scales beyond this are drawn on a coarser lattice
ROUNDING = Fraction(1, 2**53)  # of a noise scale: what one rounded answer can change more


class LatticeChoice(NamedTuple):
    """The lattice of an answer: its bits (negative: coarser than the answer's own steps), one unit
    and the noise scale there."""

    bits: int
    unit: Fraction
    scale: Fraction


def place(unit: int, scale: Fraction) -> LatticeChoice:
    """The lattice of an answer that counts a unit as so many steps, for a scale in units."""
    bits = FINE_BITS if unit < (1 << FINE_BITS) else 0
    there = scale * (unit << bits)
    while there > COARSE:
        there, bits = there / 2, bits - 1
    return LatticeChoice(bits, unit * Fraction(2) ** bits, there)


def placed(answer: int, bits: int) -> int:
    """An exact answer on that lattice; what is made coarser is rounded down."""
    return answer << bits if bits >= 0 else answer >> -bits


class RoundingCost:
    """Laplace answers with one line in the accounting, whose scales pay what rounding can cost.

    `affected`: answers that one change of neighbors can move.
    """

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
