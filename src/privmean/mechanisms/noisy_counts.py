"""Noisy counts and shares.

Whole numbers, one or many, released with noise on every one of them.

One of two additive shares of a sum, with noise that suffices alone.

Two servers hold shares that add up to the sum of all people's whole numbers modulo a public prime.
Each adds noise before it shows its share, so that whoever holds the other share and the other noise
sees the sum with this noise only (docs/proofs/two-servers.md).

The fullest of a public list of bins, by noisy argmax: no threshold, no delta, no failure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privmean.array_types import Floats, Integers
from privmean.errors import InfeasibleError
from privmean.mechanisms.curator import choice_share, differences, gaussian_share, laplace_share
from privmean.mechanisms.noisy_vector import lattice_bits, root_above
from privmean.mechanisms.stable_histogram import moved_counts
from privmean.noise.noise_source import LARGEST_SCALE, Noise
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyEvent, Selection

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

    def sensitivity_share(self, exact: Integers, other: Integers) -> tuple[Fraction, ...]:
        return (laplace_share(differences(exact, other), self.loss),)

    def draw(self, exact: Integers, noise: Noise) -> Integers:
        result: Integers = exact + noise.laplace(len(exact), self.loss.scale)
        return result


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


MODULUS = 2**66 * 4611686018427387897 + 1  # prime; the field of 128 bits in which shares are proved


@dataclass(frozen=True)
class NoisyShare:
    """Shares of sums of whole numbers 0 .. steps, one sum a coordinate, with Laplace noise.

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


MOST_BINS = 2**22
BLANK = 0.01  # chance that empty bins are taken for occupied ones


@dataclass(frozen=True)
class Bins:
    """`number` uniform bins of half width `half` that cover a public range.

    Index k holds (origin + 2 half k - half, origin + 2 half k + half]; values beyond the range are
    counted in the first or last bin. origin is the center of the first bin.
    """

    lower: float
    half: float
    number: int

    @classmethod
    def cover(cls, lower: float, upper: float, half: float) -> Bins:
        """The fewest bins of half width `half` that cover [lower, upper]."""
        number = max(1, math.ceil((upper - lower) / (2 * half)))
        spare = 2 * half * number - (upper - lower)
        return cls(lower - spare / 2, half, number)

    @property
    def origin(self) -> float:
        return self.lower + self.half

    def center(self, index: int) -> float:
        return self.origin + 2 * self.half * index

    def all_counts(self, counts: Mapping[int, int]) -> Integers:
        """Counts of every public bin, from those of occupied ones; outside goes to the ends."""
        result = np.zeros(self.number, dtype=np.int64)
        for index, count in counts.items():
            result[min(max(index, 0), self.number - 1)] += count
        return result


@dataclass(frozen=True)
class Scores:
    """Scores of which an index is released. change: what one person moves, as the mechanism has
    it; words: the same for the accounting."""

    name: str
    epsilon: Fraction
    relation: Relation
    change: int
    words: str

    @property
    def scale(self) -> Fraction:
        return self.change / self.epsilon


@dataclass(frozen=True)
class Choices:
    """`choices` selections one after the other, each at `epsilon`, for replace-one neighbors.
    words: what one person moves, for the accounting."""

    name: str
    epsilon: Fraction
    choices: int
    words: str
    bounded_range: ClassVar[bool] = False

    @property
    def events(self) -> tuple[Selection, ...]:
        made = Selection(
            self.name, self.epsilon, bounded_range=self.bounded_range, choices=self.choices,
            neighbors=REPLACE_ONE, sensitivity_text=self.words,
        )  # fmt: skip
        return (made,)


@dataclass(frozen=True)
class Choice(Scores):
    """The index of the largest score plus Exponential noise.

    The caller owes that one person moves every score by at most `change`/2, in any direction, or
    all of them by at most `change` in the same one (docs/proofs/noisy-argmax.md).

    Guarantees: epsilon-DP. Nothing but the index is released.
    """

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return (
            Selection(
                self.name, self.epsilon, neighbors=self.relation, sensitivity_text=self.words
            ),
        )

    def sensitivity_share(self, exact: Integers, other: Integers) -> tuple[Fraction, ...]:
        return (choice_share(differences(exact, other), self.scale, self.events[0]),)

    def draw(self, exact: Integers, noise: Noise) -> int:
        return noise.argmax(exact, self.scale)


