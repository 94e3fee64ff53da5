"""The steps of means by group.

Public choices of means by group, and the numbers that follow from them.

The stages of means by group, each one question to the curator: counts, location, cells, tails.

Prices come from one spender; what a stage may see of the people is what it asks here.

Where groups differ more than people inside them: limits about the groups' own centers.

A histogram of values in units of their own groups shows the spread inside groups; groups whose
place is not known well keep the pooled limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import numpy as np

from privmean.array_types import Flags, Floats
from privmean.data.group_pairs import CenteredSums, GroupPairTable, GroupWeights, PairSums, pairs_of
from privmean.data.key_text import label
from privmean.data.person_table import ClipInterval
from privmean.estimators.find_region import (
    FOUND,
    ClippingRegion,
    Histogram,
    find_region,
    read_reach,
    tail_share,
)
from privmean.estimators.groups.pooled_tail import (
    BetweenGroups,
    DecodedCells,
    GroupBounds,
    PooledTail,
    between_groups,
    far_together,
    near_limits,
    pooled_weight,
)
from privmean.estimators.means.region_mean import TRUST, moved_for
from privmean.estimators.noise_budget import PureBudgetSpender
from privmean.inference.clipped_intervals import HIDDEN, SEEN, THICKEST
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.group_cells import GaussianCells, GroupCells, GroupSums
from privmean.mechanisms.noisy_counts import NoisyCounts, as_counts
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import PrivacyEvent

T = TypeVar("T")
FINAL = "group sums"
Strength = Callable[[Fraction, Sequence[PrivacyEvent]], float]
COUNTS, TOTAL = 0.04, 0.01  # of epsilon: people by group, and all of them where that is bought
MANY = 16  # groups from which the sum of their counts is too noisy to be the number of people
LEAST = 150.0  # people times epsilon below which no value can be located
LOOK, LOOK_LEAST, LOOK_MOST = 150.0, 0.1, 0.4  # share of the tail histogram
HEAVY = 0.5  # of all people in one group
HEAVY_CHECK = 0.15  # of what is left: people beyond the limits, where a group is heavy
BEYOND = 0.05  # and where they are counted for intervals alone, at least
COSTS, MOST_CHECKED = 0.01, 0.1  # part of the total error that a better count may cost; its most
WIDTHS = 8.0  # usual noise of a mean in deviations inside groups, over that of a unit of width
ROUGH = 0.05  # of epsilon: the first cells
RHO = 1.5  # how much more bias counts than noise where limits are chosen
SMALL = 20.0  # people times epsilon that a group is taken to have at least
GATE = 0.7  # spread within groups over all spread below which groups get limits of their own
HISTOGRAM, ROUND, ROUNDS, KEEP = 0.1, 0.15, 3, 0.4
STAY, TAKE = 0.9, 0.6  # ratios of widths that end the rounds
SURE = 0.8  # and above which the pooled tail is believed of every group
SEEN_WEIGHT = 4.0  # noise scales of a weight that is used
FEW = 5.0  # noise deviations of a weight below which there is no estimate: 7 in 10^5 by noise
ALLOWED = 2.0  # how much more than the pooled tail an interval allows a group
CARRIES = 3.0  # deviations of an error: more mean in a tail that was not counted is told
HIDES = 0.15  # part of a group beyond a limit, below which its mean is not at the limit for it
PRECISE = 60.0  # weight times epsilon below which a row is called imprecise


@dataclass(frozen=True)
class GroupSettings:
    """keys: public, in the order in which people hold them; none where they are private. counted:
    whether people beyond the limits are counted, which an interval for the mean needs (else it is
    for the clipped mean). public_groups: who is in which group is public. common: all groups have
    the same limits, so that what these cut off cancels where groups are alike. bounds: public
    bounds of each value, None where it has none; given: by the caller and not by a type, so that
    values may lie beyond them. unit: what groups are called.
    """

    keys: tuple[tuple[str, ...], ...]
    weights: GroupWeights
    relation: Relation
    counted: bool = True
    public_keys: bool = True
    public_groups: bool = False
    common: bool = False
    bounds: tuple[tuple[float, float] | None, ...] = ()
    given: bool = False
    unit: str = "group"

    def bounds_of(self, column: int) -> tuple[float, float] | None:
        return self.bounds[column] if self.bounds else None

    def said(self, text: str) -> str:
        """A text about groups in the words of the question."""
        if self.unit == "group":
            return text
        return text.replace("group", self.unit).replace("keys", f"{self.unit}s")

    def named(self, facts: Mapping[str, T]) -> dict[str, T]:
        """Facts with names in the words of the question."""
        return {self.said(name): value for name, value in facts.items()}

    @property
    def groups(self) -> int:
        return len(self.keys)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The keys as they are shown."""
        return tuple(map(label, self.keys))

    @property
    def most(self) -> int:
        """The largest weight of one person over the groups asked, in people."""
        return (
            min(self.weights.max_groups, self.groups)
            if self.public_keys
            else self.weights.max_groups
        )

    @property
    def moves(self) -> int:
        """People whose answers a change of neighbors moves: one leaves, one comes."""
        return 2 if self.relation == REPLACE_ONE else 1

    @property
    def affected(self) -> int:
        """Cells that a change can move."""
        return 3 * self.groups

    @property
    def total(self) -> bool:
        """Whether the number of people with a pair is bought by itself."""
        return self.weights.split or self.groups > MANY

    def everybody(self, weight: Floats, persons: float) -> float:
        """The weight of all pairs, or the most it can be where some groups stay hidden. weight: of
        the groups that are shown; persons: with a pair."""
        seen = float(np.maximum(weight, 0.0).sum())
        return max(seen if self.public_keys else self.most * persons, 1.0)

    def look_share(self, persons: float, epsilon: Fraction) -> float:
        """The share of the histogram in which so many people are located."""
        signal = max(persons, 1) * self.strength(epsilon)
        return min(LOOK_MOST, max(LOOK_LEAST, LOOK / signal))

    def purse(self, epsilon: Fraction) -> PureBudgetSpender:
        """What all stages together may cost."""
        return PureBudgetSpender(epsilon, self.relation, self.weights.mass)

    def width_noise(self, epsilon: Fraction, left: Fraction, weight: Floats) -> Floats:
        """Noise of the mean of each group at the price `left`, per unit of width."""
        least = SMALL * self.most / self.strength(epsilon)
        return self.most / (np.maximum(weight, least) * self.strength(left))

    def check_share(self, epsilon: Fraction, left: Fraction, weight: Floats) -> float:
        """The share of the count beyond limits: the more, the less of the error of usual groups of
        these noisy weights is noise."""
        noise = (WIDTHS * self.width_noise(epsilon, left, weight)) ** 2 * np.maximum(weight, 1.0)
        part = float((noise / (1 + noise)).mean()) if len(weight) else 1.0
        return min(BEYOND + COSTS * (1 / part - 1), MOST_CHECKED)

    def strength(self, epsilon: Fraction) -> float:
        """epsilon under add-remove that this one is worth."""
        return float(epsilon / self.moves)


