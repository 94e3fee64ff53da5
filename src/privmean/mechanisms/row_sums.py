"""Noisy sums of clipped rows, of powers and of second moments; noise of the rows of a stream.

For lattice rows z, z' with ||z||, ||z'|| <= K the sums of z and of |z| (column by column) together
move by at most 2K in l2, as the sum of z alone: | |a| - |b| | <= |a + b|, and the squares of a - b
and of a + b add up to 2a^2 + 2b^2. The same holds for z_j^2 / (2 B_j) in place of |z_j|, if
|z_j| <= B_j. Rows that something is cut off end in a smaller ball (`ClippedRows`): what they no
longer use of the privacy loss pays for a weight in every column, so that people beyond a column's
limits are counted for next to nothing (`TailRows`). docs/proofs/many-columns.md.

Powers: sums over people of 1, a, a^2 and a^4 for values a in [-1, 1]. Each entry is bounded by
itself, so that no relation between the entries is relied upon after they were made whole numbers
(docs/proofs/variance.md, section 5).

Matrices: for PSD ones tr(Z Z') >= 0, so that one person replaced moves a sum by sqrt(2) radii and
not by two. For rows z in a ball, and products p p' of the rows cut at a shorter rho, Gaussian noise
of deviation s on z and of sqrt(2) rho s on p p' (Frobenius) costs no more together than on z alone
(docs/proofs/pooled-regression.md, sections 3 and 4).

`DrawAhead` draws for the rows of a stream; sensitivity, scale and loss are those of its strategy.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.data.array_kernels import big_sum
from privmean.data.person_table import Besides, ClippedRows, L2Ball, L2BallSums
from privmean.mechanisms.noisy_vector import GaussianVector, LaplaceVector, VectorSums
from privmean.noise.noise_source import ExactNoise, Noise
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.privacy.profile_events import RowsAndProducts

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
class RowSums(VectorSums[L2BallSums]):
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
    def vector(self) -> GaussianVector:
        return self._vector(self.sds)

    def _vector(self, sds: tuple[float, ...]) -> GaussianVector:
        return GaussianVector(self.name, (1,) * len(sds), sds, self.mu, REPLACE_ONE)

    def answers(self, exact: L2BallSums) -> tuple[int, ...]:
        return (*exact.z, *exact.besides)

    def draw(self, exact: L2BallSums, noise: Noise) -> NoisyRows:
        read, width = self.noisy(exact, noise), len(self.reaches)
        return NoisyRows(tuple(read[:width]), tuple(read[width:]), self.sds[0], self.sds[width:])


@dataclass(frozen=True)
class TailRows(RowSums):
    """`RowSums` with squares, and the sums of the weights of those cut.

    ends: in the same units, what is beyond is cut off, below and above.
    part: of the radius, for rows that something is cut off; at least 1/2 and below 1.

    **Guarantees.** mu-GDP for one person replaced, for any data, radius and ends that are public or
    already released. A row z that is cut and its weights t have norms of at most K' = part K; one
    that is slightly cut M = (3 + part)/4 K and M/4; any other K and 0. Weights are not negative, so
    that ||t - t'||^2 <= ||t||^2 + ||t'||^2, and either row adds at most 2||z||^2 + ||t||^2/s^2 to
    the squared change. For s^2 = K'^2/(2(K^2 - K'^2)) that is 2K^2 or less in all three cases.
    Deviations are 2K/mu, and s times that for t.
    """

    besides: Besides = field(default="squares", init=False)
    ends: tuple[tuple[float, float], ...]
    part: float

    def __post_init__(self) -> None:
        if not 0.5 <= self.part < 1:
            raise ValueError("rows that are cut keep half of the radius or more, and not all of it")

    @cached_property
    def cut(self) -> ClippedRows:
        ball = self.ball
        middle = L2Ball(ball.center, (3 + self.part) / 4 * ball.radius, ball.step)
        inner = L2Ball(ball.center, self.part * ball.radius, ball.step)
        lower, upper = zip(*self.ends, strict=True)
        return ClippedRows(ball, middle, inner, lower, upper)

    @property
    def weight_sd(self) -> float:
        """Deviation of the noise of a column's weights, in lattice steps."""
        long, short = self.ball.steps, self.cut.inner.steps
        return self.sds[0] * short / math.sqrt(2 * (long**2 - short**2))

    @cached_property
    def vector(self) -> GaussianVector:
        weights = (self.weight_sd * (1 + 1e-12),) * len(self.ends)
        return self._vector((*self.sds, *weights))

    def answers(self, exact: L2BallSums) -> tuple[int, ...]:
        return (*super().answers(exact), *exact.tails)

    def draw(self, exact: L2BallSums, noise: Noise) -> NoisyRows:
        read, d, short = self.noisy(exact, noise), len(self.ends), self.cut.inner.steps
        return NoisyRows(
            tuple(read[:d]),
            tuple(read[d : 2 * d]),
            self.sds[0],
            self.sds[d:],
            tuple(item / short for item in read[2 * d :]),
            self.vector.sds[-1] / short,
        )


