"""The private run of means by group: what is asked next, and at what price, follows from noisy
answers alone (docs/proofs/groups.md, section 4).

Where the keys themselves are private, those of few people are never shown. No key is known before
the rough cells, so that no people are counted by group: values are located first, then every
touched key gets cells twice, and is shown where its noisy weight reaches a threshold. Everything in
between is a function of keys that were shown (section 8).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from privmean.array_types import Flags, Floats
from privmean.data.group_pairs import GroupPairTable, pairs_of
from privmean.data.person_table import ClipInterval
from privmean.errors import InfeasibleError
from privmean.estimators.find_region import ClippingRegion
from privmean.estimators.groups.group_stages import (
    BEYOND,
    COUNTS,
    FINAL,
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
    Key,
    Strength,
    boxes_of,
    joined,
    recenter,
)
from privmean.estimators.groups.pooled_tail import (
    BetweenGroups,
    DecodedCells,
    GroupBounds,
    PooledTail,
    between_groups,
    point_mass_share,
    pooled_weight,
)
from privmean.estimators.means.region_mean import first_step
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.group_cells import GroupCells, KeyCells
from privmean.privacy.budget import floor_epsilon


@dataclass(frozen=True)
class GroupEstimates:
    """What was released, with what is needed to read it.

    tail: of the pooled values; wide: that of heavy groups, which look farther; units: of groups
    that have limits of their own. beyond: the people beyond the limits of the location, None where
    they were not counted. weight, weight_sd: of every group from all counts. hidden: noisy people
    below which a private key is not shown, None where no key could be; keys: the private ones that
    are.
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
    keys: tuple[Key, ...] = ()


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
    settings, spender = asking.settings, asking.spender
    counts, count_sd, persons, doubt = counted.weight, counted.sd, counted.n, counted.doubt
    bounds = settings.bounds_of(asking.column)
    if bounds is not None:
        return _run_within(asking, bounds, counted, strength)
    largest = 0.0 if settings.common or not len(counts) else float(counts.max())
    found = GroupEstimates(persons, weight=counts, weight_sd=count_sd)
    found = _located(asking, epsilon, found, doubt, largest, place)
    place, tail = found.place, found.tail
    if place is None or tail is None:
        return found
    heavy = np.zeros(settings.groups, dtype=bool)
    if not settings.weights.split and not settings.common:
        heavy = counts > HEAVY * persons
    part = settings.check_share(epsilon, spender.left, counts)
    part = max(part, HEAVY_CHECK) if heavy.any() else part
    wide, beyond = _beyond(asking, place, tail, persons, part, bool(heavy.any()))
    left = spender.left - price(ROUGH, epsilon)
    limits = _limits(settings, epsilon, left, counts, tail, wide, heavy)
    rough, _ = asking.cells("coarse group sums", price(ROUGH, epsilon), limits)
    spender.label_next("coarse group sums")
    weight, weight_sd = rough.weight, rough.weight_sd
    if counted.alike:
        weight, weight_sd = pooled_weight((counts, count_sd), (weight, weight_sd))
    found = replace(
        found, beyond=beyond, wide=wide, heavy=heavy, weight=weight, weight_sd=weight_sd
    )
    found = _about_groups(asking, epsilon, found, rough, limits)
    assert found.limits is not None
    assert found.between is not None
    limits, weight, weight_sd = found.limits, found.weight, found.weight_sd
    found.path["spread within over all"] = found.between.ratio
    final = asking.final_cells(limits, strength)
    weight, weight_sd = pooled_weight((weight, weight_sd), (final.weight, final.weight_sd))
    return replace(
        found, reading=final, weight=weight, weight_sd=weight_sd, shares=spender.shares,
        gaussian=strength is not None,
    )  # fmt: skip


def _located(
    asking: GroupRun,
    epsilon: Fraction,
    found: GroupEstimates,
    doubt: float,
    largest: float,
    place: ClippingRegion | None = None,
) -> GroupEstimates:
    """Where the values are, and the tail there: with neither, nothing more is asked. doubt and
    largest: as of `GroupRun.location`; place: if it was paid for before."""
    spender = asking.spender
    if found.n * asking.settings.strength(epsilon) < LEAST:
        return replace(found, shares=spender.spent_by_label())
    if place is None:
        place = asking.location(found.n, doubt, largest)
        spender.label_next("location")
    place = point_mass_share(place)
    tail = PooledTail.at(place)
    shares = spender.spent_by_label() if tail is None else {}
    return replace(found, place=place, tail=tail, path=place.path, shares=shares)


