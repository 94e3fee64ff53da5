"""A clipping radius found privately, for streams whose values have no known bound.

The first records of the first people wait. When enough people have come, radii of a public grid
are tried from the smallest up until a noisy count says that few first records lie beyond. That is
one sparse-vector call (each person counts once), paid for and never repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.noise.noise_source import Noise
from privmean.privacy.privacy_events import Selection

LOWEST, HIGHEST = -160, 160  # exponents of the grid, in quarters of an octave
GRID = 2.0 ** (np.arange(LOWEST, HIGHEST + 1) / 4)


@dataclass(frozen=True)
class RadiusSearch:
    """How the radius is found: from how many people, at what price.

    It stops at the first radius beyond which about five percent of the first records lie. All
    counts are of one number a person, so between neighbors they move by at most 1 and all in the
    same direction; then Laplace noise of scale 2/epsilon on the limit and on every count costs
    epsilon (Lyu, Su and Li 2017, Theorem 5), whatever the number of radii tried.
    """

    n: int
    epsilon: Fraction

    @classmethod
    def priced(cls, epsilon: Fraction, persons: int | None = None) -> RadiusSearch:
        """A search that spends `epsilon`; by default it waits for 100/epsilon people."""
        return cls(math.ceil(100 / epsilon) if persons is None else persons, epsilon)

    @property
    def loss(self) -> Selection:
        return Selection(
            "clipping radius",
            self.epsilon,
            sensitivity_text="each count of first records, by one "
            "(above a noisy limit, one answer)",
        )

    @property
    def limit(self) -> int:
        """How many first records may lie beyond the radius."""
        return self.n // 20

    @property
    def events(self) -> tuple[Selection, ...]:
        return (self.loss,)

    def sensitivity_share(self, exact: Floats, other: Floats) -> tuple[Fraction, ...]:
        """Counts that move in both directions would need twice the noise."""
        changes = [int(a) - int(b) for a, b in zip(*map(_beyond, (exact, other)), strict=True)]
        return (Fraction(max([*changes, 0]) - min([*changes, 0])),)

    def choose(self, first_records: Floats, noise: Noise) -> float:
        """What a stream asks, which keeps its own accounting."""
        return self.draw(first_records, noise)

    def draw(self, exact: Floats, noise: Noise) -> float:
        """The radius, from one record a person, shape (people, d); nulls count as 0."""
        beyond = _beyond(exact)
        limit, *drawn = noise.laplace(1 + len(GRID), 2 / self.epsilon).tolist()
        for radius, count, error in zip(GRID.tolist(), beyond.tolist(), drawn, strict=True):
            if count + error <= self.limit + limit:
                return float(radius)
        return float(GRID[-1])


def _beyond(first_records: Floats) -> Integers:
    """How many first records lie beyond each radius of the grid."""
    rows = np.where(np.isnan(first_records), 0.0, first_records)
    square = np.zeros(len(rows))
    with np.errstate(over="ignore"):
        for column in rows.T:  # in a fixed order: a size depends on its own row alone
            square = square + column * column
    size = np.sqrt(square)
    return np.asarray(len(size) - np.searchsorted(np.sort(size), GRID, side="right"))
