"""Exact sums for a (weighted) mean of one clipped column, with a noisy weight to divide by.

Each person has a weight u in [0, 1] (1 with a value and 0 without; or min(records, C)/C) and a
value y = u z in [-u, u]. Three answers a column are released together: under replace-one the sums
of y, y^2 and u; under add-remove the sums of a(1 - b), 2ab and b(1 - a) with a = (u + y)/2 and
b = (u - y)/2, which add up to u. In both, the weight and the square come at no loss beside the sum
of y (docs/proofs/ratio.md).

Source: the capped record mean of a person-level ratio; Roth and Avella-Medina (2025), Section 5,
for equal numbers of records.
"""

from __future__ import annotations

from dataclasses import dataclass

from privmean.people.reductions import Box, BoxSums
from privmean.privacy.budget import REPLACE_ONE, Relation

Three = tuple[float, float, float]
Whole = tuple[int, int, int]


@dataclass(frozen=True)
class Answers:
    """Which three integers are released for a column, and how one person moves them.

    cap: None for the mean over persons (u is 0 or 1), or the record cap C.
    """

    relation: Relation
    cap: int | None = None

    @property
    def multiples(self) -> Whole:
        """Laplace scales times epsilon, in units: sum of |change|/multiple is at most 1."""
        if self.relation != REPLACE_ONE:
            return 1, 1, 1
        return (2, 4, 4) if self.cap is None else (2, 8, 4)

    @property
    def variances(self) -> Three:
        """Gaussian variances times mu^2, in units: sum of change^2/variance is at most 1."""
        if self.relation != REPLACE_ONE:
            return 1.0, 1.0, 1.0
        # lambda^2 = (11 + 5 sqrt 5)/8 = 2.7725..., rounded down; the count takes what is left
        return (4.0, 4 / 2.7725, 18.0) if self.cap is None else (4.0, 8 / 3, 8 / 3)

    def units(self, steps: int) -> Whole:
        """What 1 in the units above is in integer steps, for a box of `steps` steps."""
        c = 1 if self.cap is None else self.cap
        if self.relation != REPLACE_ONE:
            return ((2 * c * steps) ** 2,) * 3
        return c * steps, (c * steps) ** 2, c

    def integers(self, box: Box, sums: BoxSums) -> Whole:
        """The exact answers from the sums of one box."""
        if self.relation == REPLACE_ONE:
            return sums.wz, sums.wwzz, sums.w
        c = 1 if self.cap is None else self.cap
        k = box.steps
        high, low = k * sums.w + sums.wz, k * sums.w - sums.wz
        product = k * k * sums.ww - sums.wwzz
        most = 2 * c * k
        return most * high - product, 2 * product, most * low - product