def _about_groups(
    asking: GroupRun,
    epsilon: Fraction,
    found: GroupEstimates,
    rough: DecodedCells,
    limits: GroupBounds,
    everybody: float | None = None,
) -> GroupEstimates:
    """Limits of the last cells, from the rough ones within these: by the size of each group, where
    it seems to lie, and about its own center where groups differ much. everybody: the most that the
    weight of all pairs can be, where that is not of the groups asked."""
    settings, spender, tail = asking.settings, asking.spender, found.tail
    assert tail is not None
    wide, heavy = found.wide or tail, found.heavy
    weight, weight_sd = found.weight, found.weight_sd
    mean = rough.mean + tail.up(limits.upper) - tail.down(limits.lower)
    between = between_groups(rough, mean, weight, rough.seen(SEEN_WEIGHT), tail.spread)
    units, rounds = None, 0
    if not settings.common:
        units, weight, weight_sd, rounds = recenter(
            asking, epsilon, found.n, rough, mean, between, weight, weight_sd, tail
        )
    if spender.unnoted:
        spender.label_next("limits of groups")
    last = _limits(settings, epsilon, spender.left, weight, tail, wide, heavy)
    if everybody is None:
        everybody = settings.everybody(weight, found.n)
    most = np.full(len(weight), everybody)
    farthest = _limits(settings, epsilon, spender.left, most, tail, wide, heavy)
    last = opened(last, farthest, rough, mean, between, weight)
    if settings.common:
        last = last.widest()
    if units is not None:
        last = units.over(last, settings, epsilon, spender.left, weight)
    path = {**found.path, "rounds about groups": rounds}
    return replace(
        found, limits=last, between=between, units=units, weight=weight, weight_sd=weight_sd,
        path=path,
    )  # fmt: skip


def _run_within(
    asking: GroupRun, bounds: tuple[float, float], counted: GroupCounts, strength: Strength | None
) -> GroupEstimates:
    """One release of all groups within public bounds: nothing is located, nobody lies beyond."""
    settings, spender = asking.settings, asking.spender
    ends = (np.full(settings.groups, end) for end in bounds)
    limits = GroupBounds(*ends)
    final = asking.final_cells(limits, strength)
    weight, sd = final.weight, final.weight_sd
    if counted.alike:
        weight, sd = pooled_weight((counted.weight, counted.sd), (weight, sd))
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
    found, both_sd = pooled_weight((np.array([summed]), sum_sd), (np.array([bought]), sd))
    return float(found[0]), both_sd


def _beyond(
    asking: GroupRun,
    place: ClippingRegion,
    tail: PooledTail,
    persons: float,
    part: float,
    heavy: bool,
) -> tuple[PooledTail, GroupOutsideCount | None]:
    """The tail for heavy groups, and the people beyond the location's limits."""
    spender = asking.spender
    if not heavy and not asking.settings.counted:
        return tail, None
    found = asking.beyond(spender.share(part), place, persons)
    spender.label_next("count outside bounds")
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


UNKNOWN = 80.0  # people times epsilon of a group of which nothing is known


