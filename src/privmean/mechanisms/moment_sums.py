"""Noisy powers, tails and products of clipped rows.

Sums over people of 1, a, a^2 and a^4 for values a in [-1, 1], released together.

Each entry is bounded by itself, so that no relation between the entries is relied upon after they
were made whole numbers. docs/proofs/variance.md, section 5.

Sums of rows clipped to a ball, of their squares, and of what is cut off them, at one loss.

Rows that something is cut off end in a smaller ball (`Cut`): what they no longer use of the privacy
loss pays for a weight in every column, so that people beyond a column's limits, or in rows that
were shortened, are counted for next to nothing. docs/proofs/many-columns.md.

Sums of positive semidefinite matrices, and of rows with the matrix of their products.

For PSD matrices tr(Z Z') >= 0, so that one person replaced moves a sum by sqrt(2) radii and not by
two. For rows z in a ball, and products p p' of the rows cut at a shorter rho, Gaussian noise of
deviation s on z and of sqrt(2) rho s on p p' (Frobenius) costs no more together than on z alone.
docs/proofs/pooled-regression.md, sections 3 and 4.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from privmean.data.person_table import Besides, ClippedRows, Floats, Integers, L2Ball, L2BallSums
from privmean.mechanisms.row_sums import GaussianSums, JointLaplace, NoisyRows, RowSums
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.privacy.profile_events import RowsAndProducts

STEPS = 1 << 30  # whole numbers that stand for 1
MULTIPLES = (Fraction(8), Fraction(8), Fraction(8, 5), Fraction(8))  # Laplace scales over 1/epsilon
PARTS = (0.10, 0.05, 0.70, 0.10)  # of mu^2: what a change of 1 in each entry costs


@dataclass(frozen=True)
class PowerSums:
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
    def mechanism(self) -> GaussianSums | JointLaplace:
        if self.mu is not None:
            sds = tuple(STEPS / (self.mu * math.sqrt(part)) * (1 + 1e-12) for part in PARTS)
            return GaussianSums(self.name, sds, self.mu, relation=self.relation)
        assert self.epsilon is not None
        return JointLaplace(
            (STEPS,) * len(MULTIPLES), MULTIPLES, self.epsilon, self.relation, self.name
        )

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.mechanism.events

    @property
    def scales(self) -> tuple[float, ...]:
        """Of the noise of each sum, over `STEPS`: deviations, or Laplace scales."""
        if isinstance(self.mechanism, GaussianSums):
            return tuple(sd / STEPS for sd in self.mechanism.sds)
        assert self.epsilon is not None
        return tuple(float(multiple / self.epsilon) for multiple in MULTIPLES)

    @property
    def sds(self) -> tuple[float, ...]:
        """Deviations of the noise of each sum, over `STEPS`."""
        law = 1.0 if isinstance(self.mechanism, GaussianSums) else math.sqrt(2)
        return tuple(law * scale for scale in self.scales)

    def sensitivity_share(self, exact: Sequence[int], other: Sequence[int]) -> tuple[Fraction, ...]:
        return self.mechanism.sensitivity_share(exact, other)

    def draw(self, exact: Sequence[int], noise: Noise) -> list[float]:
        """The noisy sums over `STEPS`."""
        made = self.mechanism
        drawn = made.draw(exact, noise)
        if isinstance(made, JointLaplace):
            return list(drawn)
        return [x / (STEPS << bits) for x, bits in zip(drawn, made.bits, strict=True)]


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
    def mechanism(self) -> GaussianSums:
        weights = (self.weight_sd * (1 + 1e-12),) * len(self.ends)
        return GaussianSums(self.name, (*self.sds, *weights), self.mu, relation=REPLACE_ONE)

    def answers(self, sums: L2BallSums) -> tuple[int, ...]:
        return (*super().answers(sums), *sums.tails)

    def draw(self, exact: L2BallSums, noise: Noise) -> NoisyRows:
        read, d, short = self.noisy(exact, noise), len(self.ends), self.cut.inner.steps
        return NoisyRows(
            read[:d],
            read[d : 2 * d],
            self.sds[0],
            self.sds[d:],
            tuple(item / short for item in read[2 * d :]),
            self.mechanism.sds[-1] / short,
        )


ROOM = 1 + 1e-12  # deviations are a hair more than needed, so that rounding never exceeds the loss
# deviations of rows and products that are cut by truncation: covers its whole steps
ROOM_CUT = 1 + 1e-9
ROWS = Fraction(85, 100)  # of epsilon for the rows, under Laplace noise; the rest for products
CHUNK = 1 << 20


def exact_sum(values: Integers) -> int:
    """The sum of whole numbers below 2^42, of any number of people."""
    return sum(int(values[k : k + CHUNK].sum()) for k in range(0, len(values), CHUNK))


def is_longer(
    rows: Integers, steps: int, *, l1: bool
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether rows of whole numbers, one a column, are longer than so many steps, exactly."""
    if l1:
        return np.asarray(np.abs(rows).sum(axis=0) > steps)
    return np.asarray((rows * rows).sum(axis=0) > steps**2)


