"""Where one column lies and how far it spreads, found privately: a magnitude, a median, a spread.

Three choices by noisy argmax whose scores are counts of persons: the half octave of |x|, a point
next to the median of x on a public grid within that, and the half octave of |x - median|. A person
without a value is in no cell and counts nowhere. docs/proofs/quantiles.md, section 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.mechanisms.exponential import Exponential
from privmean.mechanisms.noisy_argmax import Bins, Choice
from privmean.models.scores import LEAST, MOST, OF, quantile_scores
from privmean.noise.base import Integers
from privmean.people.grids import LOG_BINS, LOG_LOW, LOG_ZERO
from privmean.people.reductions import Box
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation

POINTS = 2**17 + 1  # of the grid of medians
MIDDLE = (LEAST, MOST, OF)
UPPER = 5, 6, 8  # a quantile that does not lie at a column of two values whose median is either
LOWEST, HIGHEST = LOG_LOW + 2, LOG_LOW + LOG_BINS  # half octaves: upper edges 2^(k/2)
SLOPE = Fraction(1, 16)  # noise scales that a half octave up costs; there are 159 of them


def size_scores(
    cells: Integers, slope: float, first: int = 0, parts: tuple[int, int, int] = MIDDLE
) -> Integers:
    """Scores of the half octaves from `People.log_counts`, from place `first` on (who is below
    counts nowhere); see `quantile_scores`."""
    return quantile_scores(octaves_of(cells)[first:], slope, parts)


def octaves_of(cells: Integers) -> Integers:
    """Persons by upper edge of the half octave of |x|, LOWEST first; zero is in no cell."""
    both = cells[:LOG_BINS] + cells[LOG_ZERO + 1 :]
    inside = np.zeros(HIGHEST - LOWEST + 1, dtype=np.int64)
    np.add.at(inside, np.maximum(np.arange(LOG_BINS) + LOG_LOW + 1 - LOWEST, 0), both)
    return inside


@dataclass(frozen=True)
class Sizes:
    """The choice of a half octave at `epsilon`."""

    name: str
    epsilon: Fraction
    relation: Relation
    bounded: bool = False  # by the exponential mechanism, whose loss has bounded range
    parts: tuple[int, int, int] = MIDDLE

    @property
    def choice(self) -> Choice | Exponential:
        least, most, of = self.parts
        added = max(least, of - least, most, of - most)
        return _choice(self, 2 * of if self.relation == REPLACE_ONE else 2 * added)

    @property
    def slope(self) -> float:
        """Score that a half octave up costs: public, so that empty cells above do not add up."""
        return float(self.choice.scale * SLOPE)


@dataclass(frozen=True)
class Middle:
    """The choice of a point next to the median at `epsilon`."""

    name: str
    epsilon: Fraction
    relation: Relation
    bounded: bool = False

    @property
    def choice(self) -> Choice | Exponential:
        return _choice(self, 4 if self.relation == REPLACE_ONE else 2)


def _choice(made: Sizes | Middle, change: int) -> Choice | Exponential:
    words = f"every score, by {change // 2} steps at most"
    law = Exponential if made.bounded else Choice
    return law(made.name, made.epsilon, made.relation, change, words)


def grid_around(lower: float, upper: float, points: int = POINTS) -> Bins:
    """The public bins in which the median is looked for."""
    return Bins(lower, (upper - lower) / (2 * points), points)


def place_above(size: float) -> int:
    """The place of the first half octave that begins at `size` or above."""
    places = range(HIGHEST - LOWEST)
    return next((k for k in places if edge(k) >= size), HIGHEST - LOWEST)


def edge(index: int) -> float:
    """The upper edge of a half octave, by its place in `octaves_of`."""
    return math.pow(2.0, (LOWEST + index) / 2)


def part_of(budget: Budget, share: Fraction, number: int) -> Fraction:
    """Epsilon of one of so many pure mechanisms out of a share of the budget."""
    if budget.rho is None:
        return budget.pure_epsilon() * share / number
    spent = float(share) * budget.rho / number
    return Fraction(math.floor(math.sqrt(2 * spent) * 2**40), 2**40)


def boxes_about(centres: Sequence[float], radii: Sequence[float]) -> list[Box]:
    """Limits at these distances from centres, or as near as doubles can tell."""
    near = [max(radius, abs(c) * 2.0**-40) for c, radius in zip(centres, radii, strict=True)]
    return [Box(c - radius, c + radius) for c, radius in zip(centres, near, strict=True)]
