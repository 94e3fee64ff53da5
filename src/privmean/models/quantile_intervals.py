"""Quantiles, their intervals and a band for the distribution function, from noisy counts of cells.

At a point x with C of T people below it, C - qT is tested against its noise and the sampling of
order statistics: the interval for the q-quantile holds every x that passes. T is the noisy total,
so that no number of people is needed. Where values repeat, ends lie at edges: what happens inside
of such a cell is not known. Values on a grid that cells do not show (rounded to a thirtieth of a
deviation, say) move an end by less than one step of it. Reads no data.
docs/proofs/quantiles.md, sections 2 and 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from privmean.data.person_table import Floats, Integers
from privmean.inference.assumptions import dependence, joined, values_within
from privmean.inference.interval import Interval
from privmean.inference.status import AT_BOUND, NOT_IDENTIFIED, OK
from privmean.models.monotone_cubic import Smooth
from privmean.models.quantile_cells import ZERO, zero_edges

Flags = npt.NDArray[np.bool_]

MOST = 0.6  # part of the people in one cell above which it says nothing of places inside
ATOM, HEAVY = 3.0, 5.0  # times as dense as both neighbors, and deviations: may be one value
AROUND = 4  # cells to either side of the innermost that show how dense people are
INNER = 1  # cells to either side of the innermost that count as one with it
LATTICE, CURVED, OUTLYING = 1.7, 0.03, 0.55  # sum of squares and terms left out, for a cell
UNEVEN, SURE, REACH = 1.12, 4.0, 4  # denser or thinner than both, deviations, cells to either side
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
class Distribution:
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
        found: Integers = np.searchsorted(zero_edges(self.edges), edges, "right").astype(np.int64)
        return found

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
        result: Floats = -ndtri((1 - level) / 2) * np.sqrt(variance)
        return result

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
            AT_BOUND if self.cut(q) or not x else OK if self.resolved(q) else NOT_IDENTIFIED
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
        found: Flags = (mass > ATOM * beside) & (mass > HEAVY * np.sqrt(noise + beside))
        return found

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
        """How far values may lie apart if the median is one that many have: the innermost cell's
        people over the density around it."""
        edges, (mass, _, _) = self._kept[0], self._masses
        middle = self._inner
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

    def estimates(self) -> Floats:
        """One number a quantile; NaN where it is not identified, or lies beyond the bounds."""
        seen = [self.resolved(q) and not self.cut(q) for q in self.points]
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

    def _made(self, level: float, alone: float, kind: str) -> Interval:
        sampling = kind == "interval"
        found = np.array([self._ends(q, alone, sampling) for q in self.points])
        lower, upper = np.clip(found, *self.limits).T.tolist()
        said = [dependence(self.design_effect)] if sampling else []
        said += [values_within(*self.bounds)] if self.bounds is not None else []
        return Interval(
            tuple(lower),
            tuple(upper),
            level,
            kind=kind,
            target="quantiles" if sampling else "quantiles of these people",
            assumption=joined((*said, GRID)),
        )

    def alone(self, level: float) -> Interval:
        """Each quantile for itself."""
        return self._made(level, level, "interval")

    def interval(self, level: float, target: str | None = None) -> Interval:
        """All quantiles together (Bonferroni: they share noise and people)."""
        return self._made(level, 1 - (1 - level) / len(self.points), "interval")

    def noise_interval(self, level: float) -> Interval:
        return self._made(level, 1 - (1 - level) / len(self.points), "noise_interval")

    def std_errors(self) -> tuple[float, ...]:
        """Half of the interval of 68.3 %, a quantile; NaN where that is open."""
        made = self._made(0.6827, 0.6827, "interval")
        halves = [(b - a) / 2 for a, b in zip(made.lower, made.upper, strict=True)]
        return tuple(x if math.isfinite(x) else math.nan for x in halves)

    def band(self, level: float) -> Band:
        """The distribution function at the edges, all together (Bonferroni)."""
        edges, k = self._kept
        part, total = self._below, max(self.n, 1.0)
        near = np.clip(part, 1 / total, 1 - 1 / total)
        half = self._error(near, k, 1 - (1 - level) / len(k), True)
        low, high = np.clip(part - half, 0, 1), np.clip(part + half, 0, 1)
        return Band(edges, part, low, high)
