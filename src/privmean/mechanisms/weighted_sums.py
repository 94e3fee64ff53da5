"""Noisy sums of rows with weights.

Clip-and-noise (`JointSums`): a clipped vector sum and the sum of weights, released together. A
person with m records (m may be private, 0..M) adds w(m) clip(row - center, r(m)) to the sum and
w(m) to the weights, with public w and r; without weights, w = 1 for everybody with a value. The
ratio of the two noisy sums estimates the mean minus the center, so people without records do not
pull it to the center and nothing divides by a private number. The largest change is taken over all
pairs of record numbers, on the integer lattice (docs/proofs/heavy-tails-weights.md). Source:
Agarwal et al. (2024), Algorithm 2, for the clipped sum.

Public weights (`WeightedSums`): several sums of one clipped column. A unit i with clipped value z_i
in [-1, 1] adds w_ij z_i to sum j. Whoever has weight in few of the sums pays for few of them: the
noise is set by the unit whose weights add up to most (docs/proofs/longitudinal.md, section 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.data.array_kernels import big_sum
from privmean.data.grids import GRID_BITS
from privmean.data.person_table import ClipInterval, L2Ball
from privmean.mechanisms.curator import differences, pure_share
from privmean.mechanisms.noisy_vector import (
    GaussianVector,
    LaplaceVector,
    VectorSums,
    k_norm,
    norm_above,
    proposal_scale,
    require_drawn,
    require_loss,
)
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Laplace, PrivacyEvent, Pure

Law = Literal["laplace", "k-norm", "gaussian"]
BALL_BITS = 24  # lattice steps from the center to the edge of the widest ball: 2^24 to 2^25
WEIGHT_BITS = 20  # weights are integers in units of 2^-20
UNIT = 1 << WEIGHT_BITS
EXTRA = Fraction(1, 20)  # share of the budget for the weights where they are not free


@dataclass(frozen=True)
class JointSums:
    """One planned joint release.

    weights: w(0..M) in units of 2^-20, w(0) = 0; radii: r(0..M); strength: mu (Gaussian law) or
    epsilon (pure laws).

    **Guarantees.** mu-GDP or epsilon-DP for one person, values and number of records, any data, any
    center that is public or already released.
    """

    name: str
    law: Law
    dimension: int
    weights: tuple[int, ...]
    radii: tuple[float, ...]
    strength: float | Fraction
    relation: Relation

    def __post_init__(self) -> None:
        require_loss(self.name, self.strength)

    @cached_property
    def step(self) -> float:
        """Lattice step of the weighted rows: the power of two from 2^-25 to 2^-24 of the widest."""
        widest = max(w / UNIT * r for w, r in zip(self.weights, self.radii, strict=True))
        _, exponent = math.frexp(widest)
        return math.ldexp(1.0, exponent - 1 - BALL_BITS)

    def ball(self, center: Sequence[float], m: int) -> L2Ball:
        """The clipping ball of people with m records, on the lattice of w(m) times the row."""
        return L2Ball(tuple(center), self.radii[m], self.step * UNIT / self.weights[m])

    @cached_property
    def reach(self) -> tuple[int, ...]:
        """Largest integer norm of a weighted row, for m = 0..M."""
        return tuple(self.ball((), m).steps if w else 0 for m, w in enumerate(self.weights))

    @cached_property
    def changes(self) -> tuple[tuple[int, int], ...]:
        """(l2 change of the sum, change of the weights) over all neighbors.

        Only pairs that no other pair exceeds in both are kept: every bound grows with both.
        """
        values = sorted({(0, 0)} | set(zip(self.reach, self.weights, strict=True)))
        reach, weights = (np.array(item, dtype=np.int64) for item in zip(*values, strict=True))
        if self.relation == REPLACE_ONE:
            i, j = np.triu_indices(len(values))
            reach, weights = reach[i] + reach[j], np.abs(weights[i] - weights[j])
        order = np.lexsort((-reach, -weights))
        reach, weights = reach[order], weights[order]
        largest = np.maximum.accumulate(reach)
        kept = np.concatenate([[True], largest[1:] > largest[:-1]])
        return tuple(zip(reach[kept].tolist(), weights[kept].tolist(), strict=True))

    @property
    def widest(self) -> int:
        """Largest change of the sum alone."""
        return max(a for a, _ in self.changes)

    @property
    def free(self) -> bool:
        """Whether the weights come without any loss beside the sum."""
        return all(2 * a <= self.widest for a, w in self.changes if w)

    # --- Gaussian ---------------------------------------------------------------------------------
    @cached_property
    def gaussian(self) -> GaussianVector:
        """Noise for (sum, weights), the weights scaled to the lattice of the sum."""
        top = self.widest
        free = min(math.sqrt(top * top - a * a) / w for a, w in self.changes if w)
        ratio = max(free, math.sqrt(float(EXTRA)) * top / UNIT)
        change = math.sqrt(max(a * a + (ratio * w) ** 2 for a, w in self.changes))
        deviation = change * (1 + 1e-12) / float(self.strength)
        sds = (deviation,) * self.dimension + (deviation / ratio,)
        units = (1,) * len(sds)
        return GaussianVector(self.name, units, sds, float(self.strength), self.relation)

    # --- pure -------------------------------------------------------------------------------------
    @cached_property
    def pure_scales(self) -> tuple[Fraction, Fraction]:
        """Scales (b, c) with a/b + w/c <= epsilon for every change (a, w)."""
        epsilon, top = Fraction(self.strength), Fraction(self.widest)
        pairs = [(a, w) for a, w in self.changes if w]
        main = epsilon if self.free else (1 - EXTRA) * epsilon
        return top / main, max(w / (epsilon - a / top * main) for a, w in pairs)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        if self.law == "gaussian":
            return self.gaussian.events
        require_drawn(self.name, self.coordinate_scale)
        return (
            Pure(
                self.name,
                Fraction(self.strength),
                neighbors=self.relation,
                sensitivity_text=f"the sum of rows, by {self.widest} steps at most (l2), "
                "and the weights",
            ),
        )

    @property
    def coordinate_scale(self) -> Fraction:
        """Laplace scale of the coordinates that are drawn (for the K-norm law: of proposals)."""
        main, _ = self.pure_scales
        if self.law == "k-norm":
            return proposal_scale(main, self.dimension)
        # independent Laplace: l1 <= sqrt(d) l2, the root rounded up on 2^-40
        return Fraction(math.isqrt(self.dimension * 4**40) + 1, 2**40) * main

    @property
    def scales(self) -> tuple[float, float]:
        """Scales of the noise of the sum (units of the values) and of the weights."""
        if self.law == "gaussian":
            return self.gaussian.sds[0] * self.step, self.gaussian.sds[-1] / UNIT
        main, side = self.pure_scales
        factor = math.sqrt(self.dimension) if self.law == "laplace" else 1.0
        return float(main) * factor * self.step, float(side) / UNIT

    def sensitivity_share(
        self, exact: tuple[Sequence[int], int], other: tuple[Sequence[int], int]
    ) -> tuple[Fraction, ...]:
        if self.law == "gaussian":
            return self.gaussian.sensitivity_share((*exact[0], exact[1]), (*other[0], other[1]))
        main, side = self.pure_scales
        changes = differences(exact[0], other[0])
        if self.law == "k-norm":
            cost = norm_above(changes) / main
        else:
            cost = sum(map(abs, changes)) / self.coordinate_scale
        return (pure_share(cost + abs(exact[1] - other[1]) / side, self.events[0]),)

    def draw(self, exact: tuple[Sequence[int], int], noise: Noise) -> tuple[Floats, float]:
        """The noisy sum of w (row - center) and the noisy sum of weights, from the exact ones."""
        total, weight = exact
        if self.law == "gaussian":
            noisy: Floats = np.array(self.gaussian.draw((*total, weight), noise))
            return self.step * noisy[:-1], float(noisy[-1]) / UNIT
        main, side = self.pure_scales
        if self.law == "k-norm":
            drawn = k_norm(noise, self.dimension, main)
        else:
            drawn = noise.laplace(self.dimension, self.coordinate_scale)
        counted = weight + noise.laplace(1, side).tolist()[0]
        values = np.array([float(a + b) for a, b in zip(total, drawn.tolist(), strict=True)])
        return self.step * values, counted / UNIT


@dataclass(frozen=True)
class WeightSum(VectorSums[int]):
    """The sum of weights alone, released before the first of several rounds.

    strength: mu (Gaussian law) or epsilon. One person moves the sum by at most one unit (2^20).
    """

    law: Law
    strength: float | Fraction
    relation: Relation

    def __post_init__(self) -> None:
        require_loss("sum of weights", self.strength)

    @property
    def vector(self) -> GaussianVector | LaplaceVector:
        name, units = "sum of weights", (UNIT,)
        if self.law == "gaussian":
            mu = float(self.strength)
            return GaussianVector(name, units, (UNIT / mu * (1 + 1e-15),), mu, self.relation)
        return LaplaceVector(units, (1,), Fraction(self.strength), self.relation, name)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        if self.law == "gaussian":
            return self.vector.events
        require_drawn("sum of weights", UNIT / Fraction(self.strength))
        return (
            Pure(
                "sum of weights",
                Fraction(self.strength),
                neighbors=self.relation,
                sensitivity_text="the sum of weights, by one person's weight",
            ),
        )

    @property
    def scale(self) -> float:
        return 1 / float(self.strength)

    def answers(self, exact: int) -> tuple[int]:
        return (exact,)

    def draw(self, exact: int, noise: Noise) -> float:
        return self.noisy(exact, noise)[0]


SQUARE = 2.7725  # as in ratio.md: what the square may cost beside the value


@dataclass(frozen=True)
class PointSum:
    """Noisy weighted means of z and of z^2 at one point, with the scales of their noise."""

    value: float
    square: float
    value_noise: float
    square_noise: float


@dataclass(frozen=True, eq=False)
class WeightedSums(VectorSums[Sequence[int]]):
    """weights: whole numbers from 0 to 2^20, shape (units, points); box: public limits of the
    values. Exactly one of `epsilon` (Laplace) and `mu` (Gaussian) is given.

    Guarantees: epsilon-DP or mu-GDP for one unit, replace-one, for any values and any box.
    """

    name: str
    weights: Integers
    box: ClipInterval
    epsilon: Fraction | None = None
    mu: float | None = None

    def __post_init__(self) -> None:
        loss = self.mu if self.epsilon is None else self.epsilon
        assert loss is not None
        require_loss(self.name, loss)

    @property
    def reach(self) -> int:
        """What one unit's weights add up to, at most (for Gaussian noise their squares)."""
        w = self.weights if self.epsilon is not None else self.weights**2
        return int(w.sum(axis=1).max())

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        if self.epsilon is not None:
            moved = Fraction(2 * self.reach << GRID_BITS)
            return (
                Laplace(self.name, moved, moved / self.epsilon, joint=True, neighbors=REPLACE_ONE),
            )
        return self.gaussian(1 << GRID_BITS).events

    @property
    def noise(self) -> tuple[float, float]:
        """Laplace scales, or deviations, of the two sums in units of one step of weight."""
        if self.epsilon is not None:
            return 2 * self.reach / float(self.epsilon), 4 * self.reach / float(self.epsilon)
        assert self.mu is not None
        sd = math.sqrt(self.reach) / self.mu * (1 + 1e-12)
        return 2 * sd, 2 * sd / math.sqrt(SQUARE)

    def gaussian(self, steps: int) -> GaussianVector:
        """The Gaussian mechanism of all sums, of values in so many steps."""
        assert self.mu is not None
        first, second = self.noise
        sds = (steps * first, steps**2 * second) * self.weights.shape[1]
        return GaussianVector(self.name, self.units(steps), sds, self.mu, REPLACE_ONE)

    def units(self, steps: int) -> tuple[int, ...]:
        """Of z and of z^2, for every point."""
        return (steps, steps**2) * int(self.weights.shape[1])

    @property
    def vector(self) -> LaplaceVector | GaussianVector:
        if self.epsilon is None:
            return self.gaussian(self.box.steps)
        multiples = (2 * self.reach, 4 * self.reach) * self.weights.shape[1]
        return LaplaceVector(self.units(self.box.steps), multiples, self.epsilon, REPLACE_ONE)

    def exact(self, values: Floats) -> list[int]:
        """values: shape (units,); a missing value counts as the middle of the box."""
        z = grid_values(values, self.box)
        found = []
        for column in self.weights.T:
            found += [big_sum(column * z), big_sum(column * (z * z))]
        return found

    def draw(self, exact: Sequence[int], noise: Noise) -> list[PointSum]:
        read = self.noisy(exact, noise)
        totals = self.weights.sum(axis=0)
        return [
            PointSum(*(float(x / total) for x in (*read[2 * j : 2 * j + 2], *self.noise)))
            for j, total in enumerate(totals.tolist())
        ]


def whole_weights(raw: Floats) -> Integers:
    """Public weights, shape (units, points), as whole numbers: 2^20 for the largest of a point."""
    top = raw.max(axis=0, keepdims=True)
    result: Integers = np.floor(raw / top * (1 << WEIGHT_BITS)).astype(np.int64)
    return result


def grid_values(values: Floats, box: ClipInterval) -> Integers:
    """z of every value as `Box` defines it; 0 for a missing one."""
    with np.errstate(all="ignore"):
        inside = np.clip(values, box.lower, box.upper)
        z = np.floor((inside - box.middle) / box.step + 0.5)
    result: Integers = np.where(np.isnan(z), 0.0, np.clip(z, -box.steps, box.steps)).astype(
        np.int64
    )
    return result
