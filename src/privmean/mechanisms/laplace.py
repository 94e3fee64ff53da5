"""Discrete Laplace noise on exact integer answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from privmean.mechanisms.limits import require_loss
from privmean.noise.base import Noise

FINE_BITS = (
    20  # answers with small units are scaled by 2^20, so that their noise has a fine lattice
)
COARSE = 2**54  # noise scales beyond this are drawn on a coarser lattice


@dataclass(frozen=True)
class JointLaplace:
    """Several integer answers released together, each with its own Laplace scale.

    Answer i is read in units of units[i] of its own integer steps and gets noise of scale
    multiples[i]/epsilon units. The caller owes: one person changes the answers by amounts c_i (in
    units) with sum of |c_i|/multiples[i] <= 1 (docs/proofs/laplace.md).

    Guarantees: epsilon-DP, and never more revealing than one Laplace answer of loss epsilon. Where
    a noise scale would pass 2^54 steps the answer is first rounded down to a coarser lattice; the
    extra step is paid for by all scales: at most 2^-13 m of them for m answers, since an epsilon
    below 2^-40 is refused (Infeasible).
    """

    units: tuple[int, ...]
    multiples: tuple[int | Fraction, ...]
    epsilon: Fraction

    def __post_init__(self) -> None:
        require_loss("joint sums", self.epsilon)

    @cached_property
    def lattice(self) -> tuple[int, ...]:
        """Bits by which each answer is made finer (positive) or coarser (negative)."""
        bits = []
        for unit, multiple in zip(self.units, self.multiples, strict=True):
            fine = FINE_BITS if unit < (1 << FINE_BITS) else 0
            scale = Fraction(multiple * (unit << fine)) / self.epsilon
            while scale > COARSE:
                scale /= 2
                fine -= 1
            bits.append(fine)
        return tuple(bits)

    @cached_property
    def effective(self) -> Fraction:
        """The epsilon that scales use: `epsilon`, less the cost of rounding coarse answers."""
        extra = Fraction(0)
        for unit, multiple, bits in zip(self.units, self.multiples, self.lattice, strict=True):
            if bits < 0:
                extra += Fraction(1 << -bits, unit * multiple)
        return self.epsilon / (1 + extra)

    def release(self, answers: Sequence[int], noise: Noise) -> list[float]:
        """The noisy answers, in units."""
        epsilon = self.effective
        result = []
        for answer, unit, multiple, bits in zip(
            answers, self.units, self.multiples, self.lattice, strict=True
        ):
            step = Fraction(1, 1 << bits) if bits >= 0 else Fraction(1 << -bits)
            lattice = answer << bits if bits >= 0 else answer >> -bits
            draw = noise.laplace(1, Fraction(multiple * unit) / epsilon / step)
            result.append(float((lattice + int(draw[0])) * step / unit))
        return result
