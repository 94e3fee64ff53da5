"""Histograms: bins of which only likely ones are shown, or the fullest alone.

The stable histogram: noisy counts of occupied bins of a public infinite family, shown only above an
exact threshold. `LocationSearch` shows where its fullest bin is. `PairScale` finds the scale of a
column from one noisy histogram of the differences of public pairs of people.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from privmean import validate
from privmean.array_types import Integers
from privmean.data.person_table import PersonTable
from privmean.errors import ArgumentError
from privmean.mechanisms.curator import differences, laplace_share
from privmean.mechanisms.noisy_counts import (
    FineColumns,
    FineCounts,
    NoisyCounts,
    moved_counts,
)
from privmean.noise.exact_arithmetic import plain_context
from privmean.noise.noise_source import Noise, double_above
from privmean.privacy.amplification import gaussian_tail
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyEvent, Threshold

DIGITS = 60


@lru_cache(maxsize=1024)
def laplace_tail(steps: int, scale: Fraction) -> Fraction:
    """An upper bound on P(noise >= steps), steps >= 0, within a relative 1e-50 of exact.

    For discrete Laplace noise of the scale that is really drawn (the next double above `scale`) it
    is a^steps/(1 + a) with a = exp(-1/scale); rounded outward in 60-digit decimals.
    """
    used = Fraction(double_above(scale))
    with localcontext(plain_context(DIGITS)) as context:
        context.rounding = ROUND_CEILING
        exponent = -Decimal(steps * used.denominator) / Decimal(used.numerator)
        top = exponent.exp().next_plus()
        context.rounding = ROUND_FLOOR
        a = (-Decimal(used.denominator) / Decimal(used.numerator)).exp().next_minus()
        bottom = Decimal(1) + a
        context.rounding = ROUND_CEILING
        return Fraction(top / bottom)


@lru_cache(maxsize=1024)
def laplace_threshold(scale: Fraction, delta: float) -> int:
    """The smallest integer t with P(1 + noise >= t) <= delta: a bin of one person stays hidden.

    The closed form t = 1 + ceil(scale ln(1/(delta (1 + a)))) starts the search; the condition is
    then checked with `laplace_tail`, so that floating point cannot lower it.
    """
    a = math.exp(-1 / float(scale))
    start = math.ceil(float(scale) * math.log(1 / (delta * (1 + a))))
    steps = max(0, start - 1)
    while laplace_tail(steps, scale) > Fraction(delta):
        steps += 1
    return 1 + steps


class ShownBins:
    """Noisy counts of the occupied bins of one column, of which those of a threshold are shown.

    columns: with how many columns the threshold's delta is shared.
    """

    columns: int

    @property
    def threshold(self) -> int:
        raise NotImplementedError

    def _share(self, changes: list[int]) -> Fraction:
        raise NotImplementedError

    def _noisy(self, counts: list[int], noise: Noise) -> Sequence[int]:
        raise NotImplementedError

    def sensitivity_share(
        self, exact: Mapping[int, int], other: Mapping[int, int]
    ) -> tuple[Fraction, ...]:
        """What counts cost, and what delta is for: bins that only one of two neighbors occupies,
        one person and one bin a column in either of them."""
        changes = [exact.get(index, 0) - other.get(index, 0) for index in {*exact, *other}]
        alone = [0, 0]  # a bin of more people would need a higher threshold
        for side, (own, others) in enumerate(((exact, other), (other, exact))):
            alone[side] = sum(n for index, n in own.items() if not others.get(index, 0))
        return self._share(changes), Fraction(max(alone), self.columns)

    def kept(self, exact: Mapping[int, int], noise: Noise) -> dict[int, int]:
        """The kept noisy counts by bin index, in the order of the indices."""
        occupied = sorted(index for index, count in exact.items() if count > 0)
        counts = [int(exact[index]) for index in occupied]
        noisy = self._noisy(counts, noise) if occupied else ()
        pairs = zip(occupied, noisy, strict=True)
        return {index: count for index, count in pairs if count >= self.threshold}


@dataclass(frozen=True)
class StableHistogram(ShownBins):
    """Laplace counts of the occupied bins of one column, kept if at least `threshold`.

    scale: Laplace scale of each count; delta: the chance that a bin is shown that only one of two
    neighbors occupies. Bins are a public infinite family; empty ones are never looked at. hidden:
    what follows the name in the threshold's line.

    Guarantees: one person replaced: two Laplace answers of sensitivity 1 and scale `scale`, so
    (2/scale, delta)-DP; one person added or removed: one such answer. No assumption on the data
    (docs/proofs/stable-histogram.md).
    """

    name: str
    scale: Fraction
    delta: float
    relation: Relation
    columns: ClassVar[int] = 1  # type: ignore[misc]
    hidden: ClassVar[str] = " threshold"

    @classmethod
    def of(
        cls, epsilon: Fraction, delta: float, relation: Relation, name: str = "histogram"
    ) -> StableHistogram:
        return cls(name, moved_counts(relation) / epsilon, delta, relation)

    @property
    def threshold(self) -> int:
        return laplace_threshold(self.scale, self.delta)

    @property
    def counted(self) -> Laplace:
        moved = moved_counts(self.relation)
        return Laplace(
            self.name, Fraction(moved), self.scale, cells_changed=moved, neighbors=self.relation
        )

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        cut = Threshold(
            f"{self.name}{self.hidden}", self.delta, float(self.threshold), scale=self.scale,
            neighbors=self.relation,
        )  # fmt: skip
        return self.counted, cut

    def _share(self, changes: list[int]) -> Fraction:
        return laplace_share(changes, self.counted)

    def _noisy(self, counts: list[int], noise: Noise) -> list[int]:
        draws = noise.laplace(len(counts), self.scale).tolist()
        return [count + draw for count, draw in zip(counts, draws, strict=True)]

    draw = ShownBins.kept


@dataclass(frozen=True)
class GaussianStableHistogram(FineColumns, ShownBins):
    """The same with Gaussian counts, for `columns` columns at once.

    delta: for all columns together.

    Guarantees: those of `FineColumns`, and delta on top. Counts live on a lattice of 2^bits steps a
    person (docs/proofs/stable-histogram.md, docs/proofs/gaussian.md).
    """

    delta: float

    @property
    def bits(self) -> int:
        return self.counts.bits

    @property
    def threshold(self) -> int:
        """In lattice steps: the smallest t with P(2^bits + noise >= t) <= delta/columns."""
        return _gaussian_threshold(self.sd, self.bits, self.delta / self.columns)

    @property
    def events(self) -> tuple[Gaussian, Threshold]:
        cut = Threshold(
            f"{self.name} threshold", self.delta, math.ldexp(self.threshold, -self.bits),
            sd=self.sd, cells=self.columns, neighbors=self.relation,
        )  # fmt: skip
        return self.counts.loss, cut

    def _share(self, changes: list[int]) -> Fraction:
        return self.counts.share(changes)

    def _noisy(self, counts: list[int], noise: Noise) -> Sequence[int]:
        return list(self.counts.noisy(counts, noise))

    draw = ShownBins.kept  # in lattice steps


@lru_cache(maxsize=256)
def _gaussian_threshold(sd: float, bits: int, delta: float) -> int:
    from scipy.special import ndtri

    steps = math.ldexp(sd, bits)
    start = math.floor(-float(ndtri(delta)) * steps)
    # the closed form is within a few steps; move up from just below it until the tail fits
    excess = max(0, start - 2)
    while gaussian_tail(excess, steps) > delta:
        excess += 1
    return (1 << bits) + excess


def top_bin(kept: Mapping[int, int]) -> int | None:
    """The index of the largest kept count, the smallest index among ties; None if all are hidden.

    Ties are broken by index, never by order of appearance, which would depend on the data.
    """
    if not kept:
        return None
    return min(kept, key=lambda index: (-kept[index], index))


@dataclass(frozen=True)
class LocationSearch(StableHistogram):
    """A private interval that holds most bin averages of one column; (2/scale, delta)-DP.

    Cells of width 2 * radius; only cells that hold an average get discrete Laplace noise, and only
    noisy counts of at least `threshold` are kept. One person changes one average, hence at most two
    counts by 1 (loss 2/scale), or the set of non-empty cells by one cell each way, which then shows
    with probability at most delta.
    """

    radius: float
    hidden: ClassVar[str] = ""

    @classmethod
    def priced(cls, name: str, radius: float, epsilon: Fraction, delta: float) -> LocationSearch:
        return cls(name, 2 / epsilon, delta, REPLACE_ONE, radius)

    @property
    def threshold(self) -> int:
        """The least T with P(1 + noise >= T) = a^(T-1)/(1+a) <= delta, and one more for safety."""
        a = 1 / float(self.scale)
        needed = (math.log(1 / self.delta) - math.log1p(math.exp(-a))) / a
        return math.ceil(needed + 1e-9) + 2

    def averages_needed(self, beta: float) -> int:
        """How many averages make a cell pass with probability 1 - beta if two cells share them."""
        return math.ceil(2 * (self.threshold + float(self.scale) * math.log(2 / beta)))

    def cells(self, averages: Iterable[float]) -> dict[int, int]:
        """How many averages are in each cell: the exact answer."""
        counts: dict[int, int] = {}
        for value in averages:
            cell = math.ceil((value - self.radius) / (2 * self.radius))
            counts[cell] = counts.get(cell, 0) + 1
        return counts

    def find(self, averages: Iterable[float], noise: Noise) -> float | None:
        """The middle of the fullest cell, or None if no cell passes; a stream keeps its own
        accounting."""
        cell = top_bin(self.draw(self.cells(averages), noise))
        return None if cell is None else 2 * self.radius * cell


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

    counts: with Laplace noise, or Gaussian noise for several columns at once. For Gaussian data of
    deviation sigma the modal bin's upper edge lies between 0.93 sigma and 1.86 sigma. A bulk scale:
    it says nothing about tails.

    Guarantees: those of the counts. A replaced person moves one pair, so one count falls and one
    rises. Pairs are fixed by the roster, so the relation is replace-one only
    (docs/proofs/pair-scale.md).
    """

    bins: DyadicBins
    counts: NoisyCounts | FineCounts

    @classmethod
    def of(cls, epsilon: Fraction, bins: DyadicBins, name: str = "pair scale") -> PairScale:
        return cls(bins, NoisyCounts.at(name, epsilon, REPLACE_ONE, 2, 2))

    @classmethod
    def gaussian(
        cls, mu: float, bins: DyadicBins, columns: int, name: str = "pair scale"
    ) -> PairScale:
        return cls(bins, FineCounts.at(name, mu, 2 * columns, REPLACE_ONE))

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.counts.events

    def exact(self, people: PersonTable, column: int) -> Integers:
        """Public pairs of people per bin."""
        return people.pair_counts(column, self.bins.low, self.bins.high)

    def sensitivity_share(self, exact: Integers, other: Integers) -> tuple[Fraction, ...]:
        return (self.counts.share(differences(exact, other)),)

    def draw(self, exact: Integers, noise: Noise) -> float:
        """The upper edge 2^k of the bin with the largest noisy count (smallest k among ties)."""
        best = int(np.argmax(self.counts.noisy(exact, noise)))
        return math.ldexp(1.0, self.bins.low + best)
