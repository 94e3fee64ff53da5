"""Several whole-number answers released together, with the noise of one law on all of them.

`NoisyVector` places each answer on a lattice, adds noise there and reads the answer in its unit;
`LaplaceVector` (docs/proofs/laplace.md) and `GaussianVector` (docs/proofs/gaussian.md) are its
laws, `VectorSums` is what sums of any kind derive from them.

The K-norm law of the l2 ball is drawn by `k_norm`: P(z) is proportional to exp(-N(z)/b), where N(z)
is the l2 norm rounded up. In d dimensions the noise has a length of about d b, against sqrt(2) d b
for independent Laplace noise of the same privacy. It is rejected from Laplace draws by exact coins;
no floating point enters the law. Source: Hardt and Talwar (2010); for the coin Canonne, Kamath and
Steinke (2020), Algorithm 1. Lattice form and proof: docs/proofs/heavy-tails-k-norm.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np

from privmean.array_types import Integers
from privmean.errors import InfeasibleError
from privmean.mechanisms.curator import differences, gaussian_share, pure_share
from privmean.noise.noise_source import LARGEST_SCALE, Noise
from privmean.privacy.budget import Relation
from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyEvent

# Sums whose noise is wider than 2^54 steps are rounded to a lattice on which one step is a change
# of at most 2^-53 scales. At a loss of 2^-40 that adds 2^-13 of it an answer, which the noise pays
# for; at a loss of 2^-90 it would multiply the noise by 2^37.
SMALLEST_LOSS = 2.0**-40
REMEDY = "give a larger epsilon or delta, or release fewer columns"


def require_loss(name: str, loss: Fraction | float) -> None:
    """Raise InfeasibleError if `loss` (epsilon or mu of the mechanism called `name`) is too small.

    Asked when a mechanism is made, which is when it is planned.
    """
    if not loss >= SMALLEST_LOSS:
        raise InfeasibleError(
            f"the privacy loss of {name!r}, {float(loss):.3g}, must be at least 2^-40",
            REMEDY,
        )


def require_drawn(name: str, scale: Fraction | float) -> None:
    """Raise InfeasibleError if noise of this scale, in steps, is never drawn."""
    if not scale <= LARGEST_SCALE:
        raise InfeasibleError(f"the noise of {name!r} is too wide to be drawn exactly", REMEDY)


FINEST = 2.0**20  # lattice steps a standard deviation, at least
COARSE = 2.0**54  # and at most: wider noise is drawn on a coarser lattice


def lattice_bits(sd: float) -> int:
    """The smallest k >= 0 for which noise of deviation `sd` has 2^20 steps after scaling by 2^k."""
    return max(0, math.frexp(FINEST)[1] - math.frexp(sd)[1])


def root_above(square: Fraction | int) -> float:
    """A double of at least the square root: a sensitivity that is never understated."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


FINE_BITS = 20  # answers with small units are scaled by 2^20: their noise has a fine lattice
COARSE_SCALE = 2**54  # noise scales beyond this are drawn on a coarser lattice
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
    while there > COARSE_SCALE:
        there, bits = there / 2, bits - 1
    return LatticeChoice(bits, unit * Fraction(2) ** bits, there)


def placed(answer: int, bits: int) -> int:
    """An exact answer on that lattice; what is made coarser is rounded down."""
    return answer << bits if bits >= 0 else answer >> -bits


LARGEST_DIMENSION = 24  # above, a draw would need more than about 500 proposals
PROPOSALS = 4096  # integers of Laplace noise a batch of proposals


def norm_above(z: Sequence[int]) -> int:
    """The l2 norm of an integer vector, rounded up."""
    square = sum(int(item) * int(item) for item in z)
    root = math.isqrt(square)
    return root if root * root == square else root + 1


def exponential_coin(noise: Noise, gamma: Fraction) -> bool:
    """True with probability exp(-gamma), gamma >= 0 rational."""
    while gamma > 1:
        if not _fraction_coin(noise, Fraction(1)):
            return False
        gamma -= 1
    return _fraction_coin(noise, gamma)


def _fraction_coin(noise: Noise, gamma: Fraction) -> bool:
    """True with probability exp(-gamma), 0 <= gamma <= 1: the series of exp by alternating runs."""
    k = 1
    while noise.bernoulli(1, gamma / k)[0]:
        k += 1
    return k % 2 == 1


def acceptance(dimension: int) -> float:
    """The chance that one proposal is accepted, in the limit of a fine lattice."""
    d = dimension
    volume = d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1)
    return math.exp(math.lgamma(d + 1) + volume - d * math.log(2 * math.sqrt(d)))


def proposal_scale(scale: Fraction, dimension: int) -> Fraction:
    """A double of at least sqrt(dimension) * scale: the proposals' Laplace scale."""
    return Fraction(root_above(dimension * scale * scale))