@dataclass(frozen=True)
class MomentSums(ABC):
    """What both mechanisms share. order: of the matrices; steps: the largest norm of what one
    person adds; mu or epsilon: the price, and with it the law of the noise."""

    name: str
    order: int
    steps: int
    relation: Relation
    mu: float | None = None
    epsilon: Fraction | None = None

    @property
    @abstractmethod
    def mechanism(self) -> GaussianSums | JointLaplace:
        """The noise on all answers."""

    @property
    def places(self) -> list[tuple[int, int]]:
        """The upper triangle, by rows."""
        return [(i, j) for i in range(self.order) for j in range(i, self.order)]

    @property
    def multiple(self) -> int:
        """How often one person's part enters a change."""
        return 2 if self.relation == REPLACE_ONE else 1

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.mechanism.events

    def sensitivity_share(self, exact: Sequence[int], other: Sequence[int]) -> tuple[Fraction, ...]:
        return self.mechanism.sensitivity_share(exact, other)

    def over(self, units: Sequence[int], exact: Sequence[int], noise: Noise) -> list[float]:
        """The noisy answers, each over its unit."""
        if isinstance(self.mechanism, JointLaplace):
            return self.mechanism.draw(exact, noise)
        drawn = self.mechanism.draw(exact, noise)
        return [
            x / (unit << bits)  # whole numbers: rounded once
            for x, unit, bits in zip(drawn, units, self.mechanism.bits, strict=True)
        ]


@dataclass(frozen=True)
class MatrixSums(MomentSums):
    """The upper triangle of a sum of PSD matrices of whole numbers. steps: the largest norm of one:
    Frobenius for Gaussian noise (mu), the sum over the triangle for Laplace noise (epsilon).

    Guarantees: mu-GDP or epsilon-DP for one person, for any matrices that keep the norm.
    """

    @cached_property
    def mechanism(self) -> GaussianSums | JointLaplace:
        places = self.places
        if self.mu is not None:
            factor = math.sqrt(2) if self.relation == REPLACE_ONE else 1.0
            diagonal = factor * self.steps / self.mu * ROOM
            sds = tuple(diagonal if i == j else diagonal / math.sqrt(2) * ROOM for i, j in places)
            return GaussianSums(self.name, sds, self.mu, relation=self.relation)
        assert self.epsilon is not None
        size = len(places)
        return JointLaplace(
            (self.steps,) * size, (self.multiple,) * size, self.epsilon, self.relation, self.name
        )

    @property
    def noise(self) -> tuple[float, float]:
        """Deviations of the noise on and off the diagonal, in steps over `steps`."""
        if isinstance(self.mechanism, GaussianSums):
            sds = self.mechanism.sds
            return sds[0] / self.steps, sds[min(1, len(sds) - 1)] / self.steps
        assert self.epsilon is not None
        return (math.sqrt(2) * self.multiple / float(self.epsilon),) * 2

    def draw(self, exact: Sequence[int], noise: Noise) -> list[float]:
        """The noisy triangle over `steps`."""
        return self.over((self.steps,) * len(exact), exact, noise)


@dataclass(frozen=True)
class RowProducts(MomentSums):
    """Sums of rows z of `order` whole numbers, and of the upper triangle of p p' for the rows p
    that are z cut at the norm `short`. steps: the largest l2 norm of a
    row for Gaussian noise (mu), l1 for Laplace noise (epsilon).

    Guarantees: mu-GDP or epsilon-DP for one person, for any rows: `answers` cuts them, and counts
    a row that is too long as zero.
    """

    short: int = field(kw_only=True)

    def __post_init__(self) -> None:
        if not 0 < self.short <= self.steps:
            raise ValueError("products of rows that are longer than the rows")

    @cached_property
    def mechanism(self) -> GaussianSums | JointLaplace:
        places = self.places
        if self.mu is not None:
            # replaced: the products are free; added or removed: 1 + rho^2/2 of the square of the
            # rows
            ratio = self.short / self.steps
            factor = 2.0 if self.relation == REPLACE_ONE else math.sqrt(1 + ratio**2 / 2)
            first = factor * self.steps / self.mu * ROOM_CUT
            second = math.sqrt(2) * self.short * first * ROOM
            off = second / math.sqrt(2) * ROOM
            sds = (first,) * self.order + tuple(second if i == j else off for i, j in places)
            return GaussianSums(self.name, sds, self.mu, relation=self.relation)
        assert self.epsilon is not None
        units = (self.steps,) * self.order + (self.short**2,) * len(places)
        shares = (self.multiple / ROWS,) * self.order + (self.multiple / (1 - ROWS),) * len(places)
        return JointLaplace(units, shares, self.epsilon, self.relation, self.name)

    def answers(self, rows: Sequence[Integers]) -> list[int]:
        """The exact sums over people of rows and of products of the rows cut at `short`."""
        l1 = self.mu is None
        z: Integers = np.asarray(rows)
        z = np.where(is_longer(z, self.steps, l1=l1), 0, z)
        p = self.cut(z)
        p = np.where(is_longer(p, self.short, l1=l1), 0, p)
        return [
            *(exact_sum(row) for row in z),
            *(exact_sum(p[i] * p[j]) for i, j in self.places),
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
        made = self.mechanism
        if not isinstance(made, GaussianSums):
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
        if isinstance(self.mechanism, GaussianSums):
            return self.mechanism.sds[0] / self.steps
        return float(self.mechanism.multiples[0] / self.mechanism.epsilon)

    @property
    def products_sd(self) -> float:
        """Deviation of the noise on the diagonal of the products, over `short` squared."""
        if isinstance(self.mechanism, GaussianSums):
            return self.mechanism.sds[self.order] / self.short**2
        return math.sqrt(2) * float(self.mechanism.multiples[-1] / self.mechanism.epsilon)

    def draw(self, exact: Sequence[int], noise: Noise) -> list[float]:
        """The noisy sums: rows over `steps`, products over `short` squared."""
        units = [self.steps] * self.order + [self.short**2] * (len(exact) - self.order)
        return self.over(units, exact, noise)
