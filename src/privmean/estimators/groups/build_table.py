"""From what was released to the table of groups: corrections, variances, allowances, statuses.

What a release by group says of itself: unit, rule of the key, estimand, assumptions, advice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from privmean.array_types import Flags, Floats
from privmean.estimators.find_region import ATOM_ONLY, BEYOND, ClippingRegion, point_mass_value
from privmean.estimators.groups.group_stages import (
    ALLOWED,
    CARRIES,
    FEW,
    HIDES,
    LEAST,
    PRECISE,
    SEEN_WEIGHT,
    SURE,
    GroupSettings,
)
from privmean.estimators.groups.pooled_tail import (
    TINY,
    BetweenGroups,
    DecodedCells,
    GroupBounds,
    OccupiedCells,
    PooledTail,
    TailDecay,
    between_groups,
)
from privmean.estimators.groups.run_groups import GroupEstimates
from privmean.inference.clipped_intervals import bound_reached
from privmean.inference.group_table import GroupTable
from privmean.inference.interval import (
    GROUP_SHARE,
    INDEPENDENT,
    joined,
    no_undetected,
    values_within,
)
from privmean.inference.status import (
    AT_BOUND,
    EXTREME_OUTLIERS,
    LOW_PRECISION,
    MODIFIED_TARGET,
    OUTLIERS_CLIPPED,
    OUTLIERS_UNCHECKED,
    SUPPRESSED,
    worst_status,
)

THICK = (
    "Nearly all other people may share a value, or groups may lie far apart. Ask about each group "
    "by itself, with the values of the others missing."
)
NORMAL = "sampling errors are normal"
OUTLIERS = "outliers of {} exceed its clipping bounds by at most twice what all outliers do"
HIDDEN = "Groups of fewer than about "
LEFT_OUT = "These groups hold about "
PART = 0.5  # of all people: fewer in the groups are said


def hidden_words(threshold: float) -> str:
    """Which private keys are no rows."""
    return f"{HIDDEN}{threshold:.0f} people are hidden; their number is not known."


def notes_of(settings: GroupSettings) -> tuple[str, ...]:
    """The unit, the rule, what is estimated, and what follows from the list of keys."""
    k, split = settings.weights.max_groups, settings.weights.split
    if split and settings.unit != "group" and k >= settings.groups:
        return ()
    one, more = ("arm", ".") if settings.common else ("group", "; see max_groups.")
    if settings.public_groups and not split:
        rule = f"Each person counts in one {one}, the first key of its records{more}"
        listed = "who has records in which group is public; only the values are protected"
    elif not split:
        rule = f"Each person counts in one {one}, that of most of their records{more}"
        listed = (
            "most records: usable ones, among the keys asked; ties to the first key in the order "
            "of texts; the rows depend on which keys are asked"
        )
    else:
        rule = (
            "Each person counts in every group, with a total weight of 1; see max_groups."
            if k == 1
            else f"Each person counts in at most {k} groups fully; see max_groups."
        )
        listed = (
            f"people in m > {k} groups count {k}/m in each, with a total weight of {k}, so rows "
            "are weighted means if the number of groups goes with the values; m counts the keys "
            "asked: another list of keys changes the rows"
        )
    clustering = (
        ("intervals of contrasts hold for any dependence within people, and are wide",)
        if split
        else ()
    )
    return rule, listed, *clustering


def left_out_words(counted: float, noise: float, persons: int | None) -> str:
    """What is said where the groups hold far fewer people than there are. counted: noisy weight of
    all groups; noise: the deviation of its noise; persons: their public number, None if unknown."""
    if persons is None or counted + 3 * noise > PART * persons:
        return ""
    return (
        f"{LEFT_OUT}{max(counted, 0.0):.0f} of {persons} people. The others have no usable record "
        "in any of them: check how the keys are written."
    )


def assumption_of(found: GroupEstimates, settings: GroupSettings) -> tuple[str, str]:
    """What the intervals depend on, and that in a few words ("" where it is short itself)."""
    if found.reading is None:
        return "", ""
    if found.place is None:
        inside = ""
        if settings.given and settings.bounds[0] is not None:
            inside = values_within(*settings.bounds[0])
        brief = joined((INDEPENDENT, inside)) if settings.unit != "group" else ""
        return joined((INDEPENDENT, inside, NORMAL)), brief
    if not settings.counted:
        return joined((INDEPENDENT, NORMAL)), ""
    unseen = 0.0 if found.beyond is None else found.beyond.hidden * found.n
    brief = joined((INDEPENDENT, GROUP_SHARE, no_undetected(unseen)))
    more = (
        OUTLIERS.format("a group"),
        "the noise of the histogram and the error of the variances are small",
        f"no row is imprecise (weight times epsilon below {PRECISE:g}, where it is not measured)",
    )
    return joined((brief, *more)), brief


def advice_of(found: GroupEstimates, settings: GroupSettings, epsilon: Fraction) -> str:
    """What to do about a table that was not found, or of which too much lies beyond the limits."""
    if found.reading is not None:
        return THICK if found.beyond is not None and found.beyond.thick else ""
    if found.hidden is not None:
        return (
            f"No group of more than about {found.hidden:.0f} people was found. Group by a coarser "
            "column, give keys= if the groups are public, or raise epsilon or delta."
        )
    return no_region_advice(found.place, settings, epsilon)


def no_region_advice(
    place: ClippingRegion | None, settings: GroupSettings, epsilon: Fraction
) -> str:
    """What to do where nothing was found. place: None where it was not looked for."""
    if place is None:
        needed = math.ceil(LEAST / settings.strength(epsilon))
        return (
            f"There are too few people to find the values: about {needed} with a value in a group "
            "are needed. Add people, raise epsilon, or check how the keys are written."
        )
    if place.outcome == ATOM_ONLY:
        value = point_mass_value(place)
        return (
            f"Nearly all people have the value {value}, so groups are not identified. Add people "
            "or raise epsilon; of 0 and 1, code the rare outcome as 1."
        )
    if place.outcome == BEYOND:
        return "Values reach beyond 2^39. Give them in a larger unit."
    return "No region was found privately. Raise epsilon or add people."


WIDER, CLEAR = 1.2, 2.5  # ratio of variances, and noise deviations, from which a group spreads more
APART = 4.0  # the ratio from which it is told though the count hints at nobody beyond the limits
LONG = 5.0  # deviations of people inside groups beyond which limits are those of long tails
# deviations of its own to a limit, within which the tail of a group that clearly spreads more than
# the others, or only no less, may go on beyond it
SPILLS, NO_LESS = 1.5, 1.0
TURNS = 5  # after each, less than half of what is missing of the place of a group is left
SHRINK = 4.0  # people by which a share is drawn to one half for its variance (Agresti and Coull)
SPREADS = 0.35  # typical difference of logarithms of groups' deviations


def empty_table(
    keys: Sequence[str], status: str, weight: Floats | None = None, weight_sd: float = np.nan
) -> GroupTable:
    """Every group without an estimate; their noisy people, where these were bought."""
    nothing = np.full(len(keys), np.nan)
    never = np.zeros(len(keys), dtype=bool)
    return GroupTable(
        tuple(keys), nothing, nothing, np.zeros((len(keys), 3)), nothing, nothing, nothing, nothing,
        never, never, nothing if weight is None else weight, weight_sd, nothing, np.nan, nothing,
        nothing, (status,) * len(keys),
    )  # fmt: skip


def table_of(
    found: GroupEstimates, settings: GroupSettings, epsilon: Fraction, keys: Sequence[str]
) -> tuple[GroupTable, Floats]:
    """The table, and the means drawn to each other as far as their errors ask."""
    final, limits, tail = found.reading, found.limits, found.tail
    assert final is not None
    assert limits is not None
    assert tail is not None
    seen = final.seen(SEEN_WEIGHT)
    between = between_groups(final, final.mean, found.weight, seen, tail.spread)
    variance = between.variance(final.noise, found.weight)
    shift = between.shrunk(final.mean, variance) - between.grand
    most = _most_cut(found, settings, limits, tail)
    up, down = _cut(found, limits, tail, most, shift)
    sure = np.full(settings.groups, between.ratio > SURE)
    if found.units is not None:
        sure |= found.units.known
    times = _beside(found, final, limits, tail)
    corrected = np.where(sure & settings.counted, times * (up - down), 0.0)
    mean = final.mean + corrected
    spread = _variance(final, between)
    spread += 2 * np.maximum(limits.upper - mean, 0.0) * times * up
    spread += 2 * np.maximum(mean - limits.lower, 0.0) * times * down
    wide = _stretch(final, between)
    assert found.place is not None
    assert found.place.seen is not None
    cells = OccupiedCells.of(found.place, found.place.seen, settings.weights.mass)
    doubt = CLEAR * final.radius**2 * 6**0.5 * final.scale / final.divisor
    about = between.middle, between.within, found.n
    at_one_value = cells.explain(final.mean, final.within, doubt, about)
    wide = np.where(at_one_value, 1.0, wide)
    far_up, far_down = up, down
    # an allowance is as the values of all lie about their own mean: a group that lies apart from
    # the most is cut more, which says that it lies farther, where more is cut
    for _ in range(TURNS):
        shift = between.shrunk(final.mean + far_up - far_down, variance) - between.middle
        far_up, far_down = _cut(found, limits, tail, most, shift, between.middle, wide)
    reach = wide * _reach(found, limits, between.middle)
    out = found.beyond
    beyond = 0.0 if out is None else out.share * reach
    thick = out is not None and out.thick
    seen_out = np.full(settings.groups, out is not None and out.seen)
    far_out = np.full(settings.groups, out is not None and out.far)
    unchecked = np.full(settings.groups, out is not None and out.unchecked)
    hinted = np.full(settings.groups, out is None or out.hinted)
    own = found.units
    if own is not None and own.beyond is not None:
        seen_out[own.known], far_out[own.known] = own.beyond.seen, own.beyond.far
        unchecked[own.known] = own.beyond.unchecked
        hinted[own.known] = own.beyond.hinted
        arm = np.maximum(limits.upper - own.center, own.center - limits.lower)
        beyond = np.where(own.known, own.beyond.share * wide * arm, beyond)
    slow_up, slow_down, square = _slow(found, limits, shift, between.middle, wide)
    few = final.weight < FEW * 6**0.5 * final.scale
    inside = wide * between.within**0.5 / 2 + final.noise
    room = final.radius * (1 - np.abs(final.share))
    high = final.share > 0
    spills = _spills(final, between, room) & ~at_one_value
    near = (room < inside) | (spills & (not tail.at_one_value))
    # people nearer to a limit than the noise take no more than that off a mean
    aside = GroupBounds(limits.lower - final.noise, limits.upper + final.noise)
    hidden = _hidden(found, aside, high)
    if settings.public_keys and not settings.weights.split:  # all whom the cells count are here
        total, sd = float(found.weight.sum()), found.weight_sd * settings.groups**0.5
        rest = cells.rest(total, sd, np.where(high, limits.upper, limits.lower), high)
        hidden = np.minimum(hidden, rest)
    near &= hidden > HIDES * found.weight
    precise = found.weight * settings.strength(epsilon) / settings.most
    beyond = ALLOWED * beyond
    up, down = ALLOWED * np.maximum(up, far_up), ALLOWED * np.maximum(down, far_down)
    far_up = np.maximum(beyond, ALLOWED * slow_up)
    far_down = np.maximum(beyond, ALLOWED * slow_down)
    above = times * up + far_up - corrected
    below = times * down + far_down + corrected
    spread += 2 * np.maximum(limits.upper - mean, 0.0) * slow_up + square
    spread += 2 * np.maximum(mean - limits.lower, 0.0) * slow_down
    error = np.sqrt(spread / final.divisor + final.noise**2)
    seen_out |= slow_up + slow_down > CARRIES * error
    arm = np.maximum(limits.upper - final.mean, final.mean - limits.lower)
    leans = (up + down + far_up + far_down > 2 * error) | (arm > LONG * between.within**0.5)
    wider = _wider(final, between, APART) | (_wider(final, between) & hinted)
    alone = wider & leans & ~at_one_value & settings.counted
    status = _worst(
        len(few), {
            SUPPRESSED: few, MODIFIED_TARGET: np.full(len(few), thick), AT_BOUND: near,
            EXTREME_OUTLIERS: far_out | alone, LOW_PRECISION: precise < PRECISE,
            OUTLIERS_CLIPPED: seen_out, OUTLIERS_UNCHECKED: unchecked,
        },
    )  # fmt: skip
    shrunk = _translated(between, mean, variance)
    table = _table(
        found, settings, keys, status, mean=np.where(few, np.nan, mean), spread=spread,
        cut=(above, below, corrected),
        opened=((near & high | thick) & ~few, (near & ~high | thick) & ~few),
    )  # fmt: skip
    return table, np.where(few, np.nan, shrunk)


def table_within(
    found: GroupEstimates, settings: GroupSettings, epsilon: Fraction, keys: Sequence[str]
) -> tuple[GroupTable, Floats]:
    """The same of values within public bounds: no limits cut anything off."""
    final, limits = found.reading, found.limits
    assert final is not None
    assert limits is not None
    spread = float((final.radius**2).max())  # the largest there can be, where no group is seen
    between = between_groups(final, final.mean, found.weight, final.seen(SEEN_WEIGHT), spread)
    few = final.weight < FEW * 6**0.5 * final.scale
    precise = found.weight * settings.strength(epsilon) / settings.most
    sides = _sides(final) if settings.given else np.zeros(settings.groups)
    low, high = (sides < 0) & ~few, (sides > 0) & ~few
    flagged = {SUPPRESSED: few, AT_BOUND: low | high, LOW_PRECISION: precise < PRECISE}
    status = _worst(settings.groups, flagged)
    none = np.zeros(settings.groups)
    variance = _variance(final, between) if settings.given else _variance_of_type(final)
    shrunk = _translated(between, final.mean, between.variance(final.noise, found.weight))
    table = _table(
        found, settings, keys, status, mean=np.where(few, np.nan, final.mean), spread=variance,
        cut=(none, none, none), opened=(high, low),
    )  # fmt: skip
    return table, np.where(few, np.nan, shrunk)


def _table(
    found: GroupEstimates,
    settings: GroupSettings,
    keys: Sequence[str],
    status: tuple[str, ...],
    *,
    mean: Floats,
    spread: Floats,
    cut: tuple[Floats, Floats, Floats],
    opened: tuple[Flags, Flags],
) -> GroupTable:
    """spread: variance of people, with what allowances add; cut: allowances above and below, and
    what was corrected; opened: above and below."""
    final, limits = found.reading, found.limits
    assert final is not None
    assert limits is not None
    return GroupTable(
        tuple(keys),
        mean,
        np.sqrt(spread / final.divisor),
        np.zeros((settings.groups, 3)) if found.gaussian else final.scales,
        final.noise if found.gaussian else np.zeros(settings.groups),
        *cut,
        *opened,
        found.weight,
        found.weight_sd,
        final.divisor,
        2**0.5 * final.scale,
        limits.lower,
        limits.upper,
        status,
        counted=settings.counted,
        clustering=settings.weights.split,
    )


def _sides(final: DecodedCells) -> Floats:
    """-1 or 1 for groups of which nobody is seen away from the lower or the upper bound, else 0."""
    square = final.within / final.radius**2 + final.share**2
    numbers = zip(final.share * final.divisor, square * final.divisor, final.divisor, strict=True)
    # of the people less the sum, and less the squares: two and one cell, the former once twice
    noise = (final.scale, 2 * final.scale)
    return np.array([bound_reached(y, yy, n, noise, 0.0) for y, yy, n in numbers], dtype=float)


def _worst(groups: int, flagged: Mapping[str, Flags]) -> tuple[str, ...]:
    """The most severe status of each group of those for which it is flagged."""
    return tuple(
        worst_status(code for code, which in flagged.items() if which[g]) for g in range(groups)
    )


def _most_cut(
    found: GroupEstimates, settings: GroupSettings, limits: GroupBounds, tail: PooledTail
) -> tuple[Floats, Floats]:
    """Mean excess over and below the limits of each group, if all whom the pooled tail has there
    were its own: people of no group lie where it has nobody, however far groups are apart."""
    everybody = settings.everybody(found.weight, found.n)
    times = everybody / np.maximum(found.weight, 1.0)
    up, down = tail.up(limits.upper), tail.down(limits.lower)
    if found.heavy.any() and found.wide is not None:
        up = np.where(found.heavy, found.wide.up(limits.upper), up)
        down = np.where(found.heavy, found.wide.down(limits.lower), down)
    return times * up, times * down


def _cut(
    found: GroupEstimates,
    limits: GroupBounds,
    tail: PooledTail,
    most: tuple[Floats, Floats],
    shift: Floats,
    grand: float = 0.0,
    stretch: Floats | float = 1.0,
) -> tuple[Floats, Floats]:
    """Mean excess over and below the limits of each group, by the pooled tail about its center.
    most: of each, by all people; stretch: how much wider its people spread, about `grand`."""
    if (
        tail.at_one_value
    ):  # groups differ in how many lie beside the point mass, and not in where it is
        shift, grand = np.zeros(len(shift)), tail.center
    high = grand + (limits.upper - shift - grand) / stretch
    low = grand + (limits.lower - shift - grand) / stretch
    # one value is a point mass in every group, however far groups are apart
    ends = [tail.center + (end - tail.center) / stretch for end in (limits.upper, limits.lower)]
    up, down = tail.up(high, ends[0]), tail.down(low, ends[1])
    if found.heavy.any() and found.wide is not None:
        up = np.where(found.heavy, found.wide.up(high, ends[0]), up)
        down = np.where(found.heavy, found.wide.down(low, ends[1]), down)
    up, down = np.minimum(up * stretch, most[0]), np.minimum(down * stretch, most[1])
    if found.units is not None:
        own, size = found.units, found.units.size * stretch
        high, low = (limits.upper - own.center) / size, (limits.lower - own.center) / size
        up = np.where(own.known, own.tail.up(high) * size, up)
        down = np.where(own.known, own.tail.down(low) * size, down)
    return up, down


def _beside(
    found: GroupEstimates, final: DecodedCells, limits: GroupBounds, tail: PooledTail
) -> Floats:
    """How many times more people of each group lie beside a point mass of more than half of all (1
    where there is none): as much more of its mean is cut off."""
    times = np.ones(len(final.mean))
    if tail.at_one_value:
        square = final.within + (final.mean - tail.center) ** 2
        usual = np.maximum(tail.square(limits.lower, limits.upper), 1e-300)
        times = np.maximum(square / usual, 1.0)
    return times if found.units is None else np.where(found.units.known, 1.0, times)


def _slow(
    found: GroupEstimates, limits: GroupBounds, shift: Floats, grand: float, stretch: Floats
) -> tuple[Floats, Floats, Floats]:
    """Mean excess over and below the limits of each group, and its mean square, of those beyond the
    limits of the location where the tail seems to fall off slowly."""
    up, down, square = (np.zeros(len(shift)) for _ in range(3))
    place, tail, out, own = found.place, found.tail, found.beyond, found.units
    if place is None or place.seen is None or tail is None or out is None:
        return up, down, square
    low = grand + (limits.lower - shift - grand) / stretch
    high = grand + (limits.upper - shift - grand) / stretch
    up, down, square = TailDecay.of(place.seen, tail, out.most).excess(low, high)
    up, down, square = up * stretch, down * stretch, square * stretch**2
    if own is not None and own.beyond is not None:
        size = own.size * stretch
        low, high = (limits.lower - own.center) / size, (limits.upper - own.center) / size
        beside = TailDecay.of(own.seen, own.tail, own.beyond.most).excess(low, high)
        up = np.where(own.known, beside[0] * size, up)
        down = np.where(own.known, beside[1] * size, down)
        square = np.where(own.known, beside[2] * size**2, square)
    return up, down, square


def _hidden(found: GroupEstimates, limits: GroupBounds, high: Flags) -> Floats:
    """People beyond the limit of each group that is nearer to its mean, if all who may be there
    were its own: those of the pooled histogram, and as many beyond that as noise may hide."""
    assert found.tail is not None
    under, over = found.tail.beyond(limits.lower, limits.upper)
    part = np.where(high, over, under) + (1.0 if found.beyond is None else found.beyond.likely)
    persons = part * found.n
    own = found.units
    if own is not None:
        low, up = (limits.lower - own.center) / own.size, (limits.upper - own.center) / own.size
        under, over = own.tail.beyond(low, up)
        part = np.where(high, over, under) + (1.0 if own.beyond is None else own.beyond.likely)
        known = float(np.maximum(found.weight, 0.0)[own.known].sum())
        persons = np.where(own.known, part * known, persons)
    return persons


def _variance(final: DecodedCells, between: BetweenGroups) -> Floats:
    """Of people inside each group: never below its own noisy value, and drawn to the pooled one
    from below as far as its noise asks."""
    return np.maximum(final.within, _drawn(final, between))


def _variance_of_type(final: DecodedCells) -> Floats:
    """Of people inside each group within bounds of a type: that of values at the bounds with this
    mean, less the part that values between them take off. That part is the pooled one, as far as
    the group's own cells allow it (docs/proofs/groups.md, section 15)."""
    n, noise = final.divisor, CLEAR * 6**0.5 * final.scale
    most = np.maximum(1 - final.share**2, TINY)
    inside = n * (1 - final.within / final.radius**2 - final.share**2)
    seen = np.where(final.seen(SEEN_WEIGHT), 1.0, 0.0)
    pooled = float(seen @ inside) - noise * float(seen.sum()) ** 0.5
    pooled = max(pooled, 0.0) / max(float(seen @ (n * most)), TINY)
    part = np.clip(pooled, (inside - noise) / (n * most), (inside + noise) / (n * most))
    share = final.share * n / (n + SHRINK)
    return np.asarray(final.radius**2 * (1 - share**2) * (1 - np.clip(part, 0.0, 1.0)))


