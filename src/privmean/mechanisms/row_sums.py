"""Sums of rows clipped to a ball, with the sums of their sizes or squares at no further loss.

For lattice rows z, z' with ||z||, ||z'|| <= K the sums of z and of |z| (column by column) together
move by at most 2K in l2, as the sum of z alone: | |a| - |b| | <= |a + b|, and the squares of a - b
and of a + b add up to 2a^2 + 2b^2. The same holds for z_j^2 / (2 B_j) in place of |z_j|, if
|z_j| <= B_j. docs/proofs/many-columns.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from privmean.data.person_table import Besides, L2Ball, L2BallSums
from privmean.mechanisms.gaussian_sums import GaussianSums
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Gaussian

BITS = 20  # lattice steps from the center to the edge: 2^19 to 2^20


@dataclass(frozen=True)
class NoisyRows:
    """Noisy sums of z (in lattice steps) and of |z| or z^2, with the deviations of their noise.

    tails, tails_sd: of `TailRows`, in people."""

    sums: tuple[float, ...]
    besides: tuple[float, ...]
    sd: float
    besides_sds: tuple[float, ...]
    tails: tuple[float, ...] = ()
    tails_sd: float = 0.0


@dataclass(frozen=True)
class RowSums:
    """Rows in units of their own (`People.standardized`), shortened to `radius` around 0.

    reaches: the largest |value| of each column; only the squares depend on them.

    **Guarantees.** mu-GDP for one person replaced, for any data, radius and reaches that are public
    or already released.
    """

    name: str
    radius: float
    reaches: tuple[float, ...]
    mu: float
    besides: Besides

    @cached_property
    def ball(self) -> L2Ball:
        _, exponent = math.frexp(self.radius)
        step = math.ldexp(1.0, exponent - BITS)
        return L2Ball((0.0,) * len(self.reaches), self.radius, step)

    @cached_property
    def tops(self) -> tuple[int, ...]:
        """B: the largest |z_j| of each column; one more step for the rounding of shortened rows."""
        steps = self.ball.steps
        return tuple(
            steps if reach >= self.radius else min(steps, math.floor(reach / self.ball.step) + 1)
            for reach in self.reaches
        )

    @cached_property
    def sds(self) -> tuple[float, ...]:
        """Deviations of the noise of the sums, and of those besides, in lattice steps."""
        # a hair more than needed, so that rounded deviations never exceed the loss
        sd = 2 * self.ball.steps / self.mu * (1 + 1e-12)
        factors = (2 * top if self.besides == "squares" else 1 for top in self.tops)
        return (sd,) * len(self.reaches) + tuple(sd * factor for factor in factors)

    @cached_property
    def mechanism(self) -> GaussianSums:
        return GaussianSums(self.name, self.sds, self.mu, relation=REPLACE_ONE)

    @property
    def events(self) -> tuple[Gaussian, ...]:
        return self.mechanism.events

    def answers(self, sums: L2BallSums) -> tuple[int, ...]:
        """All whole numbers that are released, in one line."""
        return (*sums.z, *sums.besides)

    def sensitivity_share(self, exact: L2BallSums, other: L2BallSums) -> tuple[Fraction, ...]:
        return self.mechanism.sensitivity_share(self.answers(exact), self.answers(other))

    def noisy(self, exact: L2BallSums, noise: Noise) -> tuple[float, ...]:
        """The same numbers with noise, in lattice steps."""
        drawn = zip(
            self.mechanism.draw(self.answers(exact), noise), self.mechanism.bits, strict=True
        )
        return tuple(math.ldexp(float(x), -bits) for x, bits in drawn)

    def draw(self, exact: L2BallSums, noise: Noise) -> NoisyRows:
        read, width = self.noisy(exact, noise), len(self.reaches)
        return NoisyRows(read[:width], read[width:], self.sds[0], self.sds[width:])
