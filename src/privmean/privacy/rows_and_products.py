"""The loss of noisy sums of rows together with matrices of products of the rows cut shorter.

The price of the whole follows from two radii and three deviations: it is recomputed here, exactly,
so that an accounting on which the products have too little noise costs more than it says.
docs/proofs/pooled-regression.md, section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.event_numbers import LARGEST_LOSS, refused
from privmean.privacy.privacy_events import Gaussian


@dataclass(frozen=True)
class RowsAndProducts(Gaussian, kind="discrete Gaussian on rows and their products"):
    """Discrete Gaussian noise on sums of rows of whole numbers, of l2 norm `radius` at most, and on
    the upper triangle of the sums of products of the rows cut at `short` (`radius`, if None).

    rows, products, off: deviations of the noise on the rows, on the diagonal of the products and
    off it, in steps of the answers. sensitivity, scale, answers: as for `Gaussian`, which state the
    same mu on the lattice; the larger of both counts.
    """

    radius: int
    rows: float
    products: float
    off: float
    short: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.short is not None and self.short > self.radius:
            raise refused("short", self.short, "must be a radius of at most that of the rows")

    def to_dict(self) -> dict[str, Any]:
        found = super().to_dict()
        if self.short is None:
            del found["short"]
        return found

    @property
    def mu(self) -> float:
        return max(super().mu, self.recomputed)

    @cached_property
    def recomputed(self) -> float:
        """mu from the radius and the deviations, rounded up.

        Replace-one: that of the rows alone where the variance of the products is 2 short^2 times
        theirs (twice off the diagonal) or more; else both are paid for apart, which is also the
        price of a person added or removed. Rows move by 2 radii (1), products by sqrt(2) short^2
        (1), since they are positive semidefinite.
        """
        radius, rows = Fraction(self.radius) ** 2, Fraction(self.rows) ** 2
        short = Fraction(self.short or self.radius) ** 2
        products = min(Fraction(self.products) ** 2, 2 * Fraction(self.off) ** 2)
        if self.neighbors == REPLACE_ONE:
            free = products >= 2 * short * rows
            square = 4 * radius / rows + (0 if free else 2 * short**2 / products)
        else:
            square = radius / rows + short**2 / products
        if square >= Fraction(LARGEST_LOSS) ** 2:
            return LARGEST_LOSS
        root = math.sqrt(square)
        while Fraction(root) ** 2 < square:
            root = math.nextafter(root, math.inf)
        return root
