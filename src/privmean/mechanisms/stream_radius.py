"""A clipping radius found privately, for streams whose values have no known bound.

The first records of the first people wait. When enough people have come, one choice takes the
radius about which few first records lie beyond and some close within: the upper limit of a default
mean's pair, about the public center 0. It is paid for once and never repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.mechanisms.private_limits import PrivateLimits, edges
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Selection

LEAST, MOST = 2.0**-40, 2.0**40  # of a radius


@dataclass(frozen=True)
class RadiusSearch:
    """How the radius is found: from how many people, at what price.

    Guarantees: epsilon-DP, whatever one person's first record is changed to.
    """

    n: int
    epsilon: Fraction

    @classmethod
    def priced(cls, epsilon: Fraction, persons: int | None = None) -> RadiusSearch:
        """A search that spends `epsilon`; by default it waits for 100/epsilon people."""
        return cls(math.ceil(100 / epsilon) if persons is None else persons, epsilon)

    @property
    def loss(self) -> Selection:
        words = "numbers of first records beyond and within, by one each"
        return Selection("clipping radius", self.epsilon, sensitivity_text=words)

    @property
    def mechanism(self) -> PrivateLimits:
        """The choice of the radius, as the upper of two limits about 0."""
        return PrivateLimits("clipping radius", self.epsilon, REPLACE_ONE, 0.0)

    def choose(self, first_records: Floats, noise: Noise) -> float:
        """The radius, from one record a person, shape (people, d); nulls count as 0. The stream
        keeps its own accounting."""
        _, above = self.mechanism.draw(sides_of(first_records), noise)
        return min(max(float(edges()[above]), LEAST), MOST)


def sides_of(first_records: Floats) -> tuple[Integers, Integers]:
    """Nobody below 0, and how many first records are longer than each candidate."""
    rows = np.where(np.isnan(first_records), 0.0, first_records)
    square = np.zeros(len(rows))
    with np.errstate(over="ignore"):
        for column in rows.T:  # in a fixed order: a size depends on its own row alone
            square = square + column * column
    size = np.sort(np.minimum(np.sqrt(square), MOST))
    beyond = np.asarray(len(size) - np.searchsorted(size, edges(), side="right"), dtype=np.int64)
    return np.zeros_like(beyond), beyond
