"""The limits of the last stage: the people beyond the first limits are counted, and the limits
move out for them; where they fall off slowly they are counted once more, farther out; where they
are a group far from a moved origin, the limits step back to what was seen from 0.

Claim and proof: docs/proofs/default-mean.md, sections 3 and 5. All but the counts is a function of
noisy numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from privmean.central.clipping_region import ClippingRegion
from privmean.central.log_histogram import BEFORE, FOUND, Histogram, read_reach
from privmean.central.point_mass import DIGITS, contains_code, is_narrow, is_one_cell
from privmean.central.pure_budget import PureBudgetSpender
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import as_counts

SNUG = 2**0.25  # factor on the outer edge of the last occupied bin, where a count follows
FEW = 3000  # n*epsilon below which people are counted from nearer by: `counted_from`
BETWEEN = 0.75  # noise scales of the histogram: people that such an edge leaves before the limit
TRUST, LEAN_TRUST = 1.0, 2.0  # noise scales taken off a count; the second below `LEAN`
WIDEN, WIDEST = 0.9, 6.0  # how far the limits are moved out for the people counted
LEAST = 1.2  # and the least factor that is worth it
HIDDEN = 8.0  # noise scales of the histogram: more people than a thin tail beyond can hold

# a second count, where the first one and the bins before it show a tail that falls off slowly
AGAIN = 0.3  # part of what is left for it
SEEN = 3.0  # noise scales of the first count
SLOW, FLAT = 1.3, 0.9  # its index is below this, and above this (else people are elsewhere)
ONE_SIDED = 0.3  # the nearer limit is at most this part of the farther one's distance away
LEAVES = 0.6  # at most this part of the first count is believed of the second
PARTS = 16  # a person beyond the farther limit counts this much, one beyond the nearer one less

# a step back, where rounds have left more than a tail behind
LEFT_BEHIND = 1 / 64  # part of the people beyond the limits, less 3 noise scales
AWAY = 32.0  # times the longer arm: ten half octaves, more than the window of a round misses by
APART, CERTAIN = 0.25, 8.0  # part of those beyond that are away, and noise scales of their number
BACK = 0.2  # part of what is left for that number, and again for those beyond the new limits

# back from limits that were chosen after a new start to those before the choice
THICK, CERTAINLY = 0.05, 5.0  # part of the people beyond, less so many noise scales (then `SEEN`)
AT_ONCE = 0.02, 3.0  # where no tail histogram was taken before it


@dataclass(frozen=True)
class OutsideCount:
    """A noisy number of people beyond limits, and its Laplace scale. weight: what a person beyond
    the nearer limit counted (1 beyond the farther one). between: about how many of them lie before
    the first limits of the sum, where they were counted from nearer by."""

    limits: tuple[float, float]
    n: float
    scale: float
    weight: float = 1.0
    between: float = 0.0

    @property
    def beyond(self) -> float:
        """About how many lie beyond the first limits of the sum."""
        return self.n - self.between


@dataclass(frozen=True)
class WidenedBounds:
    """The last limits and the counts that led to them (none, one or two).

    place: the location that the limits belong to: after a step back that seen from 0, or before the
    last choice. passed: the counts before a step back (beyond limits given up), or those that asked
    for one in vain. back: whether one was made.
    """

    limits: tuple[float, float]
    place: ClippingRegion
    counts: tuple[OutsideCount, ...] = ()
    passed: tuple[OutsideCount, ...] = ()
    back: bool = False

    @property
    def last(self) -> OutsideCount:
        return self.counts[-1]

    @property
    def one_value(self) -> bool:
        """Whether nearly all people seem to have one value: of the limits' being about a whole
        number, their differing in the eighth digit only, and nothing's showing that the values in
        them differ, two are so."""
        digits, code = is_narrow(*self.limits, DIGITS), contains_code(*self.limits)
        if digits and code:
            return True
        return (digits or (code and is_narrow(*self.limits))) and is_one_cell(self.place)

    def reaches(self, center: float, excess: float) -> tuple[float, float]:
        """Largest mean excess over the last limits of those beyond the counted ones, by assumption:
        beyond either limit (for a person who counts 1), and beyond the nearer one.

        If the mean excess over every limit is at most `excess` times its distance from the center,
        a limit moved out by a factor g leaves at most the part g^(-1/excess) of the tail's sum.
        """
        lower, upper = self.counts[-1].limits if self.counts else self.limits
        weight = self.counts[-1].weight if self.counts else 1.0
        arms = [
            (upper - center, self.limits[1] - center),
            (center - lower, center - self.limits[0]),
        ]
        left = [excess * a * float((a / b) ** (1 / excess)) if a > 0 else 0.0 for a, b in arms]
        near = left[0] if upper - center < center - lower else left[1]
        return max(*left, near / weight if near else 0.0), near


def widened(
    curator: Curator,
    column: int,
    place: ClippingRegion,
    spender: PureBudgetSpender,
    share: float,
    lean: bool,
    persons: float,
) -> WidenedBounds:
    """Count the people beyond `place` for `share` of what is left, and move the limits.

    lean: whether n*epsilon is small; then more is taken off for noise, no second count is made, and
    no step back. persons: those with a value, public or noisy.
    """
    few = persons * float(spender.total) < FEW
    count = _counted(curator, column, place, "count outside bounds", share, spender, few)
    passed: tuple[OutsideCount, ...] = ()
    back = False
    part, sure = AT_ONCE if not place.looks else (THICK, CERTAINLY)
    while place.within and count.beyond - sure * count.scale > part * persons:
        passed, place, back, sure = (*passed, count), place.within, True, SEEN
        count = _counted(curator, column, place, "count outside bounds again", BACK, spender, few)
    first = place.lower, place.upper
    many = count.beyond - SEEN * count.scale > LEFT_BEHIND * persons
    if many and place.first is not None and not lean:
        found = step_back(curator, column, place, place.first, count, spender)
        if found.counts:
            return found
        passed = found.passed
    trust = LEAN_TRUST if lean else TRUST
    limits = first_step(place, count.beyond - trust * count.scale, spender.left)
    if lean or limits == first or not falls_slowly(place, count):
        return WidenedBounds(limits, place, (count,), passed, back)
    again = _count_again(curator, column, place, limits, spender)
    believed = min(again.n, LEAVES * count.n) - TRUST * again.scale
    factor = WIDEN * max(believed, 0.0) * float(spender.left) / math.sqrt(2)
    limits = moved(place.origin, limits, factor)
    return WidenedBounds(limits, place, (count, again), passed)


def counted_from(place: ClippingRegion) -> tuple[float, float]:
    """The limits; where only one side was seen, the edge of what was seen, not `SNUG` times it.

    There the assumption allows a person two radii, and the noise of their number is most of the
    interval's length: the same people, counted nearer by, are allowed the less.
    """
    lower, upper, origin = place.lower, place.upper, place.origin
    if lower < origin < upper or not place.looks:
        return lower, upper
    return (
        max(lower, origin + (lower - origin) / SNUG),
        min(upper, origin + (upper - origin) / SNUG),
    )


def _counted(
    curator: Curator,
    column: int,
    place: ClippingRegion,
    name: str,
    share: float,
    spender: PureBudgetSpender,
    few: bool,
) -> OutsideCount:
    """The people beyond `place`, with `few` people from nearer by."""
    first = place.lower, place.upper
    near = counted_from(place) if few else first
    count = _beyond(curator, column, near, name, share, spender)
    return count if near == first else replace(count, between=BETWEEN * place.count_scale)


def _beyond(
    curator: Curator,
    column: int,
    limits: tuple[float, float],
    name: str,
    share: float,
    spender: PureBudgetSpender,
) -> OutsideCount:
    step = spender.counts(name, spender.share(share), 1)
    below, above = curator.people.count_outside(column, *limits)
    (found,) = curator.ask(step, as_counts(above + below))
    return OutsideCount(limits, float(found), float(step.scale))


def step_back(
    curator: Curator,
    column: int,
    place: ClippingRegion,
    start: Histogram,
    count: OutsideCount,
    spender: PureBudgetSpender,
) -> WidenedBounds:
    """Limits from `start`, the first round's histogram, if most of those beyond are far away.

    A point mass stays concentrated after every round, until the other values stand dozens of bins
    away from an origin that sits on it. `counts` is empty if they are no such group, or stay
    hidden there.
    """
    arm = AWAY * max(place.upper - place.origin, place.origin - place.lower)
    around = place.origin - arm, place.origin + arm
    away = _beyond(curator, column, around, "count far from coarse location", BACK, spender)
    stays = WidenedBounds((place.lower, place.upper), place, (), (away,))
    if away.n <= max(APART * count.n, CERTAIN * away.scale):
        return stays
    reach = read_reach(start, SNUG)
    if reach.outcome != FOUND:
        return stays
    lower, upper = min(0.0, reach.lower, place.lower), max(0.0, reach.upper, place.upper)
    again = _beyond(curator, column, (lower, upper), "count outside bounds again", BACK, spender)
    factor = _factor(again.n - TRUST * again.scale, spender.left)
    wide = replace(place, origin=0.0, lower=lower, upper=upper)
    return WidenedBounds(moved(0.0, (lower, upper), factor), wide, (again,), (count, away), True)


def first_step(place: ClippingRegion, persons: float, left: Fraction) -> tuple[float, float]:
    """The limits after the first count.

    A tail: the limits are moved out until clipping bias and noise are about equal, for a tail whose
    excess falls like the inverse of the distance. More people than a thin tail can hold, and only
    one side was seen: they are spread thinly on the other side, which is opened as far.
    """
    up, down = place.upper - place.origin, place.origin - place.lower
    if min(persons, place.hidden) > HIDDEN * place.count_scale:
        return place.origin - max(up, down), place.origin + max(up, down)
    return moved_for(place.origin, (place.lower, place.upper), persons, left)


def moved_for(
    origin: float, limits: tuple[float, float], persons: float, left: Fraction
) -> tuple[float, float]:
    """Limits moved out for so many people beyond them, with `left` to spend on the sum."""
    return moved(origin, limits, _factor(persons, left))


def _factor(persons: float, left: Fraction) -> float:
    return WIDEN * math.sqrt(max(persons, 0.0) * float(left) / math.sqrt(2))


def moved(origin: float, limits: tuple[float, float], factor: float) -> tuple[float, float]:
    """Limits moved out by a factor (at most `WIDEST`), the nearer one at most to where the farther
    one was: nobody knows on which side those beyond are, and up to there it costs little.

    An inner limit (both on one side of the origin) goes back to the origin and nothing else moves.
    """
    if factor <= LEAST:
        return limits
    factor = min(factor, WIDEST)
    up, down = limits[1] - origin, origin - limits[0]
    near, far = min(up, down), max(up, down)
    if near < 0:
        near = 0.0
    else:
        near, far = max(near, min(near * factor, far)), far * factor
    return (origin - near, origin + far) if up >= down else (origin - far, origin + near)


def falls_slowly(place: ClippingRegion, count: OutsideCount) -> bool:
    """Whether the noisy numbers show a tail of small index beyond the farther limit.

    The index is that of a Pareto tail through the people beyond the limit and those in the last 4
    or 6 bins before it. Both sides must have been seen, so that those beyond are where they seem.
    """
    up, down = place.upper - place.origin, place.origin - place.lower
    if not 0 < min(up, down) <= ONE_SIDED * max(up, down):
        return False
    if count.beyond < SEEN * count.scale:
        return False
    few, many = indices(place, count)
    return few <= SLOW and FLAT <= many <= SLOW


def indices(place: ClippingRegion, count: OutsideCount) -> tuple[float, float]:
    """Index of a Pareto tail through the people beyond the first limits and those in the last 4
    bins before the farther one, and in the last 6; infinite where nobody is counted beyond."""
    if count.beyond <= 0:
        return math.inf, math.inf
    few, many = (
        math.log((max(seen, 1.0) + count.beyond) / count.beyond) / math.log(2 ** (bins / 2 + 0.25))
        for seen, bins in zip(place.before, BEFORE, strict=True)
    )
    return few, many


def _count_again(
    curator: Curator,
    column: int,
    place: ClippingRegion,
    limits: tuple[float, float],
    spender: PureBudgetSpender,
) -> OutsideCount:
    """People beyond the moved limits: 1 beyond the farther one, beyond the nearer one only what
    their excess can be worth, so that they do not stand for a tail."""
    up, down = limits[1] - place.origin, place.origin - limits[0]
    farther_up = up >= down
    part = min(PARTS, math.ceil(PARTS * WIDEST * min(up, down) / max(up, down)))
    step = spender.counts("beyond again", spender.share(AGAIN), PARTS)
    below, above = curator.people.count_outside(column, *limits)
    nearer, farther = (below, above) if farther_up else (above, below)
    (found,) = curator.ask(step, as_counts(PARTS * farther + part * nearer))
    return OutsideCount(limits, int(found) / PARTS, float(step.scale) / PARTS, part / PARTS)
