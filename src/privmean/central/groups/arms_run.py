"""The private run of two public arms: location, a count beyond it, rough sums, the signed sum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privmean.central.clipping_region import ClippingRegion
from privmean.central.groups.decode_cells import DecodedCells, between_groups
from privmean.central.groups.group_settings import (
    ALLOWED,
    BEYOND,
    CARRIES,
    FEW,
    HIDES,
    PRECISE,
    RHO,
    ROUGH,
    SEEN,
    GroupSettings,
)
from privmean.central.groups.group_stages import GroupOutsideCount, GroupRun, boxes_of
from privmean.central.groups.group_texts import arms_assumption, no_region_advice
from privmean.central.groups.occupied_cells import OccupiedCells
from privmean.central.groups.pooled_tail import GroupBounds, PooledTail, point_mass_share
from privmean.central.groups.run_groups import opened, price
from privmean.central.groups.tail_decay import TailDecay
from privmean.central.log_histogram import ATOM_ONLY
from privmean.data.person_table import ClipInterval
from privmean.inference.effect_interval import EffectIntervals
from privmean.inference.interval import Floats
from privmean.inference.status import (
    AT_BOUND,
    EXTREME_OUTLIERS,
    FAILED,
    LOW_PRECISION,
    MODIFIED_TARGET,
    OUTLIERS_CLIPPED,
    POINT_MASS,
    SUPPRESSED,
    release_status,
    worst_status,
)
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.signed_sum import SignedSum
from privmean.release.outcome import Outcome

FINAL = "signed sum and squares"
OWN = "value, square and number by arm"
ESTIMAND = "difference of the means of two arms, people weighted equally"
RULE = "the arm of a person is public (the first one); only values are protected"
NULLS = "people without a value are left out, arm by arm"


@dataclass(frozen=True)
class Difference:
    """What was found of the difference. arms: means of both arms about as well as they are known;
    squares: variances of people inside them; persons: with a value, by which they were divided."""

    estimate: float
    scales: tuple[float, ...]
    arms: Floats
    squares: Floats
    n: Floats


def run_arms(
    curator: Curator,
    settings: GroupSettings,
    epsilon: Fraction,
    keys: tuple[tuple[str, ...], tuple[str, ...]],
) -> Outcome:
    """All stages; on every path they cost at most `epsilon` together."""
    asking = GroupRun.start(curator, settings, epsilon)
    spender = asking.spender
    order = [settings.keys.index(key) for key in keys]
    weight, _ = asking.group_weights(epsilon)  # public
    sizes, persons = weight[order], int(weight.sum())
    place = point_mass_share(asking.location(persons, 0.0, 0.0))
    spender.label_next("location")
    path: dict[str, Any] = {"outcome": place.outcome, "origin": place.origin}
    tail = PooledTail.at(place)
    if tail is None:
        status = POINT_MASS if place.outcome == ATOM_ONLY else FAILED
        nothing = EffectIntervals(
            math.nan,
            counted=settings.counted,
            status=status,
            advice=no_region_advice(place, settings, epsilon),
        )
        return _outcome(nothing, persons, spender.spent_by_label(), path)
    out = None
    if settings.counted:
        out = asking.beyond(spender.share(BEYOND), place, float(persons))
        spender.label_next("count outside bounds")
    least = np.array([float(sizes.min())])
    first = tail.choose(
        settings.width_noise(epsilon, spender.left - price(ROUGH, epsilon), least), RHO
    )
    both = GroupBounds(np.repeat(first.lower, 2), np.repeat(first.upper, 2))
    rough, _ = asking.cells("rough sums", price(ROUGH, epsilon), both)
    spender.label_next("rough sums")
    between = between_groups(rough, rough.mean, weight, rough.seen(SEEN), tail.spread)
    last = tail.choose(settings.width_noise(epsilon, spender.left, least), RHO)
    usual = GroupBounds(np.repeat(last.lower, 2), np.repeat(last.upper, 2))
    moved = opened(usual, rough, rough.mean, between, weight)
    (box,) = boxes_of(GroupBounds(moved.lower.min(keepdims=True), moved.upper.max(keepdims=True)))
    final_price = spender.left
    if (rough.divisor < weight).any():  # values are missing: means of those that there are
        limits = GroupBounds(np.full(2, box.lower), np.full(2, box.upper))
        final, _ = asking.cells(OWN, spender.left, limits)
        found = _own(final, order)
    else:
        found = _signed(asking, box, rough, sizes, order)
    spender.label_next("signed sum and squares")
    return _outcome(
        _told(found, settings, epsilon, final_price, sizes, box, place, tail, out),
        persons, spender.shares,
        path
        | {"pooled limits": [place.lower, place.upper], "limits": [box.lower, box.upper],
           "people by arm": sizes.tolist()}
        | ({} if out is None else {"share of people beyond the pooled limits": out.share}),
    )  # fmt: skip


def _signed(
    asking: GroupRun, box: ClipInterval, rough: DecodedCells, sizes: Floats, order: list[int]
) -> Difference:
    """From one signed sum; people without a value, where some are seen only now, stand at the
    rough mean of their arm."""
    spender = asking.spender
    treated, control = (int(item) for item in sizes)
    step = SignedSum(FINAL, spender.spend(spender.left), box.steps, (treated, control))
    sums = asking.people.group_sums([box, box])
    noisy = asking.curator.ask(step, step.exact([sums[g] for g in order]))
    unit, radius, least = float(step.scale), box.radius, min(treated, control)
    scales = [2 * radius * unit / least]
    there = np.array([noisy[2], noisy[4]])
    missing = np.clip(1 - there / sizes, 0.0, 1.0)
    missing[sizes - there <= 3 * 2**0.5 * 4 * unit] = 0.0
    middle = (rough.mean[order] - box.middle) / radius  # of the arms, on the box
    estimate = float(noisy[0]) + float(missing @ (middle * np.array([1.0, -1.0])))
    for j, part in enumerate(missing):
        if part:
            scales.append(radius * abs(middle[j]) * 4 * unit / sizes[j])
            scales += (part * rough.scales[order[j]]).tolist()
    # the arms' means: all people's by the rough sums, and the difference from it
    share = sizes / sizes.sum()
    whole = float(share @ middle)
    arms = whole + estimate * np.array([share[1], -share[0]])
    doubt = float(np.sqrt(((share * rough.noise[order] / radius) ** 2).sum()))
    persons = np.maximum(sizes * (1 - missing), 3 * unit)
    square = np.array([noisy[1], noisy[3]]) / persons
    variance = np.clip(square - np.maximum(arms**2 - doubt**2, 0.0), 0.0, 1.0)
    return Difference(
        radius * estimate, tuple(scales), box.middle + radius * arms, radius**2 * variance, persons
    )


def _own(final: DecodedCells, order: list[int]) -> Difference:
    """From means of both arms by themselves."""
    arms = final.mean[order]
    return Difference(
        float(arms[0] - arms[1]), tuple(final.scales[order].ravel().tolist()), arms,
        final.within[order], final.divisor[order],
    )  # fmt: skip


def _told(
    found: Difference,
    settings: GroupSettings,
    epsilon: Fraction,
    left: Fraction,
    sizes: Floats,
    box: ClipInterval,
    place: ClippingRegion,
    tail: PooledTail,
    out: GroupOutsideCount | None,
) -> EffectIntervals:
    """Sampling error, allowances and status of a difference."""
    pooled = float(found.n @ found.squares / found.n.sum())
    variance = np.maximum(found.squares, pooled)
    grand = float(sizes @ found.arms / sizes.sum())
    shift = found.arms - grand
    up = tail.up(box.upper - shift, np.full(2, box.upper))
    down = tail.down(box.lower - shift, np.full(2, box.lower))
    above_it = place.upper - place.origin >= place.origin - place.lower
    reach = max(box.upper - grand if above_it else grand - box.lower, 0.0)
    extra = 0.0 if out is None else out.share * reach
    near = box.radius - abs(found.arms - box.middle) < variance**0.5 / 2
    under, over = tail.beyond(np.array([box.lower] * 2), np.array([box.upper] * 2))
    high = found.arms > box.middle
    hidden = np.where(high, over, under) + (1.0 if out is None else out.likely)
    hidden *= sizes.sum()
    if place.seen is not None:
        cells, ends = OccupiedCells.of(place, place.seen), np.where(high, box.upper, box.lower)
        hidden = np.minimum(hidden, cells.rest(float(sizes.sum()), 0.0, ends, high))
    near &= hidden > HIDES * sizes  # if all who may be beyond it were of this arm
    high, low = near & high, near & ~high
    more, less = ALLOWED * 2 * extra, ALLOWED * 2 * extra
    carried = False
    if out is not None and place.seen is not None:
        slow = TailDecay.of(place.seen, tail, out.most)
        up_on, down_on, square = slow.excess(box.lower - shift, box.upper - shift)
        more, less = (
            max(more, float(up_on[0] + down_on[1])),
            max(less, float(down_on[0] + up_on[1])),
        )
        variance = variance + square + 2 * np.maximum(box.upper - found.arms, 0.0) * up_on
        variance = variance + 2 * np.maximum(found.arms - box.lower, 0.0) * down_on
        scales = np.array(found.scales)
        error = 2 * float(scales @ scales) + float((variance / found.n).sum())
        carried = float((up_on + down_on).max()) > CARRIES * math.sqrt(error)
    least = float(sizes.min())
    few = least * float(left) < FEW * 2 * 2**0.5
    thick = out is not None and out.thick
    flagged = {
        SUPPRESSED: few,
        MODIFIED_TARGET: thick,
        AT_BOUND: bool(near.any()),
        EXTREME_OUTLIERS: out is not None and out.far,
        LOW_PRECISION: least * settings.strength(epsilon) < PRECISE,
        OUTLIERS_CLIPPED: carried or (out is not None and out.seen),
    }
    both = thick or few
    return EffectIntervals(
        math.nan if few else found.estimate,
        math.sqrt(float((variance / found.n).sum())),
        found.scales,
        math.inf if both or high[0] or low[1] else ALLOWED * float(up[0] + down[1]) + more,
        math.inf if both or low[0] or high[1] else ALLOWED * float(down[0] + up[1]) + less,
        (box.lower, box.upper),
        settings.counted,
        arms_assumption(
            counted=settings.counted,
            unseen=0.0 if out is None else out.doubt * float(sizes.sum()),
        ),
        worst_status(code for code, holds in flagged.items() if holds),
        "The noise hides the smaller arm." if few else "",
    )


def _outcome(
    made: EffectIntervals, persons: int, shares: dict[str, float], path: dict[str, Any]
) -> Outcome:
    return Outcome(
        np.array([made.estimate]),
        made,
        n=persons,
        status=release_status((made.status,)),
        statuses=(made.status,),
        advice=made.advice,
        assumptions=(RULE, NULLS),
        shares=shares,
        diagnostics=path,
        estimand=ESTIMAND,
    )
