"""Noisy counts and shares.

Whole numbers, one or many, released with noise on every one of them.

One of two additive shares of a sum, with noise that suffices alone.

Two servers hold shares that add up to the sum of all people's whole numbers modulo a public prime.
Each adds noise before it shows its share, so that whoever holds the other share and the other noise
sees the sum with this noise only (docs/proofs/two-servers.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.errors import InfeasibleError
from privmean.mechanisms.curator import differences, gaussian_share, laplace_share
from privmean.mechanisms.row_sums import root_above
from privmean.noise.noise_source import LARGEST_SCALE, Noise
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Gaussian, Laplace

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