STEPS = 1 << 30  # whole numbers that stand for 1
MULTIPLES = (Fraction(8), Fraction(8), Fraction(8, 5), Fraction(8))  # Laplace scales over 1/epsilon
PARTS = (0.10, 0.05, 0.70, 0.10)  # of mu^2: what a change of 1 in each entry costs


@dataclass(frozen=True)
class PowerSums(VectorSums[Sequence[int]]):
    """Noisy sums of rows (one, a, a^2, a^4) of whole numbers over `STEPS`; a person without a value
    has the row 0. mu or epsilon: the price, and with it the law of the noise.

    Guarantees: mu-GDP or epsilon-DP for one person replaced, added or removed, for any rows whose
    entries lie in [0, 1], [-1, 1], [0, 1], [0, 1]. Two people with values differ by 0 in the
    first, 2 in the second and 1 in the other two; one with and one without by 1 in each: under
    Laplace noise 2/8 + 5/8 + 1/8 = 1 and 1/8 + 1/8 + 5/8 + 1/8 = 1, under Gaussian noise
    4(.05) + .7 + .1 = 1 and .95.
    """

    name: str
    relation: Relation
    mu: float | None = None
    epsilon: Fraction | None = None

    @cached_property
    def vector(self) -> GaussianVector | LaplaceVector:
        units = (STEPS,) * len(MULTIPLES)
        if self.mu is not None:
            sds = tuple(STEPS / (self.mu * math.sqrt(part)) * (1 + 1e-12) for part in PARTS)
            return GaussianVector(self.name, units, sds, self.mu, self.relation)
        assert self.epsilon is not None
        return LaplaceVector(units, MULTIPLES, self.epsilon, self.relation, self.name)

    @property
    def scales(self) -> tuple[float, ...]:
        """Of the noise of each sum, over `STEPS`: deviations, or Laplace scales."""
        return self.vector.widths

    @property
    def sds(self) -> tuple[float, ...]:
        """Deviations of the noise of each sum, over `STEPS`."""
        return tuple(self.vector.deviation * scale for scale in self.scales)

    draw = VectorSums.noisy


ROOM = 1 + 1e-12  # deviations are a hair more than needed, so that rounding never exceeds the loss
# deviations of rows and products that are cut by truncation: covers its whole steps
ROOM_CUT = 1 + 1e-9
ROWS = Fraction(85, 100)  # of epsilon for the rows, under Laplace noise; the rest for products


