"""Discrete Gaussian noise on exact integer answers, on a lattice fine enough for exact formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from scipy.special import log_ndtr

from privmean.mechanisms.joint_draws import drawn_each
from privmean.mechanisms.minimum_loss import require_loss
from privmean.mechanisms.sensitivity_share import differences, gaussian_share
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import Relation
from privmean.privacy.privacy_events import Gaussian

FINEST = 2.0**20  # lattice steps a standard deviation, at least
COARSE = 2.0**54  # and at most: wider noise is drawn on a coarser lattice


def lattice_bits(sd: float) -> int:
    """The smallest k >= 0 for which noise of deviation `sd` has 2^20 steps after scaling by 2^k."""
    return max(0, math.frexp(FINEST)[1] - math.frexp(sd)[1])


def root_above(square: int) -> float:
    """A double of at least the square root: a sensitivity that is never understated."""
    root = math.sqrt(square)
    return root if Fraction(root) ** 2 >= square else math.nextafter(root, math.inf)


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
    that its noise has at least 2^20 lattice steps a deviation; releases are integers there. Where a
    deviation would pass 2^54 steps the answer is first rounded down to a coarser lattice; the extra
    step is paid for by all deviations: at most 2^-13 sqrt(m) of them for m answers, since a mu
    below 2^-40 is refused (InfeasibleError).

    Guarantees: mu-GDP with the lattice correction of docs/proofs/gaussian.md, billed as one loss
    with `affected` answers (those that one person can change; all of them unless given). The
    accounting names `relation`, the neighbors for which the caller counted the changes.
    """

    name: str
    sds: tuple[float, ...]
    mu: float
    affected: int | None = None
    relation: Relation | None = None

    def __post_init__(self) -> None:
        require_loss(self.name, self.mu)

    @cached_property
    def bits(self) -> tuple[int, ...]:
        return tuple(lattice_bits(sd) for sd in self.sds)

    @property
    def events(self) -> tuple[Gaussian, ...]:
        coarsest = min(sd for _, sd in self.drawn)
        count = len(self.sds) if self.affected is None else self.affected
        return (Gaussian(self.name, self.mu * coarsest, coarsest, count, neighbors=self.relation),)

    @cached_property
    def drawn(self) -> tuple[tuple[int, float], ...]:
        """How each answer (made finer by bits[i]) is drawn: bits of rounding, deviation in steps.

        Rounding m answers adds at most one step of at least 2^53 a deviation to each change.
        """
        fine = [math.ldexp(sd, bits) for sd, bits in zip(self.sds, self.bits, strict=True)]
        coarse = [max(0, math.frexp(sd / COARSE)[1]) for sd in fine]
        rounded = sum(bits > 0 for bits in coarse)
        extra = math.sqrt(rounded) * 2.0**-53 / self.mu * (1 + 1e-12) if rounded else 0.0
        return tuple(
            (bits, math.ldexp(sd, -bits) * (1 + extra))
            for bits, sd in zip(coarse, fine, strict=True)
        )

    def _placed(self, answers: Sequence[int]) -> list[int]:
        """The answers on the lattices on which noise is drawn."""
        if len(answers) != len(self.sds):
            raise ValueError("one standard deviation an answer")
        return [
            (int(answer) << bits) >> coarse
            for answer, bits, (coarse, _) in zip(answers, self.bits, self.drawn, strict=True)
        ]

    def sensitivity_share(self, exact: Sequence[int], other: Sequence[int]) -> tuple[Fraction, ...]:
        changes = differences(self._placed(exact), self._placed(other))
        pairs = [(change, sd) for change, (_, sd) in zip(changes, self.drawn, strict=True)]
        return (gaussian_share(pairs, self.events[0]),)

    def draw(self, answers: Sequence[int], noise: Noise) -> tuple[int, ...]:
        """Answer i times 2^bits[i], plus noise: divide by 2^bits[i] to read it."""
        draws = drawn_each(noise.gaussian, [sd for _, sd in self.drawn])
        return tuple(
            (placed + drawn) << coarse
            for placed, drawn, (coarse, _) in zip(
                self._placed(answers), draws, self.drawn, strict=True
            )
        )
