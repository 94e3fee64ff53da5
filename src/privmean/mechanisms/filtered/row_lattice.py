"""Rows on a public integer lattice, and who lies close to whom, exactly.

Whether two people are friends must depend on their two rows alone: a floating-point Gram matrix
around a center read from the data would let one person flip the friendships of others. So rows are
rounded to a lattice fixed in advance, and distances are compared as integers. Translations by
integers are exact, so the center used for speed cannot change a decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privmean.array_types import Flags, Floats, Integers

RADIUS = 2**22  # the friendship radius lambda, in lattice steps
REACH = 2.0**60  # coordinates are clamped to +-REACH steps, and a row beyond them is not usable
EXACT_SQUARE = 2.0**50  # rows with smaller squared norm have exact double products
LIMB = 20  # bits of a limb in exact rotations
LIMBS = 4  # of them, so that rotations reach 2^80 steps, more than doubles resolve
ROWS = 1 << 20  # numbers handled at a time
CACHED = 1 << 17  # and where every one is looked at several times


def usable_rows(x: Floats, factor: Floats) -> Flags:
    """Rows without a null, an infinite value, or one that would be clamped by `to_lattice`.

    Clamped rows would all be friends at a place where nobody is.
    """
    result = np.empty(len(x), dtype=bool)
    for where in slices(x):
        with np.errstate(all="ignore"):
            result[where] = (np.abs(x[where] * factor) <= REACH).all(axis=1)
    return result


def slices(x: Floats | Integers, length: int | None = None, numbers: int = ROWS) -> list[slice]:
    """Slices of about `numbers` numbers of the rows of x (or of `length` such rows)."""
    rows = max(1, numbers // max(1, x.shape[1]))
    return [slice(a, a + rows) for a in range(0, len(x) if length is None else length, rows)]


def of_columns(x: Floats, columns: Integers) -> Floats:
    """x[:, columns] for sorted columns, without a copy where they are all there are."""
    return x if len(columns) == x.shape[1] else x[:, columns]


def to_lattice(x: Floats, factor: Floats) -> Integers:
    """round(x * factor), number by number; nulls give 0, far numbers the end of the reach."""
    z = np.empty(x.shape, dtype=np.int64)
    for where in slices(x, numbers=CACHED):
        with np.errstate(all="ignore"):
            y = x[where] * factor
        np.rint(y, out=y)
        np.clip(y, -REACH, REACH, out=y)
        y[np.isnan(y)] = 0.0
        z[where] = y
    return z


def rotate(x: Floats, rotation: Floats, step: float) -> Floats:
    """x @ rotation, each row a function of that row alone in whatever order a library adds.

    Rows are read in units of `step`, a power of two, as integers in limbs of 20 bits, the rotation
    as 40 bits in two; every product of limbs is a sum of integers below 2^53, hence exact, and the
    few sums are added in one order. Rows with a null or a number too far become nulls.
    """
    half = 2**LIMB
    upper = np.rint(rotation * half)
    lower = np.rint((rotation * half - upper) * half)
    result = np.empty((len(x), rotation.shape[1]))
    for where in slices(x):
        with np.errstate(all="ignore"):
            rest = np.rint(x[where] / step)
            far = ~(np.abs(rest) < 2.0 ** (LIMB * LIMBS)).all(axis=1)
        rest[far] = 0.0
        total = np.zeros((len(rest), rotation.shape[1]))
        for power in range(LIMB * (LIMBS - 1), -1, -LIMB):
            limb = np.rint(rest * 2.0**-power)
            rest = rest - limb * 2.0**power
            if limb.any():  # the highest are 0 nearly always, and then add nothing
                total = total + (limb @ upper) * 2.0 ** (power - LIMB)
                total = total + (limb @ lower) * 2.0 ** (power - 2 * LIMB)
        total[far] = np.nan
        result[where] = total * step
    return result


@dataclass(frozen=True)
class Metric:
    """People are close if their lattice points are at most `radius` steps apart."""

    points: Integers
    radius: int = RADIUS

    def of(self, chosen: Flags) -> Metric:
        """The same for some of the people."""
        return Metric(self.points[chosen], self.radius)


def lattices(x: Floats, blocks: Sequence[tuple[Integers, Floats]]) -> tuple[list[Metric], Flags]:
    """A metric for each (columns, factor), and the rows usable in all of them."""
    usable = np.ones(len(x), dtype=bool)
    metrics = []
    for columns, factor in blocks:
        some = of_columns(x, columns)
        usable &= usable_rows(some, factor)
        metrics.append(Metric(to_lattice(some, factor)))
    return metrics, usable


def pairs_close(metric: Metric, i: Integers, j: Integers) -> Flags:
    """Whether each pair (i[k], j[k]) is close: integer differences, exact decision.

    Differences are exact integers. If the sum of squares is below 2^53 its double is exact; if not,
    it is far above the squared radius either way.
    """
    result = np.empty(len(i), dtype=bool)
    limit = float(metric.radius) ** 2
    rows = max(1, ROWS // max(1, metric.points.shape[1]))
    for start in range(0, len(i), rows):
        where = slice(start, start + rows)
        gap = (metric.points[i[where]] - metric.points[j[where]]).astype(np.float64)
        result[where] = np.einsum("ij,ij->i", gap, gap) <= limit
    return result


class Prepared:
    """One metric, ordered and centered for block products; decisions are those of `pairs_close`."""

    def __init__(self, metric: Metric, order: Integers) -> None:
        self.metric = metric
        self.order = order
        self.limit = float(metric.radius) ** 2
        self.rows, self.half = _centred(metric.points, order, middle_row(metric.points, order))

    def close(self, a: slice, b: slice) -> Flags:
        """Closeness of every row in slice a to every row in slice b (of the order)."""
        found, unsure = _decide(self.rows[a], self.half[a], self.rows[b], self.half[b], self.limit)
        if unsure is None:
            return found
        if np.count_nonzero(unsure) > 8 * len(found):
            # far from the common centre: a center of this block's own is as good, and nearer
            points = self.metric.points
            centre = middle_row(points, self.order[a])
            near_a = _centred(points, self.order[a], centre)
            near_b = _centred(points, self.order[b], centre)
            found, unsure = _decide(*near_a, *near_b, self.limit)
            if unsure is None:
                return found
        i, j = np.nonzero(unsure)
        found[i, j] = pairs_close(self.metric, self.order[a][i], self.order[b][j])
        return found


def middle_row(points: Integers, order: Integers) -> Integers:
    """The coordinate-wise middle of up to 501 rows; any integers would give the same answers."""
    some = points[order[:: max(1, len(order) // 501)]]
    return np.asarray(np.partition(some, len(some) // 2, axis=0)[len(some) // 2])


def half_norms(metric: Metric, index: Integers) -> Floats:
    """Half the squared distance of some rows to their middle (only to put rows in order)."""
    half = np.empty(len(index))
    centre = middle_row(metric.points, index)
    for where in slices(metric.points[:0], len(index)):
        gap = (metric.points[index[where]] - centre).astype(np.float64)
        half[where] = np.einsum("ij,ij->i", gap, gap) / 2
    return half


def _centred(points: Integers, order: Integers, centre: Integers) -> tuple[Floats, Floats]:
    rows = np.empty((len(order), points.shape[1]))
    half = np.empty(len(order))
    for where in slices(rows):
        rows[where] = points[order[where]] - centre
        half[where] = np.einsum("ij,ij->i", rows[where], rows[where]) / 2
    return rows, half


def _decide(
    rows_a: Floats, half_a: Floats, rows_b: Floats, half_b: Floats, limit: float
) -> tuple[Flags, Flags | None]:
    """Closeness by -dist^2/2 = <a,b> - |a|^2/2 - |b|^2/2, and which pairs are in doubt.

    Exact, hence without doubt, if all squared norms are at most EXACT_SQUARE. Otherwise the error
    of sums of d products is at most (d+16) 2^-53 (|a|^2 + |b|^2), in any order of addition.
    """
    inner = rows_a @ rows_b.T
    inner -= half_a[:, None]
    inner -= half_b[None, :]
    largest = 2 * max(half_a.max(initial=0.0), half_b.max(initial=0.0))
    if largest <= EXACT_SQUARE:
        return inner >= -limit / 2, None
    unit = (rows_a.shape[1] + 16) * 2.0**-51
    error = unit * half_a[:, None] + unit * half_b[None, :]
    found = inner - error >= -limit / 2
    unsure = (inner + error >= -limit / 2) & ~found
    return found, unsure
