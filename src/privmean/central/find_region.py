"""Where the values of one column are: a private center, and a Laplace histogram about it.

The histogram lies on a signed logarithmic grid and shows both tails; where it shows nothing, fresh
noise is bought once. Every count gets noise, occupied or not, so no threshold and no delta are
needed. docs/proofs/location-by-histograms.md.
"""

from __future__ import annotations

from fractions import Fraction

from privmean.central.clipping_region import NOBODY, ClippingRegion
from privmean.central.log_histogram import (
    ATOM_ONLY,
    BEYOND,
    FOUND,
    LAPLACE,
    NOTHING,
    Histogram,
    bin_edge,
    cells_of,
    read_reach,
)
from privmean.estimators.locate import LAST, LocationPrices, center_step
from privmean.estimators.pure_budget import PureBudgetSpender, floor_epsilon
from privmean.inference.missing_count import MissingCount
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import NoisyCounts
from privmean.privacy.budget import REPLACE_ONE, Relation

SNUG = 2**0.25  # factor on the outer edge of the last occupied bin, where a count follows
AGAIN = 0.5  # part of what is left for a second look
SURE = 3.0  # noise scales of the people with a value, or of their private number, in their favor
LEAST = 130.0  # people with a value, times epsilon, that a column with nulls must have
LEAN = 1500.0  # people times epsilon below which more is spent on looking


def tail_share(people: float, epsilon: Fraction) -> float:
    """Part of what is left for the histogram of the tails."""
    signal = float(people * epsilon)
    return 0.4 if signal < LEAN else min(0.4, max(0.1, 0.3 * (4000 / signal) ** 0.25))


def center_price(people: int, epsilon: Fraction) -> Fraction:
    """Price of the center, of `epsilon` in all."""
    return LocationPrices.of(people, epsilon).center


def moved_cells(relation: Relation) -> int:
    """A person replaced leaves one cell for another; an added one enters one cell."""
    return 2 if relation == REPLACE_ONE else 1


def histogram(curator: Curator, column: int, origin: float, cells: NoisyCounts) -> Histogram:
    """The noisy histogram of x - origin, and of those without a value."""
    people = curator.people
    exact = cells_of(people.log_counts(column, origin), people.missing(column))
    return Histogram.of(curator.ask(cells, exact), float(cells.scale))


def find_region(
    curator: Curator,
    column: int,
    people: int,
    share: float,
    spender: PureBudgetSpender,
    doubt: float = 0.0,
) -> ClippingRegion:
    """Limits that hold the values of `column`; pays for everything from `spender`.

    people: public, or by a noisy count of this noise scale `doubt`. share: part of what is left
    for the histogram. Counts are in parts of a person (`spender.unit`); so is what is returned.
    """
    whole, relation = spender.unit, spender.relation
    step = center_step(spender.spend(center_price(people, spender.left)), relation, whole)
    origin, _ = curator.ask(step, curator.people.column_counts(column))
    seen = _look(curator, column, origin, share, spender)
    nulls, looks = [(seen.missing, seen.scale)], 1
    reach = read_reach(seen, SNUG)
    if reach.outcome in (ATOM_ONLY, NOTHING):
        again = _look(curator, column, origin, AGAIN, spender)
        nulls.append((again.missing, again.scale))
        seen, looks = again.pooled(seen), 2
    number = people * whole, doubt * whole
    return settled(origin, seen, nulls, number, spender.total / whole, looks)


def _look(
    curator: Curator, column: int, origin: float, share: float, spender: PureBudgetSpender
) -> Histogram:
    moved = moved_cells(spender.relation)
    cells = spender.counts("tail histogram", spender.share(share), moved, spread=moved)
    return histogram(curator, column, origin, cells)


def settled(
    origin: float,
    seen: Histogram,
    nulls: list[tuple[float, float]],
    people: tuple[float, float],
    epsilon: Fraction,
    looks: int = 1,
) -> ClippingRegion:
    """What a center and a histogram about it say: post-processing. people: their number and its
    noise scale, in parts of a person; epsilon: of all that the column may cost, for a part."""
    number, doubt = people
    reach = read_reach(seen, SNUG)
    # the zero cell holds values on both sides of the origin
    slack = bin_edge(0) if origin and reach.outcome == FOUND else 0.0
    lower, upper = origin + (reach.lower or -slack), origin + (reach.upper or slack)
    outcome, missing = reach.outcome, MissingCount.pooled(nulls)
    if outcome == ATOM_ONLY:  # only if nearly everybody with a value is seen there
        slack = LAPLACE.main * seen.scale + SURE * doubt
        if seen.zero <= number - missing.number - slack:
            outcome = NOTHING
    if outcome == FOUND and not lower < upper:
        outcome = ATOM_ONLY  # the width was lost in the rounding of the origin
    if outcome in (FOUND, ATOM_ONLY) and not (lower > -LAST and upper < LAST):
        outcome = BEYOND  # values at the end of the range may be any values beyond it
    there = number - missing.number + SURE * (missing.scale + doubt)
    if missing.believed > 0 and there * float(epsilon) < LEAST:
        outcome = NOBODY
    return ClippingRegion(outcome, origin, lower, upper, looks, seen, missing, reach.hidden)


def priced(price: Fraction, relation: Relation) -> NoisyCounts:
    """A histogram of the tails at a fixed price."""
    moved = moved_cells(relation)
    return NoisyCounts.at("tail histogram", floor_epsilon(price), relation, moved, moved)
