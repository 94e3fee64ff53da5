"""Where the values of one column are: a few Laplace histograms on a signed logarithmic grid.

Stages (docs/proofs/default-mean.md): cheap rounds that carry the origin into the data, a histogram
that shows both tails, a second look with fresh noise when nothing was seen, and a new start when
the values turn out to lie far from the origin compared with their spread (with few persons: choices
of a part of where they were seen). Every count gets noise, occupied or not, so no threshold and no
delta are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from privmean.central.left_behind import WINDOW, Passed
from privmean.central.log_segments import (
    ATOM_ONLY,
    BEYOND,
    END,
    FAR_PART,
    FOUND,
    LAPLACE,
    NOTHING,
    Histogram,
    Reach,
    Window,
    all_around,
    cells_of,
    concentrated,
    lies_far,
    read_reach,
)
from privmean.central.places import Places
from privmean.central.wallet import Wallet, floor_tick
from privmean.intervals.missing import Missing
from privmean.mechanisms.counts import NoisyCounts
from privmean.mechanisms.curator import Curator
from privmean.privacy.budget import REPLACE_ONE, Relation

FEWEST = 150  # n*epsilon below which no step could see anything
FEW = 400  # and below which the answer is a gamble worth a warning
ROUNDS_FROM = 600  # rounds need this n*epsilon
MOST_ROUNDS = 8
PART = 0.7  # a round moves the origin if `WINDOW` neighbouring bins hold 70 % of the persons
NEVER_ENDS = 1 / 32  # part of the persons that may be left behind where every round moved
CLEAR = 18.0  # and that is so many noise scales, where many have no value: pure noise rarely is
FAR_WINDOW = 2  # a new start after the tails if 2 bins away from the origin hold nearly all
VISIBLE = LAPLACE.main + LAPLACE.price  # noise scales of a look that persons in one bin must be
CHOICE, CHOICES, FEWEST_LEFT = 50.0, 3, 3  # n*epsilon of a choice, how many; prices left before it
SHIFTS, FOR_NARROW = 4, 2.0  # of its parts (`Places`): half as wide is a quarter of the noise^2
PER_LEVEL = 8.0  # persons with a value, times the price, for every halving: else noise is chosen
FINE = 4  # halvings that ask for another choice
MARGIN = 0.25  # of its length, on each side of a part: the limits
LEAN = 1500  # n*epsilon below which more is spent on looking
AGAIN = 0.5  # part of what is left for a second look
SURE = 3.0  # noise scales of the persons with a value, or of their private number, in their favour
LEAST = 130.0  # persons with a value, times epsilon, that a column with nulls must have
MOST = 0.75  # part of the persons without a value that explains why nothing else is seen

LAST = END * (1 - 2.0**-20)  # limits that hold this hold the end of the public range

NOBODY = "nobody has a value"


@dataclass(frozen=True)
class Schedule:
    """Prices of the looking stages, from n*epsilon alone (public, or from a paid noisy count).

    choice: price of a choice after a new start, where no rounds are run (0 where they are).
    doubt: noise scale of `persons` (0 where they are public).
    """

    persons: int
    rounds: int
    price: Fraction
    share: float
    choice: Fraction = Fraction(0)
    doubt: float = 0.0

    @classmethod
    def of(cls, persons: int, epsilon: Fraction, doubt: float = 0.0) -> Schedule:
        signal = float(persons * epsilon)
        cost = max(80.0, signal / 50)
        rounds = min(MOST_ROUNDS, int(0.4 * signal / cost)) if signal >= ROUNDS_FROM else 0
        share = 0.4 if signal < LEAN else min(0.4, max(0.1, 0.3 * (4000 / signal) ** 0.25))
        price = floor_tick(Fraction(cost) / max(persons, 1))
        choice = Fraction(0) if rounds else floor_tick(Fraction(CHOICE) / max(persons, 1))
        return cls(persons, rounds, price, share, choice, doubt)


@dataclass(frozen=True)
class Location:
    """The private outcome: limits of the values, and the path that was paid for.

    hidden, before: as in `Reach`. count_scale: noise of a count of the histogram behind
    the limits; seen: that histogram. nulls: the noisy numbers of persons without a value, and their
    scales. first: the first round's histogram, around 0, where a round moved the origin. chosen:
    the first limits that were chosen, where another choice may move those here (`limits_again`).
    away: the noisy number of persons that rounds left behind and its scale, where it was asked for.
    within: where limits were chosen after a new start: the location before the last choice, if that
    is worth going back to.
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
    nulls: tuple[tuple[float, float], ...] = ()
    first: Histogram | None = field(default=None, repr=False, compare=False)
    seen: Histogram | None = field(default=None, repr=False, compare=False)
    chosen: tuple[float, float] | None = None
    away: tuple[float, float] | None = None
    within: Location | None = None

    @property
    def path(self) -> dict[str, Any]:
        """What was paid for, as a release tells it."""
        names = ("outcome", "origin", "rounds", "looks", "restarts")
        told = {name: getattr(self, name) for name in names}
        if self.away is not None:
            told["persons left behind"], told["noise scale of those left behind"] = self.away
        return told

    @property
    def missing(self) -> Missing:
        """The persons without a value, as far as they are known by now."""
        return Missing.pooled(self.nulls)

    def scarce(self, there: float) -> bool:
        """Whether beside so many persons with a value most are known to have none."""
        absent = self.missing.believed
        return absent > MOST * (absent + there)


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


