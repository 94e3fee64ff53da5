"""The scale of a column from public pairs of persons: one noisy dyadic histogram, no center."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean import validate
from privmean.array_types import Integers
from privmean.data.person_table import PersonTable
from privmean.errors import ArgumentError
from privmean.mechanisms.curator import differences, gaussian_share, laplace_share
from privmean.mechanisms.row_sums import lattice_bits, root_above
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Gaussian, Laplace

WIDEST = 400  # exponents; radii and bins of them stay far inside the doubles


@dataclass(frozen=True)
class DyadicBins:
    """Bins 2^(k-1) < s <= 2^k for k from low to high; everything else falls into the end bins."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not -WIDEST <= self.low < self.high <= WIDEST:
            raise ArgumentError(
                "bins",
                (self.low, self.high),
                "must be a range of exponents",
                "put the lower number first",
            )

    @classmethod
    def around(cls, smallest: float, largest: float) -> DyadicBins:
        """Two bins of room on either side of the public range of scales."""
        small, large = (
            validate.positive("smallest", smallest),
            validate.positive("largest", largest),
        )
        if small > large:
            raise ArgumentError(
                "smallest", smallest, "must be below the largest", "give the smallest first"
            )
        return cls(math.floor(math.log2(small)) - 2, math.ceil(math.log2(large)) + 2)

    @property
    def number(self) -> int:
        return self.high - self.low + 1

    @property
    def smallest(self) -> float:
        """The smallest scale that can be found."""
        return math.ldexp(1.0, self.low)


@dataclass(frozen=True)
class PairScale:
    """The modal dyadic bin of |difference|/sqrt(2) over public pairs, by noise on ALL bins.

    Exactly one of `scale` (Laplace) and `sd` (Gaussian, in people, for `columns` columns at once)
    is given. For Gaussian data of deviation sigma the modal bin's upper edge lies between 0.93
    sigma and 1.86 sigma. A bulk scale: it says nothing about tails.

    Guarantees: a replaced person moves one pair, so one count falls and one rises: (2/scale)-DP,
    or mu-GDP with mu = sqrt(2 columns)/sd. Pairs are fixed by the roster, so the relation is
    replace-one only (docs/proofs/pair-scale.md).
    """

    name: str
    bins: DyadicBins
    scale: Fraction | None = None
    sd: float | None = None
    columns: int = 1

    @classmethod
    def of(cls, epsilon: Fraction, bins: DyadicBins, name: str = "pair scale") -> PairScale:
        return cls(name, bins, scale=2 / epsilon)

    @classmethod
    def gaussian(
        cls, mu: float, bins: DyadicBins, columns: int, name: str = "pair scale"
    ) -> PairScale:
        return cls(name, bins, sd=math.sqrt(2 * columns) / mu * (1 + 1e-15), columns=columns)

    @property
    def events(self) -> tuple[Laplace | Gaussian, ...]:
        if self.scale is not None:
            return (
                Laplace(self.name, Fraction(2), self.scale, cells_changed=2, neighbors=REPLACE_ONE),
            )
        assert self.sd is not None
        bits = lattice_bits(self.sd)
        sensitivity = math.ldexp(root_above(2 * self.columns), bits)
        return (
            Gaussian(
                self.name,
                sensitivity,
                math.ldexp(self.sd, bits),
                2 * self.columns,
                neighbors=REPLACE_ONE,
            ),
        )

    def exact(self, people: PersonTable, column: int) -> Integers:
        """Public pairs of people per bin."""
        return people.pair_counts(column, self.bins.low, self.bins.high)

    def sensitivity_share(self, exact: Integers, other: Integers) -> tuple[Fraction, ...]:
        changes, loss = differences(exact, other), self.events[0]
        if isinstance(loss, Laplace):
            return (laplace_share(changes, loss),)
        assert self.sd is not None
        bits = lattice_bits(self.sd)
        sd = math.ldexp(self.sd, bits)
        return (gaussian_share([(item << bits, sd) for item in changes], loss),)

    def draw(self, exact: Integers, noise: Noise) -> float:
        """The upper edge 2^k of the bin with the largest noisy count (smallest k among ties)."""
        if self.scale is not None:
            noisy = exact + noise.laplace(len(exact), self.scale)
        else:
            assert self.sd is not None
            bits = lattice_bits(self.sd)
            noisy = (exact << bits) + noise.gaussian(len(exact), math.ldexp(self.sd, bits))
        return math.ldexp(1.0, self.bins.low + int(np.argmax(noisy)))
