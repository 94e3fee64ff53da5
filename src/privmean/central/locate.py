"""Where the values of one column are: a few Laplace histograms on a signed logarithmic grid.

Stages (docs/proofs/default-mean.md): cheap rounds that carry the origin into the data, a histogram
that shows both tails, a second look with fresh noise when nothing was seen, and a new start when
the values turn out to lie far from the origin compared with their spread (with few persons: cheaper
rounds from there, whose last window is the answer). Every count gets noise, occupied or not, so no
threshold and no delta are needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from privmean.central.log_segments import (
    ATOM_ONLY,
    FAR_ALONE,
    FOUND,
    LAPLACE,
    NOTHING,
    Histogram,
    Reach,
    concentrated,
    lies_far,
    read_reach,
)
from privmean.central.wallet import Wallet, floor_tick
from privmean.mechanisms.counts import NoisyCounts
from privmean.mechanisms.curator import Curator
from privmean.privacy.budget import REPLACE_ONE, Relation

FEWEST = 150  # n*epsilon below which no step could see anything
FEW = 400  # and below which the answer is a gamble worth a warning
ROUNDS_FROM = 600  # rounds need this n*epsilon
MOST_ROUNDS = 8
WINDOW, PART = 4, 0.7  # a round moves the origin if 4 neighbouring bins hold 70 % of the persons
FAR_WINDOW = 2  # a new start after the tails if 2 bins away from the origin hold nearly all
NEAR_COST, NEAR_PART = 40.0, 0.75  # n*epsilon of a round from there, and what 2 bins must hold
NEAR_ROUNDS, NEAR_LEFT = 3, 4  # at most so many, and only with more than 4 prices left
LEAN = 1500  # n*epsilon below which more is spent on looking
AGAIN = 0.5  # part of what is left for a second look


@dataclass(frozen=True)
class Schedule:
    """Prices of the looking stages, from n*epsilon alone (public, or from a paid noisy count).

    near: price of a round after a new start, where no other rounds are run (0 where they are).
    """

    persons: int
    rounds: int
    price: Fraction
    share: float
    near: Fraction = Fraction(0)

    @classmethod
    def of(cls, persons: int, epsilon: Fraction) -> Schedule:
        signal = float(persons * epsilon)
        cost = max(80.0, signal / 50)
        rounds = min(MOST_ROUNDS, int(0.4 * signal / cost)) if signal >= ROUNDS_FROM else 0
        share = 0.4 if signal < LEAN else min(0.4, max(0.1, 0.3 * (4000 / signal) ** 0.25))
        price = floor_tick(Fraction(cost) / max(persons, 1))
        near = Fraction(0) if rounds else floor_tick(Fraction(NEAR_COST) / max(persons, 1))
        return cls(persons, rounds, price, share, near)


@dataclass(frozen=True)
class Location:
    """The private outcome: limits of the values, and the path that was paid for.

    hidden, before: as in `Reach`. count_scale: noise of a count of the histogram behind
    the limits; seen: that histogram.
    """

    outcome: str
    origin: float
    lower: float
    upper: float
    rounds: int
    looks: int
    restarts: int
    hidden: float
    count_scale: float
    before: tuple[float, float] = (0.0, 0.0)
    seen: Histogram | None = field(default=None, repr=False, compare=False)


def _histogram(
    curator: Curator,
    column: int,
    origin: float,
    cells: NoisyCounts,
) -> Histogram:
    counts = curator.ask(cells, curator.people.log_counts(column, origin))
    return Histogram.of(counts, float(cells.scale))


def locate(
    curator: Curator,
    column: int,
    schedule: Schedule,
    safety: float,
    wallet: Wallet,
    relation: Relation,
) -> Location:
    """Limits that hold the values of `column`; pays for every histogram from `wallet`."""
    # a replaced person leaves one cell for another; an added one enters one cell
    moved_cells = 2 if relation == REPLACE_ONE else 1

    def look(price: Fraction, name: str) -> Histogram:
        cells = wallet.counts(name, price, moved_cells, spread=moved_cells)
        return _histogram(curator, column, origin, cells)

    origin, rounds, looks, restarts = 0.0, 0, 0, 0
    earlier: Histogram | None = None
    fallback: tuple[Reach, float, Histogram] | None = None
    top: int | None = None  # after a new start, no value is known in bins beyond the next one
    part = schedule.share
    while True:
        while earlier is None and rounds < schedule.rounds and wallet.left > schedule.price:
            rounds += 1
            window = concentrated(look(schedule.price, "origin"), WINDOW)
            if window.held < PART * schedule.persons:
                break
            origin += window.middle
        looks += 1
        seen = look(wallet.share(part), "tails")
        if earlier is not None:
            seen = seen.pooled(earlier)
        if top is not None:
            seen = seen.within(top + 1)
        reach = read_reach(seen, safety)
        if reach.outcome in (ATOM_ONLY, NOTHING):
            if fallback is not None:  # the new start lost the values: keep what was seen before
                reach, origin, seen = fallback
                break
            if earlier is None:
                earlier, part = seen, AGAIN
                continue
            break
        if reach.outcome != FOUND or restarts:
            break
        window = concentrated(seen, FAR_WINDOW)
        if not lies_far(seen, window, schedule.persons, relation == REPLACE_ONE, LAPLACE):
            break
        fallback, restarts = (reach, origin, seen), 1
        origin, earlier, part = origin + window.middle, None, schedule.share
        top, moved = window.first, False
        single = window.most >= FAR_ALONE * window.held
        for _ in range(NEAR_ROUNDS):
            if not (schedule.near and single and wallet.left > NEAR_LEFT * schedule.near):
                break
            rounds += 1
            seen = look(schedule.near, "origin")
            window = concentrated(seen, FAR_WINDOW, top)
            if window.held < NEAR_PART * schedule.persons:
                break
            near, far = (edge - window.middle for edge in window.edges(FAR_WINDOW))
            origin, top, moved = origin + window.middle, window.first, True
            fallback = (Reach(FOUND, near, far), origin, seen)
        if moved:  # another histogram of the tails would cost more than it shows
            reach, origin, seen = fallback
            break
    lower, upper = origin + reach.lower, origin + reach.upper
    outcome = reach.outcome
    if outcome == FOUND and not lower < upper:
        outcome = ATOM_ONLY  # the width was lost in the rounding of the origin
    return Location(
        outcome,
        origin,
        lower,
        upper,
        rounds,
        looks,
        restarts,
        reach.hidden,
        seen.scale,
        reach.before,
        seen,
    )
