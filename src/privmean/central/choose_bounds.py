"""Where the values of one column are, by private choices: for few people.

Stages (docs/proofs/default-mean.md, section 8): the number of people with a value (unless it is
stated that all have one), one choice of both limits, and where that is a narrow pair away from the
origin a few choices of a cell within it, and one more of both limits around there. No step can
fail, and none needs a threshold. Experimental: better than the histograms of `locate` near zero,
worse for values far away that no guess tells of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from privmean.central.bisect_region import RegionBisection
from privmean.central.bound_pairs import choice, is_tight, limits_of, scored
from privmean.central.clipping_region import LAST, NOBODY, ClippingRegion
from privmean.central.log_histogram import ATOM_ONLY, BEYOND, FOUND, cells_of
from privmean.central.pure_budget import PureBudgetSpender, floor_epsilon
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import as_counts
from privmean.privacy.budget import REPLACE_ONE

LEAN = 600  # n*epsilon below which no cell is chosen
NUMBER, LEAN_NUMBER = 0.02, 0.05  # of epsilon for the people with a value; the second below LEAN
COST, LEAST_PART, MOST_PART = 120.0, 0.18, 0.4  # n*epsilon of the choice, and parts of what is left
LEAST = 100.0  # people with a value, times epsilon, that can be asked
CHOSEN = RegionBisection(levels=8, shifts=2, narrow=1.1)  # the cells of the limits
CELL_COST, CELLS, FAR = 44.0, 5, 4  # n*epsilon of such a choice, how many; levels that ask for more
CELL_PART = Fraction(1, 25)  # of epsilon, where that is more
AGAIN_COST, AGAIN_LEFT = 80.0, 4  # of another choice of limits, if so many prices are left
FINEST = 2.0**-45  # width of limits for where they are, below which they are one value
NOTHING = 2.0**-38  # limits as near to 0 as that hold zeros only
MIDDLE = 8.0  # of the width: what a choice around a chosen cell takes for the size of values


@dataclass(frozen=True)
class Prices:
    """What the steps cost, from n*epsilon of a column. persons: n, or a paid noisy number."""

    n: int
    epsilon: Fraction
    complete: bool

    @property
    def few(self) -> bool:
        return float(self.n * self.epsilon) < LEAN

    def number(self) -> Fraction:
        """For the number of people with a value."""
        return floor_epsilon(self.epsilon * Fraction(LEAN_NUMBER if self.few else NUMBER))

    def limits(self, left: Fraction, there: float) -> Fraction:
        """For the choice of both limits, with `there` people with a value."""
        wanted = max(Fraction(COST) / max(int(there), 1), Fraction(LEAST_PART) * left)
        return floor_epsilon(min(Fraction(MOST_PART) * left, wanted))

    @property
    def cell(self) -> Fraction:
        return floor_epsilon(max(Fraction(CELL_COST) / self.n, self.epsilon * CELL_PART))

    @property
    def again(self) -> Fraction:
        return floor_epsilon(Fraction(AGAIN_COST) / self.n)


def choose_limits(
    curator: Curator, column: int, prices: Prices, spender: PureBudgetSpender, near: float
) -> ClippingRegion:
    """Limits that hold the values of `column`; pays for every choice from `spender`. near: a public
    guess of the size of values. Without `complete` people with a value are counted first."""
    nulls: tuple[tuple[float, float], ...] = ()
    there = float(prices.n)
    if not prices.complete and spender.relation == REPLACE_ONE:
        step = spender.counts("count with a value", prices.number(), 1)
        present = curator.people.size() - curator.people.missing(column)
        (found,) = curator.ask(step, as_counts(present))
        nulls = ((prices.n - float(found), float(step.scale)),)
        there = min(max(float(found), 1.0), prices.n)
    if not prices.complete and there * float(spender.total) < LEAST:
        return _place(NOBODY, 0.0, (0.0, 0.0), nulls)
    price = prices.limits(spender.left, there)
    index = _chosen(curator, column, 0.0, price, there, near, spender, "limits")
    limits, origin, cells, again = limits_of(index), 0.0, 0, 0
    wide = limits
    while (
        cells < CELLS
        and not prices.few
        and (cells or is_tight(index))
        and spender.left > 2 * prices.cell
        and _wide_enough(limits)
    ):
        cells += 1
        lower, upper, level = CHOSEN.choose(curator, column, limits, prices.cell, spender)
        if level < 2:
            break
        origin, half = (lower + upper) / 2, upper - lower
        limits = max(limits[0], origin - half), min(limits[1], origin + half)
        if level < FAR:
            break
    if cells and limits != wide and spender.left > AGAIN_LEFT * prices.again:
        again, size = 1, max((limits[1] - limits[0]) / MIDDLE, NOTHING)
        index = _chosen(curator, column, origin, prices.again, there, size, spender, "limits again")
        lower, upper = limits_of(index)
        limits = origin + lower, origin + upper
    path = cells, 1 + again
    lower, upper = limits
    if not lower < upper or (origin == 0 and lower > -NOTHING and upper < NOTHING):
        return _place(ATOM_ONLY, origin, limits, nulls, path)
    if not (lower > -LAST and upper < LAST):
        return _place(BEYOND, origin, limits, nulls, path)
    return _place(FOUND, origin, limits, nulls, path, None if prices.few else wide)


def _place(
    outcome: str,
    origin: float,
    limits: tuple[float, float],
    nulls: tuple[tuple[float, float], ...],
    path: tuple[int, int] = (0, 0),
    first: tuple[float, float] | None = None,
) -> ClippingRegion:
    """path: numbers of cells and of pairs that were chosen. No histogram was asked for, so nothing
    is known of the people just inside the limits."""
    cells, pairs = path
    inside = math.inf, math.inf
    return ClippingRegion(
        outcome, origin, *limits, cells, pairs, 0, 0.0, 1.0, inside, nulls, chosen=first
    )


def _chosen(
    curator: Curator,
    column: int,
    origin: float,
    price: Fraction,
    there: float,
    near: float,
    spender: PureBudgetSpender,
    name: str,
) -> int:
    """The index of the chosen pair of limits around `origin`."""
    people = curator.people
    mechanism = choice(name, spender.spend(price), spender.relation)
    cells = cells_of(people.log_counts(column, origin), people.missing(column))
    return int(curator.ask(mechanism, scored(cells, price, there, near)))


def _wide_enough(limits: tuple[float, float]) -> bool:
    lower, upper = limits
    return upper - lower > FINEST * max(abs(lower), abs(upper))
