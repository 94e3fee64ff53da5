"""People held as a NumPy matrix: the same reductions as the engines, in plain vector code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean.people.reductions import (
    HALF_OCTAVE,
    LOG_CELLS,
    LOG_LOW,
    LOG_ZERO,
    UNIFORM_LIMIT,
    Ball,
    BallSums,
    Box,
    BoxSums,
    Floats,
    Integers,
    pair_multiplier,
)

CHUNK = 1 << 16  # rows at a time: temporaries stay in cache and memory stays bounded


def log_index(v: Floats) -> Integers:
    """The cell of each double in the signed logarithmic histogram (NaN goes to the zero bin)."""
    size = np.abs(v)
    mantissa, exponent = np.frexp(size)  # size = mantissa 2^exponent, mantissa in [1/2, 1)
    j = 2 * exponent.astype(np.int64) - 2 + (mantissa >= HALF_OCTAVE)
    index = np.minimum(j, LOG_LOW + LOG_ZERO - 1) - LOG_LOW
    index = np.where(np.isinf(v), LOG_ZERO - 1, index)
    index = np.where(v < 0, LOG_ZERO + 1 + index, index)
    zero = ~(size >= math.ldexp(1.0, LOG_LOW // 2))
    return np.where(zero, LOG_ZERO, index)


def big_sum(values: Integers) -> int:
    """The exact sum of int64 values, in two halves so that it cannot overflow."""
    high = int(np.sum(values >> 31))
    low = int(np.sum(values & 0x7FFFFFFF))
    return (high << 31) + low


def clip_rows_to_ball(rows: Floats, ball: Ball) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Integer rows z of `Ball` (shape as `rows`) and which rows have any value."""
    null = np.isnan(rows)
    present: npt.NDArray[np.bool_] = np.logical_not(null.all(axis=1))
    v = np.where(null, 0.0, rows - np.asarray(ball.center))
    with np.errstate(all="ignore"):
        square = np.zeros(len(v))
        for j in range(v.shape[1]):
            square = square + v[:, j] * v[:, j]
        norm = np.sqrt(square)
        factor = np.where(norm <= ball.radius, 1.0, ball.radius / norm)
    usable = np.isfinite(norm)
    factor = np.where(usable, factor, 0.0)
    v = np.where(usable[:, None], v, 0.0)
    limit = ball.steps * ball.steps
    z = np.trunc(v * factor[:, None] / ball.step).astype(np.int64)
    over = np.sum(z * z, axis=1) > limit
    if over.any():
        again = factor[over] * (1 - 2.0**-30)
        z[over] = np.trunc(v[over] * again[:, None] / ball.step).astype(np.int64)
        over = np.sum(z * z, axis=1) > limit
        z[over] = 0
    return z, present