def run_private(
    curator: Curator, settings: GroupSettings, epsilon: Fraction, deltas: tuple[float, float]
) -> GroupEstimates:
    """All stages; `deltas` are for the keys that the rough and the last cells may show."""
    people = pairs_of(curator.people)
    asking = GroupRun.start(curator, settings, epsilon)
    spender = asking.spender
    persons, doubt = asking.members(price(TOTAL, epsilon))
    spender.label_next("count of people")
    found, bounds = GroupEstimates(persons), settings.bounds_of(0)
    if bounds is not None:
        return _private_within(asking, found, bounds, sum(deltas))
    found = _located(asking, epsilon, found, doubt, 0.0)
    place, tail = found.place, found.tail
    if place is None:
        return found
    found = replace(found, path={"outcome": place.outcome, "origin": place.origin})
    if tail is None:
        return found
    _, beyond = _beyond(asking, place, tail, persons, BEYOND, heavy=False)
    usual = _usual_box(settings, epsilon, spender.left - price(ROUGH, epsilon), tail)
    first = _ask_keys(asking, "coarse group sums", price(ROUGH, epsilon), deltas[0], {}, usual)
    spender.label_next("coarse group sums")
    own: dict[Key, ClipInterval] = {}
    found, known = replace(found, beyond=beyond), tuple(first.cells)
    if known:
        rough = first.reading(boxes_of(usual) * len(known))
        view = replace(settings, keys=known, public_keys=True)
        places = {key: place for place, key in enumerate(people.keys)}
        among = people.select_groups([places[key] for key in known])
        found = replace(
            found, weight=rough.weight, weight_sd=rough.weight_sd,
            heavy=np.zeros(len(known), dtype=bool),
        )  # fmt: skip
        looking = GroupRun(curator, view, spender, among)
        everybody = settings.everybody(rough.weight, persons)
        found = _about_groups(looking, epsilon, found, rough, usual, everybody)
        assert found.limits is not None
        own = dict(zip(known, boxes_of(found.limits), strict=True))
    usual = _usual_box(settings, epsilon, spender.left, tail)
    last = _ask_keys(asking, FINAL, spender.left, deltas[1], own, usual)
    spender.label_next(FINAL)
    keys = tuple(last.cells)
    if not keys:
        shown = GroupEstimates(persons, place, shares=spender.shares, path=found.path)
        return replace(shown, hidden=last.threshold)
    boxes = [own.get(key, boxes_of(usual)[0]) for key in keys]
    final = last.reading(boxes)
    earlier = dict(zip(known, found.weight.tolist(), strict=True))
    sd = final.weight_sd
    both = np.array([earlier.get(key, np.nan) for key in keys])
    combined, _ = pooled_weight((both, found.weight_sd if known else 1.0), (final.weight, sd))
    return replace(
        found,
        reading=final,
        limits=GroupBounds(
            np.array([box.lower for box in boxes]), np.array([box.upper for box in boxes])
        ),
        heavy=np.zeros(len(keys), dtype=bool),
        units=None if found.units is None else found.units.spread_over(known, keys),
        weight=np.where(np.isnan(both), final.weight, combined),
        weight_sd=sd,
        shares=spender.shares,
        hidden=last.threshold,
        keys=keys,
    )


def _private_within(
    asking: GroupRun, found: GroupEstimates, bounds: tuple[float, float], delta: float
) -> GroupEstimates:
    """One release of every touched key within public bounds: nothing is located."""
    spender = asking.spender
    usual = GroupBounds(*(np.array([end]) for end in bounds))
    last = _ask_keys(asking, FINAL, spender.left, delta, {}, usual)
    spender.label_next(FINAL)
    keys = tuple(last.cells)
    found = replace(found, shares=spender.shares, hidden=last.threshold, keys=keys)
    if not keys:
        return found
    final = last.reading(boxes_of(usual) * len(keys))
    limits = GroupBounds(*(np.full(len(keys), end) for end in bounds))
    sd = final.weight_sd
    return replace(found, reading=final, limits=limits, weight=final.weight, weight_sd=sd)


@dataclass(frozen=True)
class KeyedCells:
    """Noisy cells of the private keys that are shown. threshold: as of `GroupEstimates.hidden`."""

    cells: Mapping[Key, tuple[float, float, float]]
    scale: float
    threshold: float

    def reading(self, boxes: list[ClipInterval]) -> DecodedCells:
        cells: Floats = np.array(list(self.cells.values()), dtype=float).reshape(-1, 3)
        return DecodedCells.of(cells, boxes, self.scale)


def _usual_box(
    settings: GroupSettings, epsilon: Fraction, left: Fraction, tail: PooledTail
) -> GroupBounds:
    """The limits of every group of which nothing is known."""
    whole = np.array([UNKNOWN * settings.most / settings.strength(epsilon)])
    return tail.choose(settings.width_noise(epsilon, left, whole), RHO)


def _ask_keys(
    asking: GroupRun,
    name: str,
    epsilon: Fraction,
    delta: float,
    own: Mapping[Key, ClipInterval],
    usual: GroupBounds,
) -> KeyedCells:
    """Cells of every touched key; what is not shown stays with the curator."""
    (box,) = boxes_of(usual)
    s, people = asking.settings, asking.people
    step = KeyCells(
        name, s.relation, asking.spender.spend(epsilon), delta,
        tuple((key, item.steps) for key, item in own.items()), box.steps, s.weights.parts, s.most,
        s.weights.kept,
    )  # fmt: skip
    boxes = [own.get(key, box) for key in people.keys]
    sums = people.group_sums(boxes)
    held = [(key, b, item) for key, b, item in zip(people.keys, boxes, sums, strict=True) if item.w]
    cells = GroupCells.exact([b for _, b, _ in held], [item for _, _, item in held])
    exact = dict(zip((key for key, _, _ in held), cells, strict=True))
    return KeyedCells(asking.curator.ask(step, exact), float(step.scale), step.threshold)
