"""Vector code behind the matrix of people: fast passes over one column, exact results.

Each pass works on chunks that stay in cache, in place, on as many threads as there are processors
(NumPy releases the interpreter during a pass). Results are integers, so neither chunks nor threads
can change them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.data.grids import LOG_GRID, LogGrid
from privmean.data.person_table import ClipInterval

T = TypeVar("T")

CHUNK = 1 << 16  # rows at a time: temporaries stay in cache and memory stays bounded
EXACT = 1 << 12  # squares below 2^41 that a double sums exactly
PARALLEL = 1 << 19  # rows from which a second thread pays
WORKERS = 8  # threads at most


def log_keys(v: Floats, square: Floats, keys: Integers) -> Integers:
    """Sign and exponent (12 bits) of v |v|; `square` and `keys` are room to work in.

    The exponent of the square counts half octaves: with s = HALF_OCTAVE, |v| >= 2^k s exactly if
    the rounded square is at least 2^(2k-1), and |v| >= 2^k exactly if it is at least 2^(2k) (the
    doubles before s and before 1 have squares that round below 1/2 and 1, and rounding is
    monotone).
    """
    np.abs(v, out=square)
    np.multiply(square, v, out=square)
    np.right_shift(square.view(np.uint64), np.uint64(52), out=keys.view(np.uint64))
    return keys


def log_cells(keys: Integers, grid: LogGrid = LOG_GRID) -> Integers:
    """Counts of the 4096 keys of `log_keys` (nulls aside) to counts of the logarithmic bins."""
    counts = np.zeros(grid.cells, dtype=np.int64)
    first = 1023 + grid.low  # the exponent of the square in the lowest bin
    last = first + grid.bins - 1
    for sign, start in ((0, 0), (1, grid.zero + 1)):
        side = keys[2048 * sign : 2048 * (sign + 1)]
        counts[start : start + grid.bins] = side[first : last + 1]
        counts[start + grid.bins - 1] += side[last + 1 :].sum()
        counts[grid.zero] += side[:first].sum()
    return counts


def square_sum(z: Floats) -> int:
    """The exact sum of z^2 for integer doubles |z| <= 2^20 + 1."""
    whole = len(z) - len(z) % EXACT
    rows = z[:whole].reshape(-1, EXACT)
    dots = np.vecdot(rows, rows) if hasattr(np, "vecdot") else np.einsum("ij,ij->i", rows, rows)
    blocks = dots.astype(np.int64)
    rest = z[whole:]
    return int(blocks.sum()) + int(np.einsum("i,i->", rest, rest))


def in_parallel(task: Callable[[int, int], T], rows: int) -> list[T]:
    """`task(start, stop)` on slices that cover `rows`, on the processors there are. Slices start at
    multiples of CHUNK."""
    workers = min(_processors(), WORKERS, max(1, rows // (PARALLEL // 2)))
    if workers == 1:
        return [task(0, rows)]
    edges = [rows * i // workers // CHUNK * CHUNK for i in range(workers)] + [rows]
    pool = _helpers(os.getpid())
    others = [pool.submit(task, *item) for item in pairwise(edges[1:])]
    return [task(0, edges[1]), *(item.result() for item in others)]


@lru_cache(maxsize=1)
def _helpers(process: int) -> ThreadPoolExecutor:
    """Threads that stay, since to start one takes as long as a pass over 200,000 rows. A fork takes
    none along: each `process` has its own. No task waits for another."""
    return ThreadPoolExecutor(WORKERS - 1, "privmean")


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def big_sum(values: Integers) -> int:
    """The exact sum of int64 values, in two halves so that it cannot overflow."""
    high = int(np.sum(values >> 31))
    low = int(np.sum(values & 0x7FFFFFFF))
    return (high << 31) + low


def chunks(start: int, stop: int) -> slice:
    """The chunks that hold these rows; `start` is the first row of one."""
    return slice(start // CHUNK, -(-stop // CHUNK))


def extremes(x: Floats) -> Floats:
    """The least and the largest value of every chunk, shape (2, chunks): NaN with a null."""
    found = [_ends(x[start : start + CHUNK]) for start in range(0, len(x), CHUNK)]
    return np.array(found).reshape(-1, 2).T


def _ends(chunk: Floats) -> tuple[float, float]:
    with np.errstate(invalid="ignore"):
        return chunk.min(), chunk.max()


def count_keys(
    x: Floats, origin: float, factor: float = 1.0, ends: Floats | None = None
) -> Integers:
    """Counts of `log_keys` of (x - origin) * factor without nulls. ends: where to write the
    `extremes` of x, which are on the way."""
    room = np.empty((2, min(CHUNK, max(1, len(x)))))
    keys = np.empty(room.shape[1], dtype=np.int64)
    total = np.zeros(4096, dtype=np.int64)
    with np.errstate(all="ignore"):
        for i, start in enumerate(range(0, len(x), CHUNK)):
            v = x[start : start + CHUNK]
            size = len(v)
            if ends is not None:
                ends[:, i] = _ends(v)
            if origin != 0.0:
                v = np.subtract(v, origin, out=room[1, :size])
            if factor != 1.0:
                v = np.multiply(v, factor, out=room[1, :size])
            found = np.bincount(log_keys(v, room[0, :size], keys[:size]), minlength=4096)
            if found[2047] or found[4095]:  # infinities, or nulls, which belong to the zero bin
                null = np.isnan(v)
                negative = int(np.count_nonzero(null & np.signbit(room[0, :size])))
                found[0] += np.count_nonzero(null)
                found[2047] -= np.count_nonzero(null) - negative
                found[4095] -= negative
            total += found
    return total


def count_parts(x: Floats, sign: int, step: float, first: int, parts: int) -> Integers:
    """People in each part of one side of a column, see `PersonTable.part_counts`."""
    low, high = first * step, (first + parts) * step
    counts = np.zeros(parts, dtype=np.int64)
    with np.errstate(all="ignore"):
        for start in range(0, len(x), CHUNK):
            v = x[start : start + CHUNK] * sign
            inside = v[(v > low) & (v <= high)]
            if len(inside):
                k = np.ceil(inside * (1 / step)).astype(np.int64) - (first + 1)
                # a product that vanishes is of the first part
                counts += np.bincount(np.maximum(k, 0), minlength=parts)
    return counts


def _grid(x: Floats, box: ClipInterval, room: Floats, *, inside: bool = False) -> Floats:
    """The grid points z of `Box` as doubles in `room`, NaN for nulls.

    The limits need no second clamp: (upper - middle)/step is at most `steps`, and so on. Nothing
    need be clipped where every value is known to lie `inside`.
    """
    z = room[: len(x)]
    if not inside:
        x = np.clip(x, box.lower, box.upper, out=z)
    np.subtract(x, box.middle, out=z)
    np.multiply(z, 1.0 / box.step, out=z)  # a power of two: multiplying is dividing, exactly
    np.add(z, 0.5, out=z)
    return np.floor(z, out=z)


def box_totals(x: Floats, box: ClipInterval, ends: Floats) -> tuple[int, ...]:
    """present, above, below, sum z, sum z^2; ends: the `extremes` of x."""
    room = np.empty(min(CHUNK, len(x)))
    beyond = np.empty(len(room), dtype=bool)
    present = above = below = z_sum = zz_sum = 0
    with np.errstate(all="ignore"):
        for start, low, high in zip(range(0, len(x), CHUNK), *ends, strict=True):
            chunk = x[start : start + CHUNK]
            out = beyond[: len(chunk)]
            inside = bool(high <= box.upper and low >= box.lower)  # not with a null
            if not inside:
                above += int(np.count_nonzero(np.greater(chunk, box.upper, out=out)))
                below += int(np.count_nonzero(np.less(chunk, box.lower, out=out)))
            z = _grid(chunk, box, room, inside=inside)
            total = np.add.reduce(z)  # exact: integers below 2^37
            present += len(chunk)
            if np.isnan(total):
                null = np.isnan(z, out=out)
                present -= int(np.count_nonzero(null))
                z[null] = 0.0
                total = np.add.reduce(z)
            z_sum += int(total)
            zz_sum += square_sum(z)
    return present, above, below, z_sum, zz_sum


def outside(x: Floats, lower: float, upper: float, ends: Floats) -> Floats:
    """The values beyond the limits (nulls are not); ends: the `extremes` of x."""
    found = []
    with np.errstate(invalid="ignore"):
        for start, low, high in zip(range(0, len(x), CHUNK), *ends, strict=True):
            if not (high <= upper and low >= lower):  # so with a null
                chunk = x[start : start + CHUNK]
                found.append(chunk[(chunk > upper) | (chunk < lower)])
    return np.concatenate(found) if found else np.empty(0)


def weighted_totals(x: Floats, box: ClipInterval, weights: Integers) -> tuple[int, ...]:
    """The fields of `BoxSums`, for weights of at most 2^20."""
    totals = [0] * 10
    for start in range(0, len(x), CHUNK):
        chunk = x[start : start + CHUNK]
        plain = box_totals(chunk, box, extremes(chunk))
        totals = [a + b for a, b in zip(totals, plain + (0,) * 5, strict=True)]
        known = ~np.isnan(chunk)
        with np.errstate(all="ignore"):
            grid = _grid(chunk, box, np.empty(len(chunk)))
        z = np.where(known, grid, 0.0).astype(np.int64)
        w = np.where(known, weights[start : start + CHUNK], 0)
        wz = w * z
        high, low = wz >> 21, wz & 0x1FFFFF  # the square of w z needs more than 64 bits
        squares = (int((high * high).sum()) << 42) + (int((high * low).sum()) << 22)
        more = (w.sum(), wz.sum(), (w * w).sum(), big_sum(w * w * z))
        for place, value in enumerate(more, start=5):
            totals[place] += int(value)
        totals[9] += squares + int((low * low).sum())
    return tuple(totals)