KNOWN = 1e-6  # the deviation of a number that is public
MANY_BOXES, EVEN = 64, 2**13
SHARED = 0.5  # of all people in one bin: nearly all of them have one value
FIRM = 3.0  # noise scales of doubt about people beyond the limits of other values
UNCHECKED = 0.4  # of all people: a count that may miss more of them has checked nothing


@dataclass(frozen=True)
class GroupOutsideCount:
    """People beyond the limits of the location, by a noisy count. share: of all people; believed:
    the same less one noise scale, in parts of a mass. thick: so many that no mean is told; seen:
    there for certain; far: some of them seem to lie together far beyond the limits. most: of all
    people, where the noise is as much as it hardly ever is. hinted: somebody seems to be there."""

    share: float
    believed: float
    thick: bool
    seen: bool
    far: bool = False
    most: float = 1.0
    hinted: bool = True

    @property
    def doubt(self) -> float:
        """The share of people whom the count may miss."""
        return self.most - self.share

    @property
    def hidden(self) -> float:
        """The share of people in the largest group that may be overlooked."""
        return self.doubt * HIDDEN / FIRM

    @property
    def unchecked(self) -> bool:
        """Whether the count may miss so many that it says nothing."""
        return self.doubt > UNCHECKED

    @property
    def likely(self) -> float:
        """The share of people there may be: more in one release of ten."""
        return self.share + self.doubt * math.log(5) / FIRM

    @classmethod
    def of(
        cls,
        mass: float,
        scale: float,
        persons: float,
        seen: Histogram | None,
        lower: float = 0.0,
        upper: float = 0.0,
    ) -> GroupOutsideCount:
        """persons: all of them, in parts of a mass. seen: where they are; lower, upper: the limits
        about its origin.

        Limits about a value that most people share say nothing of how far the others lie: there
        one scale of doubt is enough to tell no mean. Where values fall off towards the limits three
        are asked for, so that noise by itself hardly ever does it.
        """
        whole = max(persons, 1.0)
        shared = seen is not None and seen.largest > SHARED * whole
        doubt = (TRUST if shared else FIRM) * scale
        near = seen is not None and near_limits(mass, seen, lower, upper)
        return cls(
            max(mass, 0.0) / whole,
            mass - TRUST * scale,
            mass - doubt > THICKEST * whole,
            mass > SEEN * scale and not near,
            seen is not None and far_together(0.0 if near else mass / scale, seen, lower, upper),
            (max(mass, 0.0) + FIRM * scale) / whole,
            mass > TRUST * scale,
        )


