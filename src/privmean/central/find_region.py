"""Where the values of one column are: a few Laplace histograms on a signed logarithmic grid.

Stages (docs/proofs/default-mean.md): cheap rounds that carry the origin into the data, a histogram
that shows both tails, a second look with fresh noise when nothing was seen, and a new start when
the values turn out to lie far from the origin compared with their spread (with few persons: choices
of a part of where they were seen, at once where the first round shows nearly all there). Every
count gets noise, occupied or not, so no threshold and no delta are needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from privmean.central.bisect_region import RegionBisection
from privmean.central.clipping_region import LAST, MOST, NOBODY, ClippingRegion
from privmean.central.log_histogram import (
    ATOM_ONLY,
    BEYOND,
    FAR_PART,
    FOUND,
    LAPLACE,
    NOTHING,
    Histogram,
    HistogramExtent,
    Window,
    all_around,
    cells_of,
    concentrated,
    lies_far,
    nearly_all,
    read_reach,
    seen_mean,
)
from privmean.central.overlooked_group import WINDOW, OverlookedGroupCheck
from privmean.central.pure_budget import PureBudgetSpender, floor_epsilon
from privmean.inference.missing_count import MissingCount
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import NoisyCounts
from privmean.privacy.budget import REPLACE_ONE, Relation

FEWEST = 150  # n*epsilon below which no step could see anything
FEW = 400  # and below which the answer is a gamble worth a warning
ROUNDS_FROM = 600  # rounds need this n*epsilon
PARTS_TO = 1100  # and are worse than parts below this one, where these may be chosen
AT_ONCE_TO = 1600  # and up to here parts may follow the first round, if people beyond are counted
MOST_ROUNDS = 8
PART = 0.7  # a round moves the origin if `WINDOW` neighboring bins hold 70 % of the people
MOST_HELD = 0.85  # and parts are chosen if two of them hold so many
NEVER_ENDS = 1 / 32  # part of the people that may be left behind where every round moved
CLEAR = 18.0  # and that is so many noise scales, where many have no value: pure noise rarely is
FAR_WINDOW = 2  # a new start after the tails if 2 bins away from the origin hold nearly all
VISIBLE = LAPLACE.main + LAPLACE.price  # noise scales of a look that people in one bin must be
CHOICE, FEWEST_LEFT = 50.0, 3  # n*epsilon of a choice; prices left before it
CHOICES, CHOICES_AT_ONCE = 3, 6  # how many after a tail histogram, and without one
SHIFTS, FOR_NARROW = 4, 2.0  # of its parts (`Places`): half as wide is a quarter of the noise^2
PER_LEVEL = 8.0  # people with a value, times the price, for every halving: else noise is chosen
FINE = 2  # halvings that ask for another choice
MARGIN = 0.25  # of its length, on each side of a part: the limits
LEAN = 1500  # n*epsilon below which more is spent on looking
AGAIN = 0.5  # part of what is left for a second look
SURE = 3.0  # noise scales of the people with a value, or of their private number, in their favor
LEAST = 130.0  # people with a value, times epsilon, that a column with nulls must have


@dataclass(frozen=True)
class RoundSchedule:
    """Prices of the looking stages, from n*epsilon alone (public, or from a paid noisy count).

    choice: price of a choice of a part, after a new start where no rounds are run (else 0), or, if
    `at_once`, where the first round shows most people in two neighboring bins.
    doubt: noise scale of `persons` (0 where they are public).
    """

    n: int
    rounds: int
    price: Fraction
    share: float
    choice: Fraction = Fraction(0)
    doubt: float = 0.0
    at_once: bool = False

    @classmethod
    def of(
        cls,
        persons: int,
        epsilon: Fraction,
        doubt: float = 0.0,
        *,
        parts: bool = False,
        counted: bool = False,
    ) -> RoundSchedule:
        """parts: whether parts may be chosen; counted: whether people beyond are counted after."""
        signal = float(persons * epsilon)
        cost = max(80.0, signal / 50)
        share = 0.4 if signal < LEAN else min(0.4, max(0.1, 0.3 * (4000 / signal) ** 0.25))
        price = floor_epsilon(Fraction(cost) / max(persons, 1))
        alone = floor_epsilon(Fraction(CHOICE) / max(persons, 1)) if parts else Fraction(0)
        if signal < (PARTS_TO if parts else ROUNDS_FROM):
            return cls(persons, 0, price, share, alone, doubt)
        rounds = min(MOST_ROUNDS, int(0.4 * signal / cost))
        if signal < AT_ONCE_TO and parts and counted:
            return cls(persons, rounds, price, share, alone, doubt, at_once=True)
        return cls(persons, rounds, price, share, Fraction(0), doubt)


def histogram(
    curator: Curator,
    column: int,
    origin: float,
    cells: NoisyCounts,
) -> Histogram:
    """The noisy histogram of x - origin, and of those without a value."""
    people = curator.people
    exact = cells_of(people.log_counts(column, origin), people.missing(column))
    return Histogram.of(curator.ask(cells, exact), float(cells.scale))


def is_nearly_empty(missing: MissingCount, persons: float, epsilon: Fraction) -> bool:
    """Whether hardly anybody has a value, by the noisy numbers of those who have none."""
    there = persons - missing.number + SURE * missing.scale
    return missing.believed > 0 and there * float(epsilon) < LEAST


def find_region(
    curator: Curator,
    column: int,
    schedule: RoundSchedule,
    safety: float,
    spender: PureBudgetSpender,
    relation: Relation,
) -> ClippingRegion:
    """Limits that hold the values of `column`; pays for every histogram and every choice from
    `spender`."""
    # a replaced person leaves one cell for another; an added one enters one cell
    moved_cells = 2 if relation == REPLACE_ONE else 1
    nulls: list[tuple[float, float]] = []

    def look(price: Fraction, name: str) -> Histogram:
        cells = spender.counts(name, price, moved_cells, spread=moved_cells)
        found = histogram(curator, column, origin, cells)
        nulls.append((found.missing, found.scale))
        return found

    def there() -> float:
        return schedule.n - MissingCount.pooled(nulls).believed

    origin, rounds, looks, restarts = 0.0, 0, 0, 0
    earlier: Histogram | None = None
    first: Histogram | None = None
    fallback: tuple[HistogramExtent, float, Histogram] | None = None
    passed, back = OverlookedGroupCheck(curator, column, spender), False
    top: int | None = None  # after a new start, no value is known in bins beyond the next one
    part = schedule.share
    while True:
        while earlier is None and rounds < schedule.rounds and spender.left > schedule.price:
            rounds += 1
            around = look(schedule.price, "coarse location")
            clear = CLEAR * around.scale
            if schedule.at_once and rounds == 1:
                pair = concentrated(around, FAR_WINDOW)
                if pair.held >= max(MOST_HELD * there(), clear):
                    return parted(curator, column, around, pair, there(), schedule, safety, spender)
            window = concentrated(around, WINDOW)
            if window.held < max(PART * there(), clear):
                break
            first = around if rounds == 1 else first
            origin = passed.moved(around, window, origin, there(), schedule.doubt)
            least = NEVER_ENDS * there() if rounds == schedule.rounds else 0.0
            start = passed.start(origin, least, moved_cells / float(spender.left * Fraction(part)))
            if start is not None:
                origin, first, back = start, None, True
                break
        looks += 1
        seen = look(spender.share(part), "tail histogram")
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
        if reach.outcome != FOUND or restarts or back:
            break
        window = concentrated(seen, FAR_WINDOW)
        known = max(there(), CLEAR * seen.scale)
        everybody = all_around(seen, window, known, relation == REPLACE_ONE)
        if not lies_far(seen, window, everybody, LAPLACE):
            break
        to_come = moved_cells / float(schedule.share * spender.left)  # noise scale of a new look
        if MissingCount.pooled(nulls).believed and window.held < VISIBLE * to_come:
            break  # it would show nothing of so few people, and cost much of what is left
        fallback, restarts = (reach, origin, seen), 1
        parts = schedule.choice and not schedule.at_once
        if parts and spender.left > FEWEST_LEFT * schedule.choice:
            path = rounds, looks, restarts
            wide = settled(reach, origin, seen, nulls, schedule, spender.total, path, first)
            levels = 1  # two bins that both hold people are no wider than these are apart
            if nearly_all(window.most, everybody, FAR_PART, seen.scale):
                levels = max(int(there() * float(schedule.choice) / PER_LEVEL), 1)
            return narrowed(curator, column, wide, window, levels, schedule.choice, spender)
        origin, earlier, part = origin + window.middle, None, schedule.share
        top = window.first
    path = rounds, looks, restarts
    place = settled(reach, origin, seen, nulls, schedule, spender.total, path, first)
    return replace(place, away=passed.away)


def parted(
    curator: Curator,
    column: int,
    seen: Histogram,
    window: Window,
    there: float,
    schedule: RoundSchedule,
    safety: float,
    spender: PureBudgetSpender,
) -> ClippingRegion:
    """Limits within `window`, away from 0, where `seen` shows most persons: by choices of a part.
    Where these leave too many beyond, the limits go back, at last to all that was seen."""
    nulls = ((seen.missing, seen.scale),)
    reach = read_reach(seen, safety)
    wide = settled(reach, 0.0, seen, nulls, schedule, spender.total, (0, 0, 1), None)
    levels = max(int(there * float(schedule.choice) / PER_LEVEL), 1)
    return narrowed(curator, column, wide, window, levels, schedule.choice, spender, at_once=True)


def narrowed(
    curator: Curator,
    column: int,
    wide: ClippingRegion,
    window: Window,
    levels: int,
    price: Fraction,
    spender: PureBudgetSpender,
    *,
    at_once: bool = False,
) -> ClippingRegion:
    """Limits within `window`, seen from the origin of `wide`: a part of it of at most so many
    `levels`, and a part of that, chosen by the people in it. at_once: whether a cheap look alone
    was taken; then the limits may go back, at last to `wide`."""
    if wide.outcome != FOUND:
        return wide
    lower, upper = (wide.origin + edge for edge in window.edges(FAR_WINDOW, wide.count_scale))
    places, found, level = RegionBisection(levels, SHIFTS, FOR_NARROW), wide, FINE
    choices, finest = CHOICES_AT_ONCE if at_once else CHOICES, False
    while found.rounds < choices and level >= FINE and spender.left > FEWEST_LEFT * price:
        first, last, level = places.choose(curator, column, (lower, upper), price, spender)
        beside = MARGIN * (last - first)
        lower, upper = max(lower, first - beside), min(upper, last + beside)
        before: ClippingRegion | None = found
        if not at_once and found is wide and level >= FINE:
            before = None
        elif at_once and finest and level == levels:
            before = found.within  # both parts are far wider than the values: the same people
        finest = level == levels
        found = replace(
            found,
            origin=(lower + upper) / 2,
            lower=lower,
            upper=upper,
            rounds=found.rounds + 1,
            hidden=0.0,
            before=(math.inf, math.inf),
            typical=(lower + upper) / 2,
            within=before,
        )
    return found


def settled(
    reach: HistogramExtent,
    origin: float,
    seen: Histogram,
    nulls: Sequence[tuple[float, float]],
    schedule: RoundSchedule,
    epsilon: Fraction,
    path: tuple[int, int, int],
    first: Histogram | None,
) -> ClippingRegion:
    """What the looks say in the end: post-processing. epsilon: of all that the column may cost;
    path: numbers of rounds, looks and new starts."""
    rounds, looks, restarts = path
    lower, upper = origin + reach.lower, origin + reach.upper
    outcome, missing = reach.outcome, MissingCount.pooled(nulls)
    if outcome == ATOM_ONLY:  # only if nearly everybody with a value is seen there
        slack = LAPLACE.main * seen.scale + SURE * schedule.doubt
        if seen.zero <= schedule.n - missing.number - slack:
            outcome = NOTHING
    if outcome == FOUND and not lower < upper:
        outcome = ATOM_ONLY  # the width was lost in the rounding of the origin
    if outcome in (FOUND, ATOM_ONLY) and not (lower > -LAST and upper < LAST):
        outcome = BEYOND  # values at the end of the range may be any values beyond it
    unseen = outcome != FOUND and missing.believed > MOST * schedule.n
    mean = seen_mean(seen, reach)
    sure = SURE * schedule.doubt if outcome == FOUND else 0.0
    if unseen or is_nearly_empty(missing, schedule.n + sure, epsilon):
        outcome = NOBODY
    return ClippingRegion(
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
        tuple(nulls),
        first,
        seen,
        typical=None if mean is None else origin + mean,
    )
