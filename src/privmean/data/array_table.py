"""People held as a NumPy matrix: the same reductions as the engines, in plain vector code.

Records in memory whose ids are whole numbers, grouped by NumPy: the doubles that engines give.

The definition of a person's value is that of `person_records.py`. How grid points are added depends
on how large they are, which changes the time and nothing else: in each way the total is exact, and
rounded to a double once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.data.array_kernels import (
    CHUNK,
    ColumnUnits,
    ball_totals,
    block_rows,
    box_totals,
    by_columns,
    chunks,
    count_keys,
    count_parts,
    extremes,
    in_parallel,
    log_cells,
    outside,
    squares,
    sum_in_parallel,
    tail_totals,
    weighted_totals,
)
from privmean.data.grids import (
    HALF_OCTAVE,
    LIMIT_BITS,
    TOTAL_BITS,
    UNIFORM_LIMIT,
    LogGrid,
    pair_multiplier,
    quotient,
    unit_of,
)
from privmean.data.person_table import (
    Besides,
    ClipInterval,
    ClippedRows,
    IntervalSums,
    L2Ball,
    L2BallSums,
    PersonTable,
    Standardization,
)

LAID = 1 << 30  # bytes of a table that may be laid out again by columns
SPARSE = 8  # parts from here on are copied: at most an eighth of the rows


@dataclass(frozen=True)
class ArrayPersonTable(PersonTable):
    """One row a person in memory.

    values: shape (n, d), NaN for a person without a usable value; never written to.
    counts: shape (n, d), records behind each value (needed for the estimand "records").
    Exact answers are kept, so that a question asked twice is one pass over the data.
    engine: the library that read the records.
    """

    values: Floats = field(repr=False)
    columns: tuple[str, ...]
    counts: Integers | None = field(default=None, repr=False)
    max_records: int | None = None
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    engine: str = field(default="numpy", compare=False)

    def size(self) -> int:
        return int(self.values.shape[0])

    @cached_property
    def _laid(self) -> Floats:
        """The values with each column in one piece of memory, shape (n, d): most questions go down
        columns, again and again. A large table is not held twice."""
        values = self.values
        if values.nbytes > LAID or values.strides[0] == values.itemsize:
            return values
        columns = np.empty(values.shape[::-1])
        rows_at_once = max(1, CHUNK // max(1, len(self.columns)))
        for start in range(0, self.size(), rows_at_once):
            stop = start + rows_at_once
            columns[:, start:stop] = values[start:stop].T
        return columns.T

    def _column(self, column: int) -> Floats:
        return self._laid[:, column]

    def _rows(self, start: int, size: int) -> Floats:
        return self._laid[start : start + size]

    def _blocks(self) -> Iterator[Floats]:
        """The rows, as many at once as fit a cache."""
        size = block_rows(len(self.columns))
        return (self._rows(start, size) for start in range(0, self.size(), size))

    def _log_counts(self, grid: LogGrid, column: int, origin: float) -> Integers:
        x = self._column(column)
        known = ("ends", column) in self._cache
        ends = None if known else np.empty((2, chunks(0, len(x)).stop))

        def task(start: int, stop: int) -> Integers:
            part = None if ends is None else ends[:, chunks(start, stop)]
            return count_keys(x[start:stop], origin, grid.factor, part)

        counts = log_cells(sum_in_parallel(task, len(x)), grid)
        if ends is not None:
            self._cache["ends", column] = ends
        return counts

    def missing(self, column: int) -> int:
        return self._once(("missing", column), lambda: self._missing(column))

    def _missing(self, column: int) -> int:
        x, some = self._column(column), np.isnan(self._ends(column)[0])
        starts = np.flatnonzero(some) * CHUNK
        return int(sum(np.count_nonzero(np.isnan(x[i : i + CHUNK])) for i in starts))

    def _ends(self, column: int) -> Floats:
        """The least and the largest value of every chunk of a column, from one pass over it."""
        x = self._column(column)

        def ends() -> Floats:
            parts = in_parallel(lambda start, stop: extremes(x[start:stop]), len(x))
            return np.concatenate(parts, axis=1)

        return self._once(("ends", column), ends)

    def uniform_counts(self, column: int, half_width: float, origin: float = 0.0) -> dict[int, int]:
        found: list[tuple[Integers, Integers]] = []
        x = self._column(column)
        for start in range(0, len(x), CHUNK):
            chunk = x[start : start + CHUNK]
            with np.errstate(all="ignore"):
                k = np.ceil(quotient(chunk - origin - half_width, half_width) * 0.5)
            k = np.clip(k[~np.isnan(chunk)], -UNIFORM_LIMIT, UNIFORM_LIMIT).astype(np.int64)
            found.append(np.unique(k, return_counts=True))
        if not found:
            return {}
        keys, where = np.unique(np.concatenate([k for k, _ in found]), return_inverse=True)
        counts = np.zeros(len(keys), dtype=np.int64)
        np.add.at(counts, where, np.concatenate([c for _, c in found]))
        return dict(zip(keys.tolist(), counts.tolist(), strict=True))

    def _parts(self, column: int, sign: int, step: float, first: int, parts: int) -> Integers:
        x = self._column(column)

        def task(start: int, stop: int) -> Integers:
            return count_parts(x[start:stop], sign, step, first, parts)

        return sum_in_parallel(task, len(x))

    def pair_counts(self, column: int, low: int, high: int) -> Integers:
        x = self._column(column)
        n = len(x)
        counts = np.zeros(high - low + 1, dtype=np.int64)
        if n < 2:
            return counts
        rank = np.arange(n, dtype=np.int64) * pair_multiplier(n) % n
        ordered = np.empty(n)
        ordered[rank] = x
        pairs = ordered[: n - n % 2].reshape(-1, 2)
        with np.errstate(all="ignore"):
            spread = np.abs(pairs[:, 0] - pairs[:, 1]) * HALF_OCTAVE
        spread = np.where(np.isnan(spread), 0.0, spread)
        mantissa, exponent = np.frexp(spread)
        k = exponent.astype(np.int64) - (mantissa == 0.5)
        k = np.where(spread == 0, low, k)
        k = np.where(np.isinf(spread), high, k)
        return np.bincount(np.clip(k, low, high) - low, minlength=high - low + 1)

    def interval_sums(self, boxes: Sequence[ClipInterval | None]) -> list[IntervalSums | None]:
        return [None if box is None else self._box(j, box) for j, box in enumerate(boxes)]

    def _box(self, column: int, box: ClipInterval) -> IntervalSums:
        key = ("box", column, box.lower, box.upper)
        return self._once(key, lambda: self._sums(column, box))

    def _sums(self, column: int, box: ClipInterval) -> IntervalSums:
        x = self._column(column)
        ends = self._ends(column) if self.max_records is None else np.empty((2, 0))

        def task(start: int, stop: int) -> tuple[int, ...]:
            if self.max_records is None:
                return box_totals(x[start:stop], box, ends[:, chunks(start, stop)])
            assert self.counts is not None
            weights = np.minimum(self.counts[start:stop, column], self.max_records)
            return weighted_totals(x[start:stop], box, weights)

        totals = [sum(items) for items in zip(*in_parallel(task, len(x)), strict=True)]
        if self.max_records is None:
            present, above, below, z, zz = totals
            return IntervalSums(present, above, below, z, zz, present, z, present, z, zz)
        return IntervalSums(*totals)

    def count_outside(self, column: int, lower: float, upper: float) -> tuple[int, int]:
        if self.size() <= CHUNK:
            x = self._column(column)
            return int(np.count_nonzero(x < lower)), int(np.count_nonzero(x > upper))
        near, far, values = self._cache.get(("beyond", column), (math.inf, -math.inf, None))
        if values is None or lower > near or upper < far:  # else all that count are among those
            x, ends = self._column(column), self._ends(column)

            def task(start: int, stop: int) -> Floats:
                return outside(x[start:stop], lower, upper, ends[:, chunks(start, stop)])

            none = (ends[0] >= lower).all() and (ends[1] <= upper).all()  # not with a null
            values = np.empty(0) if none else np.concatenate(in_parallel(task, len(x)))
            if len(values) <= CHUNK:
                self._cache["beyond", column] = lower, upper, values
        below, above = np.count_nonzero(values < lower), np.count_nonzero(values > upper)
        return int(below), int(above)

    def counts_below(self, column: int, edges: Sequence[float]) -> Integers:
        x, ends = self._column(column), np.asarray(edges, dtype=float)

        def task(start: int, stop: int) -> Integers:  # nulls are sorted behind all numbers
            cells = np.searchsorted(ends, x[start:stop], side="right")
            return np.bincount(cells, minlength=len(ends) + 1)

        return np.cumsum(sum_in_parallel(task, len(x)))[:-1]

    def ball_sums(self, ball: L2Ball, besides: Besides | None = None) -> L2BallSums:
        width = len(self.columns)
        total, more, present = [0] * width, [0] * width, 0
        for rows in self._blocks():
            some, others, there = ball_totals(rows, ball, besides)
            total = [a + b for a, b in zip(total, some, strict=True)]
            more = [a + b for a, b in zip(more, others, strict=True)]
            present += there
        return L2BallSums(tuple(total), present, tuple(more) if besides else ())

    def clipped_row_sums(self, cut: ClippedRows) -> L2BallSums:
        totals, present = [[0] * len(self.columns) for _ in range(3)], 0
        for rows in self._blocks():
            found, there = tail_totals(rows, cut)
            present += there
            totals = [
                [a + b for a, b in zip(one, more, strict=True)]
                for one, more in zip(totals, found, strict=True)
            ]
        return L2BallSums(tuple(totals[0]), present, tuple(totals[1]), tuple(totals[2]))

    def norm_counts(self, edges: Sequence[float]) -> Integers:
        counts = np.zeros(len(edges) + 1, dtype=np.int64)
        for rows in self._blocks():
            square = squares(by_columns(rows))
            where = np.searchsorted(np.asarray(edges), np.sqrt(square), side="left")
            counts += np.bincount(where, minlength=len(counts))
        return counts

    def standardized(self, columns: Sequence[Standardization | None]) -> ArrayPersonTable:
        asked = {j: item for j, item in enumerate(columns) if item is not None}
        return _StandardizedTable(self, asked)

    def count_in_ball(self, center: Sequence[float], radius: float) -> int:
        square = np.zeros(self.size())
        unit = unit_of(radius)
        with np.errstate(all="ignore"):
            for j, c in enumerate(center):
                v = (self._column(j) - c) * unit
                square = square + v * v
            return int(np.count_nonzero(np.sqrt(square) <= radius * unit))

    def split(self, index: int, parts: int) -> ArrayPersonTable:
        counts = None if self.counts is None else self.counts[index::parts]
        values = self.values[index::parts]
        if parts >= SPARSE:  # every question would otherwise walk through all of memory
            values = np.ascontiguousarray(values)
        return ArrayPersonTable(values, self.columns, counts, self.max_records)

    def matrix(self) -> Floats:
        return self.values


class _StandardizedTable(ArrayPersonTable):
    """The people of a table, with some columns in units.

    Rows are put in units block by block when they are asked for: that takes less time than a copy
    of a large table, whose memory is new each time."""

    _people: ArrayPersonTable
    _chosen: list[int] | None  # None: all
    _units: ColumnUnits

    def __init__(self, people: ArrayPersonTable, units: dict[int, Standardization]) -> None:
        every = len(units) == len(people.columns)
        facts = {
            "columns": tuple(people.columns[j] for j in units),
            "_people": people,
            "_chosen": None if every else list(units),
            "_units": ColumnUnits(list(units.values())),
            "_cache": {},
        }
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @cached_property
    def values(self) -> Floats:
        found = np.empty((len(self.columns), self.size()))
        self._put_in_units(self._people.matrix(), found)
        return found.T

    def size(self) -> int:
        return self._people.size()

    def _rows(self, start: int, size: int) -> Floats:
        """Rows that are overwritten by those asked for next."""
        rows = self._people._rows(start, size)
        room = self._cache.get("room")
        if room is None or room.shape[1] < len(rows):
            room = self._cache["room"] = np.empty((len(self.columns), len(rows)))
        found = room[:, : len(rows)]
        self._put_in_units(rows, found)
        return found.T

    def _put_in_units(self, rows: Floats, found: Floats) -> None:
        chosen = rows if self._chosen is None else rows[:, self._chosen]
        self._units.of(by_columns(chosen), found)


@dataclass(frozen=True)
class UnorderedPersonTable(ArrayPersonTable):
    """Few people whose rows are in memory in the order of no roster. What depends on the roster's
    order is asked of the same rows `in_order`, which are read when they are needed."""

    in_order: Callable[[], ArrayPersonTable] = field(kw_only=True, repr=False, compare=False)
    opened: Any = field(default=None, kw_only=True, repr=False, compare=False)  # what was read
    elsewhere = False

    @cached_property
    def _ordered(self) -> ArrayPersonTable:
        return self.in_order()

    def collect(self) -> ArrayPersonTable:
        """The same people in roster order."""
        return self._ordered

    def matrix(self) -> Floats:
        return self._ordered.values

    def pair_counts(self, column: int, low: int, high: int) -> Integers:
        return self._ordered.pair_counts(column, low, high)

    def split(self, index: int, parts: int) -> ArrayPersonTable:
        return self._ordered.split(index, parts)

    def standardized(self, columns: Sequence[Standardization | None]) -> ArrayPersonTable:
        found = super().standardized(columns)
        return UnorderedPersonTable(
            found.values, found.columns, in_order=lambda: self._ordered.standardized(columns)
        )


EXACT = 2.0**53  # whole numbers up to here are doubles
HALF = 26  # bits of the low word of two
THIRD = 27  # bits of the low words of three
BATCH = 1 << 25  # records of which sums of words of 27 bits are exact
SPREAD = 4  # ids are their own places in a table of at most so many rows a record


def grouped(
    ids: Integers,
    matrix: Floats,
    columns: tuple[str, ...],
    max_records: int | None,
    resolution: float,
) -> ArrayPersonTable:
    """People in the order of their ids. ids: shape (N,), whole numbers; matrix: shape (N, d)."""
    place, records, present = _places(ids)
    values = np.empty((len(present), len(columns)))
    counts = None if max_records is None else np.empty(values.shape, dtype=np.int64)
    for j in range(len(columns)):
        t = grid_points(matrix[:, j], resolution)
        where, usable = place, records
        null = np.isnan(t)
        if null.any():
            where, t = place[~null], t[~null]
            usable = np.bincount(where, minlength=len(records))
        total = _totals(where, t, usable)[present]
        number = usable[present]
        with np.errstate(all="ignore"):
            values[:, j] = np.where(number > 0, total * resolution / number, math.nan)
        if counts is not None:
            counts[:, j] = number
    return ArrayPersonTable(values, columns, counts, max_records)


def grid_points(x: Floats, resolution: float) -> Floats:
    """floor(x/resolution + 1/2) with |x| limited to resolution 2^80; NaN for a null."""
    limit = resolution * 2.0**LIMIT_BITS
    with np.errstate(all="ignore"):  # a NaN that signals
        t = np.clip(x, -limit, limit)
        t *= 1 / resolution
        t += 0.5
        return np.floor(t, out=t)


def _places(ids: Integers) -> tuple[Integers, Integers, Integers]:
    """The place of each record's person, the records at each place, and the places that are taken,
    in the order of the ids."""
    if not len(ids):
        return (np.zeros(0, dtype=np.int64),) * 3
    least = ids.min()
    if int(ids.max()) - int(least) < SPREAD * len(ids):
        if ids.dtype == np.uint64:
            place = (ids - least).astype(np.int64)
        else:
            place = ids.astype(np.int64) - np.int64(least)
        records = np.bincount(place)
        return place, records, np.flatnonzero(records)
    known, place = np.unique(ids, return_inverse=True)
    return place, np.bincount(place, minlength=len(known)), np.arange(len(known))


def _totals(place: Integers, t: Floats, records: Integers) -> Floats:
    """The totals of the grid points t at each place, rounded to the nearest double."""
    if not len(t):
        return np.zeros(len(records))
    most, largest = int(records.max()), max(float(t.max()), -float(t.min()))
    size = len(records)
    if largest * most < EXACT:
        return _added(place, t, size)
    if largest * most < EXACT * 2.0 ** (HALF - 1) and most < EXACT * 2.0**-HALF:
        high = np.floor(t * 2.0**-HALF)
        t = t - high * 2.0**HALF
        # the sum of two exact doubles is rounded once
        return _added(place, high, size) * 2.0**HALF + _added(place, t, size)
    return _wide_totals(place, t, size)


def _added(place: Integers, words: Floats, size: int) -> Floats:
    """Sums of whole numbers at each place, exact below 2^53."""
    sums: Floats = np.bincount(place, weights=words, minlength=size).astype(np.float64, copy=False)
    return sums


def _wide_totals(place: Integers, t: Floats, size: int) -> Floats:
    """The same from three words, limited to +-2^100."""
    words = [np.zeros(size, dtype=np.int64) for _ in range(3)]
    for start in range(0, len(t), BATCH):
        where, rest = place[start : start + BATCH], t[start : start + BATCH]
        for k, scale in enumerate((2.0 ** (2 * THIRD), 2.0**THIRD, 1.0)):
            word = np.trunc(rest / scale)
            rest = rest - word * scale
            words[k] += _added(where, word, size).astype(np.int64)
    limit = 1 << TOTAL_BITS
    exact = zip(*(word.tolist() for word in words), strict=True)
    totals = ((a << (2 * THIRD)) + (b << THIRD) + c for a, b, c in exact)
    return np.array([float(min(max(total, -limit), limit)) for total in totals])
