"""Rows as vectors: clipped to a ball, in units of their own, by length; exact, in plain NumPy.

Each function has its definition in `reductions` and gives the same bits for a row alone or among
any others.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import numpy.typing as npt

from privmean.people.kernels import big_sum
from privmean.people.reductions import (
    GROW,
    HUGE,
    SHRINK,
    TINY,
    Ball,
    Besides,
    Floats,
    Integers,
    Standard,
    quotient,
)

BY_HAND = 8  # columns up to which one row is clipped without NumPy
EXACT = 2.0**53  # whole numbers below are doubles


def clip_rows_to_ball(rows: Floats, ball: Ball) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Integer rows z of `Ball` (shape as `rows`) and which rows have any value."""
    if len(rows) == 1 and rows.shape[1] <= BY_HAND:
        return _clip_row(rows[0].tolist(), ball)
    null = np.isnan(rows)
    present: npt.NDArray[np.bool_] = np.logical_not(null.all(axis=1))
    most = np.finfo(float).max
    with np.errstate(all="ignore"):
        v = np.clip(np.where(null, 0.0, rows - np.asarray(ball.center)), -most, most)
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


def _clip_row(row: list[float], ball: Ball) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """`clip_rows_to_ball` for one short row, by the same operations: most of its time is NumPy's
    preparations."""
    most, steps = sys.float_info.max, ball.steps
    v = [
        0.0 if math.isnan(x) else min(max(x - c, -most), most)
        for x, c in zip(row, ball.center, strict=True)
    ]
    top = max(map(abs, v), default=0.0)
    near = top <= ball.radius
    far = SHRINK if top > HUGE else GROW if top < TINY else 1.0
    w = [quotient(item, ball.step) if near else item * far for item in v]
    square = 0.0
    for item in w:
        square = square + item * item
    norm = math.sqrt(square)
    if near and norm <= steps:
        z = [int(item) for item in w]
    else:
        z = [int(item / norm * steps) for item in w]
    if sum(item * item for item in z) > steps * steps:
        z = [int(item / norm * ball.shorter) for item in w]
        if sum(item * item for item in z) > steps * steps:
            z = [0] * len(z)
    return np.array([z], dtype=np.int64), np.array([not all(map(math.isnan, row))])


def by_columns(rows: Floats) -> Floats:
    """The transpose, each column in one piece of memory; not to be written to."""
    return np.ascontiguousarray(rows.T)


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


def standardize(x: Floats, item: Standard, out: Floats) -> None:
    """One column in the units of `item`, into `out`."""
    with np.errstate(all="ignore"):
        np.clip(x, item.lower, item.upper, out=out)
        out -= item.center
        out[:] = quotient(out, item.scale)
    null = np.isnan(x)
    if null.any():
        out[null] = 0.0


def ball_totals(
    rows: Floats, ball: Ball, besides: Besides | None
) -> tuple[list[int], list[int], int]:
    """Of at most 2^16 rows clipped to a ball: the sums of z by column, of |z| or z^2 where asked
    for (else zeros), and how many rows have a value.

    Rows well inside need nothing but a truncation: where the norm as computed is below K (1 -
    2^-30), the true one is below K (fewer than 2^20 columns), and truncated it is no longer.
    """
    count, width = rows.shape
    if width > count:  # chunks are short where rows are wide
        z, there = clip_rows_to_ball(rows, ball)
        total, more = _summed(z.T.astype(np.float64), ball.steps, besides)
        return total, more, int(np.count_nonzero(there))
    v = by_columns(rows)
    with np.errstate(all="ignore"):
        if any(ball.center):
            v = v - np.asarray(ball.center)[:, None]
        w = np.abs(v)
        top = np.maximum.reduce(w, axis=0, initial=0.0)  # NaN with a null
        w[:] = quotient(v, ball.step)
        norm = np.sqrt(_added_squares(w))
        others = np.flatnonzero(~((top <= ball.radius) & (norm <= ball.shorter)))
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


def _summed(z: Floats, steps: int, besides: Besides | None) -> tuple[list[int], list[int]]:
    """Exact sums by column (the first axis) of whole numbers below 2^31, and of |z| or z^2."""
    total = [int(item) for item in np.add.reduce(z, axis=1)]
    if besides == "squares":
        if z.shape[1] * steps * steps < EXACT:
            return total, [int(item) for item in np.einsum("ij,ij->i", z, z)]
        return total, [big_sum(item * item) for item in z.astype(np.int64)]
    if besides == "sizes":
        return total, [int(item) for item in np.add.reduce(np.abs(z), axis=1)]
    return total, [0] * len(z)
