"""Where groups differ more than people inside them: limits about the groups' own centers.

A histogram of values in units of their own groups shows the spread inside groups; groups whose
place is not known well keep the pooled limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from privmean.central.groups.decode_cells import (
    BetweenGroups,
    DecodedCells,
    Flags,
    between_groups,
    pooled_weight,
)
from privmean.central.groups.group_settings import (
    BEYOND,
    GATE,
    HISTOGRAM,
    KEEP,
    RHO,
    ROUND,
    ROUNDS,
    SEEN,
    STAY,
    TAKE,
    GroupSettings,
)
from privmean.central.groups.group_stages import GroupOutsideCount, GroupRun
from privmean.central.groups.pooled_tail import GroupBounds, PooledTail
from privmean.central.log_histogram import FOUND, Histogram, read_reach
from privmean.central.widen_bounds import moved_for
from privmean.data.group_pairs import CenteredSums
from privmean.data.person_table import Floats

SAFETY = 2**0.5  # to the next edge of a bin
Key = tuple[str, ...]
LARGEST = 1e100  # factors between its inverse and it make no double overflow
KNOWN = 0.25  # part of the spread between groups that the error of a known place may have


@dataclass(frozen=True)
class GroupRegions:
    """Groups with limits of their own: values count as (x - center)/size on one pooled tail.

    centred: the same as people are asked for it. seen: the histogram. beyond: people of these
    groups beyond the limits that were found, None where they were not counted.
    """

    known: Flags
    center: Floats
    size: Floats
    tail: PooledTail
    centred: CenteredSums
    seen: Histogram
    beyond: GroupOutsideCount | None = None

    def opened(self, beyond: GroupOutsideCount, persons: float, left: Fraction) -> GroupRegions:
        """The same with limits moved out for so many people beyond them."""
        lower, upper = self.tail.lower, self.tail.upper
        if persons > 0 and lower * upper >= 0:  # one side alone was seen
            far = max(upper, -lower)
            lower, upper = -far, far
        lower, upper = moved_for(0.0, (lower, upper), persons, left)
        if (lower, upper) == (self.tail.lower, self.tail.upper):
            return replace(self, beyond=beyond)
        tail = self.tail.opened(lower, upper, self.seen, max(beyond.believed, 0.0))
        return replace(self, tail=tail, beyond=beyond)

    def spread_over(self, old: Sequence[Key], new: Sequence[Key]) -> GroupRegions:
        """The same for the groups of another list; those not in the old one are unknown."""
        places = {key: place for place, key in enumerate(old)}
        which = np.array([places.get(key, -1) for key in new], dtype=int)
        known = np.where(which >= 0, self.known[which], False)
        return replace(
            self,
            known=known,
            center=np.where(known, self.center[which], 0.0),
            size=np.where(known, self.size[which], 1.0),
        )

    def over(
        self,
        limits: GroupBounds,
        settings: GroupSettings,
        epsilon: Fraction,
        left: Fraction,
        weight: Floats,
    ) -> GroupBounds:
        """`limits`, with those of known groups about their centers."""
        own = self.tail.choose(settings.width_noise(epsilon, left, weight), RHO)
        lower = np.where(self.known, self.center + self.size * own.lower, limits.lower)
        upper = np.where(self.known, self.center + self.size * own.upper, limits.upper)
        return GroupBounds(lower, upper)


def recenter(
    asking: GroupRun,
    epsilon: Fraction,
    persons: float,
    reading: DecodedCells,
    mean: Floats,
    between: BetweenGroups,
    weight: Floats,
    weight_sd: float,
    tail: PooledTail,
) -> tuple[GroupRegions | None, Floats, float, int]:
    """Units of the groups, the weights with what was learnt of them, and the number of rounds.

    persons: all of them. Where too many lie beyond the limits about their groups, these step back
    to what they were before: histograms of few people see no group apart from the rest of its own.
    """
    settings, spender = asking.settings, asking.spender
    width = 2 * reading.radius
    units: GroupRegions | None = None
    rounds = 0
    while between.ratio < GATE and rounds < ROUNDS and spender.left > Fraction(KEEP) * epsilon:
        found = _units(asking, reading, mean, between, weight)
        if found is None:
            break
        rounds += 1
        pooled = tail.choose(settings.width_noise(epsilon, spender.left, weight), RHO)
        limits = found.over(pooled, settings, epsilon, spender.left, weight)
        new = (limits.upper - limits.lower)[found.known]
        ratio = float(np.median(new / width[found.known]))
        if ratio >= STAY:
            break
        if settings.counted:
            known = float(np.maximum(weight, 0.0)[found.known].sum())
            alone = min(persons / max(float(np.maximum(weight, 0.0).sum()), 1.0), 1.0)
            beyond = asking.beyond_groups(
                spender.share(BEYOND), found.centred, found.seen, found.tail, known * alone
            )
            if beyond.thick:
                break
            believed = beyond.believed / settings.weights.mass
            found = found.opened(beyond, believed, spender.left)
            limits = found.over(pooled, settings, epsilon, spender.left, weight)
        units = found
        if ratio >= TAKE or rounds == ROUNDS or spender.left <= Fraction(KEEP) * epsilon:
            break
        reading, boxes = asking.cells("cells about groups", spender.share(ROUND), limits)
        width = 2 * np.array([box.radius for box in boxes])
        sd = 6**0.5 * reading.scale
        weight = pooled_weight((weight, weight_sd), (reading.weight, sd))
        weight_sd = (weight_sd**-2 + sd**-2) ** -0.5
        mean = reading.mean + np.where(
            units.known,
            0.0,
            tail.up(limits.upper) - tail.down(limits.lower),
        )
        between = between_groups(reading, mean, weight, reading.seen(SEEN), tail.spread)
    return units, weight, weight_sd, rounds


def _units(
    asking: GroupRun, reading: DecodedCells, mean: Floats, between: BetweenGroups, weight: Floats
) -> GroupRegions | None:
    """Centers and sizes of known groups, and the histogram of values in these units."""
    variance = between.variance(reading.noise, weight)
    error = between.between * variance / np.maximum(between.between + variance, 1e-300)
    center = between.shrunk(mean, variance)
    size = np.sqrt(between.within + error)
    with np.errstate(all="ignore"):
        factor = 1 / size
    sound = np.isfinite(center) & (factor > 1 / LARGEST) & (factor < LARGEST)
    known = (variance < KNOWN * between.between) & reading.seen(SEEN) & sound
    if not known.any():
        return None
    places = np.flatnonzero(known)
    units = CenteredSums(
        tuple(places.tolist()), tuple(center[places].tolist()), tuple(factor[places].tolist())
    )
    seen = asking.residuals(asking.spender.share(HISTOGRAM), units)
    reach = read_reach(seen, SAFETY)
    if reach.outcome != FOUND:
        return None
    tail = PooledTail.of(seen, 0.0, reach.lower, reach.upper)
    return GroupRegions(known, center, size, tail, units, seen)