@dataclass(frozen=True)
class GroupRun:
    """One run: who is asked, what is public, and what is left to spend. among: pairs of groups that
    were shown, where the others must not be asked for, or pairs with other weights. column: the
    value that is asked for."""

    curator: Curator
    settings: GroupSettings
    spender: PureBudgetSpender
    among: GroupPairTable | None = None
    column: int = 0

    @classmethod
    def start(cls, curator: Curator, settings: GroupSettings, epsilon: Fraction) -> GroupRun:
        """With all that the stages may cost."""
        return cls(curator, settings, settings.purse(epsilon))

    @property
    def people(self) -> GroupPairTable:
        """All pairs, or those of some groups alone."""
        return pairs_of(self.curator.people) if self.among is None else self.among

    def group_weights(self, epsilon: Fraction) -> tuple[Floats, float]:
        """Noisy weight of every group, in people, and the deviation of its noise."""
        s = self.settings
        if s.public_groups:
            return np.array(self.people.group_weights()) / s.weights.parts, KNOWN
        moved = s.most * s.weights.parts * s.moves
        step = NoisyCounts.at(
            "group counts", self.spender.spend(epsilon), self.spender.relation, moved
        )
        exact = as_counts(*self.people.group_weights())
        parts = s.weights.parts
        found = self.curator.ask(step, exact).astype(float) / parts
        return found, float(step.scale) / parts * 2**0.5

    def members(self, epsilon: Fraction) -> tuple[float, float]:
        """Noisy number of people with a pair, and the deviation of its noise."""
        step = NoisyCounts.at("count of people", self.spender.spend(epsilon), self.spender.relation)
        (found,) = self.curator.ask(step, as_counts(self.people.members()))
        return float(found), float(step.scale) * 2**0.5

    def location(self, persons: float, doubt: float, largest: float) -> ClippingRegion:
        """Limits of all pairs together. doubt: deviation of the noise of `persons`; largest: noisy
        weight of the largest group."""
        s, spender = self.settings, self.spender
        whole = max(int(persons), 1)
        share = s.look_share(whole, spender.total)
        if not s.weights.split and largest > HEAVY * persons:
            share = max(share, tail_share(whole, spender.left))
        scale = doubt / 2**0.5
        return find_region(self.curator, self.column, whole, share, spender, scale)

    def beyond(self, epsilon: Fraction, place: ClippingRegion, persons: float) -> GroupOutsideCount:
        """People beyond the limits that were found. persons: all of them, by noisy counts."""
        step = self.spender.counts("count outside bounds", epsilon, 1)
        exact = as_counts(sum(self.people.count_outside(self.column, place.lower, place.upper)))
        (found,) = self.curator.ask(step, exact)
        whole = persons * self.settings.weights.mass
        lower, upper = place.lower - place.origin, place.upper - place.origin
        return GroupOutsideCount.of(
            float(found), float(step.scale), whole, place.seen, lower, upper
        )

    def beyond_groups(
        self,
        epsilon: Fraction,
        units: CenteredSums,
        seen: Histogram,
        tail: PooledTail,
        persons: float,
    ) -> GroupOutsideCount:
        """People whose values, in units of their own groups, lie outside the bins that `tail`
        holds. persons: of these groups, by noisy counts."""
        step = self.spender.counts("beyond the limits of groups", epsilon, 1)
        cells = self.people.centered_counts(units, self.column)
        exact = as_counts(int(cells[~tail.bins_held()].sum()))
        (found,) = self.curator.ask(step, exact)
        whole = persons * self.settings.weights.mass
        return GroupOutsideCount.of(
            float(found), float(step.scale), whole, seen, tail.lower, tail.upper
        )

    def cells(
        self, name: str, epsilon: Fraction, limits: GroupBounds
    ) -> tuple[DecodedCells, list[ClipInterval]]:
        """Weight, mean and spread of every group within its limits."""
        boxes = boxes_of(limits)
        if self.settings.public_groups:
            return self._public_cells(name, epsilon, boxes), boxes
        price = self.spender.spend(epsilon)
        step = GroupCells(name, self.spender.relation, *self._spread_over(boxes), price)
        noisy = self.curator.ask(step, step.exact(boxes, self._sums(boxes)))
        return DecodedCells.of(noisy, boxes, float(step.scale)), boxes

    def final_cells(self, limits: GroupBounds, strength: Strength | None) -> DecodedCells:
        """The last cells, for all that is left. strength: mu of Gaussian noise (None: Laplace)."""
        if strength is None:
            found, _ = self.cells(FINAL, self.spender.left, limits)
        else:
            mu, boxes = strength(self.spender.left, self.curator.events), boxes_of(limits)
            self.spender.spend(self.spender.left)
            step = GaussianCells(FINAL, self.spender.relation, *self._spread_over(boxes), mu)
            noisy = self.curator.ask(step, step.exact(boxes, self._sums(boxes)))
            # sqrt(6) of these scales is the noise of a weight, as for Laplace noise
            found = DecodedCells.of(noisy, boxes, step.sd / 2**0.5)
        self.spender.label_next(FINAL)
        return found

    def _spread_over(self, boxes: list[ClipInterval]) -> tuple[tuple[int, ...], int, int, int]:
        """The steps of every box, and what one person can add to them: parts of a weight, the
        largest weight, cells."""
        s = self.settings
        return tuple(box.steps for box in boxes), s.weights.parts, s.most, s.affected

    def _sums(self, boxes: list[ClipInterval]) -> list[PairSums]:
        return self.people.group_sums(boxes, self.column)

    def _public_cells(
        self, name: str, epsilon: Fraction, boxes: list[ClipInterval]
    ) -> DecodedCells:
        """The same where who is in a group is public: one person moves its own groups alone."""
        step = GroupSums(name, self.spender.spend(epsilon), *self._spread_over(boxes))
        sums = self.curator.ask(step, step.exact(self._sums(boxes)))
        weight, _ = self.group_weights(epsilon)
        return DecodedCells.of_sums(sums, boxes, float(step.scale), weight)

    def residuals(self, epsilon: Fraction, units: CenteredSums) -> Histogram:
        """The noisy histogram of values in units of their own groups."""
        moved = 2 if self.spender.relation == REPLACE_ONE else 1
        step = self.spender.counts("values about their groups", epsilon, moved, spread=moved)
        exact = self.people.centered_counts(units, self.column)
        return Histogram.of(self.curator.ask(step, exact), float(step.scale))


