"""A distribution function between edges at which it is known: a monotone cubic, and how far the
law may lie from it inside of a cell. docs/proofs/quantiles.md, section 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.interpolate import PchipInterpolator

from privmean.data.person_table import Floats

JUMP = 0.1  # density over that of the next cell, below which a law may begin or end there
STEEP = 3.0  # density at an end of a cell over that of the cell, at most: a cubic is monotone
# density where a law begins inside of a cell, over the most that is seen, at most: where it does
# not rise towards there; power of its rise from cell to cell, as a pole has it; the most of that
DENSER, RISING, POLE = 1.4, 2.5, 2.5
# how far an end is moved, over how far the cubic is from the chord: beyond fine cells; next to a
# cell in which a law may begin or end; in one longer than COARSE of its distance from the median
DOUBT, BESIDE, FAR, COARSE = 0.2, 1.0, 2.0, 0.6


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
        """As `place`, but as low (side -1) or high (1) as the law may have it inside of the cell:
        where it begins or ends inside of one, nobody may be in part of it, and elsewhere as dense
        as where it is densest."""
        at = self.place(part)
        if not math.isfinite(at):
            return at
        k = int(np.searchsorted(self.rising, part)) - 1
        lower, upper = float(self.edges[k]), float(self.edges[k + 1])
        left, rest = float(part - self.rising[k]), float(self.rising[k + 1] - part)
        chord = lower + (upper - lower) * left / (left + rest)
        away = self._doubt(k) * abs(at - chord)
        found = [at + side * away]
        if self.begins[k]:
            found += [chord, upper - rest / float(self.begins[k])]
        if self.ends[k]:
            found += [chord, lower + left / float(self.ends[k])]
        return min(max(min(found) if side < 0 else max(found), lower), upper)

    def _doubt(self, k: int) -> float:
        """Of the place in a cell, over how far the cubic is from the chord."""
        lower, upper = float(self.edges[k]), float(self.edges[k + 1])
        low, high = self.fine
        if low <= lower and upper <= high:
            doubt = 0.0
        else:
            middle = (low + high) / 2
            long = upper - lower > COARSE * max(middle - lower, upper - middle)
            doubt = FAR if long else DOUBT
        beside = self.begins[max(k - 1, 0) : k].any() or self.ends[k + 1 : k + 2].any()
        return max(doubt, BESIDE) if beside else doubt


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
    result: Floats = DENSER * found
    return result
