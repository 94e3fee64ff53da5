"""Intervals of quantiles.

A distribution function between edges at which it is known: a monotone cubic, and how far the
law may lie from it inside of a cell. docs/proofs/quantiles.md, section 2.

The cells of a histogram around a private median: public edges in units of a private spread.

Widths near the median are unequal, so that values on a lattice (whole numbers) put unequal numbers
of points into them and show, whatever the spacing. docs/proofs/quantiles.md, sections 2 and 3.

Quantiles, their intervals and a band for the distribution function, from noisy counts of cells.

At a point x with C of T people below it, C - qT is tested against its noise and the sampling of
order statistics: the interval for the q-quantile holds every x that passes. T is the noisy total,
so that no number of people is needed. Where values repeat, ends lie at edges: what happens inside
of such a cell is not known. Values on a grid that cells do not show (rounded to a thirtieth of a
deviation, say) move an end by less than one step of it. Reads no data.
docs/proofs/quantiles.md, sections 2 and 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri

from privmean.array_types import Flags, Floats, Integers
from privmean.data.person_table import APART, ClipInterval, PersonTable
from privmean.inference.interval import (
    NOISE,
    Ends,
    Interval,
    IntervalText,
    RowIntervals,
    Rows,
    dependence,
    joined,
    values_within,
)
from privmean.inference.status import AT_BOUND, NOT_IDENTIFIED, OK

JUMP = 0.1  # density over that of the next cell, below which a law may begin or end there
STEEP = 3.0  # density at an end of a cell over that of the cell, at most: a cubic is monotone
# density where a law begins inside of a cell, over the most that is seen, at most: where it does
# not rise towards there; power of its rise from cell to cell, as a pole has it; the most of that
DENSER, RISING, POLE = 1.4, 2.5, 2.5
TINY = 1e-300  # a density that is none
NORMAL = (0.6827, 1.0), (0.95, 1.96)  # levels, and half the intervals of a standard normal


@dataclass(frozen=True)
class Smooth:
    """edges: increasing; rising: the parts of the people below them, which increase; fine: the
    outer edges of the cells near the median. before, after: densities at both ends of each cell.
    begins, ends: the most that the density may be where the law does so inside of a cell, else 0.
    """

    edges: Floats
    rising: Floats
    fine: tuple[float, float]
    before: Floats = field(default_factory=lambda: np.zeros(0))
    after: Floats = field(default_factory=lambda: np.zeros(0))
    begins: Floats = field(default_factory=lambda: np.zeros(0))
    ends: Floats = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(
        cls,
        edges: Floats,
        parts: Floats,
        fine: tuple[float, float],
        persons: float = math.inf,
        sd: float = 0.0,
    ) -> Smooth:
        """parts: of so many people below each edge, of cells whose noise has this deviation."""
        rising = np.maximum.accumulate(parts + np.arange(len(edges)) * 1e-12)
        if len(edges) < 2:
            return cls(edges, rising, fine)
        slopes = np.diff(rising) / np.diff(edges)
        slope = PchipInterpolator(edges, rising).derivative()(edges)
        # beside a cell that is next to empty a law may begin or end: its density is not 0 there,
        # and more than in the cell if that falls from there on
        back, on = np.append(slopes[0], slopes[:-1]), np.append(slopes[1:], slopes[-1])
        wide = np.diff(edges)
        with np.errstate(all="ignore"):
            share = wide / (wide + np.append(wide[1:], wide[-1]))
            first = slopes * np.clip((slopes / on) ** share, 1, STEEP)
            share = wide / (wide + np.append(wide[0], wide[:-1]))
            last = slopes * np.clip((slopes / back) ** share, 1, STEEP)
        # of people, too: a long cell behind a short one is thin where a law merely goes on
        mass = slopes * wide
        begins = (JUMP * slopes > back) & (JUMP * mass > np.append(mass[0], mass[:-1]))
        ends = (JUMP * slopes > on) & (JUMP * mass > np.append(mass[1:], mass[-1]))
        with np.errstate(all="ignore"):
            error = np.sqrt((sd / persons) ** 2 + mass / persons) / mass
        return cls(
            edges,
            rising,
            fine,
            np.where(begins, first, slope[:-1]),
            np.where(ends, last, slope[1:]),
            np.where(begins, _most(slopes, error), 0.0),
            np.where(ends, _most(slopes[::-1], error[::-1])[::-1], 0.0),
        )

    @cached_property
    def _density(self) -> list[float]:
        """Of every cell, between those beyond the outer edges."""
        people = np.diff(self.rising, prepend=0, append=1)
        found = people / np.diff(self.edges, prepend=-math.inf, append=math.inf)
        return [float(x) for x in found]

    def _beyond(self, part: float) -> float | None:
        """An infinite place, where the part is reached before or after all edges."""
        if len(self.edges) < 2:
            return math.inf if part >= self.rising[0] else -math.inf
        if not part > self.rising[0]:
            return -math.inf
        return None if part < self.rising[-1] else math.inf

    def place(self, part: float) -> float:
        """Where a part of the people is reached: -inf and inf beyond the outer edges."""
        beyond = self._beyond(part)
        if beyond is not None:
            return beyond
        k = int(np.searchsorted(self.rising, part)) - 1
        width = float(self.edges[k + 1] - self.edges[k])
        a, b = float(self.before[k]) * width, float(self.after[k]) * width
        rise, left = float(self.rising[k + 1] - self.rising[k]), float(part - self.rising[k])
        low, high = 0.0, 1.0
        for _ in range(60):  # a monotone cubic
            t = (low + high) / 2
            reached = t * (a + t * (3 * rise - 2 * a - b + t * (a + b - 2 * rise)))
            low, high = (t, high) if reached < left else (low, t)
        return float(self.edges[k]) + width * (low + high) / 2

    def end(self, part: float, side: int) -> float:
        """As `place`, but as low (side -1) or high (1) as the law may have it inside of the cell: a
        density that goes on as it does from the cells beside it lies between theirs. Where the law
        begins or ends inside of the cell nobody may be in part of it, elsewhere as dense as where
        it is densest; and many may have the first or last value, if it is fuller than the next."""
        at = self.place(part)
        if not math.isfinite(at):
            return at
        k = int(np.searchsorted(self.rising, part)) - 1
        lower, upper = float(self.edges[k]), float(self.edges[k + 1])
        left, rest = float(part - self.rising[k]), float(self.rising[k + 1] - part)
        chord = lower + (upper - lower) * left / (left + rest)
        before, here, after = self._density[k : k + 3]
        beyond = self.begins[max(k - 1, 0) : k].any() or self.ends[k + 1 : k + 2].any()
        if self.fine[0] <= lower and upper <= self.fine[1] and not beyond:
            low = high = at
        else:
            # where it is if people are as dense as in the cell before, or in the one after
            found = (lower + left / max(before, TINY), upper - rest / max(after, TINY))
            low = max((x for x in found if x < chord), default=chord)
            high = min((x for x in found if x > chord), default=chord)
        if self.begins[k]:
            low = lower if here > after else min(low, chord)
            high = max(high, upper - rest / float(self.begins[k]))
        if self.ends[k]:
            low = min(low, lower + left / float(self.ends[k]))
            high = upper if here > before else max(high, chord)
        found_end = min(low, at) if side < 0 else max(high, at)
        return min(max(found_end, lower), upper)


def _most(density: Floats, error: Floats) -> Floats:
    """The density, at most, of a law that begins inside of a cell, on average from there on, from
    that of the cell and of the next two: continued as it falls there, and more as it rises like a
    pole, as far as the deviations `error` of the densities, over them, leave room for it."""
    one, two = (np.append(density[k:], density[-1:].repeat(k)) for k in (1, 2))
    near, far = (np.append(error[k:], error[-1:].repeat(k)) for k in (1, 2))
    with np.errstate(all="ignore"):
        rise = np.nan_to_num(one / two, nan=1.0)
        pole = np.nan_to_num(rise * (1 + np.hypot(near, far)), nan=1.0) ** RISING
        found = np.maximum(density, one * np.clip(rise, 1, STEEP) * np.clip(pole, 1, POLE))
    return np.asarray(DENSER * found)


CLOSE = 1 / 256  # spreads: the nearest edge at most
ZERO = 0.0, 2.0**-64  # the cell of zeros
NOISY, NOISIER = 0.65, 1.0  # noise of the median, of its sampling error: fewer cells above
CENTRAL = 0.2, 0.8


@dataclass(frozen=True)
class Layout:
    """Distances of edges to either side of the median, in spreads, but for the nearest edge: first
    those of `like` cells (about as wide as each other), then the wider ones."""

    like: tuple[float, ...]
    wider: tuple[float, ...]

    @property
    def away(self) -> tuple[float, ...]:
        return (*self.like, *self.wider)

    @property
    def cells(self) -> int:
        """With those that the cell of zeros adds."""
        return 2 * len(self.away) + 5

    @property
    def side(self) -> int:
        """Cells to either side between two edges of `like`."""
        return len(self.like) - 1

    def edges_around(self, center: float, spread: float) -> tuple[float, ...]:
        """Increasing edges around a median; those that doubles cannot tell apart merge into cells
        that hold nobody. The innermost cell holds the values that are taken for the center, that of
        a center of 0 is the cell of zeros."""
        apart = abs(center) * APART
        nearest = (center - apart, center + apart) if center else ZERO
        if spread * CLOSE < apart:
            nearest = center - spread * CLOSE, center + spread * CLOSE
        away = [spread * x for x in self.away]
        return (*(center - x for x in reversed(away)), *nearest, *(center + x for x in away))


def zero_edges(edges: tuple[float, ...]) -> tuple[float, ...]:
    """The edges with those of the cell of zeros: twice where the innermost cell is that one."""
    return tuple(sorted((*edges, *ZERO)))


MANY = Layout(
    (0.11, 0.25, 0.36, 0.5, 0.61, 0.75, 0.86, 1.0),
    (1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 32.0, 1024.0),
)
# less noise in sums: for quantiles between CENTRAL, and for any
SOME = Layout((0.24, 0.44, 0.58, 0.78, 0.92), (1.5, 2.5, 6.0, 1024.0))
FEW = Layout((0.22, 0.5, 0.72, 1.0), (1.5, 2.5, 6.0, 1024.0))  # none of them nearly empty
FAR = Layout((0.22, 0.5, 0.72, 1.0), (1.5, 2.0, 3.0, 6.0, 32.0, 1024.0))


def layout_for(noise: float, points: tuple[float, ...]) -> Layout:
    """noise: of the median with many cells, over its sampling error; points: the quantiles."""
    if noise <= NOISY:
        return MANY
    if points[0] < CENTRAL[0] or points[-1] > CENTRAL[1]:
        return FAR
    return SOME if noise <= NOISIER else FEW


def cells_between(people: PersonTable, edges: tuple[float, ...]) -> Integers:
    """People with a value below the first edge, between edges (lower ends included), and from the
    last one on: everybody with a value is in one cell."""
    (box,) = people.interval_sums([ClipInterval(-1.0, 1.0)])
    assert box is not None
    cells: Integers = np.diff(people.counts_below(0, edges), prepend=0, append=box.present)
    return cells


MOST = 0.6  # part of the people in one cell above which it says nothing of places inside
ATOM, HEAVY = 3.0, 5.0  # times as dense as both neighbors, and deviations: may be one value
AROUND = 4  # cells to either side of the innermost that show how dense people are
INNER = 1  # cells to either side of the innermost that count as one with it
LATTICE, CURVED, OUTLYING = 1.7, 0.03, 0.55  # sum of squares and terms left out, for a cell
UNEVEN, SURE, REACH = 1.12, 4.0, 4  # denser or thinner than both, deviations, cells to either side
WIDEST = 12.0  # times as far from the center as the near end, or a spread: the far end at most
BEYOND = 3.0  # deviations: people seen beyond a bound; by noise only in less than 1 %
GRID = "interval ends may be off by one step if values lie on a grid too fine to detect"


@dataclass(frozen=True)
class Band:
    """The distribution function at some points, with limits that hold at all of them together."""

    at: Floats
    estimate: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class Distribution(RowIntervals):
    """edges: increasing; cells: noisy people below the first of `zero_edges`, between, beyond the
    last; sd: of the noise of a cell; points: the quantiles asked for. center: that of the innermost
    cell; side: cells to either side of the median that are about as wide as each other. limits: of
    the type of the values, which no end passes."""

    edges: tuple[float, ...]
    cells: tuple[float, ...]
    sd: float
    design_effect: float
    bounds: tuple[float, float] | None
    points: tuple[float, ...]
    center: float
    side: int
    limits: tuple[float, float] = (-math.inf, math.inf)

    @property
    def n(self) -> float:
        """Noisy number of people with a value."""
        return math.fsum(self.cells)

    @cached_property
    def _kept(self) -> tuple[Floats, Floats]:
        """The edges that doubles tell apart, and how many cells lie below each."""
        edges: Floats = np.unique(self.edges)
        return edges, self._cells_below(edges).astype(np.float64)

    def _cells_below(self, edges: npt.ArrayLike) -> Integers:
        return np.searchsorted(zero_edges(self.edges), edges, "right").astype(np.int64)

    @property
    def aside(self) -> tuple[float, float]:
        """Noisy people below and above the innermost cell and those next to it."""
        middle, upto = len(self.edges) // 2, np.cumsum(self.cells)
        low, high = self._cells_below((self.edges[middle - 2], self.edges[middle + 1]))
        return float(upto[low - 1]), float(upto[-1] - upto[high - 1])

    @cached_property
    def _below(self) -> Floats:
        """Noisy parts of the people below each edge, made monotone."""
        raw = np.cumsum(self.cells)[self._kept[1].astype(int) - 1] / max(self.n, 1.0)
        up = np.maximum.accumulate(raw)
        down = np.minimum.accumulate(raw[::-1])[::-1]
        return np.clip((up + down) / 2, 0.0, 1.0)

    def _error(self, q: Floats, cells_below: Floats, level: float, sampling: bool) -> Floats:
        """Half length, in parts of the people, for an edge above so many cells."""
        total, number = max(self.n, 1.0), len(self.cells)
        noise = (1 - q) ** 2 * cells_below + q**2 * (number - cells_below)
        variance = noise * (self.sd / total) ** 2
        if sampling:
            variance = variance + self.design_effect * q * (1 - q) / total
        return np.asarray(-ndtri((1 - level) / 2) * np.sqrt(variance))

    @cached_property
    def _smooth(self) -> Smooth:
        """The distribution function between edges that are believed."""
        edges, below, m = self._kept[0], self._below, self._inner
        first, last = m - INNER - self.side, m + INNER + self.side + 1
        fine = (edges[first], edges[last]) if first >= 0 and last < len(edges) else (0.0, 0.0)
        if m > 0 and not self._uneven[m]:
            # few people are that near to the median: their noise would bend the curve
            near = slice(m, m + 2)
            edges, below = np.delete(edges, near), np.delete(below, near)
        return Smooth.of(edges, below, fine, max(self.n, 1.0), self.sd)

    @cached_property
    def _smooth_from_zero(self) -> Smooth:
        """With zero among the edges, where nobody is seen below it, or nobody above: for estimates;
        how dense people are next to zero is not known, so that intervals do not lean on it."""
        smooth = self._smooth
        (part, upto), (lower, upper) = self._zeros
        at, doubt = int(np.searchsorted(smooth.edges, 0.0)), BEYOND * self.sd / max(self.n, 1.0)
        positive = part <= doubt * math.sqrt(lower)
        negative = 1 - upto <= doubt * math.sqrt(len(self.cells) - upper)
        inside = 0 < at < len(smooth.edges) and smooth.edges[at] != 0
        if positive == negative or not inside:
            return smooth
        below = smooth.rising
        part = min(max(part if positive else upto, below[at - 1]), below[at])
        edges, below = np.insert(smooth.edges, at, 0.0), np.insert(below, at, part)
        return Smooth.of(edges, below, smooth.fine, max(self.n, 1.0), self.sd)

    def _place(self, part: float) -> float:
        """Where a part of the people is reached: -inf and inf beyond the outer edges."""
        return self._smooth.place(part)

    def _limited(self, x: float) -> float:
        return x if self.bounds is None else min(max(x, self.bounds[0]), self.bounds[1])

    @cached_property
    def _outer(self) -> tuple[float, float]:
        """Noisy parts of the people below and above the bounds, counted in cells that lie beyond
        them as a whole; 0 where noise by itself could show as many. What is counted was not
        limited."""
        if self.bounds is None:
            return 0.0, 0.0
        (edges, places), upto = self._kept, np.append(0.0, np.cumsum(self.cells))
        first, last = (int(np.searchsorted(edges, x, "right")) for x in self.bounds)
        below = int(places[first - 1]) if first > 0 else 0
        above = len(self.cells) - int(places[last]) if last < len(edges) else 0
        found = []
        for cells, seen in ((below, upto[below]), (above, upto[-1] - upto[len(upto) - 1 - above])):
            sure = cells > 0 and seen > max(BEYOND * self.sd * math.sqrt(cells), 1.0)
            found.append(float(seen) / max(self.n, 1.0) if sure else 0.0)
        return found[0], found[1]

    @property
    def beyond(self) -> float:
        """The part of the people seen beyond the bounds."""
        return math.fsum(self._outer)

    def cut(self, q: float) -> bool:
        """Whether the quantile lies beyond a bound, where people were seen: it is one of them, or
        between them and the bound."""
        if self.bounds is None:
            return False
        (least, most), (below, above) = self.bounds, self._outer
        low = bool(below) and (q < below or self._place(q) < least)
        return low or (bool(above) and (1 - q < above or self._place(q) > most))

    def statuses(self) -> tuple[str, ...]:
        """One a quantile: whether it may lie beyond the bounds, where people were seen, or is not
        identified."""
        sure = [all(map(math.isfinite, self._ends(q, 0.95, True))) for q in self.points]
        return tuple(
            AT_BOUND if self.cut(q) or not x else OK if self.placed(q) else NOT_IDENTIFIED
            for q, x in zip(self.points, sure, strict=True)
        )

    @cached_property
    def _masses(self) -> tuple[Floats, Floats, Floats]:
        """Of the cells between kept edges: noisy people, variance of their noise, widths."""
        edges, places = self._kept
        upto = np.cumsum(self.cells)[places.astype(int) - 1]
        return np.diff(upto), np.diff(places) * self.sd**2, np.diff(edges)

    @cached_property
    def _atoms(self) -> Flags:
        """Which of these cells may be a single value: far denser than both neighbors."""
        mass, noise, width = self._masses
        sure = np.maximum(mass - 2 * np.sqrt(noise + np.maximum(mass, 0)), 0) / width
        left, right = np.append(0.0, sure[:-1]), np.append(sure[1:], 0.0)
        beside = np.maximum(left, right) * width
        return np.asarray((mass > ATOM * beside) & (mass > HEAVY * np.sqrt(noise + beside)))

    @cached_property
    def _uneven(self) -> Flags:
        """Which of these cells are too near to one that differs from both neighbors for the
        people inside to be spread as a smooth law has them: values that repeat do that."""
        mass, noise, width = self._masses
        density, spread = mass / width, (noise + np.maximum(mass, 1.0)) / width**2
        found = self._atoms.copy()
        if len(mass) > 2:
            one, two, here = density[:-2], density[2:], density[1:-1]
            error = SURE * np.sqrt(spread[:-2] + spread[1:-1] + spread[2:])
            found[1:-1] |= here - UNEVEN * np.maximum(one, two) > error
            found[1:-1] |= np.minimum(one, two) / UNEVEN - here > error
        near: Flags = np.convolve(found, np.ones(2 * REACH + 1), "same") > 0.5
        if self.unevenness > LATTICE * self.side:
            near[max(self._inner - INNER - self.side, 0) : self._inner + INNER + self.side + 1] = (
                True
            )
        return near

    @property
    def _inner(self) -> int:
        """The place of the cell around the median among those between kept edges; -1 if merged."""
        middle = len(self.edges) // 2
        low, high = self.edges[middle - 1 : middle + 1]
        return int(np.searchsorted(self._kept[0], low)) if low < high else -1

    @cached_property
    def unevenness(self) -> float:
        """How far the cells near the median are from what their neighbors lead to expect, beyond
        the curvature of a smooth law: a sum of squares in deviations without the largest few (a law
        may begin, end or have a pole there). Values on a lattice show in all cells."""
        m, (mass, noise, width) = self._inner, self._masses
        first, last = m - INNER - self.side, m + INNER + self.side + 1
        if first < 0 or last > len(mass):
            return 0.0
        starts = np.array([*range(first, m - INNER + 1), *range(m + INNER + 1, last)])
        mass, noise, width = (np.add.reduceat(x[:last], starts) for x in (mass, noise, width))
        left = width[2:] / (width[2:] + width[:-2])  # weights of neighbors' densities
        one, two = width[1:-1] / width[:-2] * left, width[1:-1] / width[2:] * (1 - left)
        expected = one * mass[:-2] + two * mass[2:]
        all_noise = noise + np.maximum(mass, 1.0)
        sd = np.sqrt(all_noise[1:-1] + one**2 * all_noise[:-2] + two**2 * all_noise[2:])
        rest = np.maximum(np.abs(mass[1:-1] - expected) - CURVED * np.maximum(mass[1:-1], 0), 0)
        return float(np.sort((rest / sd) ** 2)[: -math.ceil(OUTLYING * self.side)].sum())

    @cached_property
    def _step(self) -> float:
        """How far values may lie apart that repeat: the largest distance of two next to each other
        that do, or of one near the median its people over the density around it."""
        edges, (mass, _, _), middle = self._kept[0], self._masses, self._inner
        at = np.flatnonzero(self._atoms)
        if len(at) > 1:
            return float(np.diff((edges[at] + edges[at + 1]) / 2).max())
        if middle < 0 or not self._atoms[middle]:
            return 0.0
        low, high = max(middle - AROUND, 0), min(middle + AROUND + 1, len(mass))
        return float(mass[middle] * (edges[high] - edges[low]) / mass[low:high].sum())

    def _outward(self, x: float, side: int) -> float:
        """An end that does not depend on how people are spread inside of a cell where values may
        repeat: its edge, or one repetition on."""
        edges = self._kept[0]
        k = int(np.searchsorted(edges, x, "right" if side < 0 else "left"))
        if not 0 < k < len(edges):
            return x
        outer = float(edges[k - 1] if side < 0 else edges[k])
        if self._uneven[k - 1]:
            return outer
        return max(outer, x - self._step) if side < 0 else min(outer, x + self._step)

    def resolved(self, q: float) -> bool:
        """Whether the cell that holds the quantile says where it is: no outer cell, and none that
        holds most of the people unless it is narrow: a point mass near the median, say."""
        below = self._below
        if not below[0] < q < below[-1]:
            return False
        k = int(np.searchsorted(below, q))
        part = below[k] - below[k - 1]
        near = abs(k - 1 - self._inner) <= INNER + self.side
        narrow = k - 1 == self._inner or (near and self._atoms[k - 1])
        return bool(part <= MOST or narrow or self._is_zero(q))

    def placed(self, q: float) -> bool:
        """Whether the quantile is resolved, and its interval tells how far from the center it is:
        its far end (where that is open, the number) is no more than `WIDEST` times as far as its
        near end, or as a spread. Where half of the people have the value of the center, the spread
        is that of the few others and may be noise: other numbers need a near end off the center."""
        if not self.resolved(q):
            return False
        number, middle = abs(self._number(q) - self.center), len(self.edges) // 2
        low, high = (x - self.center for x in self._ends(q, 0.95, True))
        one_value = self._inner >= 0 and self._masses[0][self._inner] > self.n / 2
        unit = self.edges[middle + (0 if one_value else 1 + self.side)] - self.center
        far = max(high, -low)
        reached = far if far < math.inf and not (one_value and number <= unit) else number
        return reached <= WIDEST * max(low, -high, unit)

    def estimates(self) -> Floats:
        """One number a quantile; NaN where it is not identified, or lies beyond the bounds."""
        seen = [self.placed(q) and not self.cut(q) for q in self.points]
        found = [self._number(q) if x else math.nan for q, x in zip(self.points, seen, strict=True)]
        return np.array([self._limited(x) if math.isfinite(x) else math.nan for x in found])

    def _number(self, q: float) -> float:
        """A quantile: zero or the center, if it is one of many people who have that value."""
        low, high = self._sign(q, 0.95, True)
        at = 0.0 if self._is_zero(q) else self._at_center(self._smooth_from_zero.place(q))
        return min(max(at, low), high)

    def _at_center(self, x: float) -> float:
        """The center instead of a number in the innermost cell, where that is one value."""
        m, edges = self._inner, self._kept[0]
        inside = m >= 0 and edges[m] <= x <= edges[m + 1] and self._atoms[m]
        return self.center if inside else x

    @cached_property
    def _zeros(self) -> tuple[Floats, Floats]:
        """Noisy parts of the people below zero, and at most zero; cells that these are in."""
        cells = self._cells_below(ZERO)
        return np.cumsum(self.cells)[cells - 1] / max(self.n, 1.0), cells.astype(np.float64)

    def _is_zero(self, q: float) -> bool:
        """Whether the quantile is one of the zeros, which are more people than noise shows."""
        below, upto = self._zeros[0]
        sure = (upto - below) * self.n > HEAVY * self.sd
        return bool(sure and below < q <= upto)

    def _sign(self, q: float, level: float, sampling: bool) -> tuple[float, float]:
        """Where zero limits the quantile: so many people are for certain not below it, or not
        above."""
        (below, upto), cells = self._zeros
        below_half, upto_half = self._error(np.full(2, q), cells, level, sampling)
        return (
            0.0 if below + below_half < q else -math.inf,
            0.0 if upto - upto_half > q else math.inf,
        )

    def _ends(self, q: float, level: float, sampling: bool) -> tuple[float, float]:
        k = self._kept[1]
        half = self._error(np.full(len(k), q), k, level, sampling)
        # the half length that belongs to the place itself
        where = float(np.interp(q, self._below, half))
        low = self._smooth.end(q - float(np.interp(q - where, self._below, half)), -1)
        high = self._smooth.end(q + float(np.interp(q + where, self._below, half)), 1)
        least, most = self._sign(q, level, sampling)
        outward = self._outward(low, -1), self._outward(high, 1)
        low, high = (min(max(x, least), most) for x in outward)
        if self.resolved(q):
            at = self._number(q)
            low, high = min(low, at), max(high, at)
        if self.bounds is None:
            return low, high
        (least, most), (below, above) = self.bounds, self._outer
        return (
            -math.inf if below and low < least else self._limited(low),
            math.inf if above and high > most else self._limited(high),
        )

    # --- as intervals of rows ---------------------------------------------------------------------
    targets = ("quantiles",)

    @property
    def number(self) -> int:
        return len(self.points)

    def target(self, asked: str | None) -> str:
        """There is nothing to choose."""
        return self.targets[0]

    def row_level(self, level: float, rows: Rows) -> float:
        """All quantiles together (Bonferroni: they share noise and people)."""
        return 1 - (1 - level) / len(rows)

    def ends(self, level: float, wanted: str, rows: Rows) -> list[Ends]:
        found = [self._ends(self.points[row], level, wanted != NOISE) for row in rows]
        return [(float(low), float(high)) for low, high in np.clip(found, *self.limits)]

    def words(self, wanted: str, rows: Rows) -> IntervalText:
        noise = wanted == NOISE
        said = [] if noise else [dependence(self.design_effect)]
        said += [] if self.bounds is None else [values_within(*self.bounds)]
        target = "quantiles of these people" if noise else wanted
        return {"target": target, "assumption": joined((*said, GRID))}

    def alone(self, level: float) -> Interval:
        """Each quantile for itself."""
        rows = range(self.number)
        return self.made(level, self.targets[0], ends=self.ends(level, self.targets[0], rows))

    def std_errors(self) -> tuple[float, ...]:
        """Half an interval over that of a standard normal, the lesser of two: where ends lie at
        edges, an interval of 68.3 % may be as long as one of 95 %. NaN where both are open."""
        least = [math.inf] * self.number
        for level, half in NORMAL:
            made = self.alone(level)
            ends = zip(least, made.lower, made.upper, strict=True)
            least = [min(x, (b - a) / (2 * half)) for x, a, b in ends]
        return tuple(x if math.isfinite(x) else math.nan for x in least)

    def band(self, level: float) -> Band:
        """The distribution function at the edges, all together (Bonferroni)."""
        edges, k = self._kept
        part, total = self._below, max(self.n, 1.0)
        near = np.clip(part, 1 / total, 1 - 1 / total)
        half = self._error(near, k, 1 - (1 - level) / len(k), True)
        low, high = np.clip(part - half, 0, 1), np.clip(part + half, 0, 1)
        return Band(edges, part, low, high)