def k_norm(noise: Noise, dimension: int, scale: Fraction) -> Integers:
    """One vector of `dimension` integers with P(z) proportional to exp(-norm_above(z)/scale).

    **Guarantees.** Added to an integer vector that one person moves by at most S in l2 (S an
    integer), it is S/scale-DP: norm_above(z + s) <= norm_above(z) + S whenever |s| <= S.
    """
    proposal = proposal_scale(scale, dimension)
    rate, proposal_rate = 1 / scale, 1 / proposal
    rows = max(1, min(PROPOSALS // dimension, math.ceil(2 / acceptance(dimension))))
    while True:
        draws = noise.laplace(rows * dimension, proposal).reshape(rows, dimension)
        for z in draws:
            items = [int(item) for item in z]
            taxicab = sum(abs(item) for item in items)
            # norm_above(z) >= |z|_1/sqrt(d) and proposal >= sqrt(d) scale, so gamma >= 0
            gamma = norm_above(items) * rate - taxicab * proposal_rate
            if exponential_coin(noise, gamma):
                return np.asarray(items, dtype=np.int64)


Scale = TypeVar("Scale")
TOGETHER = 8  # equal scales of one release from which they are drawn in one call


def drawn_each(draw: Callable[[int, Scale], Integers], scales: Sequence[Scale]) -> list[int]:
    """One independent draw for each scale, in the order of `scales`.

    draw: a method of `Noise`. How they are grouped follows from the scales alone. Few answers are
    drawn one by one in their order, so that a seed gives them the same noise in any company.
    """
    counts = Counter(scales) if len(scales) >= TOGETHER else {}
    ready = {
        scale: iter(draw(count, scale).tolist())
        for scale, count in counts.items()
        if count >= TOGETHER
    }
    return [
        next(ready[scale]) if ready and scale in ready else draw(1, scale).tolist()[0]
        for scale in scales
    ]


class NoisyVector(ABC):
    """Whole-number answers, each read in a unit of its own, with noise of one law on a lattice."""

    units: tuple[int, ...]

    @property
    @abstractmethod
    def events(self) -> tuple[PrivacyEvent, ...]:
        """The one line of the accounting."""

    @property
    @abstractmethod
    def lattice(self) -> tuple[int, ...]:
        """Bits by which each answer is made finer (positive) or coarser (negative)."""

    @property
    @abstractmethod
    def scales(self) -> tuple[Any, ...]:
        """Scales of the noise that is drawn, in steps of the lattice of each answer."""

    @property
    @abstractmethod
    def widths(self) -> tuple[float, ...]:
        """Scales of the noise in the unit of each answer, as planned."""

    @property
    @abstractmethod
    def deviation(self) -> float:
        """Of noise of scale 1."""

    @abstractmethod
    def _drawn(self, noise: Noise) -> list[int]:
        """One draw for each of `scales`."""

    @abstractmethod
    def _share(self, changes: Sequence[int]) -> Fraction:
        """What changes on the lattice cost, over what is declared."""

    def placed(self, exact: Sequence[int]) -> list[int]:
        """The answers on their lattices."""
        pairs = zip(exact, self.lattice, strict=True)
        return [placed(int(answer), bits) for answer, bits in pairs]

    def sensitivity_share(self, exact: Sequence[int], other: Sequence[int]) -> tuple[Fraction, ...]:
        return (self._share(differences(self.placed(exact), self.placed(other))),)

    def draw(self, exact: Sequence[int], noise: Noise) -> list[float]:
        return self.read(exact, self._drawn(noise))

    def read(self, exact: Sequence[int], draws: Iterable[int]) -> list[float]:
        """The answers, in units, with these draws of the noise of `scales`."""
        answers = zip(self.placed(exact), self.units, self.lattice, draws, strict=True)
        return [  # quotients of whole numbers, rounded once
            (answer + drawn) / (unit << bits) if bits >= 0 else ((answer + drawn) << -bits) / unit
            for answer, unit, bits, drawn in answers
        ]


@dataclass(frozen=True)
class LaplaceVector(NoisyVector):
    """Discrete Laplace noise, each answer with its own scale.

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

    deviation = math.sqrt(2)

    def __post_init__(self) -> None:
        require_loss("joint sums", self.epsilon)

    @property
    def events(self) -> tuple[Laplace, ...]:
        joint = len(self.units) > 1
        return (
            Laplace(self.name, Fraction(1), 1 / self.epsilon, joint=joint, neighbors=self.relation),
        )

    @cached_property
    def lattice(self) -> tuple[int, ...]:
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
        return tuple(
            Fraction(multiple * unit) / self.effective * Fraction(2) ** bits
            for unit, multiple, bits in zip(self.units, self.multiples, self.lattice, strict=True)
        )

    @cached_property
    def widths(self) -> tuple[float, ...]:
        return tuple(float(multiple / self.epsilon) for multiple in self.multiples)

    def _drawn(self, noise: Noise) -> list[int]:
        return drawn_each(noise.laplace, self.scales)

    def _share(self, changes: Sequence[int]) -> Fraction:
        pairs = zip(changes, self.scales, strict=True)
        cost = sum((abs(change) / scale for change, scale in pairs), Fraction(0))
        return pure_share(cost, self.events[0])


@dataclass(frozen=True)
class GaussianVector(NoisyVector):
    """Discrete Gaussian noise, each answer with its own deviation.

    sds: one standard deviation an answer, in the answers' own steps. mu: the caller's bound on the
    square root of the sum over answers of (change/sd)^2. Answers are made finer by a power of two
    so that the noise has at least 2^20 lattice steps a deviation. Where a deviation would pass 2^54
    steps the answer is first rounded down to a coarser lattice; the extra step is paid for by all
    deviations: at most 2^-13 sqrt(m) of them for m answers, since a mu below 2^-40 is refused
    (InfeasibleError).

    Guarantees: mu-GDP with the lattice correction of docs/proofs/gaussian.md, billed as one loss
    with `affected` answers (those that one person can change; all of them unless given). The
    accounting names `relation`, the neighbors for which the caller counted the changes.
    """

    name: str
    units: tuple[int, ...]
    sds: tuple[float, ...]
    mu: float
    relation: Relation | None = None
    affected: int | None = None

    deviation = 1.0

    def __post_init__(self) -> None:
        require_loss(self.name, self.mu)

    @property
    def events(self) -> tuple[Gaussian, ...]:
        coarsest = min(self.scales)
        count = len(self.sds) if self.affected is None else self.affected
        return (Gaussian(self.name, self.mu * coarsest, coarsest, count, neighbors=self.relation),)

    @cached_property
    def lattice(self) -> tuple[int, ...]:
        fine = [lattice_bits(sd) for sd in self.sds]  # 0 for what is made coarser
        wide = [max(0, math.frexp(sd / COARSE)[1]) for sd in self.sds]
        return tuple(bits - coarse for bits, coarse in zip(fine, wide, strict=True))

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """Rounding m answers adds at most one step of at least 2^53 a deviation to each change."""
        rounded = sum(bits < 0 for bits in self.lattice)
        extra = math.sqrt(rounded) * 2.0**-53 / self.mu * (1 + 1e-12) if rounded else 0.0
        pairs = zip(self.sds, self.lattice, strict=True)
        return tuple(math.ldexp(sd, bits) * (1 + extra) for sd, bits in pairs)

    @property
    def widths(self) -> tuple[float, ...]:
        return tuple(sd / unit for sd, unit in zip(self.sds, self.units, strict=True))

    def _drawn(self, noise: Noise) -> list[int]:
        return drawn_each(noise.gaussian, self.scales)

    def _share(self, changes: Sequence[int]) -> Fraction:
        return gaussian_share(list(zip(changes, self.scales, strict=True)), self.events[0])


E = TypeVar("E")  # an exact answer


class VectorSums(ABC, Generic[E]):
    """Sums that are released as one `NoisyVector`: they say which whole numbers, and their noise.

    A subclass states `vector`, and `answers` where its exact answer is not the numbers themselves.
    """

    @property
    @abstractmethod
    def vector(self) -> LaplaceVector | GaussianVector:
        """The noise on all answers."""

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.vector.events

    def answers(self, exact: E) -> Sequence[int]:
        """The whole numbers that get noise."""
        return cast("Sequence[int]", exact)

    def sensitivity_share(self, exact: E, other: E) -> tuple[Fraction, ...]:
        return self.vector.sensitivity_share(self.answers(exact), self.answers(other))

    def noisy(self, exact: E, noise: Noise) -> list[float]:
        """The numbers with noise, each in its unit."""
        return self.vector.draw(self.answers(exact), noise)


@dataclass(frozen=True)
class LatticeSums:
    """Integer sums and discrete Gaussian noise: one loss a block, whose scale is its noise.

    The caller owes that one change of neighbors moves a block by at most its loss's sensitivity
    (l2, in lattice steps).

    Guarantees: the Gaussian losses, for the relation that they name.
    """

    events: tuple[Gaussian, ...]

    def sensitivity_share(
        self, exact: Sequence[Integers], other: Sequence[Integers]
    ) -> tuple[Fraction, ...]:
        pairs = zip(exact, other, self.events, strict=True)
        return tuple(
            gaussian_share([(item, loss.scale) for item in differences(a, b)], loss)
            for a, b, loss in pairs
        )

    def draw(self, exact: Sequence[Integers], noise: Noise) -> list[Integers]:
        return [
            sums + noise.gaussian(len(sums), loss.scale)
            for sums, loss in zip(exact, self.events, strict=True)
        ]
