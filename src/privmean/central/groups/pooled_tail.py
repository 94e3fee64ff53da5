"""What the pooled histogram says of any limits: how much mean they cut off, at which noise.

Everything here is a function of noisy counts and public numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from privmean.central.clipping_region import ClippingRegion
from privmean.central.log_histogram import ATOM_ONLY, EDGES, FOUND, LOWER, UPPER, Histogram
from privmean.central.point_mass import is_narrow, is_one_cell
from privmean.data.grids import LOG_BINS
from privmean.data.person_table import Floats

OCTAVE, DEPTH = 4, 25  # candidates: four an octave, down to 1/64 of an arm
_ARM: Floats = 2.0 ** (-np.arange(DEPTH) / OCTAVE)
_INNER: Floats = np.concatenate([[0.0], 2.0 ** -np.arange(9.0, 1.0, -1.0)])


HEAPED = 0.5  # of all people at one value, which every group shares then
BESIDE = 2.0  # how much more bias counts where groups may differ in who is beside the point mass
ATOM = 4.0  # noise scales of the origin's cell where somebody is for certain
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


def point_mass_share(place: ClippingRegion) -> ClippingRegion:
    """The place, with limits moved out to its origin where people certainly are there: they may be
    one value of a group that differs, as 0 is of rates near 1. Limits about one value are a point
    mass: all groups would have it as their mean, with intervals of no width."""
    if place.outcome == FOUND and is_narrow(place.lower, place.upper) and is_one_cell(place):
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

    a, b, mass: of the intervals. total: of all masses, the origin's too. heaped: the mass there.
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
        heap = max(seen.zero, 0.0) if lower <= origin <= upper else 0.0
        total = max(float(mass.sum()) + heap, 1e-9)
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
        heap = wide.total - float(wide.mass.sum())
        total = max(float(mass.sum()) + max(heap, 0.0), 1e-9)
        return PooledTail(wide.a, wide.b, mass, total, self.origin, lower, upper)

    def up(self, limits: Floats, heap: Floats | None = None) -> Floats:
        """Mean excess over each limit, a mean over everybody. heap: the limits for those at the
        origin, where these do not go with the others (default: the same)."""
        t = np.atleast_1d(np.asarray(limits, float))
        over = np.clip(self.b - t[:, None], 0.0, None) ** 2
        over -= np.clip(self.a - t[:, None], 0.0, None) ** 2
        found: Floats = (self.mass * over / (2 * (self.b - self.a))).sum(axis=1)
        at_origin = np.clip(self.center - (t if heap is None else heap), 0.0, None)
        return (found + self.heap * at_origin) / self.total

    def down(self, limits: Floats, heap: Floats | None = None) -> Floats:
        """Mean shortfall below each limit, a mean over everybody. heap: as for `up`."""
        t = np.atleast_1d(np.asarray(limits, float))
        under = np.clip(t[:, None] - self.a, 0.0, None) ** 2
        under -= np.clip(t[:, None] - self.b, 0.0, None) ** 2
        found: Floats = (self.mass * under / (2 * (self.b - self.a))).sum(axis=1)
        at_origin = np.clip((t if heap is None else heap) - self.center, 0.0, None)
        return (found + self.heap * at_origin) / self.total

    def square(self, lower: Floats, upper: Floats) -> Floats:
        """Mean square about the center of values cut to each pair of limits, over everybody."""
        low, high = lower[:, None] - self.center, upper[:, None] - self.center

        def below(x: Floats) -> Floats:  # the integral up to x
            inside: Floats = np.clip(x, low, high) ** 3 / 3
            return inside + low**2 * np.minimum(x - low, 0) + high**2 * np.maximum(x - high, 0)

        each = (below(self.b - self.center) - below(self.a - self.center)) / (self.b - self.a)
        found: Floats = each @ self.mass + self.heap * np.clip(0.0, low, high)[:, 0] ** 2
        return found / self.total

    def beyond(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Part of the masses below each lower limit, and above each upper one."""
        wide = self.b - self.a
        under = self.mass * np.clip((lower[:, None] - self.a) / wide, 0.0, 1.0)
        over = self.mass * np.clip((self.b - upper[:, None]) / wide, 0.0, 1.0)
        under, over = under.sum(axis=1), over.sum(axis=1)
        under = under + self.heap * (self.center < lower)
        over = over + self.heap * (self.center > upper)
        return under / self.total, over / self.total

    @property
    def heaped(self) -> bool:
        """Whether more than half of all are at the origin."""
        return self.heap > HEAPED * self.total

    @cached_property
    def heap(self) -> float:
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
        heap = self.total - float(self.mass.sum())
        mean = (float(self.mass @ middle) + heap * self.center) / self.total
        square = float(self.mass @ ((middle - mean) ** 2 + (self.b - self.a) ** 2 / 12))
        return (square + heap * (self.center - mean) ** 2) / self.total

    @cached_property
    def _candidates(self) -> tuple[Floats, Floats]:
        center, width = self.center, self.upper - self.lower
        inner = width * _INNER
        uppers = center + (self.upper - center) * _ARM
        lowers = center - (center - self.lower) * _ARM
        apart = self.heap > 0  # others may lie together, far from the point mass at the end
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
        if self.heaped:
            rho *= BESIDE
        bias = np.where(fits, rho**2 * cut, np.inf).ravel()
        square = np.where(fits, width, 0.0).ravel() ** 2
        best = np.array([int(np.argmin(bias + item**2 * square)) for item in noise], dtype=int)
        low, high = np.divmod(best, len(uppers))
        return GroupBounds(lowers[low], uppers[high])