def is_longer(
    rows: Integers, steps: int, *, l1: bool
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether rows of whole numbers, one a column, are longer than so many steps, exactly."""
    if l1:
        return np.asarray(np.abs(rows).sum(axis=0) > steps)
    return np.asarray((rows * rows).sum(axis=0) > steps**2)


@dataclass(frozen=True)
class MomentSums(VectorSums[Sequence[int]]):
    """What both mechanisms share. order: of the matrices; steps: the largest norm of what one
    person adds; mu or epsilon: the price, and with it the law of the noise."""

    name: str
    order: int
    steps: int
    relation: Relation
    mu: float | None = None
    epsilon: Fraction | None = None

    @property
    def places(self) -> list[tuple[int, int]]:
        """The upper triangle, by rows."""
        return [(i, j) for i in range(self.order) for j in range(i, self.order)]

    @property
    def multiple(self) -> int:
        """How often one person's part enters a change."""
        return 2 if self.relation == REPLACE_ONE else 1

    draw = VectorSums.noisy  # every answer over its unit


@dataclass(frozen=True)
class MatrixSums(MomentSums):
    """The upper triangle of a sum of PSD matrices of whole numbers. steps: the largest norm of one:
    Frobenius for Gaussian noise (mu), the sum over the triangle for Laplace noise (epsilon).

    Guarantees: mu-GDP or epsilon-DP for one person, for any matrices that keep the norm.
    """

    @cached_property
    def vector(self) -> GaussianVector | LaplaceVector:
        places = self.places
        units = (self.steps,) * len(places)
        if self.mu is not None:
            factor = math.sqrt(2) if self.relation == REPLACE_ONE else 1.0
            diagonal = factor * self.steps / self.mu * ROOM
            sds = tuple(diagonal if i == j else diagonal / math.sqrt(2) * ROOM for i, j in places)
            return GaussianVector(self.name, units, sds, self.mu, self.relation)
        assert self.epsilon is not None
        multiples = (self.multiple,) * len(places)
        return LaplaceVector(units, multiples, self.epsilon, self.relation, self.name)

    @property
    def noise(self) -> tuple[float, float]:
        """Deviations of the noise on and off the diagonal, in steps over `steps`."""
        if self.epsilon is not None:
            return (math.sqrt(2) * self.multiple / float(self.epsilon),) * 2
        widths = self.vector.widths
        return widths[0], widths[min(1, len(widths) - 1)]


@dataclass(frozen=True)
class RowProducts(MomentSums):
    """Sums of rows z of `order` whole numbers, and of the upper triangle of p p' for the rows p
    that are z cut at the norm `short`. steps: the largest l2 norm of a
    row for Gaussian noise (mu), l1 for Laplace noise (epsilon).

    Guarantees: mu-GDP or epsilon-DP for one person, for any rows: `exact` cuts them, and counts
    a row that is too long as zero.
    """

    short: int = field(kw_only=True)

    def __post_init__(self) -> None:
        if not 0 < self.short <= self.steps:
            raise ValueError("products of rows that are longer than the rows")

    @cached_property
    def vector(self) -> GaussianVector | LaplaceVector:
        places = self.places
        units = (self.steps,) * self.order + (self.short**2,) * len(places)
        if self.mu is not None:
            # replaced: the products are free; added or removed: 1 + rho^2/2 of the square of the
            # rows
            ratio = self.short / self.steps
            factor = 2.0 if self.relation == REPLACE_ONE else math.sqrt(1 + ratio**2 / 2)
            first = factor * self.steps / self.mu * ROOM_CUT
            second = math.sqrt(2) * self.short * first * ROOM
            off = second / math.sqrt(2) * ROOM
            sds = (first,) * self.order + tuple(second if i == j else off for i, j in places)
            return GaussianVector(self.name, units, sds, self.mu, self.relation)
        assert self.epsilon is not None
        shares = (self.multiple / ROWS,) * self.order + (self.multiple / (1 - ROWS),) * len(places)
        return LaplaceVector(units, shares, self.epsilon, self.relation, self.name)

    def exact(self, rows: Sequence[Integers]) -> list[int]:
        """The exact sums over people of rows and of products of the rows cut at `short`."""
        l1 = self.mu is None
        z: Integers = np.asarray(rows)
        z = np.where(is_longer(z, self.steps, l1=l1), 0, z)
        p = self.cut(z)
        p = np.where(is_longer(p, self.short, l1=l1), 0, p)
        return [
            *(big_sum(row) for row in z),
            *(big_sum(p[i] * p[j]) for i, j in self.places),
        ]

    def cut(self, rows: Integers) -> Integers:
        """The rows cut at `short` and truncated towards 0, so that opposite rows stay opposite:
        each from the whole numbers of its own row."""
        absolute: Floats = np.abs(rows).astype(np.float64)
        if self.mu is None:
            size = absolute.sum(axis=0)
        else:
            size = np.sqrt((absolute * absolute).sum(axis=0))
        whole = ~is_longer(rows, self.short, l1=self.mu is None)
        factor = self.short * (1 - 2.0**-40) / np.maximum(size, 1.0)
        found: Integers = np.where(whole, rows, np.trunc(rows * factor).astype(np.int64))
        return found

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """Under Gaussian noise a line from which the price of the whole can be recomputed."""
        made = self.vector
        if not isinstance(made, GaussianVector):
            return made.events
        (line,) = made.events
        first, second = made.sds[0], made.sds[self.order]
        off = made.sds[self.order + 1] if self.order > 1 else second  # one number: none off it
        return (
            RowsAndProducts(
                line.name, line.sensitivity, line.scale, line.answers, self.steps, first, second,
                off, self.short, neighbors=line.neighbors,
            ),
        )  # fmt: skip

    @property
    def scale(self) -> float:
        """Noise of a coordinate, over `steps`: a deviation, or a Laplace scale."""
        return self.vector.widths[0]


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