@dataclass(frozen=True)
class NoisyArgmax(Choice):
    """The bin with the largest count plus Exponential(scale) noise on ALL public bins.

    Guarantees: epsilon-DP with epsilon = 2/scale if one person is replaced (one count falls by
    one, another rises), 1/scale if one is added or removed (all changes go the same way). Drawn as
    permute-and-flip (docs/proofs/noisy-argmax.md). Nothing but the index is released.
    """

    @classmethod
    def of(cls, epsilon: Fraction, relation: Relation, name: str = "noisy argmax") -> NoisyArgmax:
        moved = moved_counts(relation)
        return cls(name, epsilon, relation, moved, f"{moved} of the counts, by one each")


@dataclass(frozen=True)
class GaussianArgmax:
    """Report the largest of all public counts plus Gaussian noise: the form for zCDP and for many
    columns at once.

    sd: deviation of each count in people; columns: how many columns are asked with this noise;
    cells: public bins of one column.

    Guarantees: mu-GDP with mu = sqrt(2 columns)/sd (replaced) or sqrt(columns)/sd (added, removed)
    for all columns together: the noisy counts themselves could be published.
    """

    name: str
    sd: float
    columns: int
    relation: Relation

    @classmethod
    def of(
        cls, mu: float, columns: int, relation: Relation, name: str = "noisy argmax"
    ) -> GaussianArgmax:
        sd = math.sqrt(moved_counts(relation) * columns) / mu * (1 + 1e-15)
        return cls(name, sd, columns, relation)

    @property
    def events(self) -> tuple[Gaussian, ...]:
        moved = moved_counts(self.relation) * self.columns
        bits = lattice_bits(self.sd)
        sensitivity = math.ldexp(root_above(moved), bits)
        return (
            Gaussian(
                self.name,
                sensitivity,
                math.ldexp(self.sd, bits),
                moved,
                neighbors=self.relation,
            ),
        )

    def sensitivity_share(self, exact: Integers, other: Integers) -> tuple[Fraction, ...]:
        bits = lattice_bits(self.sd)
        sd = math.ldexp(self.sd, bits)
        pairs = [(item << bits, sd) for item in differences(exact, other)]
        return (gaussian_share(pairs, self.events[0]),)

    def noisy(self, exact: Integers, noise: Noise) -> npt.NDArray[np.object_]:
        """One column's noisy counts, in steps of 2^-bits."""
        bits = lattice_bits(self.sd)
        draws = noise.gaussian(len(exact), math.ldexp(self.sd, bits))
        return np.asarray(exact.astype(object) * (1 << bits) + draws.astype(object))

    def draw(self, exact: Integers, noise: Noise) -> int:
        """The index of one column's largest noisy count (the first among ties)."""
        return int(np.argmax(self.noisy(exact, noise)))


@dataclass(frozen=True)
class SeenArgmax:
    """`GaussianArgmax`, or None where the largest noisy count is one that noise by itself may have.

    Guarantees: those of `argmax`, whose noisy counts could be published.
    """

    argmax: GaussianArgmax

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.argmax.events

    def sensitivity_share(self, exact: Integers, other: Integers) -> tuple[Fraction, ...]:
        return self.argmax.sensitivity_share(exact, other)

    def least(self, cells: int) -> float:
        """The count that noise on empty cells exceeds in one release of a hundred at most."""
        return self.argmax.sd * math.sqrt(2 * math.log(cells / BLANK))

    def draw(self, exact: Integers, noise: Noise) -> int | None:
        noisy = self.argmax.noisy(exact, noise)
        index = int(np.argmax(noisy))
        least = math.ldexp(self.least(len(exact)), lattice_bits(self.argmax.sd))
        return index if float(noisy[index]) >= least else None
