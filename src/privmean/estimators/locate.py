"""Where a column lies: a center near the median and a limit to either side, by two choices.

docs/proofs/default-mean.md, section 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from privmean.data.grids import LIMIT_BITS, NARROWEST, RESOLUTION
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.private_location import (
    DEMAND,
    PrivateCenter,
    PrivateLimits,
    ShortNumbers,
    edges,
    side_counts,
)
from privmean.privacy.budget import Relation, floor_epsilon

CENTER_PEOPLE = 100  # epsilon of the center times the people: e^25 between the median and the ends
LEAST_CENTER, MOST_CENTER = Fraction(3, 100), Fraction(3, 10)  # of epsilon
LIMITS_SHARE = Fraction(3, 10)  # of what is left
LIMITS_PEOPLE = 150  # epsilon of the limits times the people, at least,
MOST_LIMITS = Fraction(4, 10)  # but at most so much of what is left

# of the range on which records are read at the finest step: what is beyond may be read as it
END = RESOLUTION * 2.0**LIMIT_BITS
LAST = END * (1 - 2.0**-20)  # limits that hold this hold the end of the public range
RANGE = (
    "Values reach beyond the public range of 2^44, or nearly. Divide the column by a constant, or "
    "give bounds and a step of values that reaches them, such as pm.Mean(..., resolution=2**-20)."
)
POWERS = ShortNumbers(high=63, digits=1)  # candidates of a spread: powers of two


@dataclass(frozen=True)
class LocationPrices:
    """Epsilon of the center and of the limits."""

    center: Fraction
    limits: Fraction

    @classmethod
    def of(cls, people: int, epsilon: Fraction) -> LocationPrices:
        """Prices for so many people (a public number or a noisy one), of `epsilon` in all."""
        count = max(people, 1)
        center = min(
            max(Fraction(CENTER_PEOPLE, count), LEAST_CENTER * epsilon), MOST_CENTER * epsilon
        )
        center = floor_epsilon(center)
        left = epsilon - center
        limits = min(max(LIMITS_SHARE * left, Fraction(LIMITS_PEOPLE, count)), MOST_LIMITS * left)
        return cls(center, floor_epsilon(limits))

    @property
    def pure(self) -> Fraction:
        return self.center + self.limits


@dataclass(frozen=True)
class Place:
    """The private outcome. below, above: distances of the limits from the center. demanded: the
    people that the choice missed if nobody within the limits is off the center (inf: not known);
    choice_scale: how many people make a choice less likely by a factor e."""

    center: float
    below: float
    above: float
    demanded: float = math.inf
    choice_scale: float = 1.0

    @property
    def lower(self) -> float:
        return self.center - self.below

    @property
    def upper(self) -> float:
        return self.center + self.above

    @property
    def holds_end(self) -> bool:
        """Whether the limits hold an end of the range on which records are read: a person who is
        there may have any value beyond it."""
        high = self.lower <= END and self.upper >= LAST
        low = self.lower <= -LAST and self.upper >= -END
        return high or low

    @property
    def is_point(self) -> bool:
        """Whether both limits are at the center, but for a few steps in which records are read:
        nearly all people have that value, or values that are rounded to few."""
        return self.upper - self.lower < NARROWEST


def center_step(price: Fraction, relation: Relation, whole: int = 1) -> PrivateCenter:
    """whole: parts of a person that counts are in."""
    return PrivateCenter("center", price, relation, whole=whole)


def limits_step(
    price: Fraction, relation: Relation, digit: float = 0.0, demand: float = DEMAND
) -> PrivateLimits:
    return PrivateLimits("limits", price, relation, digit, demand)


def spread_step(price: Fraction, relation: Relation) -> PrivateCenter:
    """The center of the distances from another one: a power of two."""
    return PrivateCenter("spread", price, relation, POWERS)


def find_spread(
    curator: Curator, column: int, center: float, price: Fraction, relation: Relation
) -> float:
    """Ask for the power of two next above the median distance from a center, of values that differ
    from it; 0 where nearly none do."""
    distances = curator.people.column_counts(column).distances(center)
    spread, _ = curator.ask(spread_step(price, relation), distances)
    return abs(spread)


def find_place(
    curator: Curator,
    column: int,
    prices: LocationPrices,
    relation: Relation,
    demand: float = DEMAND,
) -> Place:
    """Ask for the center and the limits of one column. demand: as `private_limits.DEMAND`."""
    counts = curator.people.column_counts(column)
    center, digit = curator.ask(center_step(prices.center, relation), counts)
    sides = side_counts(counts.half_octaves(center))
    step = limits_step(prices.limits, relation, digit, demand)
    below, above = curator.ask(step, sides)
    distances = edges()
    return Place(
        center,
        float(distances[below]),
        float(distances[above]),
        max(step.most_demanded(below), step.most_demanded(above)),
        float(step.scale),
    )
