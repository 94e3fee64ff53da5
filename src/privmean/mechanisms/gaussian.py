"""Discrete Gaussian noise on exact integer answers, on a lattice fine enough for exact formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from scipy.special import log_ndtr

from privmean.noise.base import Noise
from privmean.privacy.loss import Gaussian

FINEST = 2.0**20  # lattice steps a standard deviation, at least
COARSE = 2.0**54  # and at most: draws are 64-bit


def lattice_bits(sd: float) -> int:
    """The smallest k >= 0 for which noise of deviation `sd` has 2^20 steps after scaling by 2^k."""
    bits = 0
    while math.ldexp(sd, bits) < FINEST:
        bits += 1
    return bits


def coarse_bits(sd: float) -> int:
    """The smallest k >= 0 for which noise of deviation `sd` has at most 2^54 steps of 2^k."""
    bits = 0
    while math.ldexp(sd, -bits) > COARSE:
        bits += 1
    return bits


def tail_above(steps: int, sd: float) -> float:
    """An upper bound on P(noise >= steps) for discrete Gaussian noise of deviation `sd` >= 2^20.

    Within a relative 1e-9 of the exact value (docs/proofs/gaussian.md, step 4).
    """
    return math.exp(float(log_ndtr(-(steps - 0.5) / sd)) + 1 / (24 * sd * sd)) * (1 + 1e-10)


@dataclass(frozen=True)
class GaussianSums:
    """Integer answers released together with discrete Gaussian noise.

    sds: one standard deviation an answer, in the answers' own steps. mu: the caller's bound on the
    square root of the sum over answers of (change/sd)^2. Answer i is multiplied by 2^bits[i] so
    that its noise has at least 2^20 lattice steps a deviation; releases are integers there. Where
    a deviation would pass 2^54 steps, bits[i] is negative: the answer is rounded down to a coarser
    lattice, and all deviations grow by what the extra step costs.

    Guarantees: mu-GDP with the lattice correction of docs/proofs/gaussian.md, billed as one loss
    with `affected` answers (those that one person can change; all of them unless given).
    """

    name: str
    sds: tuple[float, ...]
    mu: float
    affected: int | None = None

    @property
    def bits(self) -> tuple[int, ...]:
        return tuple(lattice_bits(sd) - coarse_bits(sd) for sd in self.sds)

    @property
    def losses(self) -> tuple[Gaussian, ...]:
        coarsest = min(math.ldexp(sd, bits) for sd, bits in zip(self.sds, self.bits, strict=True))
        count = len(self.sds) if self.affected is None else self.affected
        return (Gaussian(self.name, self.mu * coarsest, coarsest, count),)

    def growth(self, bits: Sequence[int]) -> float:
        """Factor on all deviations that pays for answers rounded down."""
        steps = [math.ldexp(1.0, -b) / sd for sd, b in zip(self.sds, bits, strict=True) if b < 0]
        return 1 + math.hypot(*steps) / self.mu * (1 + 1e-9) if steps else 1.0

    def release(self, answers: Sequence[int], noise: Noise) -> tuple[int, ...]:
        """Answer i times 2^bits[i] (rounded down), plus noise: read it with `read`."""
        if len(answers) != len(self.sds):
            raise ValueError("one standard deviation an answer")
        lattice = self.bits
        growth = self.growth(lattice)
        return tuple(
            (int(answer) << bits if bits >= 0 else int(answer) >> -bits)
            + int(noise.gaussian(1, math.ldexp(sd * growth, bits))[0])
            for answer, sd, bits in zip(answers, self.sds, lattice, strict=True)
        )

    def read(self, released: Sequence[int], units: Sequence[int]) -> list[float]:
        """Released integers in units of units[i] of the answers' own steps."""
        return [
            float(Fraction(x, unit << bits) if bits >= 0 else Fraction(x << -bits, unit))
            for x, unit, bits in zip(released, units, self.bits, strict=True)
        ]
