"""A private interval that holds most of some averages, of which one person can change one.

The scale of a column from public pairs of persons: one noisy dyadic histogram, no center.

A quantile of distances, by bisection over a public grid of radii with noisy counts.

A quantile by the exponential mechanism would tie at all radii of one cell; counts do not. Proof:
docs/proofs/anisotropic.md.

The first answer above or below a threshold.

Several counts above a level, in their order: the sparse vector technique with fresh noise a hit.

Source: Dagan, Jordan, Yang, Zakynthinou and Zhivotovskiy (2024), Algorithm 4, with the noise that
its guarantee needs (docs/proofs/anisotropic-unknown.md).

The first of several counts that lies below a threshold: the sparse vector technique, one answer.

Source: Dwork and Roth (2014), Algorithm 1, with the noise that monotone counts need (Lyu, Su and
Li 2017); docs/proofs/heavy-tails-radius.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.data.person_table import PersonTable
from privmean.errors import ArgumentError
from privmean.mechanisms.curator import differences, gaussian_share, laplace_share
from privmean.mechanisms.noisy_counts import Choices
from privmean.mechanisms.noisy_vector import lattice_bits, root_above
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyEvent, Selection, Threshold


@dataclass(frozen=True)
class LocationSearch:
    """A private interval that holds most bin averages of one column; (epsilon, delta)-DP.

    Cells of width 2 * radius; only cells that hold an average get discrete Laplace noise of scale
    2/epsilon, and only noisy counts of at least `threshold` are kept. One person changes one
    average, hence at most two counts by 1 (loss epsilon), or the set of non-empty cells by one cell
    each way, which then shows with probability at most delta.
    """

    name: str
    radius: float
    epsilon: Fraction
    delta: float

    @property
    def threshold(self) -> int:
        """The least T with P(1 + noise >= T) = a^(T-1)/(1+a) <= delta, and one more for safety."""
        a = float(self.epsilon) / 2
        needed = (math.log(1 / self.delta) - math.log1p(math.exp(-a))) / a
        return math.ceil(needed + 1e-9) + 2

    @property
    def events(self) -> tuple[Laplace, Threshold]:
        return (
            Laplace(
                self.name,
                sensitivity=Fraction(2),
                scale=2 / self.epsilon,
                cells_changed=2,
                neighbors=REPLACE_ONE,
            ),
            Threshold(
                self.name,
                delta=self.delta,
                threshold=float(self.threshold),
                scale=2 / self.epsilon,
                neighbors=REPLACE_ONE,
            ),
        )

    def averages_needed(self, beta: float) -> int:
        """How many averages make a cell pass with probability 1 - beta if two cells share them."""
        return math.ceil(2 * (self.threshold + 2 / float(self.epsilon) * math.log(2 / beta)))

    def sensitivity_share(
        self, exact: Iterable[float], other: Iterable[float]
    ) -> tuple[Fraction, ...]:
        one, two = self._counts(exact), self._counts(other)
        changes = [one.get(cell, 0) - two.get(cell, 0) for cell in one.keys() | two.keys()]
        new = max(
            sum(one[cell] for cell in one.keys() - two.keys()),
            sum(two[cell] for cell in two.keys() - one.keys()),
        )
        return (laplace_share(changes, self.events[0]), Fraction(new))

    def _counts(self, averages: Iterable[float]) -> dict[int, int]:
        counts: dict[int, int] = {}
        for value in averages:
            cell = math.ceil((value - self.radius) / (2 * self.radius))
            counts[cell] = counts.get(cell, 0) + 1
        return counts

    def find(self, averages: Iterable[float], noise: Noise) -> float | None:
        """What a stream asks, which keeps its own accounting."""
        return self.draw(averages, noise)

    def draw(self, exact: Iterable[float], noise: Noise) -> float | None:
        """The middle of the fullest cell, or None if no cell passes."""
        counts = self._counts(exact)
        cells = sorted(counts)
        drawn = noise.laplace(len(cells), 2 / self.epsilon).tolist()
        noisy = [(counts[cell] + error, -cell) for cell, error in zip(cells, drawn, strict=True)]
        count, cell = max(noisy, default=(0, 0))
        return 2 * self.radius * -cell if count >= self.threshold else None


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


NOISE_STEPS = 2.0**24  # least lattice steps a standard deviation of noise


@dataclass(frozen=True)
class RadiusGrid:
    """Radii unit * 2^(j/fineness) with |j| <= reach, found by a fixed number of halvings."""

    fineness: int
    reach: int

    @property
    def rounds(self) -> int:
        return math.ceil(math.log2(2 * self.reach + 1))

    def radius(self, j: int) -> float:
        return float(2.0 ** (j / self.fineness))


FINE = RadiusGrid(8, 127)  # 2^-16 to 2^16 times the unit
WIDE = RadiusGrid(2, 255)  # for the unit itself: 2^-127 to 2^127


@dataclass(frozen=True)
class Counting:
    """Noise of a bisection over a grid of radii: rho in all, the same for each count."""

    rho: float
    grid: RadiusGrid = FINE

    @property
    def steps(self) -> int:
        return int(2 ** max(0, math.ceil(math.log2(NOISE_STEPS / self.deviation))))

    @property
    def deviation(self) -> float:
        """Noise of a count, in pairs."""
        return math.sqrt(self.grid.rounds / (2 * self.rho))

    def loss(self, name: str) -> Gaussian:
        steps, rounds = float(self.steps), self.grid.rounds
        return Gaussian(
            name, root_above(rounds) * steps, steps * self.deviation, rounds, neighbors=REPLACE_ONE
        )


@dataclass(frozen=True)
class NoisyQuantile:
    """The smallest radius of the grid with about `quantile` of the distances within it.

    Bisection with a fixed number of noisy counts. The caller owes that replacing one person
    replaces one distance at most, whose number is public.

    Guarantees: rho-zCDP in all for replace-one neighbors, whatever the distances.
    """

    name: str
    quantile: float
    counting: Counting

    @property
    def events(self) -> tuple[Gaussian, ...]:
        return (self.counting.loss(self.name),)

    def sensitivity_share(self, exact: Floats, other: Floats) -> tuple[Fraction, ...]:
        """The square of the largest change of a count, at any radius of the grid."""
        grid = self.counting.grid
        edges = np.array([grid.radius(j) for j in range(-grid.reach, grid.reach + 1)])
        one, two = (np.searchsorted(np.sort(x), edges, side="right") for x in (exact, other))
        return (Fraction(int(np.abs(one - two).max())) ** 2,)

    def draw(self, exact: Floats, noise: Noise) -> float:
        grid, steps = self.counting.grid, self.counting.steps
        low, high = -grid.reach - 1, grid.reach
        for _ in range(grid.rounds):
            middle = (low + high) // 2 if high - low > 1 else high  # a spare round is charged too
            within = int(np.count_nonzero(exact <= grid.radius(middle)))
            (drawn,) = noise.gaussian(1, steps * self.counting.deviation).tolist()
            if within * steps + drawn >= self.quantile * len(exact) * steps:
                high = middle
            elif middle < high:
                low = middle
        return grid.radius(high)


@dataclass(frozen=True)
class HitsAbove(Choices):
    """The first `choices` counts that reach `level`, each found by a run of its own at `epsilon`.

    The caller owes that replacing one person moves every count by at most one.

    Guarantees: pure loss `choices` times epsilon, for replace-one neighbors.
    """

    level: float

    def sensitivity_share(self, exact: Integers, other: Integers) -> tuple[Fraction, ...]:
        return (Fraction(max((abs(item) for item in differences(exact, other)), default=0)),)

    def draw(self, exact: Integers, noise: Noise) -> Integers:
        found: list[int] = []
        start = 0
        while len(found) < self.choices and start < len(exact):
            (draw,) = noise.laplace(1, 2 / self.epsilon).tolist()
            cut = draw + self.level
            noisy = exact[start:] + noise.laplace(len(exact) - start, 4 / self.epsilon)
            above = np.flatnonzero(noisy >= cut)
            if len(above) == 0:
                break
            found.append(start + int(above[0]))
            start = found[-1] + 1
        return np.array(found, dtype=np.int64)


@dataclass(frozen=True)
class FirstBelow:
    """Counts are compared with a noisy threshold one after the other, until one is not above it.

    The caller owes that one person moves all counts by at most one, in the same direction. words:
    what one person moves, for the accounting.

    Guarantees: epsilon-DP for any number of counts; nothing but the index is released.
    """

    name: str
    threshold: int
    epsilon: Fraction
    relation: Relation
    words: str

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return (
            Selection(
                self.name, self.epsilon, neighbors=self.relation, sensitivity_text=self.words
            ),
        )

    def sensitivity_share(self, exact: Iterable[int], other: Iterable[int]) -> tuple[Fraction, ...]:
        changes = differences(exact, other)
        # counts that move in both directions would need twice the noise
        reach = max([*changes, 0]) - min([*changes, 0])
        return (Fraction(reach),)

    def draw(self, exact: Iterable[int], noise: Noise) -> int | None:
        """The index of the first count found below; None if none is. Later counts are not read."""
        scale = 2 / self.epsilon
        threshold = self.threshold + noise.laplace(1, scale).tolist()[0]
        for index, count in enumerate(exact):
            if count + noise.laplace(1, scale).tolist()[0] <= threshold:
                return index
        return None
