"""Discrete Laplace noise on exact integer answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from privmean.mechanisms.choose_lattice import place, placed
from privmean.mechanisms.joint_draws import drawn_each
from privmean.mechanisms.minimum_loss import require_loss
from privmean.mechanisms.sensitivity_share import differences, pure_share
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import Relation
from privmean.privacy.privacy_events import Laplace


@dataclass(frozen=True)
class JointLaplace:
    """Several integer answers released together, each with its own Laplace scale, and one line of
    the accounting.

    Answer i is read in units of units[i] of its own integer steps and gets noise of scale
    multiples[i]/epsilon units. The caller owes: one person changes the answers by amounts c_i (in
    units) with sum of |c_i|/multiples[i] <= 1 (docs/proofs/laplace.md).

    Guarantees: epsilon-DP, and never more revealing than one Laplace answer of loss epsilon. Where
    a noise scale would pass 2^54 steps the answer is first rounded down to a coarser lattice; the
    extra step is paid for by all scales: at most 2^-13 m of them for m answers, since an epsilon
    below 2^-40 is refused (InfeasibleError).
    """

    units: tuple[int, ...]
    multiples: tuple[int | Fraction, ...]
    epsilon: Fraction
    relation: Relation
    name: str = "joint answers"

    @property
    def events(self) -> tuple[Laplace, ...]:
        joint = len(self.units) > 1
        return (
            Laplace(self.name, Fraction(1), 1 / self.epsilon, joint=joint, neighbors=self.relation),
        )

    def __post_init__(self) -> None:
        require_loss("joint sums", self.epsilon)

    @cached_property
    def lattice(self) -> tuple[int, ...]:
        """Bits by which each answer is made finer (positive) or coarser (negative)."""
        pairs = zip(self.units, self.multiples, strict=True)
        return tuple(
            place(unit, Fraction(multiple) / self.epsilon).bits for unit, multiple in pairs
        )

    @cached_property
    def effective(self) -> Fraction:
        """The epsilon that scales use: `epsilon`, less the cost of rounding coarse answers."""
        extra = Fraction(0)
        for unit, multiple, bits in zip(self.units, self.multiples, self.lattice, strict=True):
            if bits < 0:
                extra += Fraction(1 << -bits, unit * multiple)
        return self.epsilon / (1 + extra)

    @cached_property
    def scales(self) -> tuple[Fraction, ...]:
        """Scales of the noise that is drawn, in steps of the lattice of each answer."""
        return tuple(
            Fraction(multiple * unit) / self.effective / _step(bits)
            for unit, multiple, bits in zip(self.units, self.multiples, self.lattice, strict=True)
        )

    def _placed(self, exact: Sequence[int]) -> list[int]:
        """The answers on their lattices."""
        pairs = zip(exact, self.lattice, strict=True)
        return [placed(int(answer), bits) for answer, bits in pairs]

    def sensitivity_share(self, exact: Sequence[int], other: Sequence[int]) -> tuple[Fraction, ...]:
        changes = differences(self._placed(exact), self._placed(other))
        pairs = zip(changes, self.scales, strict=True)
        cost = sum((abs(change) / scale for change, scale in pairs), Fraction(0))
        return (pure_share(cost, self.events[0]),)

    def draw(self, exact: Sequence[int], noise: Noise) -> list[float]:
        """The noisy answers, in units."""
        return self.read(exact, drawn_each(noise.laplace, self.scales))

    def read(self, exact: Sequence[int], draws: Iterable[int]) -> list[float]:
        """The answers, in units, with these draws of the noise of `scales`."""
        answers = zip(self._placed(exact), self.units, self.lattice, draws, strict=True)
        return [  # quotients of whole numbers, rounded once
            (answer + drawn) / (unit << bits) if bits >= 0 else ((answer + drawn) << -bits) / unit
            for answer, unit, bits, drawn in answers
        ]


def _step(bits: int) -> Fraction:
    """One step of a lattice that many bits finer (coarser, if negative) than the answer's own."""
    return Fraction(1, 1 << bits) if bits >= 0 else Fraction(1 << -bits)
