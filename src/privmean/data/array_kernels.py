"""Vector code behind the matrix of people: fast passes over one column, exact results.

Each pass works on chunks that stay in cache, in place, on as many threads as there are processors
(NumPy releases the interpreter during a pass). Results are integers, so neither chunks nor threads
can change them.

Rows as vectors: clipped to a ball, in units of their own, by length; exact, in plain NumPy.

Each function has its definition in `reductions` and gives the same bits for a row alone or among
any others.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from privmean.array_types import Floats, Integers
from privmean.data.grids import (
    GROW,
    HUGE,
    LOG_GRID,
    QUARTER,
    SHRINK,
    SLIGHTLY,
    TINY,
    LogGrid,
    quotient,
)
from privmean.data.person_table import Besides, ClipInterval, ClippedRows, L2Ball, Standardization

T = TypeVar("T")

CHUNK = 1 << 16  # rows at a time: temporaries stay in cache and memory stays bounded
EXACT = 1 << 12  # squares below 2^41 that a double sums exactly
PARALLEL = 1 << 19  # rows from which a second thread pays
WORKERS = 8  # threads at most
BLOCK = 1 << 20  # values of a block of wide rows
TALL, FEW = 1 << 10, 1 << 8  # its rows, at most and at least; below, rows are read one by one


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
    workers = min(WORKERS, max(1, rows // (PARALLEL // 2)))
    if workers == 1 or (workers := min(workers, _processors())) == 1:
        return [task(0, rows)]
    edges = [rows * i // workers // CHUNK * CHUNK for i in range(workers)] + [rows]
    pool = _helpers(os.getpid())
    others = [pool.submit(task, *item) for item in pairwise(edges[1:])]
    return [task(0, edges[1]), *(item.result() for item in others)]


def sum_in_parallel(task: Callable[[int, int], Integers], rows: int) -> Integers:
    """The sum of what `task` counts on these slices."""
    first, *others = in_parallel(task, rows)
    for item in others:
        first = first + item
    return first


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


def count_parts(
    x: Floats, sign: int, step: float, first: int, parts: int, masses: Integers | None = None
) -> Integers:
    """People, or their masses, in each part of one side of a column, see `part_counts`."""
    low, high = first * step, (first + parts) * step
    counts = np.zeros(parts, dtype=np.int64)
    with np.errstate(all="ignore"):
        for start in range(0, len(x), CHUNK):
            chunk = x[start : start + CHUNK]
            v = chunk if sign > 0 else -chunk
            inside = (v > low) & (v <= high)
            if inside.any():
                k = np.ceil(v[inside] * (1 / step)).astype(np.int64) - (first + 1)
                own = None if masses is None else masses[start : start + CHUNK][inside]
                # a product that vanishes is of the first part
                counts += np.bincount(np.maximum(k, 0), own, parts).astype(np.int64)
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


Flags = npt.NDArray[np.bool_]

WHOLE = 2.0**53  # whole numbers below are doubles


def clip_rows_to_ball(rows: Floats, ball: L2Ball) -> tuple[Integers, Flags]:
    """Integer rows z of `Ball` (shape as `rows`) and which rows have any value."""
    if len(rows) == 1:
        found = _usual_row(rows[0], ball)
        if found is not None:
            return found[None, :], np.array([True])
    null = np.isnan(rows)
    present: Flags = np.logical_not(null.all(axis=1))
    most = np.finfo(float).max
    with np.errstate(all="ignore"):
        v = np.clip(np.where(null, 0.0, rows - ball.place), -most, most)
        top = np.abs(v).max(axis=1, initial=0.0)
        far = v * np.where(top > HUGE, SHRINK, np.where(top < TINY, GROW, 1.0))[:, None]
        near = top <= ball.radius
        w = np.where(near[:, None], quotient(v, ball.step), far)
        norm = np.sqrt(_squares(w))
        inside = near & (norm <= ball.steps)
        way = np.where(inside[:, None], 0.0, w / norm[:, None])
    z = np.trunc(np.where(inside[:, None], w, way * ball.steps)).astype(np.int64)
    limit = ball.steps * ball.steps
    over = np.sum(z * z, axis=1) > limit
    if over.any():
        again = w[over] / norm[over, None] * ball.shorter
        z[over] = np.trunc(again).astype(np.int64)
        over = np.sum(z * z, axis=1) > limit
        z[over] = 0
    return z, present


def _usual_row(x: Floats, ball: L2Ball) -> Integers | None:
    """`clip_rows_to_ball` for one row of finite values that is neither tiny nor huge nor overshoots
    the ball, in fewer operations; None for any other."""
    if len(x) == 1 and abs(x.item() - ball.center[0]) <= ball.radius:  # not so with a null
        inside = quotient(x.item() - ball.center[0], ball.step)
        if abs(inside) <= ball.shorter:
            return np.array([int(inside)], dtype=np.int64)
    with np.errstate(all="ignore"):
        v = x - ball.place
        top = float(np.abs(v).max())
        if not (top <= ball.radius or TINY <= top <= HUGE):  # so with a null
            return None
        w = quotient(v, ball.step) if top <= ball.radius else v
        norm = math.sqrt(np.add.accumulate(w * w).item(-1))
        if not (top <= ball.radius and norm <= ball.steps):
            w = w / norm * ball.steps
        z: Integers = np.trunc(w).astype(np.int64)
    return z if int((z * z).sum()) <= ball.steps * ball.steps else None


def _squares(w: Floats) -> Floats:
    """The sum of squares of each row, added up from the first column to the last: every home adds
    in this order. Few wide rows at once by accumulation, which keeps the order by definition."""
    if w.shape[1] > 2 * len(w):
        running: Floats = np.add.accumulate(w * w, axis=1)
        return running[:, -1]
    total = np.zeros(len(w))
    for j in range(w.shape[1]):
        total = total + w[:, j] * w[:, j]
    return total


def by_columns(rows: Floats) -> Floats:
    """The transpose, each column in one piece of memory; not to be written to."""
    columns = rows.T
    in_pieces = columns.strides[-1] == columns.itemsize
    return columns if in_pieces else np.ascontiguousarray(columns)


def squares(columns: Floats) -> Floats:
    """The sum of squares of each row, from the first column to the last; nulls count as 0."""
    with np.errstate(all="ignore"):
        total = _added_squares(columns)
        null = np.isnan(total)  # squares are not negative, so no infinity cancels another
        if null.any():
            some = columns[:, null]
            total[null] = _added_squares(np.where(np.isnan(some), 0.0, some))
    return total


def _added_squares(columns: Floats) -> Floats:
    total = np.zeros(columns.shape[1])
    room = np.empty_like(total)
    for x in columns:
        total += np.multiply(x, x, out=room)
    return total


class ColumnUnits:
    """Units of columns, as arrays of shape (columns, 1)."""

    def __init__(self, units: Sequence[Standardization]) -> None:
        facts = [(item.lower, item.upper, item.center, item.scale) for item in units]
        self.lower, self.upper, self.center, scale = np.array(facts).reshape(-1, 4).T[:, :, None]
        self.tiny = np.flatnonzero(scale < TINY)  # which `quotient` makes larger first
        scale[self.tiny] *= GROW
        self.inverse = 1 / scale

    def of(self, columns: Floats, out: Floats) -> None:
        """Columns in these units, into `out`; shape (columns, rows)."""
        with np.errstate(all="ignore"):
            np.clip(columns, self.lower, self.upper, out=out)
            np.subtract(out, self.center, out=out)
            if len(self.tiny):
                out[self.tiny] *= GROW
            np.multiply(out, self.inverse, out=out)
        null = np.isnan(out)  # only where the value is: limits, centers and factors are finite
        if null.any():
            out[null] = 0.0


def block_rows(width: int) -> int:
    """Rows of so many columns that are read at once: few enough to stay in a cache, and where rows
    are wide as many as are worth going down the columns."""
    wide = BLOCK // max(1, width)
    return max(1, CHUNK // max(1, width), min(TALL, wide) if wide >= FEW else 1)


def _well_inside(rows: Floats, ball: L2Ball) -> tuple[Floats, Flags]:
    """Which rows need nothing but a truncation, and all rows in lattice steps, by columns.

    Where the norm as computed is below K (1 - 2^-30), the true one is below K (fewer than 2^20
    columns); truncated it is no longer. Rows with a null are never among them.
    """
    v = by_columns(rows)
    with np.errstate(all="ignore"):
        if any(ball.center):
            v = v - ball.place[:, None]
        w = np.abs(v)
        top = np.maximum.reduce(w, axis=0, initial=0.0)  # NaN with a null
        w[:] = quotient(v, ball.step)
        norm = np.sqrt(_added_squares(w))
        return w, (top <= ball.radius) & (norm <= ball.shorter)


def ball_totals(
    rows: Floats, ball: L2Ball, besides: Besides | None
) -> tuple[list[int], list[int], int]:
    """Of at most 2^16 rows clipped to a ball: the sums of z by column, of |z| or z^2 where asked
    for (else zeros), and how many rows have a value."""
    count, width = rows.shape
    if width > count and count < FEW:
        z, there = clip_rows_to_ball(rows, ball)
        total, more = _summed(z.T.astype(np.float64), ball.steps, besides)
        return total, more, int(np.count_nonzero(there))
    w, plain = _well_inside(rows, ball)
    others = np.flatnonzero(~plain)
    present = count - len(others)
    w[:, others] = 0.0
    total, more = _summed(np.trunc(w, out=w), ball.steps, besides)
    if len(others):
        z, there = clip_rows_to_ball(rows[others], ball)
        present += int(np.count_nonzero(there))
        some, again = _summed(z.T.astype(np.float64), ball.steps, besides)
        total = [a + b for a, b in zip(total, some, strict=True)]
        more = [a + b for a, b in zip(more, again, strict=True)]
    return total, more, present


def tail_totals(rows: Floats, cut: ClippedRows) -> tuple[list[list[int]], int]:
    """The sums of `Cut` of at most 2^16 rows: of z, of z^2 and of t by column, and how many rows
    have a value."""
    count, width = rows.shape
    totals, present = [[0] * width for _ in range(3)], 0
    if width <= count or count >= FEW:
        w, plain = _well_inside(rows, cut.ball)
        columns, (lower, upper) = by_columns(rows), np.array([cut.lower, cut.upper])[:, :, None]
        with np.errstate(invalid="ignore"):
            plain &= ((columns >= lower) & (columns <= upper)).all(axis=0)
        w[:, ~plain] = 0.0
        totals[:2] = _summed(np.trunc(w, out=w), cut.ball.steps, "squares")
        present, rows = int(np.count_nonzero(plain)), rows[~plain]
    if not len(rows):
        return totals, present
    found, there = _cut_totals(rows, cut)
    more = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(totals, found, strict=True)]
    return more, present + there


def _cut_totals(rows: Floats, cut: ClippedRows) -> tuple[list[list[int]], int]:
    """The same for any rows."""
    inner, radius = cut.inner, cut.ball.radius
    v = np.where(np.isnan(rows), 0.0, rows)
    norm = np.sqrt(squares(by_columns(rows)))
    end = (v > np.asarray(cut.upper)) | (v < np.asarray(cut.lower))
    touched = (norm > SLIGHTLY * radius) | end.any(axis=1)
    slight = ~touched & (norm > radius)
    z, present = [], 0
    for chosen, ball in ((~touched & ~slight, cut.ball), (slight, cut.middle), (touched, inner)):
        inside, there = clip_rows_to_ball(rows[chosen], ball)
        present += int(np.count_nonzero(there))
        z.append(inside)
    t = (np.abs(z[1]) * QUARTER).astype(np.int64).sum(axis=0)
    q = np.abs(z[2]) * (norm > radius)[touched, None] + inner.steps * end[touched]
    size = np.sum(q * q, axis=1)
    over = size > inner.steps * inner.steps
    way = q[over] / np.sqrt(size[over])[:, None]
    q[over] = np.trunc(way * inner.shorter).astype(np.int64)
    found = (
        sum(item.sum(axis=0) for item in z),
        sum((item * item).sum(axis=0) for item in z),
        t + q.sum(axis=0),
    )
    return [[int(item) for item in one] for one in found], present


def _summed(z: Floats, steps: int, besides: Besides | None) -> tuple[list[int], list[int]]:
    """Exact sums by column (the first axis) of whole numbers below 2^31, and of |z| or z^2."""
    total = [int(item) for item in np.add.reduce(z, axis=1)]
    if besides == "squares":
        if z.shape[1] * steps * steps < WHOLE:
            return total, [int(item) for item in np.einsum("ij,ij->i", z, z)]
        return total, [big_sum(item * item) for item in z.astype(np.int64)]
    if besides == "sizes":
        return total, [int(item) for item in np.add.reduce(np.abs(z), axis=1)]
    return total, [0] * len(z)
