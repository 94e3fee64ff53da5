"""Noisy sums of clipped rows.

Where integer answers are drawn: finer than their own steps, or coarser and paid for.

How little may be asked of one mechanism: below, no exact sampler draws noise so wide.

Noise for many answers of one release: equal scales are drawn together where that pays.

Sums of rows that were clipped on an integer lattice, in blocks with Gaussian noise each.

Discrete Laplace noise on exact integer answers.

Discrete Gaussian noise on exact integer answers, on a lattice fine enough for exact formulas.

Sums of rows clipped to a ball, with the sums of their sizes or squares at no further loss.

For lattice rows z, z' with ||z||, ||z'|| <= K the sums of z and of |z| (column by column) together
move by at most 2K in l2, as the sum of z alone: | |a| - |b| | <= |a + b|, and the squares of a - b
and of a + b add up to 2a^2 + 2b^2. The same holds for z_j^2 / (2 B_j) in place of |z_j|, if
|z_j| <= B_j. docs/proofs/many-columns.md.

The K-norm mechanism of the l2 ball on the integer lattice, drawn exactly.

Pure differential privacy for a vector sum: noise z with P(z) proportional to exp(-N(z)/b), where
N(z) is the l2 norm rounded up to an integer. In d dimensions its length is about d b, against
sqrt(2) d b for independent Laplace noise of the same privacy.

The sampler rejects from independent discrete Laplace draws, with acceptance probabilities
exp(-gamma), gamma rational, decided by exact coins. No floating point enters the law.

Source: Hardt and Talwar (2010) for the mechanism; Canonne, Kamath and Steinke (2020), Algorithm 1,
for the coin. The lattice form and its proof are in docs/proofs/heavy-tails-k-norm.md.

Noise for the rows of a stream: the one place of a stream where rows and noise meet.

Sensitivity, scale and loss are those of `continual.mechanism.PrefixMechanism`.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import gammaln, log_ndtr

from privmean.array_types import Integers
from privmean.data.person_table import Besides, L2Ball, L2BallSums
from privmean.errors import InfeasibleError
from privmean.mechanisms.curator import differences, gaussian_share, pure_share
from privmean.noise.exact import ExactNoise
from privmean.noise.noise_source import LARGEST_SCALE, Noise
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Gaussian, Laplace

LARGEST_DIMENSION = 24  # above, a draw would need more than about 500 proposals
BATCH = 4096  # integers of Laplace noise a batch of proposals


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
    volume = d / 2 * math.log(math.pi) - gammaln(d / 2 + 1)
    return float(math.exp(gammaln(d + 1) + volume - d * math.log(2 * math.sqrt(d))))


def proposal_scale(scale: Fraction, dimension: int) -> Fraction:
    """A double of at least sqrt(dimension) * scale: the proposals' Laplace scale."""
    near = math.sqrt(dimension) * float(scale)
    result = Fraction(near)
    while result * result < dimension * scale * scale:
        near = math.nextafter(near, math.inf)
        result = Fraction(near)
    return result


def draw(noise: Noise, dimension: int, scale: Fraction) -> Integers:
    """One vector of `dimension` integers with P(z) proportional to exp(-norm_above(z)/scale).

    **Guarantees.** Added to an integer vector that one person moves by at most S in l2 (S an
    integer), it is S/scale-DP: norm_above(z + s) <= norm_above(z) + S whenever |s| <= S.
    """
    proposal = proposal_scale(scale, dimension)
    rate, proposal_rate = 1 / scale, 1 / proposal
    rows = max(1, min(BATCH // dimension, math.ceil(2 / acceptance(dimension))))
    while True:
        draws = noise.laplace(rows * dimension, proposal).reshape(rows, dimension)
        for z in draws:
            items = [int(item) for item in z]
            taxicab = sum(abs(item) for item in items)
            # norm_above(z) >= |z|_1/sqrt(d) and proposal >= sqrt(d) scale, so gamma >= 0
            gamma = norm_above(items) * rate - taxicab * proposal_rate
            if exponential_coin(noise, gamma):
                return np.asarray(items, dtype=np.int64)


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
        raise InfeasibleError(
            f"the noise of {name!r} is too wide to be drawn exactly",
            REMEDY,
        )


Scale = TypeVar("Scale")
TOGETHER = 8  # equal scales of one release from which they are drawn in one call


def drawn_each(draw: Callable[[int, Scale], Integers], scales: Sequence[Scale]) -> list[int]:
    """One independent draw for each scale, in the order of `scales`.

    draw: a method of `Noise`. How they are grouped follows from the scales alone. Few answers are
    drawn one by one in their order, so that a seed gives them the same noise in any company.
    """
    counts = Counter(scales)
    ready = {
        scale: iter(draw(count, scale).tolist())
        for scale, count in counts.items()
        if count >= TOGETHER
    }
    return [
        next(ready[scale]) if scale in ready else draw(1, scale).tolist()[0] for scale in scales
    ]


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


AHEAD = 256  # steps whose public numbers are computed together
BLOCK = 2**13  # draws taken together: a call costs more than a draw


class DrawAhead:
    """Exact draws of one scale, taken from the sampler in blocks and handed out in order.

    Draws that were not used when the process ends are forgotten; nothing was made of them. A fork
    forgets them too, and so does a copy: two that add the same noise would tell their difference
    exactly.
    """

    def __init__(self, noise: Noise, scale: float) -> None:
        self._noise, self._scale = noise, scale
        # only the exact sampler: a simulation must consume its seed in the order of the steps
        self._ahead = BLOCK if isinstance(noise, ExactNoise) else 0
        self._forget()

    def _forget(self) -> None:
        self._ready = np.zeros(0, dtype=np.int64)
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, object]:
        """Of copies and pickles: without draws."""
        return {"_noise": self._noise, "_scale": self._scale, "_ahead": self._ahead}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._forget()

    def draw(self, size: int) -> Integers:
        if size >= self._ahead:
            return self._noise.gaussian(size, self._scale)
        if self._process != os.getpid():
            self._forget()
        if len(self._ready) < size:
            more = self._noise.gaussian(self._ahead, self._scale)
            self._ready = np.concatenate([self._ready, more])
        drawn, self._ready = self._ready[:size], self._ready[size:]
        return drawn

    def added_one(self, number: int) -> int:
        """`added` for one row of one number."""
        return number + self.draw(1).item()

    def added(self, rows: Integers) -> Integers:
        """The integer rows, shape (m, d), each number with noise of its own."""
        return rows + self.draw(rows.size).reshape(rows.shape)