@dataclass(frozen=True)
class MatrixPeople:
    """One row a person in memory.

    values: shape (n, d), NaN for a person without a usable value; never written to.
    counts: shape (n, d), records behind each value (needed for the estimand "records").
    """

    values: Floats
    columns: tuple[str, ...]
    counts: Integers | None = None
    cap: int | None = None
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def size(self) -> int:
        return int(self.values.shape[0])

    def _chunks(self, column: int) -> Iterator[tuple[slice, Floats]]:
        x = self.values[:, column]
        for start in range(0, len(x), CHUNK):
            where = slice(start, start + CHUNK)
            yield where, x[where]

    def _weights(self, column: int, where: slice) -> Integers | None:
        if self.cap is None:
            return None
        assert self.counts is not None
        return np.minimum(self.counts[where, column], self.cap)

    def log_counts(self, column: int, origin: float) -> Integers:
        key = ("log", column, origin)
        if key not in self._cache:
            total = np.zeros(LOG_CELLS, dtype=np.int64)
            for _, x in self._chunks(column):
                total += np.bincount(log_index(x - origin), minlength=LOG_CELLS)
            self._cache[key] = total
        result: Integers = self._cache[key].copy()
        return result

    def uniform_counts(self, column: int, half_width: float, origin: float = 0.0) -> dict[int, int]:
        counts: dict[int, int] = {}
        for _, x in self._chunks(column):
            known = x[~np.isnan(x)]
            k = np.ceil((known - origin - half_width) / (2 * half_width))
            k = np.clip(k, -UNIFORM_LIMIT, UNIFORM_LIMIT).astype(np.int64)
            for index, count in zip(*np.unique(k, return_counts=True), strict=True):
                counts[int(index)] = counts.get(int(index), 0) + int(count)
        return counts

    def pair_counts(self, column: int, low: int, high: int) -> Integers:
        x = self.values[:, column]
        n = len(x)
        counts = np.zeros(high - low + 1, dtype=np.int64)
        if n < 2:
            return counts
        rank = np.arange(n, dtype=np.int64) * pair_multiplier(n) % n
        ordered = np.empty(n)
        ordered[rank] = x
        pairs = ordered[: n - n % 2].reshape(-1, 2)
        with np.errstate(invalid="ignore"):
            spread = np.abs(pairs[:, 0] - pairs[:, 1]) * HALF_OCTAVE
        spread = np.where(np.isnan(spread), 0.0, spread)
        mantissa, exponent = np.frexp(spread)
        k = exponent.astype(np.int64) - (mantissa == 0.5)
        k = np.where(spread == 0, low, k)
        k = np.where(np.isinf(spread), high, k)
        return np.bincount(np.clip(k, low, high) - low, minlength=high - low + 1)

    def box_sums(self, boxes: Sequence[Box | None]) -> list[BoxSums | None]:
        return [None if box is None else self._box(j, box) for j, box in enumerate(boxes)]

    def _box(self, column: int, box: Box) -> BoxSums:
        present = above = below = z_sum = zz_sum = 0
        w_sum = wz_sum = ww_sum = wwz_sum = wwzz_sum = 0
        inverse = 1.0 / box.step  # a power of two: multiplying is dividing, exactly
        for where, x in self._chunks(column):
            known = ~np.isnan(x)
            with np.errstate(invalid="ignore"):
                above += int(np.count_nonzero(x > box.upper))
                below += int(np.count_nonzero(x < box.lower))
                clipped = np.minimum(np.maximum(x, box.lower), box.upper)
                grid = np.floor((clipped - box.middle) * inverse + 0.5)
            grid = np.where(known, np.clip(grid, -box.steps, box.steps), 0.0)
            z = grid.astype(np.int64)
            present += int(np.count_nonzero(known))
            z_sum += int(z.sum())
            zz_sum += big_sum(z * z)
            w = self._weights(column, where)
            if w is not None:
                w = np.where(known, w, 0)
                wz = w * z
                w_sum += int(w.sum())
                wz_sum += big_sum(wz)
                # sums of squares can exceed 64 bits a term: exact Python integers
                big_w, big_wz = w.astype(object), wz.astype(object)
                ww_sum += int((big_w * big_w).sum())
                wwz_sum += int((big_w * big_wz).sum())
                wwzz_sum += int((big_wz * big_wz).sum())
        if self.cap is None:
            w_sum, wz_sum, ww_sum, wwz_sum, wwzz_sum = present, z_sum, present, z_sum, zz_sum
        return BoxSums(
            present, above, below, z_sum, zz_sum, w_sum, wz_sum, ww_sum, wwz_sum, wwzz_sum
        )

    def ball_sums(self, ball: Ball) -> BallSums:
        total = [0] * len(self.columns)
        present = 0
        rows_at_once = max(1, CHUNK // max(1, len(self.columns)))
        for start in range(0, self.size(), rows_at_once):
            z, there = clip_rows_to_ball(self.values[start : start + rows_at_once], ball)
            present += int(np.count_nonzero(there))
            total = [a + int(b) for a, b in zip(total, z.sum(axis=0), strict=True)]
        return BallSums(tuple(total), present)

    def count_in_box(self, boxes: Sequence[Box]) -> int:
        inside = np.ones(self.size(), dtype=bool)
        for j, box in enumerate(boxes):
            x = self.values[:, j]
            with np.errstate(invalid="ignore"):
                inside &= (x >= box.lower) & (x <= box.upper)
        return int(np.count_nonzero(inside))

    def count_in_ball(self, center: Sequence[float], radius: float) -> int:
        square = np.zeros(self.size())
        with np.errstate(all="ignore"):
            for j, c in enumerate(center):
                v = self.values[:, j] - c
                square = square + v * v
            return int(np.count_nonzero(np.sqrt(square) <= radius))

    def part(self, index: int, parts: int) -> MatrixPeople:
        counts = None if self.counts is None else self.counts[index::parts]
        return MatrixPeople(self.values[index::parts], self.columns, counts, self.cap)

    def matrix(self) -> Floats:
        return self.values
