"""The private run of means by group: what is asked next, and at what price, follows from noisy
answers alone (docs/proofs/groups.md, section 4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from privmean.data.group_pairs import GroupPairTable
from privmean.data.person_table import Floats
from privmean.errors import InfeasibleError
from privmean.estimators.find_region import ClippingRegion
from privmean.estimators.groups.group_stages import (
    BEYOND,
    COUNTS,
    HEAVY,
    HEAVY_CHECK,
    LEAST,
    MANY,
    RHO,
    ROUGH,
    SEEN_WEIGHT,
    TOTAL,
    GroupOutsideCount,
    GroupRegions,
    GroupRun,
    GroupSettings,
    joined,
    recenter,
)
from privmean.estimators.groups.pooled_tail import (
    BetweenGroups,
    DecodedCells,
    Flags,
    GroupBounds,
    PooledTail,
    between_groups,
    point_mass_share,
    pooled_weight,
)
from privmean.estimators.means.region_mean import first_step
from privmean.mechanisms.curator import Curator
from privmean.privacy.budget import floor_epsilon
from privmean.privacy.privacy_events import PrivacyEvent

FINAL = "group sums"


@dataclass(frozen=True)
class GroupEstimates:
    """What was released, with what is needed to read it.

    tail: of the pooled values; wide: that of heavy groups, which look farther; units: of groups
    that have limits of their own. beyond: the people beyond the limits of the location, None where
    they were not counted. weight, weight_sd: of every group from all counts. hidden: noisy people
    below which a private key is not shown, None where no key could be.
    """

    n: float
    place: ClippingRegion | None = None
    reading: DecodedCells | None = None
    limits: GroupBounds | None = None
    between: BetweenGroups | None = None
    tail: PooledTail | None = None
    wide: PooledTail | None = None
    heavy: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))
    units: GroupRegions | None = None
    beyond: GroupOutsideCount | None = None
    weight: Floats = field(default_factory=lambda: np.empty(0))
    weight_sd: float = 0.0
    shares: dict[str, float] = field(default_factory=dict)
    path: dict[str, Any] = field(default_factory=dict)
    gaussian: bool = False
    hidden: float | None = None


@dataclass(frozen=True)
class GroupCounts:
    """Noisy weights of every group, all people with a pair, the deviations of their noise. alike:
    whether every pair has the value that is asked for."""

    weight: Floats
    sd: float
    n: float
    doubt: float
    alike: bool = True


def counted_groups(asking: GroupRun, epsilon: Fraction) -> GroupCounts:
    """People by group and in all, at parts of `epsilon`."""
    weight, sd = asking.group_weights(price(COUNTS, epsilon))
    return GroupCounts(weight, sd, *_persons(asking, weight, sd, epsilon))


Strength = Callable[[Fraction, Sequence[PrivacyEvent]], float]


def run_groups(
    curator: Curator,
    settings: GroupSettings,
    epsilon: Fraction,
    strength: Strength | None = None,
    place: ClippingRegion | None = None,
    pairs: GroupPairTable | None = None,
) -> GroupEstimates:
    """All stages; `epsilon` is what they may cost together. strength: mu of Gaussian noise in the
    last stage, from what is left of epsilon and the accounting so far (None: Laplace noise). place:
    where the values are, if that was paid for before. pairs: with the weights of the settings,
    where those of the curator have other ones."""
    asking = replace(GroupRun.start(curator, settings, epsilon), among=pairs)
    counted = counted_groups(asking, epsilon)
    asking.spender.label_next("group counts")
    return run_value(asking, epsilon, counted, strength, place)


def run_value(
    asking: GroupRun,
    epsilon: Fraction,
    counted: GroupCounts,
    strength: Strength | None,
    place: ClippingRegion | None = None,
) -> GroupEstimates:
    """The stages of one value after the counts. epsilon: of which prices are parts; place: as for
    `run_groups`."""
    settings, spender, curator = asking.settings, asking.spender, asking.curator
    counts, count_sd, persons, doubt = counted.weight, counted.sd, counted.n, counted.doubt
    bounds = settings.bounds_of(asking.column)
    if bounds is not None:
        return _run_within(asking, bounds, counted, strength)
    if persons * settings.strength(epsilon) < LEAST:
        return GroupEstimates(
            persons, weight=counts, weight_sd=count_sd, shares=spender.spent_by_label()
        )
    if place is None:
        place = asking.location(persons, doubt, 0.0 if settings.common else float(counts.max()))
        spender.label_next("location")
    place = point_mass_share(place)
    path, tail = place.path, PooledTail.at(place)
    if tail is None:
        return GroupEstimates(
            persons,
            place,
            weight=counts,
            weight_sd=count_sd,
            shares=spender.spent_by_label(),
            path=path,
        )
    heavy = np.zeros(settings.groups, dtype=bool)
    if not settings.weights.split and not settings.common:
        heavy = counts > HEAVY * persons
    wide, beyond = _beyond(asking, place, tail, persons, bool(heavy.any()))
    if beyond is not None:
        spender.label_next("count outside bounds")
    left = spender.left - price(ROUGH, epsilon)
    limits = _limits(settings, epsilon, left, counts, tail, wide, heavy)
    rough, _ = asking.cells("coarse group sums", price(ROUGH, epsilon), limits)
    spender.label_next("coarse group sums")
    rough_sd = 6**0.5 * rough.scale
    weight, weight_sd = rough.weight, rough_sd
    if counted.alike:
        weight = pooled_weight((counts, count_sd), (rough.weight, rough_sd))
        weight_sd = (count_sd**-2 + rough_sd**-2) ** -0.5
    mean = rough.mean + tail.up(limits.upper) - tail.down(limits.lower)
    between = between_groups(rough, mean, weight, rough.seen(SEEN_WEIGHT), tail.spread)
    units, rounds = None, 0
    if not settings.common:
        units, weight, weight_sd, rounds = recenter(
            asking, epsilon, persons, rough, mean, between, weight, weight_sd, tail
        )
    if spender.unnoted:
        spender.label_next("limits of groups")
    path["rounds about groups"] = rounds
    path["spread within over all"] = between.ratio
    limits = _limits(settings, epsilon, spender.left, weight, tail, wide, heavy)
    everybody = np.full(len(weight), settings.everybody(weight, persons))
    farthest = _limits(settings, epsilon, spender.left, everybody, tail, wide, heavy)
    limits = opened(limits, farthest, rough, mean, between, weight)
    if settings.common:
        limits = limits.widest()
    if units is not None:
        limits = units.over(limits, settings, epsilon, spender.left, weight)
    if strength is None:
        final, _ = asking.cells(FINAL, spender.left, limits)
    else:
        final, _ = asking.gaussian_cells(FINAL, strength(spender.left, curator.events), limits)
    spender.label_next(FINAL)
    weight = pooled_weight((weight, weight_sd), (final.weight, 6**0.5 * final.scale))
    weight_sd = (weight_sd**-2 + (6**0.5 * final.scale) ** -2) ** -0.5
    return GroupEstimates(
        persons, place, final, limits, between, tail, wide, heavy, units, beyond, weight, weight_sd,
        spender.shares, path, gaussian=strength is not None,
    )  # fmt: skip


def _run_within(
    asking: GroupRun, bounds: tuple[float, float], counted: GroupCounts, strength: Strength | None
) -> GroupEstimates:
    """One release of all groups within public bounds: nothing is located, nobody lies beyond."""
    settings, spender = asking.settings, asking.spender
    ends = (np.full(settings.groups, end) for end in bounds)
    limits = GroupBounds(*ends)
    if strength is None:
        final, _ = asking.cells(FINAL, spender.left, limits)
    else:
        final, _ = asking.gaussian_cells(
            FINAL, strength(spender.left, asking.curator.events), limits
        )
    spender.label_next(FINAL)
    weight, sd = final.weight, 6**0.5 * final.scale
    if counted.alike:
        weight = pooled_weight((counted.weight, counted.sd), (weight, sd))
        sd = (counted.sd**-2 + sd**-2) ** -0.5
    return GroupEstimates(
        counted.n, reading=final, limits=limits, weight=weight, weight_sd=sd,
        shares=spender.shares, gaussian=strength is not None,
    )  # fmt: skip


def opened(
    limits: GroupBounds,
    farthest: GroupBounds,
    rough: DecodedCells,
    mean: Floats,
    between: BetweenGroups,
    weight: Floats,
) -> GroupBounds:
    """Limits moved out on the side where a group seems to lie, as far as its place is known: those
    of all people would cut the group that differs most. farthest: the limits of a group of
    everybody, beyond which it pays for no group to look."""
    place = between.shrunk(mean, between.variance(rough.noise, weight)) - between.grand
    shift = np.where(rough.seen(SEEN_WEIGHT), place, 0.0)
    lower = np.maximum(limits.lower + np.minimum(shift, 0.0), farthest.lower)
    upper = np.minimum(limits.upper + np.maximum(shift, 0.0), farthest.upper)
    return GroupBounds(np.minimum(limits.lower, lower), np.maximum(limits.upper, upper))


def enough(people: GroupPairTable, settings: GroupSettings, epsilon: Fraction) -> None:
    """Refuse groups that are public and hold too few people in all: nothing need be spent."""
    if people.members() * settings.strength(epsilon) < LEAST:
        raise InfeasibleError(
            f"n={people.members()} in the requested groups is too small to find the values",
            f"provide at least about {math.ceil(LEAST / settings.strength(epsilon))} people, or a "
            "larger epsilon",
        )


def price(part: float, epsilon: Fraction) -> Fraction:
    """A public part of epsilon, rounded down to a multiple of 2^-40."""
    return floor_epsilon(epsilon * Fraction(part))


def _persons(
    asking: GroupRun, counts: Floats, count_sd: float, epsilon: Fraction
) -> tuple[float, float]:
    """The number of people with a pair (bought, summed over groups, or both by precision), and
    the deviation of its noise."""
    settings = asking.settings
    if settings.public_groups:
        return float(asking.people.members()), 0.0
    summed, sum_sd = float(counts.sum()), count_sd * settings.groups**0.5
    if not settings.total:
        return summed, sum_sd
    bought, sd = asking.members(price(TOTAL, epsilon))
    if settings.weights.split:
        return bought, sd
    assert settings.groups > MANY
    (found,) = pooled_weight((np.array([summed]), sum_sd), (np.array([bought]), sd))
    return float(found), (sum_sd**-2 + sd**-2) ** -0.5


def _beyond(
    asking: GroupRun,
    place: ClippingRegion,
    tail: PooledTail,
    persons: float,
    heavy: bool,
) -> tuple[PooledTail, GroupOutsideCount | None]:
    """The tail for heavy groups, and the people beyond the location's limits."""
    spender = asking.spender
    if not heavy and not asking.settings.counted:
        return tail, None
    part = HEAVY_CHECK if heavy else BEYOND
    found = asking.beyond(spender.share(part), place, persons)
    if not heavy or place.seen is None:
        return tail, found
    lower, upper = first_step(place, found.believed, spender.left)
    return tail.opened(lower, upper, place.seen, max(found.believed, 0.0)), found


def _limits(
    settings: GroupSettings,
    epsilon: Fraction,
    left: Fraction,
    weight: Floats,
    tail: PooledTail,
    wide: PooledTail,
    heavy: Flags,
) -> GroupBounds:
    """Pooled limits by the size of each group; heavy groups may look farther."""
    if settings.common:  # the noise of the smallest group is nearly that of a comparison
        weight = np.full(len(weight), weight.min())
    noise = settings.width_noise(epsilon, left, weight)
    usual, large = np.flatnonzero(~heavy), np.flatnonzero(heavy)
    chosen = tail.choose(noise[usual], RHO), wide.choose(noise[large], 1.0)
    return joined(chosen, (usual, large))
