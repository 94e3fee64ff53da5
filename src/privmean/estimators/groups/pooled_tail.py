"""What noisy cells of groups say: estimates, and tails pooled over groups.

What the pooled histogram says of any limits: how much mean they cut off, at which noise.

Everything here is a function of noisy counts and public numbers.

How a tail that falls off slowly goes on beyond the limits, by the noisy bins before and behind.

The noisy count beyond limits may say nobody where some per cent of a skewed law are. A parabola in
the logarithms of counts and distances (lognormal laws are one, Pareto laws a line) is drawn through
the bins about a limit, and goes on beyond it where it bends no more than laws with long tails do
(docs/proofs/groups.md, section 6). Everything here is a function of noisy counts.

Noisy cells to means, spreads and their noise; the spread between groups. No data are read.

What full cells of the pooled histogram say of groups: where nobody, or hardly anybody, is left.

Of rates nearly everybody is in the cells of 0 and of 1: a mean beside 0 is no mean that is cut off,
and a group that spreads more is one of more ones, not one of a longer tail (docs/proofs/groups.md,
section 6). Everything here is a function of noisy counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from privmean.array_types import Flags, Floats
from privmean.bisection import bisect
from privmean.data.grids import LOG_BINS
from privmean.data.person_table import ClipInterval
from privmean.estimators.find_region import (
    ATOM_ONLY,
    EDGES,
    FOUND,
    LOWER,
    UPPER,
    ClippingRegion,
    Histogram,
    is_one_cell,
)

OCTAVE, DEPTH = 4, 25  # candidates: four an octave, down to 1/64 of an arm
_ARM: Floats = 2.0 ** (-np.arange(DEPTH) / OCTAVE)
_INNER: Floats = np.concatenate([[0.0], 2.0 ** -np.arange(9.0, 1.0, -1.0)])


SHARED = 0.5  # of all people at one value, which every group shares then
BESIDE = 2.0  # how much more bias counts where groups may differ in who is beside the point mass
MASS_WIDTH = 2.0**-10  # width of limits that may hold one value alone, for where they are
ATOM = 4.0  # noise scales of the origin's cell where somebody is for certain
NEAR, SURELY = 1 / 3, 3.0  # part of people counted beyond, and noise scales of the bins there
FAR_BINS, FAR_SCALES = 3.0, 6.0  # noise scales: of one far bin, and of it with the count beyond


def far_together(beyond: float, seen: Histogram, lower: float, upper: float) -> bool:
    """Whether some people seem to lie together, farther beyond the limits (about the histogram's
    origin) than these are from it, where an interval's allowance does not reach.

    beyond: the noisy count of people beyond the limits, in its noise scales. Each far bin counts
    in noise scales of its own, less ln(1 + its place), so that the many bins out to 2^40 do not add
    up to false alarms (2.6 % of tables with nobody there; docs/proofs/groups.md, section 6).
    """
    far = 2 * max(upper, -lower)
    outer = EDGES[:-1] >= far
    if not outer.any():
        return False
    less = np.log1p(np.arange(int(outer.sum())))
    most = max(
        float((side[outer] / seen.scale - less).max()) for side in (seen.positive, seen.negative)
    )
    return most > FAR_BINS and most + beyond > FAR_SCALES


def near_limits(beyond: float, seen: Histogram, lower: float, upper: float) -> bool:
    """Whether the histogram clearly shows, on one side, a third of the people counted beyond the
    limits (about its origin) within twice their distance, where an interval's allowance reaches."""
    far = 2 * max(upper, -lower)
    near = max(
        float(side[(EDGES[1:] > end) & (EDGES[:-1] < far)].sum())
        for side, end in ((seen.positive, upper), (seen.negative, -lower))
    )
    return near > max(NEAR * beyond, SURELY * seen.scale)


def point_mass_share(place: ClippingRegion) -> ClippingRegion:
    """The place, with limits moved out to its origin where people certainly are there: they may be
    one value of a group that differs, as 0 is of rates near 1. Limits about one value are a point
    mass: all groups would have it as their mean, with intervals of no width."""
    far = max(abs(place.lower), abs(place.upper))
    is_narrow = place.upper - place.lower < MASS_WIDTH * far
    if place.outcome == FOUND and is_narrow and is_one_cell(place):
        return replace(place, outcome=ATOM_ONLY)
    if place.outcome != FOUND or place.seen is None or place.seen.zero <= ATOM * place.seen.scale:
        return place
    lower, upper = min(place.lower, place.origin), max(place.upper, place.origin)
    return replace(place, lower=lower, upper=upper)


