"""Exact sums for a (weighted) mean of one clipped column, with a noisy weight to divide by.

Each person has a weight u in [0, 1] (1 with a value and 0 without; or min(records, C)/C) and a
value y = u z in [-u, u]. Three answers a column are released together: under replace-one the sums
of y, y^2 and u; under add-remove the sums of a(1 - b), 2ab and b(1 - a) with a = (u + y)/2 and
b = (u - y)/2, which add up to u. In both, the weight and the square come at no loss beside the sum
of y (docs/proofs/ratio.md). A fourth answer can tell how much lies beyond the limits
(docs/proofs/intervals.md, section 2).

Source: the capped record mean of a person-level ratio; Roth and Avella-Medina (2025), Section 5,
for equal numbers of records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from privmean.data.person_table import ClipInterval, IntervalSums
from privmean.privacy.budget import REPLACE_ONE, Relation

Three = tuple[float, float, float]
Whole = tuple[int, ...]
LAMBDA = math.sqrt(2.7725)  # below sqrt((11 + 5 sqrt 5)/8): Gaussian noise of the free square
# with `cross`: multiples of y, y^2, u, u y and u^2; of the three cells, a^2 and b^2
CROSS = tuple(map(Fraction, ("5/2", "20", "5/2", "10", "20")))
CROSS_CELLS = tuple(map(Fraction, ("10/9", "1", "10/9", "10", "10")))
RHO = Fraction(7, 10)  # noise of the tail share, in scales of the value's noise; at most 1


@dataclass(frozen=True)
class Answers:
    """Which integers are released for a column, and how one person moves them.

    max_records: None for the mean over people (u is 0 or 1), or the record cap C. jumps: p+ and p-,
    what a person beyond the upper or lower limit adds to |y| and to the tail share, in units of the
    radius (replace-one); (0, 0) releases no tail share. absent: the z of a person without a value,
    who has the square 1 and u = 0, for the mean over people under replace-one: the farther from 0,
    the noisier the sum of u (None: z and square are 0, and the sum of u is noisier still). cross:
    release the sums of u y and u^2 too (under add-remove those of a^2 and b^2), for the variance of
    a ratio, at a quarter (a ninth) more noise of the sum of y, and less of u.
    """

    relation: Relation
    max_records: int | None = None
    jumps: tuple[float, float] = (0.0, 0.0)
    cross: bool = False
    absent: Fraction | None = None

    def __post_init__(self) -> None:
        tail = max(self.jumps) > 0
        if self.absent is not None:
            if self.max_records is not None or self.relation != REPLACE_ONE or tail or self.cross:
                raise ValueError("people without a value stand at 0 unless all count alike")
            if abs(self.absent) >= 1:
                raise ValueError("people without a value stand inside of the limits")
        if tail and (self.max_records is not None or self.cross or self.relation != REPLACE_ONE):
            raise ValueError("a tail share is told for the mean over people, under replace-one")

    @property
    def multiples(self) -> Whole:
        """Laplace scales times epsilon, in units: sum of |change|/multiple is at most 1."""
        if self.relation != REPLACE_ONE:
            return 1, 1, 1
        return (2, 4, 4) if self.max_records is None else (2, 8, 4)

    def multiples_at(self, steps: int) -> tuple[Fraction, ...]:
        """`multiples` for a box of `steps` steps: with a tail share they depend on its rounding."""
        if self.cross:
            return CROSS if self.relation == REPLACE_ONE else CROSS_CELLS
        first, second, third = (Fraction(item) for item in self.multiples)
        if self.absent is not None:
            third = 2 / (1 - abs(self.absent))
        jump = max(self._jump_steps(steps))
        if not jump:
            return first, second, third
        value = 2 + Fraction(jump, steps) * (1 + 1 / RHO)
        return value, 2 * value, third / 2 * value, RHO * value

    def _jump_steps(self, steps: int) -> tuple[int, int]:
        up, down = (math.ceil(steps * Fraction(item)) for item in self.jumps)
        return up, down

    @property
    def variances(self) -> Three:
        """Gaussian variances times mu^2, in units: sum of change^2/variance is at most 1."""
        if self.relation != REPLACE_ONE:
            return 1.0, 1.0, 1.0
        # the count takes what the square leaves
        return (4.0, 4 / LAMBDA**2, 18.0) if self.max_records is None else (4.0, 8 / 3, 8 / 3)

    def units(self, steps: int) -> Whole:
        """What 1 in the units above is in integer steps, for a box of `steps` steps."""
        c = 1 if self.max_records is None else self.max_records
        more: Whole = (steps,) if max(self.jumps) > 0 else ()
        if self.relation != REPLACE_ONE:
            return *((2 * c * steps) ** 2,) * (5 if self.cross else 3), *more
        if self.cross:
            more = c * c * steps, c * c
        return c * steps, (c * steps) ** 2, c, *more

    def integers(self, box: ClipInterval, sums: IntervalSums, nulls: int = 0) -> Whole:
        """The exact answers from the sums of one box; nulls: the number of people without a value,
        where they stand at `absent`."""
        more: Whole = ()
        if self.relation == REPLACE_ONE:
            if self.absent is not None:
                step = self.absent * box.steps
                assert step.denominator == 1
                z = sums.wz + int(step) * nulls
                return z, sums.wwzz + box.steps**2 * nulls, sums.w
            if self.cross:
                more = sums.wwz, sums.ww
            if max(self.jumps) == 0:
                return sums.wz, sums.wwzz, sums.w, *more
            up, down = self._jump_steps(box.steps)
            above, below = up * sums.above, down * sums.below
            return sums.wz + above - below, sums.wwzz, sums.w, above + below
        c = 1 if self.max_records is None else self.max_records
        k = box.steps
        high, low = k * sums.w + sums.wz, k * sums.w - sums.wz
        product = k * k * sums.ww - sums.wwzz
        most = 2 * c * k
        if self.cross:
            ends = k * k * sums.ww + sums.wwzz
            more = ends + 2 * k * sums.wwz, ends - 2 * k * sums.wwz
        return most * high - product, 2 * product, most * low - product, *more
