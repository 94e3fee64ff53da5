"""Counts with noise on every one of them.

Laplace noise (`NoisyCounts`), Gaussian noise on a lattice (`GaussianCounts`, and `FineCounts` for
what is chosen or hidden by noisy counts), one of two additive shares of a sum (`NoisyShare`), and a
quantile by bisection (`NoisyQuantile`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from typing import Self

import numpy as np
import numpy.typing as npt

from privmean.array_types import Floats, Integers
from privmean.errors import InfeasibleError
from privmean.mechanisms.curator import differences, gaussian_share, laplace_share
from privmean.mechanisms.noisy_vector import lattice_bits, root_above
from privmean.noise.noise_source import LARGEST_SCALE, Noise
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Gaussian, Laplace


def moved_counts(relation: Relation) -> int:
    """How many counts of one column a neighbor changes, each by one."""
    return 2 if relation == REPLACE_ONE else 1


COUNT_LATTICE = 2**20  # counts are scaled up: their own unit is too coarse for Gaussian noise


@dataclass(frozen=True)
class NoisyCounts:
    """Every answer plus discrete Laplace noise, whether it is zero or not.

    loss: sensitivity and scale, in people. The caller owes that one person moves the answers by no
    more than the sensitivity in l1 (docs/proofs/laplace.md).

    Guarantees: (sensitivity/scale)-DP for the relation for which the sensitivity holds.
    """

    loss: Laplace

    @classmethod
    def at(
        cls, name: str, epsilon: Fraction, relation: Relation, moved: int = 1, spread: int = 1
    ) -> NoisyCounts:
        """At a price: answers of l1 sensitivity `moved` (over `spread` answers) for epsilon."""
        return cls(Laplace(name, Fraction(moved), moved / epsilon, spread, neighbors=relation))

    @property
    def events(self) -> tuple[Laplace, ...]:
        return (self.loss,)

    @property
    def scale(self) -> Fraction:
        return self.loss.scale

    @property
    def sd(self) -> float:
        return math.sqrt(2) * float(self.loss.scale)

    def share(self, changes: Sequence[int]) -> Fraction:
        """What changes of the counts cost, over what is declared."""
        return laplace_share(changes, self.loss)

    def sensitivity_share(self, exact: Integers, other: Integers) -> tuple[Fraction, ...]:
        return (self.share(differences(exact, other)),)

    def noisy(self, counts: Integers, noise: Noise) -> Integers:
        """The noisy counts."""
        result: Integers = counts + noise.laplace(len(counts), self.loss.scale)
        return result

    draw = noisy


def as_counts(*numbers: int) -> Integers:
    """Whole numbers as the exact answers of `NoisyCounts`."""
    return np.array(numbers, dtype=np.int64)


@dataclass(frozen=True)
class GaussianCounts:
    """Several lists of whole numbers, every number plus discrete Gaussian noise on a lattice of
    2^-20 people.

    loss: sensitivity and deviation of all lists together, in lattice steps. The caller owes that
    one person moves them by no more than the sensitivity in l2 (docs/proofs/gaussian.md).

    Guarantees: mu-GDP with mu = sensitivity/deviation, with the lattice correction of the loss.
    """

    loss: Gaussian

    @classmethod
    def at(cls, name: str, mu: float, relation: Relation, moved: int) -> GaussianCounts:
        """At a strength: `moved` numbers change by one each."""
        root = root_above(moved)
        # a hair more than needed, so that rounded deviations never exceed the loss
        sd = math.sqrt(moved) / mu * (1 + 1e-12)
        steps = root * COUNT_LATTICE, sd * COUNT_LATTICE
        return cls(Gaussian(name, *steps, moved, neighbors=relation))

    @property
    def events(self) -> tuple[Gaussian, ...]:
        return (self.loss,)

    @property
    def sd(self) -> float:
        """Deviation of the noise of a number, in people."""
        return self.loss.scale / COUNT_LATTICE

    def sensitivity_share(
        self, exact: Sequence[Integers], other: Sequence[Integers]
    ) -> tuple[Fraction, ...]:
        pairs = zip_longest(exact, other, fillvalue=as_counts())
        changes = [item * COUNT_LATTICE for a, b in pairs for item in differences(a, b)]
        return (gaussian_share([(item, self.loss.scale) for item in changes], self.loss),)

    def draw(self, exact: Sequence[Integers], noise: Noise) -> list[Floats]:
        return [
            (item * COUNT_LATTICE + noise.gaussian(len(item), self.loss.scale)).astype(float)
            / COUNT_LATTICE
            for item in exact
        ]


@dataclass(frozen=True)
class FineCounts:
    """Counts with Gaussian noise of deviation `sd` people on a lattice of 2^bits steps a person.

    moved: how many counts one person changes, by one each. A mechanism that shows less than the
    noisy counts has their loss, mu-GDP with mu = sqrt(moved)/sd and the lattice correction.
    """

    name: str
    sd: float
    moved: int
    relation: Relation

    @classmethod
    def at(cls, name: str, mu: float, moved: int, relation: Relation) -> FineCounts:
        return cls(name, math.sqrt(moved) / mu * (1 + 1e-15), moved, relation)

    @property
    def bits(self) -> int:
        return lattice_bits(self.sd)

    @property
    def steps(self) -> float:
        """The deviation in steps of the lattice."""
        return math.ldexp(self.sd, self.bits)

    @property
    def loss(self) -> Gaussian:
        sensitivity = math.ldexp(root_above(self.moved), self.bits)
        return Gaussian(self.name, sensitivity, self.steps, self.moved, neighbors=self.relation)

    @property
    def events(self) -> tuple[Gaussian, ...]:
        return (self.loss,)

    def share(self, changes: Iterable[int]) -> Fraction:
        """What changes of the counts cost, over what is declared."""
        return gaussian_share([(item << self.bits, self.steps) for item in changes], self.loss)

    def noisy(self, counts: Sequence[int] | Integers, noise: Noise) -> npt.NDArray[np.object_]:
        """The noisy counts, in steps."""
        exact = np.asarray(counts, dtype=object)
        draws = noise.gaussian(len(exact), self.steps)
        return np.asarray(exact * (1 << self.bits) + draws.astype(object))


@dataclass(frozen=True)
class FineColumns:
    """`FineCounts` of `columns` columns at once, of which something less is shown.

    sd: deviation of each count in people, for what one person changes in all columns.

    Guarantees: mu-GDP with mu = sqrt(2 columns)/sd (replaced) or sqrt(columns)/sd (added, removed)
    for all columns together.
    """

    name: str
    sd: float
    columns: int
    relation: Relation

    @classmethod
    def of(cls, mu: float, columns: int, relation: Relation, name: str, **more: float) -> Self:
        """At a strength; more: further fields."""
        sd = FineCounts.at(name, mu, moved_counts(relation) * columns, relation).sd
        return cls(name, sd, columns, relation, **more)

    @property
    def counts(self) -> FineCounts:
        moved = moved_counts(self.relation) * self.columns
        return FineCounts(self.name, self.sd, moved, self.relation)


MODULUS = 2**66 * 4611686018427387897 + 1  # prime; the field of 128 bits in which shares are proved


@dataclass(frozen=True)
class NoisyShare:
    """Shares of sums of whole numbers 0 .. steps, one sum a coordinate, with Laplace noise.

    Two servers hold shares that add up to the sum of all people's numbers modulo a public prime.
    Each adds noise before it shows its share, so that whoever holds the other share and the other
    noise sees the sum with this noise only (docs/proofs/two-servers.md).

    Guarantees: epsilon-DP under replace-one for the other server, for who reads both noisy shares,
    and for both together: a replaced person moves each sum by at most `steps`, all `dimension` of
    them together by steps times dimension (l1).
    """

    steps: int
    dimension: int
    epsilon: Fraction
    name: str = "share of a sum"

    def __post_init__(self) -> None:
        if self.scale > LARGEST_SCALE:
            raise InfeasibleError(
                f"epsilon={float(self.epsilon):.3g} is too small for {self.dimension} sums of "
                f"{self.steps} steps",
                "give more epsilon, or fewer bits",
            )

    @property
    def scale(self) -> Fraction:
        """Of the noise of one server in one sum, in steps."""
        return self.dimension * self.steps / self.epsilon

    @property
    def events(self) -> tuple[Laplace, ...]:
        moved = Fraction(self.dimension * self.steps)
        return (Laplace(self.name, moved, self.scale, self.dimension, neighbors=REPLACE_ONE),)

    def draw(self, exact: Sequence[int], noise: Noise) -> tuple[int, ...]:
        """The noisy share, modulo the prime. exact: the share."""
        drawn = noise.laplace(self.dimension, self.scale).tolist()
        return tuple((a + b) % MODULUS for a, b in zip(exact, drawn, strict=True))

    def sensitivity_share(self, exact: Sequence[int], other: Sequence[int]) -> tuple[Fraction, ...]:
        """What a pair of sums (not of shares) costs, over what is billed."""
        change = sum(abs(a - b) for a, b in zip(exact, other, strict=True))
        return (change / self.scale / self.epsilon,)


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

    Bisection with a fixed number of noisy counts: the exponential mechanism would tie at all radii
    of one cell (docs/proofs/anisotropic.md). The caller owes that replacing one person
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
