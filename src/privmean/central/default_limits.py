"""The limits of the last stage: the persons beyond the first limits are counted, and the farther
limit moves out for them; where they fall off slowly they are counted once more, farther out.

Claim and proof: docs/proofs/default-mean.md, sections 3 and 5. All but the counts is a function of
noisy numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from privmean.central.locate import Location
from privmean.central.log_segments import BEFORE
from privmean.central.wallet import Wallet
from privmean.mechanisms.counts import counted
from privmean.mechanisms.curator import Curator

TRUST, LEAN_TRUST = 1.0, 2.0  # noise scales taken off a count; the second below `LEAN`
WIDEN, WIDEST = 0.9, 6.0  # how far the limits are moved out for the persons counted
LEAST = 1.2  # and the least factor that is worth it
HIDDEN = 8.0  # noise scales of the histogram: more persons than a thin tail beyond can hold

# a second count, where the first one and the bins before it show a tail that falls off slowly
AGAIN = 0.3  # part of what is left for it
SEEN = 3.0  # noise scales of the first count
SLOW, FLAT = 1.3, 0.9  # its index is below this, and above this (else persons are elsewhere)
ONE_SIDED = 0.3  # the nearer limit is at most this part of the farther one's distance away
LEAVES = 0.6  # at most this part of the first count is believed of the second
PARTS = 16  # a person beyond the farther limit counts this much, one beyond the nearer one less


@dataclass(frozen=True)
class Count:
    """A noisy number of persons beyond limits, and its Laplace scale. weight: what a person beyond
    the nearer limit counted (1 beyond the farther one)."""

    limits: tuple[float, float]
    persons: float
    scale: float
    weight: float = 1.0


@dataclass(frozen=True)
class Widened:
    """The last limits and the counts that led to them (none, one or two)."""

    limits: tuple[float, float]
    counts: tuple[Count, ...] = ()

    @property
    def last(self) -> Count:
        return self.counts[-1]

    def reaches(self, center: float, excess: float) -> tuple[float, float]:
        """Largest mean excess over the last limits of those beyond the counted ones, by assumption:
        beyond either limit (for a person who counts 1), and beyond the nearer one.

        If the mean excess over every limit is at most `excess` times its distance from the centre,
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
    place: Location,
    wallet: Wallet,
    share: float,
    lean: bool,
) -> Widened:
    """Count the persons beyond `place` for `share` of what is left, and move the limits.

    lean: whether n*epsilon is small; then more is taken off for noise, and no second count is made.
    """
    first = place.lower, place.upper
    step = wallet.counts("beyond the limits", wallet.share(share), 1)
    below, above = curator.people.beyond(column, *first)
    (found,) = curator.ask(step, counted(above + below))
    count = Count(first, float(found), float(step.scale))
    trust = LEAN_TRUST if lean else TRUST
    limits = first_step(place, count.persons - trust * count.scale, wallet.left)
    if lean or limits == first or not falls_slowly(place, count):
        return Widened(limits, (count,))
    again = _count_again(curator, column, place, limits, wallet)
    believed = min(again.persons, LEAVES * count.persons) - TRUST * again.scale
    factor = WIDEN * max(believed, 0.0) * float(wallet.left) / math.sqrt(2)
    return Widened(_moved(place, limits, factor), (count, again))


def first_step(place: Location, persons: float, left: Fraction) -> tuple[float, float]:
    """The limits after the first count.

    A tail: the farther limit is moved out until clipping bias and noise are about equal, for a tail
    whose excess falls like the inverse of the distance. More persons than a thin tail can hold, and
    only one side was seen: they are spread thinly on the other side, which is opened as far.
    """
    up, down = place.upper - place.origin, place.origin - place.lower
    if min(persons, place.hidden) > HIDDEN * place.count_scale:
        return place.origin - max(up, down), place.origin + max(up, down)
    factor = WIDEN * math.sqrt(max(persons, 0.0) * float(left) / math.sqrt(2))
    return _moved(place, (place.lower, place.upper), factor)


def _moved(place: Location, limits: tuple[float, float], factor: float) -> tuple[float, float]:
    """The limit that is farther from the origin, moved out by a factor (at most `WIDEST`)."""
    if factor <= LEAST:
        return limits
    factor = min(factor, WIDEST)
    lower, upper = limits
    if place.upper - place.origin >= place.origin - place.lower:
        return lower, place.origin + (upper - place.origin) * factor
    return place.origin - (place.origin - lower) * factor, upper


def falls_slowly(place: Location, count: Count) -> bool:
    """Whether the noisy numbers show a tail of small index beyond the farther limit.

    The index is that of a Pareto tail through the persons beyond the limit and those in the last 4
    or 6 bins before it. Both sides must have been seen, so that those beyond are where they seem.
    """
    up, down = place.upper - place.origin, place.origin - place.lower
    if not 0 < min(up, down) <= ONE_SIDED * max(up, down):
        return False
    if count.persons < SEEN * count.scale:
        return False
    few, many = (
        math.log((max(seen, 1.0) + count.persons) / count.persons)
        / math.log(2 ** (bins / 2 + 0.25))
        for seen, bins in zip(place.before, BEFORE, strict=True)
    )
    return few <= SLOW and FLAT <= many <= SLOW


def _count_again(
    curator: Curator,
    column: int,
    place: Location,
    limits: tuple[float, float],
    wallet: Wallet,
) -> Count:
    """Persons beyond the moved limits: 1 beyond the farther one, beyond the nearer one only what
    their excess can be worth, so that they do not stand for a tail."""
    up, down = limits[1] - place.origin, place.origin - limits[0]
    farther_up = up >= down
    part = min(PARTS, math.ceil(PARTS * WIDEST * min(up, down) / max(up, down)))
    step = wallet.counts("beyond again", wallet.share(AGAIN), PARTS)
    below, above = curator.people.beyond(column, *limits)
    nearer, farther = (below, above) if farther_up else (above, below)
    (found,) = curator.ask(step, counted(PARTS * farther + part * nearer))
    return Count(limits, int(found) / PARTS, float(step.scale) / PARTS, part / PARTS)
