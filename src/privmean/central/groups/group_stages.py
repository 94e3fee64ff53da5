"""The stages of means by group, each one question to the curator: counts, location, cells, tails.

Prices come from one spender; what a stage may see of the people is what it asks here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.central.clipping_region import ClippingRegion
from privmean.central.find_region import find_region, tail_share
from privmean.central.groups.decode_cells import DecodedCells
from privmean.central.groups.group_settings import (
    HEAVY,
    GroupSettings,
)
from privmean.central.groups.pooled_tail import GroupBounds, PooledTail, far_together
from privmean.central.log_histogram import Histogram
from privmean.central.widen_bounds import TRUST
from privmean.data.group_pairs import CenteredSums, GroupPairTable, PairSums, pairs_of
from privmean.data.person_table import ClipInterval, Floats
from privmean.estimators.pure_budget import PureBudgetSpender
from privmean.inference.outlier_check import SEEN, THICKEST
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.gaussian_cells import GaussianCells
from privmean.mechanisms.group_cells import GroupCells
from privmean.mechanisms.group_sums import GroupSums
from privmean.mechanisms.noisy_counts import NoisyCounts, as_counts
from privmean.privacy.budget import REPLACE_ONE

KNOWN = 1e-6  # the deviation of a number that is public
MANY_BOXES, EVEN = 64, 2**13
SHARED = 0.5  # of all people in one bin: nearly all of them have one value
FIRM = 3.0  # noise scales of doubt about people beyond the limits of other values


@dataclass(frozen=True)
class GroupOutsideCount:
    """People beyond the limits of the location, by a noisy count. share: of all people; believed:
    the same less one noise scale, in parts of a mass. thick: so many that no mean is told; seen:
    there for certain; far: some of them seem to lie together far beyond the limits. most: of all
    people, where the noise is as much as it hardly ever is."""

    share: float
    believed: float
    thick: bool
    seen: bool
    far: bool = False
    most: float = 1.0

    @property
    def doubt(self) -> float:
        """The share of people whom the count may miss."""
        return self.most - self.share

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
        return cls(
            max(mass, 0.0) / whole,
            mass - TRUST * scale,
            mass - doubt > THICKEST * whole,
            mass > SEEN * scale,
            seen is not None and far_together(mass / scale, seen, lower, upper),
            (max(mass, 0.0) + FIRM * scale) / whole,
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

    def gaussian_cells(
        self, name: str, mu: float, limits: GroupBounds
    ) -> tuple[DecodedCells, list[ClipInterval]]:
        """Cells with Gaussian noise; all that is left is taken."""
        boxes = boxes_of(limits)
        self.spender.spend(self.spender.left)
        step = GaussianCells(name, self.spender.relation, *self._spread_over(boxes), mu)
        noisy = self.curator.ask(step, step.exact(boxes, self._sums(boxes)))
        # sqrt(6) of these scales is the noise of a weight, as for Laplace noise
        return DecodedCells.of(noisy, boxes, step.sd / 2**0.5), boxes

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
