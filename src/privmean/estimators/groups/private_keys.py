"""Means by group where the keys themselves are private: keys of few people are never shown.

No key is known before the rough cells, so that no people are counted by group: values are located
first, then every touched key gets cells twice, and is shown where its noisy weight reaches a
threshold. Everything in between is a function of keys that were shown (docs/proofs/groups.md,
section 8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from privmean.data.group_pairs import GroupPairTable, pairs_of
from privmean.data.person_table import ClipInterval, Floats
from privmean.estimators.groups.group_stages import (
    BEYOND,
    LEAST,
    RHO,
    ROUGH,
    SEEN_WEIGHT,
    TOTAL,
    GroupRun,
    GroupSettings,
    boxes_of,
    recenter,
)
from privmean.estimators.groups.pooled_tail import (
    DecodedCells,
    GroupBounds,
    PooledTail,
    between_groups,
    point_mass_share,
    pooled_weight,
)
from privmean.estimators.groups.run_groups import FINAL, GroupEstimates, opened, price
from privmean.estimators.pure_budget import PureBudgetSpender
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.group_cells import GroupCells, Key, KeyCells

UNKNOWN = 80.0  # people times epsilon of a group of which nothing is known


@dataclass(frozen=True)
class ShownKeys:
    """What was found, and the keys that it is about."""

    found: GroupEstimates
    keys: tuple[Key, ...] = ()


def run_private(
    curator: Curator, settings: GroupSettings, epsilon: Fraction, deltas: tuple[float, float]
) -> ShownKeys:
    """All stages; `deltas` are for the keys that the rough and the last cells may show."""
    people = pairs_of(curator.people)
    asking = GroupRun.start(curator, settings, epsilon)
    spender = asking.spender
    persons, doubt = asking.members(price(TOTAL, epsilon))
    spender.label_next("count of people")
    bounds = settings.bounds_of(0)
    if bounds is not None:
        return _run_within(curator, settings, spender, bounds, persons, sum(deltas))
    if persons * settings.strength(epsilon) < LEAST:
        return ShownKeys(GroupEstimates(persons, shares=spender.spent_by_label()))
    place = point_mass_share(asking.location(persons, doubt, 0.0))
    spender.label_next("location")
    path: dict[str, Any] = {"outcome": place.outcome, "origin": place.origin}
    tail = PooledTail.at(place)
    if tail is None:
        return ShownKeys(GroupEstimates(persons, place, shares=spender.spent_by_label(), path=path))
    beyond = None
    if settings.counted:
        beyond = asking.beyond(spender.share(BEYOND), place, persons)
        spender.label_next("count outside bounds")
    usual = _usual_box(settings, epsilon, spender.left - price(ROUGH, epsilon), tail)
    first = _ask(curator, people, settings, "coarse group sums", price(ROUGH, epsilon), spender,
                 deltas[0], {}, usual)  # fmt: skip
    spender.label_next("coarse group sums")
    (usual_last,) = boxes_of(usual)
    own: dict[Key, ClipInterval] = {}
    units, between, weight, weight_sd = None, None, np.empty(0), 1.0
    known = tuple(first.cells)
    view = settings
    if known:
        view = replace(settings, keys=known, public_keys=True)
        rough = first.reading([usual_last] * len(known))
        weight, weight_sd = rough.weight, 6**0.5 * rough.scale
        cut = tail.up(usual.upper) - tail.down(usual.lower)
        mean = rough.mean + cut
        between = between_groups(rough, mean, weight, rough.seen(SEEN_WEIGHT), tail.spread)
        places = {key: place for place, key in enumerate(people.keys)}
        among = people.select_groups([places[key] for key in known])
        looking = GroupRun(curator, view, spender, among)
        units, weight, weight_sd, rounds = recenter(
            looking, epsilon, persons, rough, mean, between, weight, weight_sd, tail
        )
        path["rounds about groups"] = rounds
        if spender.unnoted:
            spender.label_next("limits of groups")
        noise = view.width_noise(epsilon, spender.left, weight)
        everybody = np.array([settings.everybody(weight, persons)])
        farthest = tail.choose(view.width_noise(epsilon, spender.left, everybody), RHO)
        limits = opened(tail.choose(noise, RHO), farthest, rough, mean, between, weight)
        if units is not None:
            limits = units.over(limits, view, epsilon, spender.left, weight)
        own = dict(zip(known, boxes_of(limits), strict=True))
    usual = _usual_box(settings, epsilon, spender.left, tail)
    (usual_last,) = boxes_of(usual)
    left = spender.left
    last = _ask(curator, people, settings, FINAL, left, spender, deltas[1], own, usual)
    spender.label_next(FINAL)
    keys = tuple(last.cells)
    if not keys:
        return ShownKeys(
            GroupEstimates(persons, place, shares=spender.shares, path=path, hidden=last.threshold)
        )
    boxes = [own.get(key, usual_last) for key in keys]
    final = last.reading(boxes)
    earlier = dict(zip(known, weight.tolist(), strict=True))
    sd = 6**0.5 * final.scale
    both = np.array([earlier.get(key, np.nan) for key in keys])
    combined = pooled_weight((both, weight_sd), (final.weight, sd))
    found = GroupEstimates(
        persons, place, final,
        GroupBounds(np.array([b.lower for b in boxes]), np.array([b.upper for b in boxes])),
        between, tail, beyond=beyond,
        heavy=np.zeros(len(keys), dtype=bool),
        units=None if units is None else units.spread_over(known, keys),
        weight=np.where(np.isnan(both), final.weight, combined), weight_sd=sd,
        shares=spender.shares, path=path, hidden=last.threshold,
    )  # fmt: skip
    return ShownKeys(found, keys)


def _run_within(
    curator: Curator,
    settings: GroupSettings,
    spender: PureBudgetSpender,
    bounds: tuple[float, float],
    persons: float,
    delta: float,
) -> ShownKeys:
    """One release of every touched key within public bounds: nothing is located."""
    people, (low, high) = pairs_of(curator.people), bounds
    usual = GroupBounds(np.array([low]), np.array([high]))
    last = _ask(curator, people, settings, FINAL, spender.left, spender, delta, {}, usual)
    spender.label_next(FINAL)
    keys = tuple(last.cells)
    found = GroupEstimates(persons, shares=spender.shares, hidden=last.threshold)
    if not keys:
        return ShownKeys(found)
    final = last.reading(boxes_of(usual) * len(keys))
    limits = GroupBounds(np.full(len(keys), low), np.full(len(keys), high))
    sd = 6**0.5 * final.scale
    return ShownKeys(
        replace(found, reading=final, limits=limits, weight=final.weight, weight_sd=sd), keys
    )


@dataclass(frozen=True)
class _Cells:
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


def _ask(
    curator: Curator,
    people: GroupPairTable,
    settings: GroupSettings,
    name: str,
    epsilon: Fraction,
    spender: PureBudgetSpender,
    delta: float,
    own: Mapping[Key, ClipInterval],
    usual: GroupBounds,
) -> _Cells:
    """Cells of every touched key; what is not shown stays with the curator."""
    (box,) = boxes_of(usual)
    s = settings
    step = KeyCells(
        name, s.relation, spender.spend(epsilon), delta,
        tuple((key, item.steps) for key, item in own.items()), box.steps, s.weights.parts, s.most,
        s.weights.kept,
    )  # fmt: skip
    boxes = [own.get(key, box) for key in people.keys]
    sums = people.group_sums(boxes)
    held = [(key, b, item) for key, b, item in zip(people.keys, boxes, sums, strict=True) if item.w]
    cells = GroupCells.exact([b for _, b, _ in held], [item for _, _, item in held])
    exact = dict(zip((key for key, _, _ in held), cells, strict=True))
    return _Cells(curator.ask(step, exact), float(step.scale), step.threshold)
