"""The last stage of a clipped mean: sums of values, squares and persons, in one release.

For one column, z = (clip(x) - middle)/radius in [-1, 1] (0 for a null). Beside the sum of z, the
sum of squares and the number of persons with a value cost nothing (docs/proofs/winsorized.md,
section 3): the variance for an interval, and the share of nulls, come free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from privmean.mechanisms.gaussian import GaussianSums
from privmean.mechanisms.laplace import JointLaplace
from privmean.noise.base import Noise
from privmean.people.reductions import GRID_BITS, Box, BoxSums
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.loss import Laplace, Loss

SQUARE_GAIN = (
    11 + 5 * math.sqrt(5)
) / 8  # lambda^2: how much finer a free square may be (Gaussian)
COUNT_COST = 18.0  # at least 1/(1 - (1 + lambda^2)/4): variance of a free count (Gaussian)

Three = tuple[float, float, float]


@dataclass(frozen=True)
class ColumnSums:
    """Noisy sums of one column in units of z: sum of z, of z^2, and persons with a value.

    scales: of their noise, in the same order (Laplace scales, or standard deviations if
    `gaussian`; under add-remove standard deviations of combinations of cells). Under add-remove
    `cells` are the noisy sums of a^2, 2a(1-a), (1-a)^2 with a = (1 + z)/2, each with noise of
    Laplace scale or deviation `cell_scale`; value, square and count are combinations of them.
    """

    value: float
    square: float
    count: float
    scales: Three
    gaussian: bool
    cells: Three | None = None
    cell_scale: float = 0.0


@dataclass(frozen=True)
class ClippedSums:
    """Clipped sums of some columns at Laplace loss `epsilon` a column, or Gaussian loss `mu` for
    all `columns` together. The boxes may come from earlier private outputs.

    Guarantees: (columns * epsilon)-DP or mu-GDP, for any data and any boxes.
    """

    name: str
    relation: Relation
    columns: int = 1
    epsilon: Fraction | None = None
    mu: float | None = None

    @property
    def losses(self) -> tuple[Loss, ...]:
        if self.epsilon is not None:
            steps = 1 << GRID_BITS
            moved = Fraction(2 * steps if self.relation == REPLACE_ONE else 4 * steps**2)
            one = Laplace(self.name, moved, moved / self.epsilon)
            return (one,) * self.columns
        return self._gaussian((1 << GRID_BITS,) * self.columns).losses

    @property
    def multiples(self) -> tuple[int, int, int]:
        """Laplace scales times epsilon of the three answers, in units."""
        return (2, 4, 4) if self.relation == REPLACE_ONE else (1, 1, 1)

    @property
    def scales(self) -> Three:
        """Laplace scales, or deviations, of the three answers in units."""
        if self.epsilon is not None:
            first, second, third = (multiple / float(self.epsilon) for multiple in self.multiples)
            return first, second, third
        assert self.mu is not None
        sd = math.sqrt(self.columns) / self.mu * (1 + 1e-12)
        if self.relation == REPLACE_ONE:
            return 2 * sd, 2 * sd / math.sqrt(SQUARE_GAIN), sd * math.sqrt(COUNT_COST)
        return sd, sd, sd

    @property
    def value_sd(self) -> float:
        """Standard deviation of the noise in the sum of z."""
        sd = self.scales[0] * (1.0 if self.epsilon is None else math.sqrt(2))
        return sd if self.relation == REPLACE_ONE else sd * math.sqrt(2)

    def release(
        self, boxes: Sequence[Box], sums: Sequence[BoxSums], noise: Noise
    ) -> list[ColumnSums]:
        """The noisy sums of every column."""
        if len(boxes) != self.columns or len(sums) != self.columns:
            raise ValueError("one box and one sum a column")
        if self.relation == REPLACE_ONE:
            answers = [(s.z, s.zz, s.present) for s in sums]
        else:
            answers = [cells(box, s) for box, s in zip(boxes, sums, strict=True)]
        steps = [box.steps for box in boxes]
        if self.epsilon is None:
            noisy = self._with_gaussian(steps, answers, noise)
        else:
            noisy = [
                _three(JointLaplace(self._units(k), self.multiples, self.epsilon).release(a, noise))
                for k, a in zip(steps, answers, strict=True)
            ]
        return [self._read(item) for item in noisy]

    def _units(self, steps: int) -> tuple[int, int, int]:
        """What one unit of each answer is in its own integer steps."""
        if self.relation == REPLACE_ONE:
            return steps, steps * steps, 1
        return (4 * steps * steps,) * 3

    def _gaussian(self, steps: Sequence[int]) -> GaussianSums:
        assert self.mu is not None
        sds = tuple(
            unit * scale
            for k in steps
            for unit, scale in zip(self._units(k), self.scales, strict=True)
        )
        return GaussianSums(self.name, sds, self.mu)

    def _with_gaussian(
        self, steps: Sequence[int], answers: Sequence[tuple[int, int, int]], noise: Noise
    ) -> list[Three]:
        mechanism = self._gaussian(steps)
        noisy = mechanism.release([answer for column in answers for answer in column], noise)
        units = [unit for k in steps for unit in self._units(k)]
        read = [
            float(Fraction(x, unit << bits))
            for x, unit, bits in zip(noisy, units, mechanism.bits, strict=True)
        ]
        return [_three(read[i : i + 3]) for i in range(0, len(read), 3)]

    def _read(self, noisy: Three) -> ColumnSums:
        scales, gaussian = self.scales, self.epsilon is None
        if self.relation == REPLACE_ONE:
            value, square, count = noisy
            return ColumnSums(value, square, count, scales, gaussian)
        high, middle, low = noisy
        sd = scales[0] * (1.0 if gaussian else math.sqrt(2))
        combined = sd * math.sqrt(2), sd * math.sqrt(3), sd * math.sqrt(3)
        value, square, count = high - low, high + low - middle, high + middle + low
        return ColumnSums(value, square, count, combined, gaussian, noisy, scales[0])


def cells(box: Box, sums: BoxSums) -> tuple[int, int, int]:
    """Sums of Z^2, 2Z(2K - Z) and (2K - Z)^2 over persons with a value, Z = z + K in 0..2K.

    For one person they add up to (2K)^2 exactly, so one person added or removed moves the three
    together by exactly that much.
    """
    k, n, z, zz = box.steps, sums.present, sums.z, sums.zz
    high = zz + 2 * k * z + k * k * n
    low = zz - 2 * k * z + k * k * n
    return high, 4 * k * k * n - high - low, low


def _three(items: Sequence[float]) -> Three:
    first, second, third = items
    return first, second, third
