"""Pairs in memory: the answers of `PairPeople` in plain vector code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.data.array_kernels import log_cells, log_keys
from privmean.data.grids import LOG_GRID, WIDE_GRID, LogGrid
from privmean.data.group_pairs import CenteredSums, GroupPairTable, GroupWeights, PairSums
from privmean.data.person_table import CachedPersonTable, ClipInterval

SPLIT = 20  # bits: halves of products whose sums are exact doubles


@dataclass(frozen=True)
class ArrayPairTable(CachedPersonTable, GroupPairTable):
    """group: the place of the key of each pair, shape (pairs,); values: a column each, of the same
    shape, as weight and mass are. persons: in the roster; known: people with a pair; own: how many
    groups the person of a pair is in, where weights are split. Nothing is written to.
    """

    columns: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    weights: GroupWeights
    group: Integers = field(repr=False)
    values: tuple[Floats, ...] = field(repr=False)
    weight: Integers = field(repr=False)
    mass: Integers = field(repr=False)
    n: int = field(repr=False)
    known: int = field(repr=False)
    made_by: str = field(default="numpy", compare=False)
    own: Integers | None = field(default=None, repr=False)
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        person: Integers,
        group: Integers,
        value: Floats,
        keys: Sequence[str],
        weights: GroupWeights,
        *,
        persons: int | None = None,
        column: str = "value",
    ) -> ArrayPairTable:
        """From one row a pair (a person in one group only, where weights are not split).

        person: places of people from 0; group: places of keys. Both are of shape (pairs,).
        """
        known, per = np.unique(person, return_counts=True)
        groups = per[np.searchsorted(known, person)]
        if not weights.split and (per > 1).any():
            raise ValueError("one pair a person, where weights are not split")
        weight = np.minimum(weights.parts, weights.parts * weights.max_groups // groups)
        return cls(
            (column,),
            tuple((key,) for key in keys),
            weights,
            np.asarray(group, np.int64),
            (np.asarray(value, float),),
            weight.astype(np.int64),
            (weights.mass // groups).astype(np.int64),
            len(known) if persons is None else persons,
            len(known),
            own=groups,
        )

    @property
    def engine(self) -> str:
        return self.made_by

    def size(self) -> int:
        return self.n

    def members(self) -> int:
        return self.known

    def group_weights(self) -> list[int]:
        return self._added(self.weight)

    def group_numbers(self) -> list[int]:
        assert self.own is not None
        size = np.arange(1, len(self.keys) + 1)
        found: list[int] = (np.bincount(self.own, minlength=len(size) + 1)[1:] // size).tolist()
        return found

    def with_weights(self, weights: GroupWeights) -> ArrayPairTable:
        assert self.own is not None
        weight = np.minimum(weights.parts, weights.parts * weights.max_groups // self.own)
        return replace(self, weights=weights, weight=weight.astype(np.int64), _cache={})

    def log_counts(self, column: int, origin: float) -> Integers:
        return self._grid_counts(LOG_GRID, column, origin)

    def half_octave_counts(self, column: int, origin: float) -> Integers:
        return self._grid_counts(WIDE_GRID, column, origin)

    def _grid_counts(self, grid: LogGrid, column: int, origin: float) -> Integers:
        def cells() -> Integers:
            with np.errstate(all="ignore"):
                return _cells((self.values[column] - origin) * grid.factor, self.mass, grid)

        return self._once((grid, column, origin), cells).copy()

    def part_counts(self, column: int, sign: int, step: float, first: int, parts: int) -> Integers:
        x = sign * self.values[column]
        inside = (x > first * step) & (x <= (first + parts) * step)
        k = np.ceil(x[inside] * (1 / step)).astype(np.int64) - first - 1
        return np.bincount(np.maximum(k, 0), self.mass[inside], parts).astype(np.int64)

    def weighted_values(self, column: int) -> tuple[Floats, Integers]:
        return self.values[column], self.mass

    def missing(self, column: int) -> int:
        return int(self.mass[np.isnan(self.values[column])].sum())

    def count_outside(self, column: int, lower: float, upper: float) -> tuple[int, int]:
        value = self.values[column]
        below, above = self.mass[value < lower], self.mass[value > upper]
        return int(below.sum()), int(above.sum())

    def group_sums(self, boxes: Sequence[ClipInterval], column: int = 0) -> list[PairSums]:
        lower, upper, middle, step = (
            np.array([getattr(box, name) for box in boxes], dtype=float)
            for name in ("lower", "upper", "middle", "step")
        )
        g, value = self.group, self.values[column]
        known = ~np.isnan(value)
        with np.errstate(all="ignore"):
            x = np.clip(np.where(known, value, 0.0), lower[g], upper[g])
            z = np.floor((x - middle[g]) * (1.0 / step)[g] + 0.5).astype(np.int64)
        w = np.where(known, self.weight, 0)
        wz = w * z
        found = zip(self._added(w), self._added(wz), self._added(wz * z), strict=True)
        return [PairSums(*item) for item in found]

    def select_groups(self, places: Sequence[int]) -> ArrayPairTable:
        new = np.full(len(self.keys), -1)
        new[list(places)] = np.arange(len(places))
        kept = new[self.group] >= 0
        return replace(
            self,
            keys=tuple(self.keys[place] for place in places),
            group=new[self.group[kept]],
            values=tuple(item[kept] for item in self.values),
            weight=self.weight[kept],
            mass=self.mass[kept],
            own=None if self.own is None else self.own[kept],
            _cache={},
        )

    def centered_counts(self, units: CenteredSums, column: int = 0) -> Integers:
        width = len(self.keys)
        known = np.zeros(width, dtype=bool)
        center, factor = np.zeros(width), np.zeros(width)
        places = list(units.places)
        known[places], center[places], factor[places] = True, units.centers, units.factors
        kept = known[self.group]
        g, x = self.group[kept], self.values[column][kept]
        with np.errstate(all="ignore"):
            return _cells((x - center[g]) * factor[g], self.mass[kept], LOG_GRID)

    def _added(self, numbers: Integers) -> list[int]:
        """Exact sums by group: of each half they are whole doubles below 2^53."""
        width = len(self.keys)
        low = np.bincount(self.group, numbers & ((1 << SPLIT) - 1), width)
        high = np.bincount(self.group, numbers >> SPLIT, width)
        return [(int(a) << SPLIT) + int(b) for a, b in zip(high, low, strict=True)]


def _cells(v: Floats, mass: Integers, grid: LogGrid) -> Integers:
    """Masses per logarithmic bin; nulls are in the zero bin."""
    v = np.where(np.isnan(v), 0.0, v)
    keys = log_keys(v, np.empty(len(v)), np.empty(len(v), dtype=np.int64))
    return log_cells(np.bincount(keys, mass, 4096).astype(np.int64), grid)
