"""Records in memory whose ids are whole numbers, grouped by NumPy: the doubles that engines give.

The definition of a person's value is that of `person_records.py`. How grid points are added depends
on how large they are, which changes the time and nothing else: in each way the total is exact, and
rounded to a double once.
"""

from __future__ import annotations

import math

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.data.array_table import ArrayPersonTable
from privmean.data.grids import LIMIT_BITS, TOTAL_BITS

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