def _drawn(final: DecodedCells, between: BetweenGroups) -> Floats:
    """The variance inside each group, drawn to the pooled one as far as its noise asks."""
    within = between.within
    noise = final.radius**2 * 6**0.5 * final.scale / final.divisor / within
    own = SPREADS**2 / (SPREADS**2 + noise**2 + 4 / final.divisor)
    return own * final.within + (1 - own) * within


def _stretch(final: DecodedCells, between: BetweenGroups) -> Floats:
    """How much more the people of each group spread than those of all: its tail is taken to be as
    much wider (docs/proofs/groups.md, section 6)."""
    return np.sqrt(np.maximum(_drawn(final, between) / between.within, 1.0))


def _wider(final: DecodedCells, between: BetweenGroups, times: float = WIDER) -> Flags:
    """Groups whose people clearly spread so many times more than those of all (a variance): the
    tail of the others may say little of theirs."""
    noise = final.radius**2 * 6**0.5 * final.scale / final.divisor / between.within
    error = np.sqrt(noise**2 + 3 / final.divisor)
    excess = final.within / between.within - 1
    return (excess > times - 1) & (excess > CLEAR * error)


def _spills(final: DecodedCells, between: BetweenGroups, room: Floats) -> Flags:
    """Groups away from the others that lie so near to a limit, and spread so much, that their tail
    may be cut off there: one that only lies apart spreads less inside limits which cut it.

    room: from each mean to the nearer limit."""
    aside = final.mean - between.middle
    outside = (np.abs(aside) > between.within**0.5) & ((aside > 0) == (final.share > 0))
    left = room / np.sqrt(np.maximum(final.within, 1e-300))
    clearly = _wider(final, between) & (left < SPILLS)
    return np.asarray(outside & (clearly | ((final.within > between.within) & (left < NO_LESS))))


def _reach(found: GroupEstimates, limits: GroupBounds, grand: float) -> Floats:
    """How far each group's limit is from the grand mean, on the side of the longer tail."""
    place = found.place
    assert place is not None
    above = place.upper - place.origin >= place.origin - place.lower
    distance = limits.upper - grand if above else grand - limits.lower
    found_reach: Floats = np.maximum(distance, 0.0)
    return found_reach


def _translated(between: BetweenGroups, mean: Floats, variance: Floats) -> Floats:
    """Shrunk means, none moved by more than .7 deviations of its error (Efron and Morris 1972)."""
    step = between.shrunk(mean, variance) - mean
    most = 0.7 * np.sqrt(variance)
    return mean + np.clip(step, -most, most)
