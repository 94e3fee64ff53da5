"""Noisy sums of powers, of positive semidefinite matrices, and of rows with their products.

Powers: sums over people of 1, a, a^2 and a^4 for values a in [-1, 1]. Each entry is bounded by
itself, so that no relation between the entries is relied upon after they were made whole numbers
(docs/proofs/variance.md, section 5).

Matrices: for PSD ones tr(Z Z') >= 0, so that one person replaced moves a sum by sqrt(2) radii and
not by two. For rows z in a ball, and products p p' of the rows cut at a shorter rho, Gaussian noise
of deviation s on z and of sqrt(2) rho s on p p' (Frobenius) costs no more together than on z alone
(docs/proofs/pooled-regression.md, sections 3 and 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.mechanisms.noisy_vector import GaussianVector, LaplaceVector, VectorSums
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.privacy.profile_events import RowsAndProducts

STEPS = 1 << 30  # whole numbers that stand for 1
MULTIPLES = (Fraction(8), Fraction(8), Fraction(8, 5), Fraction(8))  # Laplace scales over 1/epsilon
PARTS = (0.10, 0.05, 0.70, 0.10)  # of mu^2: what a change of 1 in each entry costs


@dataclass(frozen=True)
class PowerSums(VectorSums):
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
class MomentSums(VectorSums):
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
