"""Where a regressor lies and how far it spreads, found privately: a magnitude, a median, a spread.

Three choices by noisy argmax whose scores are counts of persons: the half octave of |x|, a point
next to the median of x on a public grid within that, and the half octave of |x - median|. A person
without a value is in no cell and counts nowhere. docs/proofs/quantiles.md, section 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.data.grids import LOG_BINS, LOG_LOW, LOG_ZERO
from privmean.data.person_table import ClipInterval, PersonTable
from privmean.errors import InfeasibleError
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.exponential import Exponential
from privmean.mechanisms.noisy_counts import Bins, Choice
from privmean.models.rank_scores import LEAST, MOST, OF, median_scores, quantile_scores
from privmean.noise.noise_source import Integers
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation

POINTS = 2**17 + 1  # of the grid of medians
MIDDLE = (LEAST, MOST, OF)
UPPER = 2, 2, 3  # a quantile that does not lie at a column of two values whose median is either
LOWEST, HIGHEST = LOG_LOW + 2, LOG_LOW + LOG_BINS  # half octaves: upper edges 2^(k/2)
PLACES = HIGHEST - LOWEST  # a size at the last one lies beyond the public range
SLOPE = Fraction(1, 16)  # noise scales that a half octave up costs; there are 159 of them
SHARES = (Fraction(3, 20), Fraction(1, 4), Fraction(7, 20), Fraction(9, 20))  # for the choices
ENOUGH, FEWEST = 90.0, 60.0  # people times epsilon of one choice


def size_scores(
    cells: Integers, slope: float, first: int = 0, parts: tuple[int, int, int] = MIDDLE
) -> Integers:
    """Scores of the half octaves from `People.log_counts`, from place `first` on (who is below
    counts nowhere); see `quantile_scores`."""
    return quantile_scores(octaves_of(cells)[first:], slope, parts)


def octaves_of(cells: Integers) -> Integers:
    """People by upper edge of the half octave of |x|, LOWEST first; zero is in no cell."""
    both = cells[:LOG_BINS] + cells[LOG_ZERO + 1 :]
    inside = np.zeros(HIGHEST - LOWEST + 1, dtype=np.int64)
    np.add.at(inside, np.maximum(np.arange(LOG_BINS) + LOG_LOW + 1 - LOWEST, 0), both)
    return inside


@dataclass(frozen=True)
class PricedChoice:
    """A choice at `epsilon`. bounded: by the exponential mechanism (its loss has bounded range)."""

    name: str
    epsilon: Fraction
    relation: Relation
    bounded: bool = False

    def moving(self, change: int) -> Choice | Exponential:
        """One whose scores differ by no more than `change` in all."""
        words = f"every score, by {change // 2} steps at most"
        law = Exponential if self.bounded else Choice
        return law(self.name, self.epsilon, self.relation, change, words)


@dataclass(frozen=True)
class ScaleChoice(PricedChoice):
    """The choice of a half octave."""

    parts: tuple[int, int, int] = MIDDLE

    @property
    def choice(self) -> Choice | Exponential:
        least, most, of = self.parts
        added = max(least, of - least, most, of - most)
        return self.moving(2 * of if self.relation == REPLACE_ONE else 2 * added)

    @property
    def slope(self) -> float:
        """Score that a half octave up costs: public, so that empty cells above do not add up."""
        return float(self.choice.scale * SLOPE)

    def ask(self, curator: Curator, cells: Integers, first: int = 0) -> int:
        """The place of a half octave, not before the first, from `People.log_counts`."""
        return first + curator.ask(self.choice, self.scores(cells, first))

    def scores(self, cells: Integers, first: int = 0) -> Integers:
        """As `ask` says, from the first place on."""
        return size_scores(cells, self.slope, first, self.parts)


@dataclass(frozen=True)
class MedianChoice(PricedChoice):
    """The choice of a point next to the median."""

    @property
    def choice(self) -> Choice | Exponential:
        return self.moving(4 if self.relation == REPLACE_ONE else 2)

    def ask(
        self, curator: Curator, people: PersonTable, column: int, limits: tuple[float, float]
    ) -> tuple[float, float]:
        """A point next to the median of a column, between these limits, and half a step of the grid
        that it is on. people: those of the curator, or the same people with other rows."""
        bins = grid_around(*limits)
        counts = bins.all_counts(people.uniform_counts(column, bins.half, bins.origin))
        return bins.center(curator.ask(self.choice, median_scores(counts))), bins.half


def grid_around(lower: float, upper: float, points: int = POINTS) -> Bins:
    """The public bins in which the median is looked for."""
    return Bins(lower, (upper - lower) / (2 * points), points)


def edge(index: int) -> float:
    """The upper edge of a half octave, by its place in `octaves_of`."""
    return math.pow(2.0, (LOWEST + index) / 2)


def refuse_unseen(
    persons: int, budget: Budget, each: float | Fraction, least: float, what: str, other: str
) -> None:
    """InfeasibleError where people times epsilon of one choice are too few to show anything."""
    if persons * each < least:
        raise InfeasibleError(
            f"n={persons} is too small to {what} with {budget.describe()}",
            f"provide at least about {math.ceil(least / float(each))} people, {other}",
        )


def share_seen(
    signal: Callable[[Fraction], Fraction | float],
    shares: Sequence[Fraction] = SHARES,
    enough: float = ENOUGH,
) -> Fraction:
    """The first share whose signal is enough, else the last."""
    return next((share for share in shares if signal(share) >= enough), shares[-1])


def part_of(budget: Budget, share: Fraction, number: int) -> Fraction:
    """Epsilon of one of so many pure mechanisms out of a share of the budget."""
    if budget.rho is None:
        return budget.pure_epsilon() * share / number
    spent = float(share) * budget.rho / number
    return Fraction(math.floor(math.sqrt(2 * spent) * 2**40), 2**40)


def boxes_about(centres: Sequence[float], radii: Sequence[float]) -> list[ClipInterval]:
    """Limits at these distances from centers, or as near as doubles can tell."""
    near = [max(radius, abs(c) * 2.0**-40) for c, radius in zip(centres, radii, strict=True)]
    return [ClipInterval(c - radius, c + radius) for c, radius in zip(centres, near, strict=True)]