@dataclass(frozen=True)
class GroupBounds:
    """Limits of some groups, and the mean that the pooled tail has beyond them. Shape (groups,)."""

    lower: Floats
    upper: Floats

    def widest(self) -> GroupBounds:
        """The same limits for all groups, which hold those of each."""
        lower, upper = np.full_like(self.lower, self.lower.min()), np.full_like(self.upper, 0.0)
        return GroupBounds(lower, upper + self.upper.max())


@dataclass(frozen=True)
class PooledTail:
    """Masses on intervals between two limits, even within each, and one at the origin.

    a, b, mass: of the intervals. total: of all masses, the origin's (`point_mass`) too.
    """

    a: Floats
    b: Floats
    mass: Floats
    total: float
    origin: float
    lower: float
    upper: float

    @classmethod
    def of(cls, seen: Histogram, origin: float, lower: float, upper: float) -> PooledTail:
        """The bins of a noisy histogram inside limits; negative counts are nothing."""
        counts = np.concatenate([seen.negative[::-1], seen.positive])
        a, b = np.maximum(LOWER + origin, lower), np.minimum(UPPER + origin, upper)
        inside = b > a
        mass = np.maximum(counts[inside], 0.0)
        point_mass = max(seen.zero, 0.0) if lower <= origin <= upper else 0.0
        total = max(float(mass.sum()) + point_mass, 1e-9)
        return cls(a[inside], b[inside], mass, total, origin, lower, upper)

    @classmethod
    def at(cls, place: ClippingRegion) -> PooledTail | None:
        """Within the limits that were found; None where there are none."""
        if place.outcome != FOUND or place.seen is None:
            return None
        return cls.of(place.seen, place.origin, place.lower, place.upper)

    def bins_held(self) -> npt.NDArray[np.bool_]:
        """The cells of a histogram about 0 that lie inside limits at edges of bins."""
        slack = 1e-9 * (self.upper - self.lower)
        held = (self.lower - slack <= LOWER) & (self.upper + slack >= UPPER)
        zero = self.lower <= 0 <= self.upper
        return np.concatenate([held[LOG_BINS:], [zero], held[:LOG_BINS][::-1]])

    def opened(self, lower: float, upper: float, seen: Histogram, beyond: float) -> PooledTail:
        """The same between wider limits, with `beyond` more mass outside the old ones, spread like
        the inverse square of the distance."""
        wide = PooledTail.of(seen, self.origin, lower, upper)
        slack = 1e-9 * (self.upper - self.lower)
        outside = (wide.a >= self.upper - slack) | (wide.b <= self.lower + slack)
        mass = np.where(outside, 0.0, wide.mass)
        if beyond > 0 and outside.any():
            distance = (wide.a + wide.b) / 2 - self.origin
            part = np.where(outside, (wide.b - wide.a) / np.maximum(distance**2, 1e-300), 0.0)
            if part.sum() > 0:
                mass = mass + beyond * part / part.sum()
        point_mass = wide.total - float(wide.mass.sum())
        total = max(float(mass.sum()) + max(point_mass, 0.0), 1e-9)
        return PooledTail(wide.a, wide.b, mass, total, self.origin, lower, upper)

    def up(self, limits: Floats, point_mass: Floats | None = None) -> Floats:
        """Mean excess over each limit, a mean over everybody. point_mass: limits for those at the
        origin, where these do not go with the others (default: the same)."""
        return self._excess(1.0, self.b, self.a, limits, point_mass)

    def down(self, limits: Floats, point_mass: Floats | None = None) -> Floats:
        """Mean shortfall below each limit, a mean over everybody. point_mass: as for `up`."""
        return self._excess(-1.0, self.a, self.b, limits, point_mass)

    def _excess(
        self, sign: float, far: Floats, near: Floats, limits: Floats, point_mass: Floats | None
    ) -> Floats:
        """far, near: ends of the intervals on the side that is meant."""
        t = np.atleast_1d(np.asarray(limits, float))
        over = np.clip(sign * (far - t[:, None]), 0.0, None) ** 2
        over -= np.clip(sign * (near - t[:, None]), 0.0, None) ** 2
        found: Floats = (self.mass * over / (2 * (self.b - self.a))).sum(axis=1)
        at_origin = sign * (self.center - (t if point_mass is None else point_mass))
        return (found + self.point_mass * np.clip(at_origin, 0.0, None)) / self.total

    def square(self, lower: Floats, upper: Floats) -> Floats:
        """Mean square about the center of values cut to each pair of limits, over everybody."""
        low, high = lower[:, None] - self.center, upper[:, None] - self.center

        def below(x: Floats) -> Floats:  # the integral up to x
            inside: Floats = np.clip(x, low, high) ** 3 / 3
            return inside + low**2 * np.minimum(x - low, 0) + high**2 * np.maximum(x - high, 0)

        each = (below(self.b - self.center) - below(self.a - self.center)) / (self.b - self.a)
        found: Floats = each @ self.mass + self.point_mass * np.clip(0.0, low, high)[:, 0] ** 2
        return found / self.total

    def beyond(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Part of the masses below each lower limit, and above each upper one."""
        wide = self.b - self.a
        under = self.mass * np.clip((lower[:, None] - self.a) / wide, 0.0, 1.0)
        over = self.mass * np.clip((self.b - upper[:, None]) / wide, 0.0, 1.0)
        under, over = under.sum(axis=1), over.sum(axis=1)
        under = under + self.point_mass * (self.center < lower)
        over = over + self.point_mass * (self.center > upper)
        return under / self.total, over / self.total

    @property
    def at_one_value(self) -> bool:
        """Whether more than half of all are at the origin."""
        return self.point_mass > SHARED * self.total

    @cached_property
    def point_mass(self) -> float:
        """The mass at the origin."""
        return max(self.total - float(self.mass.sum()), 0.0)

    @cached_property
    def center(self) -> float:
        """The origin, or the limit that is nearest to it."""
        return min(max(self.origin, self.lower), self.upper)

    @cached_property
    def spread(self) -> float:
        """Variance of the masses about their mean."""
        middle = (self.a + self.b) / 2
        point_mass = self.total - float(self.mass.sum())
        mean = (float(self.mass @ middle) + point_mass * self.center) / self.total
        square = float(self.mass @ ((middle - mean) ** 2 + (self.b - self.a) ** 2 / 12))
        return (square + point_mass * (self.center - mean) ** 2) / self.total

    @cached_property
    def _candidates(self) -> tuple[Floats, Floats]:
        center, width = self.center, self.upper - self.lower
        inner = width * _INNER
        uppers = center + (self.upper - center) * _ARM
        lowers = center - (center - self.lower) * _ARM
        apart = self.point_mass > 0  # others may lie together, far from the point mass at the end
        if center >= self.upper:
            edges = self.b[(self.upper - self.b > inner[-1]) & (self.b > self.lower)]
            uppers = np.concatenate([self.upper - inner, edges if apart else []])
        if center <= self.lower:
            edges = self.a[(self.a - self.lower > inner[-1]) & (self.a < self.upper)]
            lowers = np.concatenate([self.lower + inner, edges if apart else []])
        return lowers, uppers

    def choose(self, noise: Floats, rho: float) -> GroupBounds:
        """For each group the limits that minimize (rho cut)^2 + (noise width)^2.

        noise: deviation of the noise of a group's mean, per unit of width.
        """
        lowers, uppers = self._candidates
        width = uppers[None, :] - lowers[:, None]
        cut = self.down(lowers)[:, None] ** 2 + self.up(uppers)[None, :] ** 2
        fits = width > 1e-12 * (self.upper - self.lower)
        if self.at_one_value:
            rho *= BESIDE
        bias = np.where(fits, rho**2 * cut, np.inf).ravel()
        square = np.where(fits, width, 0.0).ravel() ** 2
        best = np.array([int(np.argmin(bias + item**2 * square)) for item in noise], dtype=int)
        low, high = np.divmod(best, len(uppers))
        return GroupBounds(lowers[low], uppers[high])


BEFORE, BEHIND, ON = 7, 3, 9  # bins through which the curve is drawn, and to which it goes on
RISES = 1 / 6  # of the fullest bin: one before it with less does not belong to the tail
PEAK = 3.0  # times the next bin: a fullest one with more is a point mass; the tail begins behind it
BENT, STRAIGHT = -0.08, -0.05  # bends of a curve that is not believed, and of one that is
USUAL, SPREAD = -0.15, 0.1  # what is known of bends beforehand, so that noise decides nothing
TURNS, NEAR_ENOUGH = 60, 1e-6


@dataclass(frozen=True)
class TailDecay:
    """Masses beyond both limits, even within intervals, over those of everybody. a, b: the ends."""

    a: Floats
    b: Floats
    mass: Floats
    lower: float
    upper: float

    @classmethod
    def of(cls, seen: Histogram, tail: PooledTail, most: float) -> TailDecay:
        """Beyond the limits of `tail`. most: the largest share that a count leaves room for."""
        parts = []
        for counts, sign, limit in (
            (seen.positive, 1.0, tail.upper), (seen.negative, -1.0, tail.lower)
        ):  # fmt: skip
            a, b, mass = _beyond(counts, seen.scale, sign * (limit - tail.origin))
            ends = tail.origin + sign * a, tail.origin + sign * b
            parts.append((np.minimum(*ends), np.maximum(*ends), mass / tail.total))
        a, b, mass = (np.concatenate(items) for items in zip(*parts, strict=True))
        mass *= min(1.0, most / max(float(mass.sum()), 1e-300))
        return cls(a, b, mass, tail.lower, tail.upper)

    def excess(self, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean excess over the upper limit of each group, below the lower one, and the mean square
        of both, means over everybody."""
        middle, above = (self.a + self.b) / 2, self.a >= self.upper
        up = np.clip(middle - high[:, None], 0.0, None) * above
        down = np.clip(low[:, None] - middle, 0.0, None) * ~above
        return up @ self.mass, down @ self.mass, (up**2 + down**2) @ self.mass


def _beyond(counts: Floats, scale: float, arm: float) -> tuple[Floats, Floats, Floats]:
    """Bins of one side beyond the limit, from 0: begin, end, noisy mass by the curve."""
    last = int(np.searchsorted(EDGES, arm * (1 + 1e-9))) - 2  # the last bin before the limit
    if arm <= 0 or not 1 <= last < LOG_BINS - BEHIND:
        return np.empty(0), np.empty(0), np.empty(0)
    first = max(last - BEFORE + 1, 0)
    fullest = first + int(np.argmax(counts[first : last + 1]))
    if fullest < last - 1 and counts[fullest] > PEAK * counts[fullest + 1]:
        first = fullest + 1
        fullest = first + int(np.argmax(counts[first : last + 1]))
    scarce = np.flatnonzero(counts[first:fullest] < RISES * counts[fullest])
    first = min(first + int(scarce[-1]) + 1 if len(scarce) else first, last - 1)
    place = np.arange(first - last, BEHIND + 1.0)
    curve = _curve(place, counts[first : last + BEHIND + 1], scale)
    believed = float(np.clip((curve[2] - BENT) / (STRAIGHT - BENT), 0.0, 1.0))
    on = np.arange(1, min(ON, LOG_BINS - 1 - last) + 1)
    a, b = np.maximum(EDGES[last + on], arm), EDGES[last + on + 1]
    part = np.clip((b - a) / (b - EDGES[last + on]), 0.0, 1.0)
    mass = believed * part * np.exp(np.clip(_powers(on.astype(float)) @ curve, -30.0, 30.0))
    return a[part > 0], b[part > 0], mass[part > 0]


def _powers(place: Floats) -> Floats:
    return np.stack([np.ones(len(place)), place, place**2], axis=1)


def _curve(place: Floats, counts: Floats, scale: float) -> Floats:
    """Coefficients of log(people) by the place of a bin: quasi-likelihood of counts whose variance
    is their mean and that of the noise, by Fisher's scoring; never bent outwards, nor rising from
    the last bin on."""
    powers = _powers(place)
    found = np.array([np.log(max(float(counts[place <= 0].mean()), 1.0)), -0.3, USUAL])
    for _ in range(TURNS):
        mean = np.exp(np.clip(powers @ found, -12.0, 30.0))
        weight = mean / (mean + 2 * scale**2)
        known = (powers * (weight * mean)[:, None]).T @ powers + 1e-6 * np.eye(3)
        slope = powers.T @ (weight * (counts - mean))
        known[2, 2] += SPREAD**-2
        slope[2] -= (found[2] - USUAL) / SPREAD**2
        step = np.linalg.solve(known, slope)
        step *= min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
        found = found + step
        found[1:] = np.minimum(found[1:], 0.0)
        if np.abs(step).max() < NEAR_ENOUGH:
            break
    return found


TINY, EVEN = 1e-300, 1e-12
ROUNDS = 200
SQUARE = 4 * 2**0.5 / 6**0.5  # so that the noise of a square is sqrt(6) scales here too


@dataclass(frozen=True)
class DecodedCells:
    """What noisy cells say of every group; all of shape (groups,).

    weight: noisy; divisor: at least three noise scales. share: of the mean between the middle (0)
    and a limit (1 or -1). mean: middle + radius share. noise: deviation of the mean's noise, with
    Laplace scales `scales` of shape (groups, 3). within: noisy variance of values on the box.
    """

    weight: Floats
    divisor: Floats
    share: Floats
    mean: Floats
    noise: Floats
    scales: Floats
    within: Floats
    radius: Floats
    middle: Floats
    scale: float

    @classmethod
    def of(cls, cells: Floats, boxes: Sequence[ClipInterval], scale: float) -> DecodedCells:
        """scale: the Laplace scale of a cell, in people."""
        a, b, c = cells.T
        weight = a + b + c
        divisor = np.maximum(weight, 3 * scale)
        share = np.clip((a - c) / divisor, -1.0, 1.0)
        parts = [1 - share, np.abs(share), 1 + share]
        return cls._of(weight, divisor, share, a + c - b, boxes, scale, parts, scale)

    @classmethod
    def of_sums(
        cls, sums: Floats, boxes: Sequence[ClipInterval], scale: float, weight: Floats
    ) -> DecodedCells:
        """From sums of z, z^2 and people with a value (noise of 2, 4 and 4 times `scale`) in
        groups of public weight. Nulls stand at the middle unless clearly some are missing."""
        y, square, there = sums.T
        missing = weight - there > 3 * 2**0.5 * 4 * scale
        used = np.where(missing, np.clip(there, 0.0, weight), weight)
        divisor = np.maximum(used, 3 * scale)
        share = np.clip(y / divisor, -1.0, 1.0)
        parts = [np.full(len(y), 2.0), np.where(missing, 4 * np.abs(share), 0.0), np.zeros(len(y))]
        return cls._of(weight, divisor, share, square, boxes, scale, parts, SQUARE * scale)

    @classmethod
    def _of(
        cls,
        weight: Floats,
        divisor: Floats,
        share: Floats,
        square: Floats,
        boxes: Sequence[ClipInterval],
        unit: float,
        parts: list[Floats],
        scale: float,
    ) -> DecodedCells:
        """square: noisy sums of z^2. parts: the Laplace noises in the sum of z, in units."""
        radius = np.array([box.radius for box in boxes])
        middle = np.array([box.middle for box in boxes])
        scales = (radius * unit / divisor)[:, None] * np.stack(parts, axis=1)
        return cls(
            weight,
            divisor,
            share,
            middle + radius * share,
            np.sqrt(2 * (scales**2).sum(axis=1)),
            scales,
            radius**2 * np.clip(square / divisor - share**2, 0.0, 1.0),
            radius,
            middle,
            scale,
        )

    @property
    def weight_sd(self) -> float:
        """Deviation of the noise of a weight."""
        return 6**0.5 * self.scale

    def seen(self, least: float) -> Flags:
        """Groups whose weight is more than so many noise scales."""
        return self.weight > least * self.scale


@dataclass(frozen=True)
class BetweenGroups:
    """within: pooled variance of people inside groups. between: variance of groups' means.
    grand: their mean, to which they are drawn; middle: the mean of their people, about which
    values of all lie."""

    within: float
    between: float
    grand: float
    middle: float

    @property
    def ratio(self) -> float:
        """Spread inside groups over the whole spread: 1 where groups do not differ."""
        return float(np.sqrt(self.within / max(self.within + self.between, TINY)))

    def variance(self, noise: Floats, weight: Floats) -> Floats:
        """Of the error of every group's mean."""
        return noise**2 + self.within / np.maximum(weight, 1.0)

    def shrunk(self, mean: Floats, variance: Floats) -> Floats:
        """Means drawn to the grand mean as far as their errors ask."""
        kept = self.between / np.maximum(self.between + variance, TINY)
        return self.grand + kept * (mean - self.grand)


def between_groups(
    reading: DecodedCells, mean: Floats, weight: Floats, seen: Flags, pooled: float
) -> BetweenGroups:
    """The spread inside groups and between them (Paule and Mandel), over the groups seen.

    pooled: the variance of all values together, where no group is seen.
    """
    least = EVEN * float(np.median(reading.radius)) ** 2  # where values are all alike
    if not seen.any():
        middle = _average(mean, np.maximum(weight, 0.0))
        return BetweenGroups(max(pooled, least, TINY), 0.0, middle, middle)
    size = np.where(seen, np.maximum(weight, 0.0), 0.0)
    within = max(_average(reading.within, size), least, TINY)
    variance = reading.noise**2 + within / np.maximum(weight, 1.0)
    y, v = mean[seen], np.maximum(variance[seen], TINY)
    between = paule_mandel(y, v)
    return BetweenGroups(within, between, _average(y, 1 / (v + between)), _average(mean, size))


def paule_mandel(y: Floats, v: Floats) -> float:
    """The variance t with sum (y - mean)^2/(v + t) = groups - 1; 0 where that is above the sum."""

    def excess(t: float) -> float:
        w = 1 / (v + t)
        return float((w * (y - _average(y, w)) ** 2).sum()) - (len(y) - 1)

    if len(y) < 2 or excess(0.0) <= 0:
        return 0.0
    ends = bisect(lambda t: excess(t) > 0, 0.0, float(np.ptp(y)) ** 2 + TINY, ROUNDS)
    return sum(ends) / 2


def _average(y: Floats, w: Floats) -> float:
    total = float(w.sum())
    return float((w * y).sum()) / total if total > 0 else float(y.mean())


def pooled_weight(one: tuple[Floats, float], two: tuple[Floats, float]) -> tuple[Floats, float]:
    """Two estimates of the same weights by precision. Each has the deviation of its noise."""
    (first, sd), (second, other_sd) = one, two
    parts = np.array([1 / sd**2, 1 / other_sd**2])
    weight = np.asarray(parts @ np.stack([first, second]) / parts.sum())
    return weight, float((sd**-2 + other_sd**-2) ** -0.5)


FULL = 10.0  # noise scales of a cell that is full for certain
# part of the spread: of normal, uniform and exponential values no cell has above a sixth
CARRIES = 1 / 3
DOUBT = 1.28  # noise deviations: what is there is more in one release of ten
_LOWER: Floats = np.concatenate([-EDGES[1:][::-1], [0.0], EDGES[:-1]])
_UPPER: Floats = np.concatenate([-EDGES[:-1][::-1], [0.0], EDGES[1:]])


@dataclass(frozen=True)
class OccupiedCells:
    """Cells in the order of their values: ends, noisy people, and the deviation of their noise."""

    lower: Floats
    upper: Floats
    n: Floats
    sd: float

    @classmethod
    def of(cls, place: ClippingRegion, seen: Histogram, mass: float = 1.0) -> OccupiedCells:
        """mass: the parts in which a person is counted."""
        counts = np.concatenate([seen.negative[::-1], [seen.zero], seen.positive])
        return cls(
            _LOWER + place.origin, _UPPER + place.origin, counts / mass, 2**0.5 * seen.scale / mass
        )

    def explain(
        self, mean: Floats, within: Floats, noise: Floats, about: tuple[float, float, float]
    ) -> Flags:
        """Groups whose variance is no more than values in full cells can have about such a mean
        (Bhatia and Davis 2000), in a table where one such cell makes a third of the spread, as that
        of 1 does of rates. noise: of each variance; about: middle, variance and number of all."""
        middle, variance, total = about
        full = self.n > FULL * self.sd / 2**0.5
        far = np.clip(np.maximum(self.lower - middle, middle - self.upper), 0.0, None)
        carried = np.where(full, self.n, 0.0) * far**2
        if not carried.max() > CARRIES * variance * total:
            return np.zeros(len(mean), dtype=bool)
        lower, upper, place = self.lower[full], self.upper[full], mean
        if self.upper[int(np.argmax(carried))] <= middle:  # the cell lies below: the same mirrored
            lower, upper, place = -upper[::-1], -lower[::-1], -mean
        above = np.maximum(place - lower[0], 1e-300)
        most = above >= np.median(above)
        # of two values, lower[0] and top, this median is top
        with np.errstate(over="ignore"):  # a mean that noise put below all of them
            top = max(lower[-1], float(np.median((place + within / above)[most])))
        return np.asarray(within <= above * (min(top, upper[-1]) - place) + noise)

    def rest(self, total: float, sd: float, limits: Floats, high: Flags) -> Floats:
        """People who may lie beyond each limit (a lower one unless `high`): all of them, but for
        those in full cells on its other side. total, sd: all people, and the noise of that."""
        full = self.n > FULL * self.sd / 2**0.5
        ends = limits[:, None]
        inside = np.where(high[:, None], self.upper <= ends, self.lower >= ends) & full
        seen = inside @ np.where(full, self.n, 0.0)
        noise = np.sqrt(sd**2 + inside.sum(axis=1) * self.sd**2)
        return np.asarray(np.maximum(total - seen, 0.0) + DOUBT * noise)