def boxes_of(limits: GroupBounds) -> list[ClipInterval]:
    """A box a group; limits that coincide are moved apart by a hair."""
    pairs = list(zip(limits.lower.tolist(), limits.upper.tolist(), strict=True))
    boxes = {}  # most groups have the same limits
    for low, high in set(pairs):
        apart = float(np.nextafter(low + 1e-12 * abs(low), np.inf))
        box = ClipInterval(low, high if low < high else apart)
        boxes[low, high] = box if len(pairs) <= MANY_BOXES else _even(box)
    return [boxes[pair] for pair in pairs]


def steps_within(bounds: tuple[float, float], groups: int) -> int:
    """The steps of the boxes of so many groups within public bounds."""
    low, high = (np.full(groups, end) for end in bounds)
    return boxes_of(GroupBounds(low, high))[0].steps


def _even(box: ClipInterval) -> ClipInterval:
    """The box a little wider (1.6 % at most), with one of 64 numbers of steps: noise of many groups
    is drawn together where their scales are the same."""
    steps = -(-box.steps // EVEN) * EVEN
    reach = (steps - 0.5) * box.step
    wide = ClipInterval(box.middle - reach, box.middle + reach)
    return wide if wide.steps == steps else box


def joined(limits: Sequence[GroupBounds], which: Sequence[np.ndarray]) -> GroupBounds:
    """Limits of several kinds of groups as those of all. which: places of each kind."""
    size = sum(len(item) for item in which)
    lower, upper = np.empty(size), np.empty(size)
    for item, places in zip(limits, which, strict=True):
        lower[places], upper[places] = item.lower, item.upper
    return GroupBounds(lower, upper)


SAFETY = 2**0.5  # to the next edge of a bin
Key = tuple[str, ...]
LARGEST = 1e100  # factors between its inverse and it make no double overflow
KNOWN_PLACE = 0.25  # part of the spread between groups that the error of a known place may have


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
                spender.share(settings.check_share(epsilon, spender.left, weight)),
                found.centred,
                found.seen,
                found.tail,
                known * alone,
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
        weight, weight_sd = pooled_weight((weight, weight_sd), (reading.weight, reading.weight_sd))
        mean = reading.mean + np.where(
            units.known, 0.0, tail.up(limits.upper) - tail.down(limits.lower)
        )
        between = between_groups(reading, mean, weight, reading.seen(SEEN_WEIGHT), tail.spread)
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
    known = (variance < KNOWN_PLACE * between.between) & reading.seen(SEEN_WEIGHT) & sound
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
