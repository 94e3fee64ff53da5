"""Searches and rounds of the default mean of many columns (docs/proofs/many-columns.md).

Noisy counts per octave of all columns together show where the values of each are, roughly, and how
far apart; columns not yet seen are searched again. One search of k columns is one Gaussian query: a
replaced person leaves one cell of each column for another, l2 change at most sqrt(2k). Cells are
one octave wide, from 2^-40 to 2^40, for both signs, with a cell for zero and one for people without
a value. Coarser cells than those of `find_region` find values under more noise; the limits need not
be sharp, because what follows clips whole rows.

A round standardizes the columns with what is known, looks at the norms of the people's rows (one
cheap histogram for all columns together), chooses the radius of a ball and releases the sums of the
rows shortened to it, with the sums of sizes |z| beside them: new centers and new scales. The last
round has all that is left, and squares beside it, for intervals.

Each step may ask for a part of mu^2 that depends on earlier outputs; what is left never depends on
the output that the step is about to make. So the whole is mu-GDP (step 6 there): by induction from
the last step, every remainder of the transcript is sqrt(left)*mu-GDP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.data.grids import LOG_BINS, LOG_LOW, LOG_ZERO
from privmean.data.person_table import PersonTable, Standardization
from privmean.estimators.find_region import ATOM_ONLY, BEYOND, FOUND, NOTHING, Segment, best_segment
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import GaussianCounts
from privmean.mechanisms.noisy_vector import FINEST
from privmean.mechanisms.row_sums import NoisyRows, RowSums, TailRows
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Gaussian, PrivacyEvent

OCTAVES = LOG_BINS // 2
ZERO, NULL, CELLS = OCTAVES, 2 * OCTAVES + 1, 2 * OCTAVES + 2
# evidence, in deviations of a count: price of a cell; what a first segment needs beyond that, less
# where people away from zero are certain; a segment of the other sign; the zero cell
CELL_PRICE, MAIN, SURE, OTHER, ATOM = 2.0, 4.0, 3.0, 3.0, 4.0
CERTAIN_AWAY = 8.0  # deviations of the people away from zero, to be certain
LOOK, NEAR = 7, 3  # octaves beyond the first segment's end: farthest allowed, and "about as far"
UNSEEN = 1.0  # deviations of the people that no segment holds: then both signs are open
SAFETY = 2.0  # factor on the outer limits
NARROW = 8.0  # an inner limit is kept when it is more than this part of the outer one
HEAVY = 4.0  # the first scale is at most so many times the typical distance from the middle cell
LEAST_PART, MAD_TO_SD = 8.0, 1.2533141373155003  # least scale: this part of the width; sqrt(pi/2)

_EDGES: Floats = np.array([2.0 ** (k + LOG_LOW // 2) for k in range(OCTAVES + 1)])
_MIDDLES: Floats = (_EDGES[:-1] + _EDGES[1:]) / 2


def octave_counts(logarithmic: Integers, present: int) -> Integers:
    """People per cell, from `People.log_counts` (two bins an octave, nulls in the zero bin)."""
    cells = np.empty(CELLS, dtype=np.int64)
    cells[:OCTAVES] = logarithmic[:LOG_BINS].reshape(OCTAVES, 2).sum(axis=1)
    cells[ZERO + 1 : NULL] = logarithmic[LOG_ZERO + 1 :].reshape(OCTAVES, 2).sum(axis=1)
    cells[NULL] = logarithmic.sum() - present
    cells[ZERO] = logarithmic[LOG_ZERO] - cells[NULL]
    return cells


@dataclass(frozen=True)
class OctaveSummary:
    """What a column shows: limits, a first center and a first scale if values were found.

    least: what the scale is at least, where cells around zero resolve it (0 for values far off).
    missing, missing_sd: noisy number of people without a value, and its deviation.
    """

    outcome: str
    lower: float = 0.0
    upper: float = 0.0
    center: float = 0.0
    scale: float = 1.0
    least: float = 0.0
    missing: float = 0.0
    missing_sd: float = 0.0


def read_octaves(counts: Floats, sd: float, persons: int) -> OctaveSummary:
    """What noisy cells of deviation `sd` show of a column of `persons` (public) people."""
    missing = float(counts[NULL])
    zero, price = float(counts[ZERO]), CELL_PRICE * sd
    sides = (counts[:OCTAVES], counts[ZERO + 1 : NULL])
    up, down = best_segment(sides[0], price), best_segment(sides[1], price)
    sign = 1 if up.score >= down.score else -1
    main, near = (up, sides[0]) if sign > 0 else (down, sides[1])
    far = sides[1] if sign > 0 else sides[0]
    other = best_segment(far, price, max(main.last - LOOK, 0))
    distance = other.first - main.last
    both = other.score > (OTHER if distance <= NEAR else MAIN + distance) * sd
    away = persons - zero - max(missing, 0.0)
    needed = (SURE if away > CERTAIN_AWAY * sd else MAIN) * sd
    if main.score < needed:
        # together with the other sign, where both reach about as far
        if abs(other.last - main.last) > 2 or main.score + other.score < needed:
            outcome = ATOM_ONLY if zero > ATOM * sd else NOTHING
            return OctaveSummary(outcome, missing=missing, missing_sd=sd)
        both = True
    if OCTAVES - 1 in (main.last, other.last if both else 0):
        return OctaveSummary(BEYOND, missing=missing, missing_sd=sd)
    outer, inner = float(_EDGES[main.last + 1]), 0.0
    cells = [near[main.first : main.last + 1]]
    places = [_MIDDLES[main.first : main.last + 1]]
    if both:
        inner = -float(_EDGES[other.last + 1])
        cells.append(far[other.first : other.last + 1])
        places.append(-_MIDDLES[other.first : other.last + 1])
    filled = zero > ATOM * sd
    if filled:
        cells.append(np.array([zero]))
        places.append(np.zeros(1))
    elif not both:
        start = float(_EDGES[max(main.first - 1, 0)])
        inner = start if start > outer / NARROW else 0.0
    weights = np.maximum(np.concatenate(cells), 0.0)
    where = np.concatenate(places)
    total = float(weights.sum())
    center = float(weights @ where) / total
    middle = _median(where, weights)
    typical = _median(np.abs(where - middle), weights) + abs(middle) / 3
    if typical > 0 and abs(center - middle) > HEAVY * typical:  # by a false cell far out
        center = middle
    scale = MAD_TO_SD * float(weights @ np.abs(where - center)) / total
    width = outer - inner
    scale = min(max(scale, width / LEAST_PART), width / 2)
    if typical > 0:
        scale = min(scale, HEAVY * typical)
    unseen = away - float(cells[0].sum())
    if not both and unseen > UNSEEN * sd * math.sqrt(len(cells[0]) + 1):
        inner = -outer
    lower, upper = min(SAFETY * inner, inner), SAFETY * outer
    if sign < 0:
        lower, upper, center = -upper, -lower, -center
    least = scale / 2 if filled or both else 0.0
    return OctaveSummary(FOUND, lower, upper, center, scale, least, missing, sd)


def _median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order[int(np.searchsorted(total, total[-1] / 2))]])


@dataclass
class GdpBudgetSpender:
    """mu: of the whole. left: the part of mu^2 that is not spent."""

    mu: float
    left: float = 1.0

    def spend(self, part: float) -> float:
        """The GDP strength of `part` of mu^2, which is then spent."""
        if not 0 < part <= self.left:
            raise ValueError("a part that is not left")
        self.left = self.left - part
        return self.mu * math.sqrt(part)


FIRST, TWO_LOOKS, ALL_LOOKS = 0.25, 0.5, 0.65  # parts of mu^2, at most
MOST_LOOKS, FEW = 3, 0.5  # the third look only for at most this part of the columns
AGAIN, LEAST = 9.0, 0.005  # a further look at k of d columns: 9 k/d of the first; the least part


def look_counts(columns: int, mu: float) -> GaussianCounts:
    """The counts of one search of so many columns."""
    return GaussianCounts.at("columns by octave", mu, REPLACE_ONE, 2 * columns)


def look(
    curator: Curator, persons: int, parts: GdpBudgetSpender
) -> tuple[tuple[OctaveSummary, ...], int]:
    """Look until every column is found, or no look that is left would change much. Returned: what
    was seen of every column, and at how many looks."""
    people = curator.people
    dimension = len(people.columns)
    exact = [
        octave_counts(people.log_counts(j, 0.0), people.size() - people.missing(j))
        for j in range(dimension)
    ]
    total: list[Floats] = [np.zeros(CELLS)] * dimension
    precision = [0.0] * dimension
    seen = [OctaveSummary("")] * dimension
    hidden, spent, looks = list(range(dimension)), 0.0, 0
    while hidden and looks < MOST_LOOKS:
        wanted = AGAIN * FIRST * len(hidden) / dimension
        third = looks == MOST_LOOKS - 1
        part = min((ALL_LOOKS if third else TWO_LOOKS) - spent, wanted) if looks else FIRST
        if part < LEAST or (third and len(hidden) > FEW * dimension):
            break
        counts = look_counts(len(hidden), parts.spend(part))
        looks, spent, sd = looks + 1, spent + part, counts.sd
        shown = curator.ask(counts, [exact[j] for j in hidden])
        for j, noisy in zip(hidden, shown, strict=True):
            total[j] = total[j] + noisy * sd**-2
            precision[j] += sd**-2
            found = total[j] / precision[j]
            seen[j] = read_octaves(found, precision[j] ** -0.5, persons)
        hidden = [j for j in hidden if seen[j].outcome != FOUND]
    return tuple(seen), looks


# edges of the shells of norm/sqrt(d), octaves but finer around 1, where most rows are expected
SHELLS: Floats = 2.0 ** np.concatenate(
    [np.arange(-8, -0.75, 1), [-0.5], np.arange(-3, 7) / 8, np.arange(1.25, 3.3, 0.5),
     np.arange(4, 20)]
)  # fmt: skip
_UPPER, _LOWER = np.append(SHELLS, 2 * SHELLS[-1]), np.concatenate([[0.0], SHELLS])
RADII: Floats = 2.0 ** (np.arange(-9 * 8, 20 * 8) / 8)  # tried, in the same unit
PRICE = 1.5  # of a further shell, in deviations of a count
APART = 2.0  # and of a group of shells farther out, beyond that, plus a quarter a shell between
MOST_ROUNDS = 6
GAIN = 1.5  # the last round comes when the one before guarantees less than this factor of variance
LONG = 2.0  # times sqrt(d): most rows are longer where scales fell too far; another round follows
ROUND_NOISE, ROUND = 0.1, (0.02, 0.07)  # aim: noise of a round's center in scales; its part
NORM_NOISE, NORMS = 0.03, (0.003, 0.03)  # aim: noise of a shell's count in people; its part
LAST_NORMS = 0.05  # part of the norms before the last round
KEEP = 4.0  # rounds stop when less than this many rounds' parts are left
CERTAIN = 5.0  # deviations of the people without a value, to be divided out
WIDER = 2.3  # expected radius over sqrt(d), for planning the rounds
SHRINK = 1 / 16
LAST, LAST_TAILS = "last sums of rows and squares", "last sums of rows, squares and tails"
FINEST_SCALE = 2.0**-30  # least scale, as a part of the width of the limits
# rows so many times as long as most, and how far the scale of the columns has fallen that they are
# from: most people share a value there, and nothing stops the scale from falling on
FAR, FALLEN = 8.0, 5.0


@dataclass(frozen=True)
class Shares:
    """Parts of mu^2 of a round and of a search of the norms."""

    round: float
    norms: float

    @classmethod
    def of(cls, columns: int, persons: int, mu: float) -> Shares:
        wanted = (WIDER * math.sqrt(columns) / (persons * mu * ROUND_NOISE)) ** 2
        seen = 2 / (NORM_NOISE * persons * mu) ** 2
        return cls(min(max(wanted, ROUND[0]), ROUND[1]), min(max(seen, NORMS[0]), NORMS[1]))


@dataclass(frozen=True)
class LastSums:
    """Of the last round: the units of the columns, the mechanism, what it gave, and the path.

    sums[j] / people[j] is the mean of column j in steps of the ball from its center."""

    units: tuple[Standardization, ...]
    mechanism: RowSums
    noisy: NoisyRows
    n: Floats
    rounds: int

    @property
    def step(self) -> float:
        return self.mechanism.ball.step


def norm_counts(mu: float) -> GaussianCounts:
    """The counts of one search of the norms: a person leaves one shell for another."""
    return GaussianCounts.at("norms of rows", mu, REPLACE_ONE, 2)


class Norms:
    """Noisy people per shell of the norm; a second look is averaged in by precision."""

    def __init__(self, people: PersonTable, columns: int) -> None:
        self.unit = math.sqrt(columns)
        self._exact = people.norm_counts((SHELLS * self.unit).tolist())
        self._total = np.zeros(len(self._exact))
        self._precision = 0.0

    def look(self, mu: float, curator: Curator) -> None:
        counts = norm_counts(mu)
        (noisy,) = curator.ask(counts, [self._exact])
        weight = (1 / counts.sd) ** 2
        self._total = self._total + weight * noisy
        self._precision += weight

    @property
    def _counts(self) -> Floats:
        return self._total / self._precision

    def _groups(self) -> list[Segment]:
        """Most rows, and groups apart, each farther out than the one before."""
        counts, sd = self._counts, self._precision**-0.5
        groups = [best_segment(counts, PRICE * sd)]
        end = groups[0].last + 1
        while end < len(counts):  # a group of rows apart needs more evidence with its distance
            more = best_segment(counts, PRICE * sd, end)
            if more.score < (APART + (more.first - end) / 4) * sd:
                break
            groups.append(more)
            end = more.last + 1
        return groups

    def far(self) -> float:
        """Where the farthest rows end, over sqrt(d), if they are `FAR` times farther out than most;
        0 if not."""
        end = float(_UPPER[self._groups()[-1].last])
        return end if end > FAR * self.typical else 0.0

    @property
    def typical(self) -> float:
        """About the median length of the rows of the first group."""
        most = self._groups()[0]
        held = np.cumsum(np.maximum(self._counts[most.first : most.last + 1], 0.0))
        return float(_UPPER[most.first + int(np.searchsorted(held, held[-1] / 2))])

    def call_back(self) -> None:
        """Floats the rows apart, beyond half of `FAR` times most, at sqrt(d), where `called_back`
        leaves them."""
        beyond = FAR / 2 * self.typical <= _LOWER
        at = int(np.searchsorted(SHELLS, 1.0))
        moved = np.where(beyond, 0.0, self._total)
        moved[at] += max(float(self._total[beyond].sum()), 0.0)
        self._total = moved

    def radius(self, noise_of_one: float, largest: float) -> float:
        """The radius that balances what is cut off against noise of `noise_of_one` radii (of the
        sum over people, in l2), if everything cut off pointed in one direction."""
        held = np.zeros(len(_UPPER), dtype=bool)
        for group in self._groups():
            held[group.first : group.last + 1] = True
        counts = np.maximum(self._counts[held], 0.0)
        upper, lower = _UPPER[held], _LOWER[held]
        middle = np.sqrt(np.maximum(lower, upper / 2) * upper)
        least, most = upper[0] / 2, 1.2 * upper[-1]
        tried = np.array([item for item in RADII.tolist() if least <= item <= most])
        cut = np.maximum(middle - tried[:, None], 0.0) @ counts
        best = int(np.argmin(cut**2 + (noise_of_one * tried) ** 2))
        return min(self.unit * float(tried[best]), largest)


def run(
    curator: Curator,
    seen: tuple[OctaveSummary, ...],
    persons: int,
    parts: GdpBudgetSpender,
    inner: float = 1.0,
) -> LastSums:
    """All rounds over the columns that were found, of one `Seen` a column of `people`; spends all
    that is left. inner: part of the radius of the last rows that something is cut off, which are
    then counted by column; 1: they are not."""
    width, shown = len(seen), [j for j, item in enumerate(seen) if item.outcome == FOUND]
    seen = tuple(seen[j] for j in shown)
    columns = len(seen)
    shares = Shares.of(columns, persons, parts.mu)
    units = tuple(Standardization(item.lower, item.upper, item.center, item.scale) for item in seen)
    divisors = np.array(
        [
            max(persons - item.missing, 1.0) if item.missing > CERTAIN * item.missing_sd
            else persons
            for item in seen
        ],
        dtype=float,
    )  # fmt: skip
    first = units
    before: Floats | None = None
    rounds = 0
    while True:
        rounds += 1
        inside = curator.people.standardized(_placed(width, shown, units))
        norms = Norms(inside, columns)
        norms.look(parts.spend(shares.norms), curator)
        reaches = tuple(unit.reach for unit in units)
        largest = math.hypot(*reaches)
        scales = np.array([unit.scale for unit in units])
        promised = scales * norms.radius(_noise(columns, parts.mu, shares.round), largest)
        last = rounds >= MOST_ROUNDS or parts.left < KEEP * shares.round
        if before is not None and not last:
            settled = float(np.mean((before / promised) ** 2)) < GAIN
            last = settled and norms.typical <= LONG
        before = promised
        if last:
            norms.look(parts.spend(min(LAST_NORMS, parts.left / 2)), curator)
            out = norms.far()
            if out and (back := called_back(units, first, out)) != units:
                units = back
                norms.call_back()
                inside = curator.people.standardized(_placed(width, shown, units))
                reaches = tuple(unit.reach for unit in units)
                largest = math.hypot(*reaches)
        part = parts.left if last else shares.round
        radius = norms.radius(_noise(columns, parts.mu, part), largest)
        if last and inner < 1:
            ends, opened = tuple(unit.ends for unit in units), tuple(u.opened for u in units)
            reaches = tuple(unit.reach for unit in opened)
            inside = curator.people.standardized(_placed(width, shown, opened))
            tails = TailRows(LAST_TAILS, radius, reaches, parts.spend(part), ends, inner)
            noisy = curator.ask(tails, inside.clipped_row_sums(tails.cut))
            return LastSums(units, tails, noisy, divisors, rounds)
        name = LAST if last else "sums of rows and sizes"
        sums = RowSums(name, radius, reaches, parts.spend(part), "squares" if last else "sizes")
        noisy = curator.ask(sums, inside.ball_sums(sums.ball, sums.besides))
        if last:
            return LastSums(units, sums, noisy, divisors, rounds)
        least = np.array([item.least for item in seen])
        units = narrowed(units, noisy, sums.ball.step, divisors, least)


def _placed(
    width: int, shown: list[int], units: tuple[Standardization, ...]
) -> list[Standardization | None]:
    """The units of the columns shown, among all columns of a table."""
    found = dict(zip(shown, units, strict=True))
    return [found.get(j) for j in range(width)]


def called_back(
    units: tuple[Standardization, ...], first: tuple[Standardization, ...], out: float
) -> tuple[Standardization, ...]:
    """The columns that have fallen far in units so much larger that rows `out` times sqrt(d) long
    come back to sqrt(d), but no larger than the first ones: the scale of a column in which most
    people share a value falls in every round, and makes the rows of the others so long that the
    ball would serve that column alone."""
    return tuple(
        replace(unit, scale=min(unit.scale * max(out, 1.0), start.scale))
        if unit.scale * FALLEN < start.scale
        else unit
        for unit, start in zip(units, first, strict=True)
    )


def _noise(columns: int, mu: float, part: float) -> float:
    """Root mean square l2 noise of the sum of rows, in radii."""
    return 2 * math.sqrt(columns) / (mu * math.sqrt(part))


def narrowed(
    units: tuple[Standardization, ...],
    noisy: NoisyRows,
    step: float,
    divisors: Floats,
    least: Floats,
) -> tuple[Standardization, ...]:
    """New centers and scales from noisy sums of z and of |z|, in lattice steps.

    The variance of a column is read as (pi/2) (mean|z|^2 - mean(z)^2), exact for a normal one
    around the center. Columns borrow from each other: the estimate moves towards their median as
    far as their spread is due to noise, but by no more than its own noise (limited translation,
    Efron and Morris 1972). A scale falls by at most `SHRINK` a round, and not below `least`.
    """
    tau = noisy.sd * step / divisors
    mean = np.array(noisy.sums) * step / divisors
    size = np.maximum(np.array(noisy.besides) * step / divisors, 0.0)
    variance = math.pi / 2 * (size**2 - mean**2)
    error = math.pi * np.sqrt(size**2 + mean**2 + tau**2) * tau
    middle = float(np.median(variance))
    spread = 1.0
    if len(units) > 1:
        limited = np.clip(variance, middle - 3 * error, middle + 3 * error)
        spread = max(0.0, float(np.var(limited) - np.mean(error**2)))
    shrunk = middle + (variance - middle) * spread / (spread + error**2)
    shrunk = np.maximum(np.clip(shrunk, variance - error, variance + 2 * error), tau**2)
    factors = np.maximum(np.sqrt(shrunk + tau**2), SHRINK)
    result = []
    numbers = zip(units, mean.tolist(), factors.tolist(), least.tolist(), strict=True)
    for unit, move, factor, floor in numbers:
        center = min(max(unit.center + unit.scale * move, unit.lower), unit.upper)
        width = unit.upper - unit.lower
        scale = min(max(unit.scale * factor, FINEST_SCALE * width, floor), width / 2)
        result.append(replace(unit, center=center, scale=scale))
    return tuple(result)


def bill(dimension: int, mu: float, tails: bool = False) -> tuple[PrivacyEvent, ...]:
    """A longest path at a total of mu: no release has more answers or a larger sum of squares."""
    looks = (FIRST, TWO_LOOKS - FIRST, ALL_LOOKS - TWO_LOOKS)
    losses: list[PrivacyEvent] = [
        look_counts(dimension, mu * math.sqrt(part)).loss for part in looks
    ]
    small = 0.01
    losses += [norm_counts(mu * math.sqrt(small)).loss] * MOST_ROUNDS
    sums = _sums("sums of rows and sizes", 2 * dimension, mu * math.sqrt(small))
    losses += sums * (MOST_ROUNDS - 1)
    losses.append(norm_counts(mu * math.sqrt(LAST_NORMS)).loss)
    left = 1 - ALL_LOOKS - (2 * MOST_ROUNDS - 1) * small - LAST_NORMS
    name, answers = (LAST_TAILS, 3) if tails else (LAST, 2)
    return (*losses, *_sums(name, answers * dimension, mu * math.sqrt(left)))


def _sums(name: str, answers: int, mu: float) -> tuple[Gaussian, ...]:
    return (Gaussian(name, mu * FINEST, FINEST, answers, neighbors=REPLACE_ONE),)