def almost_nobody(missing: Missing, persons: float, epsilon: Fraction) -> bool:
    """Whether hardly anybody has a value, by the noisy numbers of those who have none."""
    there = persons - missing.number + SURE * missing.scale
    return missing.believed > 0 and there * float(epsilon) < LEAST


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
    nulls: list[tuple[float, float]] = []

    def look(price: Fraction, name: str) -> Histogram:
        cells = wallet.counts(name, price, moved_cells, spread=moved_cells)
        found = histogram(curator, column, origin, cells)
        nulls.append((found.missing, found.scale))
        return found

    def there() -> float:
        return schedule.persons - Missing.pooled(nulls).believed

    origin, rounds, looks, restarts = 0.0, 0, 0, 0
    earlier: Histogram | None = None
    first: Histogram | None = None
    fallback: tuple[Reach, float, Histogram] | None = None
    passed, back = Passed(curator, column, wallet), False
    top: int | None = None  # after a new start, no value is known in bins beyond the next one
    part = schedule.share
    while True:
        while earlier is None and rounds < schedule.rounds and wallet.left > schedule.price:
            rounds += 1
            around = look(schedule.price, "origin")
            window = concentrated(around, WINDOW)
            if window.held < max(PART * there(), CLEAR * around.scale):
                break
            first = around if rounds == 1 else first
            origin = passed.moved(around, window, origin, there(), schedule.doubt)
            least = NEVER_ENDS * there() if rounds == schedule.rounds else 0.0
            start = passed.start(origin, least, moved_cells / float(wallet.left * Fraction(part)))
            if start is not None:
                origin, first, back = start, None, True
                break
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
        if reach.outcome != FOUND or restarts or back:
            break
        window = concentrated(seen, FAR_WINDOW)
        known = max(there(), CLEAR * seen.scale)
        everybody = all_around(seen, window, known, relation == REPLACE_ONE)
        if not lies_far(seen, window, everybody, LAPLACE):
            break
        to_come = moved_cells / float(schedule.share * wallet.left)  # noise scale of a new look
        if Missing.pooled(nulls).believed and window.held < VISIBLE * to_come:
            break  # it would show nothing of so few persons, and cost much of what is left
        fallback, restarts = (reach, origin, seen), 1
        if schedule.choice and wallet.left > FEWEST_LEFT * schedule.choice:
            path = rounds, looks, restarts
            wide = settled(reach, origin, seen, nulls, schedule, wallet.total, path, first)
            levels = 1  # two bins that both hold persons are no wider than these are apart
            if window.most >= FAR_PART * everybody:
                levels = max(int(there() * float(schedule.choice) / PER_LEVEL), 1)
            return narrowed(curator, column, wide, window, levels, schedule.choice, wallet)
        origin, earlier, part = origin + window.middle, None, schedule.share
        top = window.first
    path = rounds, looks, restarts
    place = settled(reach, origin, seen, nulls, schedule, wallet.total, path, first)
    return replace(place, away=passed.away)


def narrowed(
    curator: Curator,
    column: int,
    wide: Location,
    window: Window,
    levels: int,
    price: Fraction,
    wallet: Wallet,
) -> Location:
    """Limits within `window`, seen from the origin of `wide`: a part of it of at most so many
    `levels`, and a part of that, chosen by the persons in it."""
    if wide.outcome != FOUND:
        return wide
    lower, upper = (wide.origin + edge for edge in window.edges(FAR_WINDOW))
    places, found, level = Places(levels, SHIFTS, FOR_NARROW), wide, FINE
    while found.rounds < CHOICES and level >= FINE and wallet.left > FEWEST_LEFT * price:
        limits = lower, upper
        first, last, level = places.choose(curator, column, limits, price, wallet)
        beside = MARGIN * (last - first)
        lower, upper = max(lower, first - beside), min(upper, last + beside)
        found = replace(
            found,
            origin=(lower + upper) / 2,
            lower=lower,
            upper=upper,
            rounds=found.rounds + 1,
            hidden=0.0,
            before=(0.0, 0.0),
            within=None if found is wide and level >= FINE else found,
        )
    return found


def settled(
    reach: Reach,
    origin: float,
    seen: Histogram,
    nulls: Sequence[tuple[float, float]],
    schedule: Schedule,
    epsilon: Fraction,
    path: tuple[int, int, int],
    first: Histogram | None,
) -> Location:
    """What the looks say in the end: post-processing. epsilon: of all that the column may cost;
    path: numbers of rounds, looks and new starts."""
    rounds, looks, restarts = path
    lower, upper = origin + reach.lower, origin + reach.upper
    outcome, missing = reach.outcome, Missing.pooled(nulls)
    if outcome == ATOM_ONLY:  # only if nearly everybody with a value is seen there
        slack = LAPLACE.main * seen.scale + SURE * schedule.doubt
        if seen.zero <= schedule.persons - missing.number - slack:
            outcome = NOTHING
    if outcome == FOUND and not lower < upper:
        outcome = ATOM_ONLY  # the width was lost in the rounding of the origin
    if outcome in (FOUND, ATOM_ONLY) and not (lower > -LAST and upper < LAST):
        outcome = BEYOND  # values at the end of the range may be any values beyond it
    unseen = outcome != FOUND and missing.believed > MOST * schedule.persons
    sure = SURE * schedule.doubt if outcome == FOUND else 0.0
    if unseen or almost_nobody(missing, schedule.persons + sure, epsilon):
        outcome = NOBODY
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
        tuple(nulls),
        first,
        seen,
    )
