"""Losses known by their whole curve delta(epsilon): amplified filters, and parts in parallel.

The loss of noisy sums of rows together with matrices of products of the rows cut shorter.

The price of the whole follows from two radii and three deviations: it is recomputed here, exactly,
so that an accounting on which the products have too little noise costs more than it says.
docs/proofs/pooled-regression.md, section 4.

The delta of a threshold on a sum of noisy answers: a kind of its own in an accounting.

A version of privmean that does not know the kind refuses the accounting, where a field that it
dropped would have let it check the smaller tail of one noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from privmean.bisection import bisect
from privmean.privacy.budget import (
    ADD_REMOVE,
    LARGEST_EXPONENT,
    LARGEST_LOSS,
    RELATIONS,
    REPLACE_ONE,
    Relation,
    refused,
)
from privmean.privacy.compose import total_delta
from privmean.privacy.privacy_events import (
    DeltaEvent,
    Gaussian,
    PrivacyEvent,
    PrivacyProfile,
    bounded,
)


@dataclass(frozen=True)
class FilteredMean(PrivacyProfile, kind="filtered mean"):
    """The mean of the people kept by a random filter, with its noisy count, as one part.

    `epsilon` is chosen; delta follows from the rest (see `privacy.amplification`; slip: the chance
    that the filter keeps people who are not friends). The count moves
    by `count_sensitivity` lattice steps a person, has discrete Gaussian noise of `count_scale` and
    loses `threshold` steps; the mean's noise is at least `mean_scale` steps on `answers` numbers,
    its sensitivity (rounding inside) over its scale at most `mean_mu`.
    """

    count_sensitivity: int
    count_scale: float
    threshold: int
    mean_mu: float
    mean_scale: float
    answers: int
    influence: float = 2.0
    slip: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbors not in RELATIONS:
            raise refused("neighbors", self.neighbors, "is not a neighboring relation of filters")

    @property
    def count_mu(self) -> float:
        return min(self.count_sensitivity, int(LARGEST_LOSS)) / self.count_scale

    def counted(self) -> str:
        return (
            f"who is kept (influence {self.influence:g}), the count by {self.count_sensitivity} "
            f"steps and the mean by {self.mean_mu!r} deviations, given who is kept"
        )

    def _law(self) -> Relation:
        assert self.neighbors is not None  # refused when made
        return self.neighbors

    def delta_at(self, epsilon: float) -> float:
        """delta of a noisy count, then of a mean with noise set by it, both behind the filter."""
        from privmean.privacy import amplification as behind
        from privmean.privacy.gdp import gaussian_delta

        if epsilon <= 0:
            return 1.0
        # a bound at a smaller epsilon holds at a larger one
        epsilon = min(epsilon, behind.LARGEST_EPSILON)
        slip = self.slip or 0.0
        inner = behind.inner_epsilon(epsilon, self._law(), self.influence + slip)
        lattices = (
            Gaussian("count", self.count_mu * self.count_scale, self.count_scale, 1).lattice,
            Gaussian("mean", self.mean_mu * self.mean_scale, self.mean_scale, self.answers).lattice,
        )
        left = inner - sum(item.epsilon for item in lattices) * (1 + 1e-15)
        if left <= 0:
            return 1.0
        factor = math.prod(item.factor for item in lattices) * (1 + 1e-15)
        gauss = gaussian_delta(math.hypot(self.count_mu, self.mean_mu) * (1 + 1e-15), left) * factor
        threshold = min(self.threshold, int(LARGEST_LOSS))
        delta = behind.gaussian_tail(threshold, self.count_scale) + gauss
        total = (delta + sum(item.tail for item in lattices)) * behind.delta_ratio(epsilon, inner)
        if slip:
            total += (1 + math.exp(epsilon)) * slip
        return min(1.0, total * (1 + 1e-14))

    @property
    def drawn(self) -> float:
        return self.count_scale

    def points(self) -> list[float]:
        from privmean.privacy.amplification import outer_epsilon

        mu = math.hypot(self.count_mu, self.mean_mu)
        most = min(mu * (mu / 2 + 8), LARGEST_EXPONENT)
        inner = [most * k / 160 for k in range(1, 161)]
        outer = [outer_epsilon(x, self._law(), self.influence + (self.slip or 0.0)) for x in inner]
        return [0.0, *(x for x in outer if x < LARGEST_EXPONENT)]


@dataclass(frozen=True)
class ParallelCurve(PrivacyProfile, kind="parallel curve"):
    """Mechanisms on disjoint parts of the people, fixed before any data are seen.

    Replacing a person changes one part only, and what later parts learn from earlier ones is
    post-processing, so the curve is the highest of the parts' curves. Valid for replace-one
    neighbors with parts by roster position.
    """

    parts: tuple[tuple[PrivacyEvent, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.parts:
            raise refused("parts", self.parts, "must hold the mechanisms of each part")
        if self.neighbors == ADD_REMOVE:
            raise refused("neighbors", self.neighbors, "has no fixed parts of the people")

    def delta_at(self, epsilon: float) -> float:
        return max(total_delta(part, epsilon, grid=False) for part in self.parts)

    def points(self) -> list[float]:
        most = min(4 * bounded(self.epsilon), LARGEST_EXPONENT)
        return [most * k / 160 for k in range(161)]

    @property
    def drawn(self) -> float:
        return max((x.drawn for part in self.parts for x in part), default=0.0)

    def counted(self) -> str:
        return f"one of {len(self.parts)} parts of the people"


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


LEAST, MOST = 5.0, 700.0  # noise scales between which the form of the tail is used


def three_laplace_tail(t: float) -> float:
    """P(sum of three Laplace noises of scale 1 > t), t >= 0 (docs/proofs/groups.md, section 8)."""
    return math.exp(-t) * (t * t + 5 * t + 8) / 16


def scales_needed(tail: float) -> float:
    """The least t from 5 on with `three_laplace_tail(t)` at most `tail`, rounded up."""
    low, high = LEAST, MOST
    if three_laplace_tail(low) <= tail:
        return low
    high = bisect(lambda t: three_laplace_tail(t) > tail, low, high)[1]
    return math.nextafter(high, math.inf)


@dataclass(frozen=True)
class ThresholdOfSum(DeltaEvent, kind="threshold of a sum"):
    """The chance that a key which only one neighbor has is shown: its three noisy answers, each
    with Laplace noise of `scale`, add up to `threshold` (both in people) or more.

    cells: keys of its own that a person can have, each of a weight of at most one person. `delta`
    is checked: it must be at least cells times P(1 + sum of three noises >= threshold).
    """

    delta: float
    threshold: float
    scale: Fraction
    cells: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        t = (self.threshold - 1) / float(self.scale)
        if not t >= LEAST:
            raise refused("threshold", self.threshold, "is below five scales of the noise")
        if self.cells * three_laplace_tail(min(t, MOST)) * (1 - 1e-9) > self.delta:
            raise refused("delta", self.delta, "is below the tail of the noise at the threshold")

    def counted(self) -> str:
        return f"{self.cells} of the keys, from nobody to one person each"
