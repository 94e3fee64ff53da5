"""Quantiles, their intervals and a band for the distribution function, from noisy counts of cells.

At a point x with C of T persons below it, C - qT is tested against its noise and the sampling of
order statistics: the interval for the q-quantile holds every x that passes. T is the noisy total,
so that no number of persons is needed. Reads no data. docs/proofs/quantiles.md, section 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri

from privmean.intervals.interval import Interval
from privmean.people.reductions import Floats

UNRELATED = "unrelated persons"
NEARLY = 0.95
MOST = 0.6  # part of the persons in one cell above which it says nothing of places inside


@dataclass(frozen=True)
class Band:
    """The distribution function at some points, with limits that hold at all of them together."""

    at: Floats
    estimate: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class Distribution:
    """edges: increasing; cells: noisy persons below the first edge, between, beyond the last;
    sd: of the noise of a cell; points: the quantiles asked for. fine: width up to which a cell
    is a number."""

    edges: tuple[float, ...]
    cells: tuple[float, ...]
    sd: float
    design_effect: float
    bounds: tuple[float, float] | None
    points: tuple[float, ...]
    fine: float = 0.0

    @property
    def persons(self) -> float:
        """Noisy number of persons with a value."""
        return math.fsum(self.cells)

    @cached_property
    def _kept(self) -> tuple[Floats, Floats]:
        """The edges that doubles tell apart, and how many cells lie below each."""
        edges: Floats = np.array(self.edges)
        last = np.append(edges[1:] > edges[:-1], True)
        places: Floats = np.flatnonzero(last).astype(np.float64) + 1.0
        return edges[last], places

    @cached_property
    def _below(self) -> Floats:
        """Noisy parts of the persons below each edge, made monotone."""
        raw = np.cumsum(self.cells)[self._kept[1].astype(int) - 1] / max(self.persons, 1.0)
        up = np.maximum.accumulate(raw)
        down = np.minimum.accumulate(raw[::-1])[::-1]
        return np.clip((up + down) / 2, 0.0, 1.0)

    def _error(self, q: Floats, cells_below: Floats, level: float, sampling: bool) -> Floats:
        """Half length, in parts of the persons, for an edge above so many cells."""
        total, number = max(self.persons, 1.0), len(self.cells)
        noise = (1 - q) ** 2 * cells_below + q**2 * (number - cells_below)
        variance = noise * (self.sd / total) ** 2
        if sampling:
            variance = variance + self.design_effect * q * (1 - q) / total
        result: Floats = -ndtri((1 - level) / 2) * np.sqrt(variance)
        return result

    @cached_property
    def _place(self) -> Callable[[float], float]:
        """Where a part of the persons is reached: -inf and inf beyond the outer edges."""
        edges = self._kept[0]
        rising = np.maximum.accumulate(self._below + np.arange(len(edges)) * 1e-12)
        curve = PchipInterpolator(edges, rising) if len(edges) > 1 else None

        def place(part: float) -> float:
            if not part > rising[0]:
                return -math.inf
            if not part < rising[-1] or curve is None:
                return math.inf
            k = int(np.searchsorted(rising, part))
            low, high = float(edges[k - 1]), float(edges[k])
            for _ in range(60):
                middle = (low + high) / 2
                low, high = (middle, high) if curve(middle) < part else (low, middle)
            return (low + high) / 2

        return place

    def _limited(self, x: float) -> float:
        return x if self.bounds is None else min(max(x, self.bounds[0]), self.bounds[1])

    def resolved(self, q: float) -> bool:
        """Whether the cell that holds the quantile says where it is: no outer cell, and none that
        holds most of the persons unless it is narrow: itself, or as the cell around the median
        where others show the spread."""
        below, (edges, cells) = self._below, self._kept
        if not below[0] < q < below[-1]:
            return False
        k = int(np.searchsorted(below, q))
        part = below[k] - below[k - 1]
        middle = 2 * cells[k] == len(self.cells) + 1
        most = NEARLY if middle else MOST
        return bool(part <= most or edges[k] - edges[k - 1] <= self.fine)

    def estimates(self) -> Floats:
        """One number a quantile; NaN where it is not resolved."""
        found = [self._place(q) if self.resolved(q) else math.nan for q in self.points]
        return np.array([self._limited(x) if math.isfinite(x) else math.nan for x in found])

    def _ends(self, q: float, level: float, sampling: bool) -> tuple[float, float]:
        k = self._kept[1]
        half = self._error(np.full(len(k), q), k, level, sampling)
        # the half length that belongs to the place itself
        where = float(np.interp(q, self._below, half))
        low = self._place(q - float(np.interp(q - where, self._below, half)))
        high = self._place(q + float(np.interp(q + where, self._below, half)))
        return self._limited(low), self._limited(high)

    def _made(self, level: float, alone: float, kind: str) -> Interval:
        sampling = kind == "interval"
        ends = [self._ends(q, alone, sampling) for q in self.points]
        words = UNRELATED if self.design_effect == 1 else "a known design effect"
        return Interval(
            tuple(low for low, _ in ends),
            tuple(high for _, high in ends),
            level,
            kind=kind,
            target="quantiles" if sampling else "quantiles of these persons",
            assumption=words if sampling else "",
        )

    def alone(self, level: float) -> Interval:
        """Each quantile for itself."""
        return self._made(level, level, "interval")

    def interval(self, level: float, target: str | None = None) -> Interval:
        """All quantiles together (Bonferroni: they share noise and persons)."""
        return self._made(level, 1 - (1 - level) / len(self.points), "interval")

    def noise_interval(self, level: float) -> Interval:
        return self._made(level, 1 - (1 - level) / len(self.points), "noise_interval")

    def std_errors(self) -> tuple[float, ...]:
        """Half of the interval of 68.3 %, a quantile."""
        made = self._made(0.6827, 0.6827, "interval")
        return tuple((b - a) / 2 for a, b in zip(made.lower, made.upper, strict=True))

    def band(self, level: float) -> Band:
        """The distribution function at the edges, all together (Bonferroni)."""
        edges, k = self._kept
        part, total = self._below, max(self.persons, 1.0)
        near = np.clip(part, 1 / total, 1 - 1 / total)
        half = self._error(near, k, 1 - (1 - level) / len(k), True)
        low, high = np.clip(part - half, 0, 1), np.clip(part + half, 0, 1)
        return Band(edges, part, low, high)
