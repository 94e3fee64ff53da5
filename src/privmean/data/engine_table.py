"""People held by an engine: the reductions run inside it, only aggregates travel.

One code path through Narwhals for DuckDB, Polars and PySpark. The arithmetic is that of
`grids.py`, written with additions, multiplications, comparisons and floors (a division by a
column through `divided`), so that every engine gives the same integers. Nulls stay null until a
place is fixed for them: an engine's own clip, least or comparison may treat them (and NaN, which
is never kept) differently.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np

from privmean.array_types import Floats, Integers
from privmean.data import sql_engines as sqlengines
from privmean.data.array_table import ArrayPersonTable, UnorderedPersonTable
from privmean.data.engines import EngineStore, fetch, fetch_columns, lazy, rows_of
from privmean.data.grids import (
    GROW,
    HALF_OCTAVE,
    HUGE,
    LOG_GRID,
    QUARTER,
    SHRINK,
    SLIGHTLY,
    TINY,
    UNIFORM_LIMIT,
    LogGrid,
    pair_multiplier,
    quotient,
    unit_of,
)
from privmean.data.person_records import (
    FLOAT,
    INTEGER,
    PERSON,
    Lazy,
    count_names,
    divided,
    value_names,
)
from privmean.data.person_table import (
    Besides,
    CachedPersonTable,
    ClipInterval,
    ClippedRows,
    IntervalSums,
    L2Ball,
    L2BallSums,
    PersonTable,
    Standardization,
)

SPLIT = 2.0**21  # products below 2^42 are summed in two halves, so that 2^40 people fit
EXACT_BITS = 52  # 1 - 2^-k is a double up to here
AT_ONCE = 64  # terms of a sum in one expression: engines limit the depth of expressions


def counted(frame: Lazy) -> list[tuple[Any, ...]]:
    """How many rows have each k."""
    if frame.implementation.is_ibis():
        return sqlengines.counted(frame.to_native(), "k")
    return fetch(frame.group_by("k").agg(n=nw.len()))


def number_of(condition: nw.Expr) -> nw.Expr:
    return nw.when(condition).then(1).otherwise(0).sum()


def octaves(frame: Lazy, steps: Sequence[int], *, strict: bool) -> Lazy:
    """Divide u by powers of two, largest first, while it is at least (strict: above) the power.

    k (a double) collects the exponents. Multiplying by a power of two is exact, so this is a
    logarithm without a rounding; u that starts below 1 stays as it is. Where u is null, so is k.
    Every step is arithmetic with a 0 or a 1, which engines do faster than choosing.
    """
    u, k, large = nw.col("u"), nw.col("k"), nw.col("large")
    for step in steps:
        frame = frame.with_columns(large=one_if(u > 2.0**step if strict else u >= 2.0**step))
        factor = 1.0 - large * (1.0 - 2.0**-step)  # exactly 1 or the power
        if step > EXACT_BITS:
            factor = large * 2.0**-step + (1.0 - large)
        frame = frame.with_columns(u=u * factor, k=k + large * float(step))
    return frame


def log_cells(frame: Lazy, grid: LogGrid = LOG_GRID, null: int | None = None) -> Lazy:
    """With the logarithmic bin of v as k (a double), which is `null` (the zero bin if None) for a
    null."""
    null = grid.zero if null is None else null
    if frame.implementation.is_duckdb():
        return lazy(sqlengines.in_duckdb(frame.to_native(), grid, null))
    if frame.implementation.is_ibis():
        return lazy(sqlengines.log_cells(frame.to_native(), grid, null))
    v = nw.col("v")
    # |v|/least lies in [1, 2^octaves) for all bins but the last; more, or infinity, is the last too
    frame = frame.with_columns(u=v.abs() * (1 / grid.least), k=nw.lit(0.0))
    powers = range((grid.bins // 2 - 1).bit_length())
    frame = octaves(frame, [1 << bit for bit in reversed(powers)], strict=False)
    index = 2.0 * nw.col("k") + one_if(nw.col("u") >= 2 * HALF_OCTAVE)
    last = nw.lit(grid.bins - 1.0)
    index = nw.when(index > grid.bins - 1).then(last).otherwise(index)
    index = nw.when(v < 0).then(index + (grid.zero + 1.0)).otherwise(index)
    inside = v.abs() >= grid.least
    aside = nw.lit(float(grid.zero))
    if null != grid.zero:
        aside = nw.when(v.is_null()).then(nw.lit(float(null))).otherwise(aside)
    return frame.with_columns(k=nw.when(inside).then(index).otherwise(aside))


def one_if(condition: nw.Expr) -> nw.Expr:
    """1.0 or 0.0, or null where the condition is."""
    return condition.cast(FLOAT)


def clipped(x: nw.Expr, lower: nw.Expr, upper: nw.Expr) -> nw.Expr:
    """x between two limits; null for a null."""
    above = nw.when(x < lower).then(lower).otherwise(x)
    return nw.when(x > upper).then(upper).otherwise(above)


def on_box(x: nw.Expr, box: ClipInterval) -> nw.Expr:
    """The grid point of `Box` as a double; the middle (zero) for a null."""
    inside = clipped(x, nw.lit(box.lower), nw.lit(box.upper))
    grid = ((inside - box.middle) * (1.0 / box.step) + 0.5).floor()
    return grid.fill_null(0.0)


def in_units(x: nw.Expr, unit: Standardization) -> nw.Expr:
    """A column as `Standard` has it."""
    inside = clipped(x, nw.lit(unit.lower), nw.lit(unit.upper))
    return quotient(inside - unit.center, unit.scale).fill_null(0.0)  # type: ignore[no-any-return]


def running(frame: Lazy, name: str, terms: Sequence[nw.Expr]) -> Lazy:
    """A column `name` that adds the terms from the first to the last, starting at zero."""
    for start in range(0, len(terms), AT_ONCE):
        block = terms[start : start + AT_ONCE]
        first: nw.Expr = nw.col(name) if start else nw.lit(0)
        frame = frame.with_columns(reduce(lambda a, b: a + b, block, first).alias(name))
    return frame


@dataclass(frozen=True)
class Balls:
    """Balls on one lattice, one a row: the radius, the lattice steps of `Ball` as doubles, and the
    square of the largest norm, an integer."""

    step: float
    radius: nw.Expr
    steps: nw.Expr
    shorter: nw.Expr
    most: nw.Expr

    @classmethod
    def of(cls, ball: L2Ball) -> Balls:
        """The same ball for every row."""
        numbers = ball.radius, float(ball.steps), ball.shorter, ball.steps * ball.steps
        return cls(ball.step, *(nw.lit(item) for item in numbers))


def ball_ways(frame: Lazy, names: Sequence[str], balls: Balls) -> Lazy:
    """From columns v (no nulls): the w of `Ball` in their place, their `norm`, and `inside`."""
    frame = frame.with_columns(
        top=nw.max_horizontal(nw.lit(0.0), *(nw.col(v).abs() for v in names))
    )
    top = nw.col("top")
    scale = nw.when(top < TINY).then(nw.lit(GROW)).otherwise(nw.lit(1.0))
    frame = frame.with_columns(scale=nw.when(top > HUGE).then(nw.lit(SHRINK)).otherwise(scale))
    frame = frame.with_columns(
        nw.when(top <= balls.radius)
        .then(quotient(nw.col(v), balls.step))
        .otherwise(nw.col(v) * nw.col("scale"))
        .alias(v)
        for v in names
    )
    frame = running(frame, "square", [nw.col(v) * nw.col(v) for v in names])
    frame = frame.with_columns(norm=nw.col("square").sqrt())
    near = (top <= balls.radius) & (nw.col("norm") <= balls.steps)
    return frame.with_columns(inside=nw.when(near).then(1).otherwise(0))


def on_ball(frame: Lazy, names: Sequence[str], length: nw.Expr, inside: nw.Expr) -> Lazy:
    """Columns z0 .. (w where `inside`, else w/norm times `length`, toward zero), squared `size`."""
    frame = frame.with_columns(length=length, kept=nw.when(inside).then(1).otherwise(0))
    steps = []
    for j, v in enumerate(names):
        w = nw.col(v)
        w = (
            nw.when(nw.col("kept") == 1)
            .then(w)
            .otherwise(divided(w, nw.col("norm")) * nw.col("length"))
        )
        z = nw.when(w < 0).then(w.ceil()).otherwise(w.floor())
        steps.append(z.cast(INTEGER).alias(f"z{j}"))
    frame = frame.with_columns(*steps)
    return running(frame, "size", [nw.col(f"z{j}") * nw.col(f"z{j}") for j in range(len(names))])


def ball_rows(frame: Lazy, names: Sequence[str], balls: Balls) -> Lazy:
    """From columns v (no nulls): columns z0 .. of `Ball`; all other columns stay."""
    frame = ball_ways(frame, names, balls)
    frame = on_ball(frame, names, balls.steps, nw.col("inside") == 1)
    over = nw.col("size") > balls.most
    length = nw.when(over).then(balls.shorter).otherwise(balls.steps)
    frame = on_ball(frame, names, length, (nw.col("inside") == 1) & ~over)
    zs = [f"z{j}" for j in range(len(names))]
    return frame.with_columns(
        nw.when(over).then(nw.lit(0)).otherwise(nw.col(z)).cast(INTEGER).alias(z) for z in zs
    )


class Totals:
    """Many exact integer sums in one query, put together again outside."""

    def __init__(self) -> None:
        self._expressions: list[nw.Expr] = []
        self._terms: list[tuple[Hashable, int]] = []

    def add(self, key: Hashable, total: nw.Expr, times: int = 1) -> None:
        self._terms.append((key, times))
        self._expressions.append(total.alias(f"t{len(self._terms)}"))

    def add_halves(self, key: Hashable, a: nw.Expr, times: int = 1) -> None:
        """The sum of an integer double |a| < 2^42, in two halves that cannot overflow."""
        for weight, half in _halves(a):
            self.add(key, half.cast(INTEGER).sum(), times * weight)

    def add_product(self, key: Hashable, a: nw.Expr, b: nw.Expr) -> None:
        """The sum of a*b for integer doubles |a|, |b| < 2^42: four exact products of halves."""
        for weight, x in _halves(a):
            for other, y in _halves(b):
                self.add_halves(key, x * y, weight * other)

    def of(self, frame: Lazy) -> dict[Hashable, int]:
        (row,) = fetch(frame.select(*self._expressions))
        return self._together(row)

    def by(self, frame: Lazy, group: str) -> dict[int, dict[Any, int]]:
        """The same sums for every value of a column of whole numbers, in one query."""
        rows = fetch(frame.group_by(group).agg(*self._expressions))
        return {int(row[0]): self._together(row[1:]) for row in rows}

    def _together(self, row: Sequence[int | None]) -> dict[Hashable, int]:
        found: dict[Hashable, int] = {}
        for (key, times), value in zip(self._terms, row, strict=True):
            found[key] = found.get(key, 0) + times * int(value or 0)
        return found


def _halves(a: nw.Expr) -> tuple[tuple[int, nw.Expr], tuple[int, nw.Expr]]:
    high = (a * (1 / SPLIT)).floor()
    return (int(SPLIT), high), (1, a - high * SPLIT)


class KeptByEngine(CachedPersonTable):
    """Those whose rows stay in an engine."""

    frame: Lazy

    @property
    def engine(self) -> str:
        """The library that reads the records."""
        return str(self.frame.implementation.value)

    def _value(self, column: int) -> nw.Expr:
        return nw.col(f"v{column}")

    @abstractmethod
    def _by_cell(self, frame: Lazy, k: nw.Expr) -> list[tuple[Any, ...]]:
        """Each k of some of the rows, and how many people, or which masses, have it."""

    def _parts(self, column: int, sign: int, step: float, first: int, parts: int) -> Integers:
        x = self._value(column) * float(sign)
        frame = self.frame.filter((x > first * step) & (x <= (first + parts) * step))
        counts = np.zeros(parts, dtype=np.int64)
        for end, number in self._by_cell(frame, (x * (1 / step)).ceil()):
            counts[max(int(end) - first - 1, 0)] += int(number)  # 0: a product that vanishes
        return counts


@dataclass(frozen=True)
class EnginePersonTable(KeptByEngine, PersonTable):
    """One row a person inside an engine: columns p (the id), v0 .. and, with a cap, c0 .. .

    columns: the caller's names. cap: see `People`. Values are finite doubles or null.
    """

    frame: Lazy = field(repr=False)  # an engine's own repr would show rows
    columns: tuple[str, ...]
    max_records: int | None = None
    home: EngineStore = field(default_factory=EngineStore, repr=False)
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    opened: Any = field(default=None, repr=False, compare=False)  # what it was read from, if kept

    def size(self) -> int:
        return self._once("size", lambda: rows_of(self.frame))

    def _log_counts(self, grid: LogGrid, column: int, origin: float) -> Integers:
        v = nw.col(f"v{column}") - origin
        values = self.frame.select(v=v if grid.factor == 1.0 else v * grid.factor)
        counts = np.zeros(grid.cells + 1, dtype=np.int64)
        for cell, count in counted(log_cells(values, grid, null=grid.cells)):
            counts[int(cell)] += int(count)
        self._cache["missing", column] = int(counts[grid.cells])  # comes with any histogram
        counts[grid.zero] += counts[grid.cells]
        return counts[: grid.cells]

    def missing(self, column: int) -> int:
        key = ("missing", column)
        return self._once(key, lambda: self._once("nulls", self._nulls)[column])

    def _nulls(self) -> dict[Any, int]:
        """Of all columns at once: a query costs more than a column."""
        return self._added({j: nw.col(f"v{j}").is_null() for j in range(len(self.columns))})

    def _added(self, terms: Mapping[Any, nw.Expr]) -> dict[Any, int]:
        """How many people each of these is true of."""
        totals = Totals()
        for key, term in terms.items():
            totals.add(key, number_of(term))
        return totals.of(self.frame)

    def uniform_counts(self, column: int, half_width: float, origin: float = 0.0) -> dict[int, int]:
        x = nw.col(f"v{column}")
        k = quotient(x - origin - half_width, half_width) * 0.5
        k = nw.when(k > UNIFORM_LIMIT).then(UNIFORM_LIMIT).otherwise(k)  # before it is an integer
        k = nw.when(k < -UNIFORM_LIMIT).then(-UNIFORM_LIMIT).otherwise(k)
        frame = self.frame.filter(~x.is_null()).select(k=k.ceil().cast(INTEGER))
        return {int(cell): int(count) for cell, count in counted(frame)}

    def _by_cell(self, frame: Lazy, k: nw.Expr) -> list[tuple[Any, ...]]:
        return counted(frame.select(k=k))

    def pair_counts(self, column: int, low: int, high: int) -> Integers:
        counts = np.zeros(high - low + 1, dtype=np.int64)
        n = self.size()
        if n < 2:
            return counts
        rank = nw.col("i") * pair_multiplier(n) % n
        frame = self._ranked().select(r=rank, v=nw.col(f"v{column}"))
        frame = frame.filter(nw.col("r") < n - n % 2)
        frame = frame.select(r=(nw.col("r") - nw.col("r") % 2), v=nw.col("v"))
        v = nw.col("v")
        pairs = frame.group_by("r").agg(top=v.max(), bottom=v.min(), known=v.count())
        spread = (nw.col("top") - nw.col("bottom")) * HALF_OCTAVE
        spread = nw.when(nw.col("known") == 2).then(spread).otherwise(nw.lit(0.0))
        # what underflows here belongs to the lowest bin anyway
        frame = pairs.select(u=spread * 2.0**-low, k=nw.lit(0.0))
        span = high - low
        steps = [1 << bit for bit in reversed(range(span.bit_length()))]
        frame = octaves(frame, steps, strict=True)
        k = nw.col("k") + one_if(nw.col("u") > 1.0)
        k = nw.when(k > span).then(nw.lit(float(span))).otherwise(k)
        for cell, count in counted(frame.select(k=k)):
            counts[int(cell)] += int(count)
        return counts

    def interval_sums(self, boxes: Sequence[ClipInterval | None]) -> list[IntervalSums | None]:
        asked = [(j, box) for j, box in enumerate(boxes) if box is not None]
        new = [(j, box) for j, box in asked if (j, box) not in self._cache]
        if new:
            self._cache.update(self._box_sums(new))
        return [None if box is None else self._cache[j, box] for j, box in enumerate(boxes)]

    def _box_sums(
        self, asked: list[tuple[int, ClipInterval]]
    ) -> dict[tuple[int, ClipInterval], IntervalSums]:
        frame = self.frame.select(
            *(nw.col(f"v{j}") for j, _ in asked),
            *(on_box(nw.col(f"v{j}"), box).alias(f"z{j}") for j, box in asked),
            *(self._weight(j).alias(f"w{j}") for j, _ in asked if self.max_records is not None),
        )
        totals = Totals()
        for j, box in asked:
            x, z = nw.col(f"v{j}"), nw.col(f"z{j}")
            totals.add((j, "present"), x.count())
            totals.add((j, "above"), number_of(x > box.upper))
            totals.add((j, "below"), number_of(x < box.lower))
            totals.add((j, "z"), z.cast(INTEGER).sum())
            totals.add_halves((j, "zz"), z * z)
            if self.max_records is not None:
                w = nw.col(f"w{j}")
                totals.add((j, "w"), w.cast(INTEGER).sum())
                totals.add_halves((j, "wz"), w * z)
                totals.add_halves((j, "ww"), w * w)
                totals.add_product((j, "wwz"), w * w, z)
                totals.add_product((j, "wwzz"), w * w, z * z)
        found = totals.of(frame)
        plain = ("present", "above", "below", "z", "zz")
        weighted = plain[:1] + plain[3:4] + plain[:1] + plain[3:]  # what weights of one repeat
        if self.max_records is not None:
            weighted = ("w", "wz", "ww", "wwz", "wwzz")
        names = plain + weighted
        return {(j, box): IntervalSums(*(found[j, name] for name in names)) for j, box in asked}

    def _weight(self, column: int) -> nw.Expr:
        assert self.max_records is not None
        count = nw.col(f"c{column}")
        weight = nw.when(count > self.max_records).then(nw.lit(self.max_records)).otherwise(count)
        return nw.when(~nw.col(f"v{column}").is_null()).then(weight).otherwise(0).cast(FLOAT)

    def count_outside(self, column: int, lower: float, upper: float) -> tuple[int, int]:
        x = nw.col(f"v{column}")

        def counts() -> tuple[int, int]:
            found = self._added({"below": x < lower, "above": x > upper})
            return found["below"], found["above"]

        return self._once(("beyond", column, lower, upper), counts)

    def counts_below(self, column: int, edges: Sequence[float]) -> Integers:
        x, key = nw.col(f"v{column}"), ("below", column, tuple(edges))
        found = self._once(key, lambda: self._added({k: x < edge for k, edge in enumerate(edges)}))
        return np.array([found[k] for k in range(len(edges))], dtype=np.int64)

    def ball_sums(self, ball: L2Ball, besides: Besides | None = None) -> L2BallSums:
        width = range(len(self.columns))
        names = value_names(len(self.columns))
        known = [nw.when(nw.col(v).is_null()).then(0).otherwise(1) for v in names]
        frame = self.frame.select(
            *((nw.col(v) - c).fill_null(0.0).alias(v)
              for v, c in zip(names, ball.center, strict=True)),
            *(item.alias(f"k{j}") for j, item in enumerate(known)),
        )  # fmt: skip
        frame = running(frame, "known", [nw.col(f"k{j}") for j in width])
        frame = ball_rows(frame, names, Balls.of(ball))
        totals = Totals()
        totals.add("present", number_of(nw.col("known") > 0))
        for j in width:
            kept = nw.col(f"z{j}")
            totals.add(j, kept.sum())
            if besides == "sizes":
                totals.add((j, "more"), kept.abs().sum())
            elif besides == "squares":
                totals.add_halves((j, "more"), kept.cast(FLOAT) * kept.cast(FLOAT))
        found = totals.of(frame)
        more = tuple(found[j, "more"] for j in width) if besides else ()
        return L2BallSums(tuple(found[j] for j in width), found["present"], more)

    def clipped_row_sums(self, cut: ClippedRows) -> L2BallSums:
        width, inner = range(len(self.columns)), cut.inner
        names, radius = value_names(len(self.columns)), cut.ball.radius
        v = [nw.col(name).fill_null(0.0) for name in names]
        known = [nw.when(nw.col(name).is_null()).then(0).otherwise(1) for name in names]
        frame = running(self.frame, "known", known)
        frame = frame.with_columns(
            nw.when((x > upper) | (x < lower)).then(1).otherwise(0).alias(f"e{j}")
            for j, (x, lower, upper) in enumerate(zip(v, cut.lower, cut.upper, strict=True))
        )
        frame = running(frame, "square", [x * x for x in v])
        norm = nw.col("square").sqrt()
        frame = frame.with_columns(
            long=nw.when(norm > radius).then(1).otherwise(0),
            longer=nw.when(norm > SLIGHTLY * radius).then(1).otherwise(0),
        )
        frame = running(frame, "touched", [nw.col("longer"), *(nw.col(f"e{j}") for j in width)])
        touched = nw.col("touched") > 0

        def by_kind(whole: float, middle: float, short: float) -> nw.Expr:
            slight = nw.when(nw.col("long") == 1).then(nw.lit(middle)).otherwise(nw.lit(whole))
            return nw.when(touched).then(nw.lit(short)).otherwise(slight)

        kinds = cut.ball, cut.middle, inner
        frame = frame.with_columns(
            *(x.alias(name) for x, name in zip(v, names, strict=True)),
            radius=by_kind(*(item.radius for item in kinds)),
            steps=by_kind(*(float(item.steps) for item in kinds)),
            shorter=by_kind(*(item.shorter for item in kinds)),
            most=by_kind(*(item.steps * item.steps for item in kinds)),
        )
        balls = Balls(
            cut.ball.step, nw.col("radius"), *(nw.col(k) for k in ("steps", "shorter", "most"))
        )
        frame = ball_rows(frame, names, balls)
        frame = frame.with_columns(
            (nw.col(f"z{j}").abs() * nw.col("long") + inner.steps * nw.col(f"e{j}")).alias(f"q{j}")
            for j in width
        )
        frame = running(frame, "sized", [nw.col(f"q{j}") * nw.col(f"q{j}") for j in width])
        size, totals = nw.col("sized").cast(FLOAT).sqrt(), Totals()
        over = nw.col("sized") > inner.steps * inner.steps
        totals.add("present", number_of(nw.col("known") > 0))
        for j in width:
            z, q = nw.col(f"z{j}"), nw.col(f"q{j}")
            totals.add((j, "z"), z.sum())
            totals.add_halves((j, "zz"), z.cast(FLOAT) * z.cast(FLOAT))
            slightly = (q.cast(FLOAT) * QUARTER).floor().cast(INTEGER)
            way = (divided(q.cast(FLOAT), size) * inner.shorter).floor().cast(INTEGER)
            t = nw.when(touched & over).then(way).otherwise(q)
            totals.add((j, "t"), nw.when(touched).then(t).otherwise(slightly).sum())
        found = totals.of(frame)
        sums, squares, tails = (tuple(found[j, k] for j in width) for k in ("z", "zz", "t"))
        return L2BallSums(sums, found["present"], squares, tails)

    def norm_counts(self, edges: Sequence[float]) -> Integers:
        names = value_names(len(self.columns))
        frame = self.frame.select(*(nw.col(v).fill_null(0.0).alias(v) for v in names))
        frame = running(frame, "square", [nw.col(v) * nw.col(v) for v in names])
        frame = frame.select(norm=nw.col("square").sqrt())
        totals = Totals()
        for k, edge in enumerate(edges):
            totals.add(k, number_of(nw.col("norm") <= edge))
        found = totals.of(frame)
        below = [0, *(found[k] for k in range(len(edges))), self.size()]
        return np.array([b - a for a, b in pairwise(below)], dtype=np.int64)

    def standardized(self, columns: Sequence[Standardization | None]) -> EnginePersonTable:
        asked = [(j, item) for j, item in enumerate(columns) if item is not None]
        frame = self.frame.select(
            PERSON,
            *(in_units(nw.col(f"v{j}"), item).alias(f"v{k}") for k, (j, item) in enumerate(asked)),
        )
        names = tuple(self.columns[j] for j, _ in asked)
        return EnginePersonTable(frame, names, None, self.home, {"size": self.size()})

    def count_in_ball(self, center: Sequence[float], radius: float) -> int:
        names, unit = value_names(len(self.columns)), unit_of(radius)
        frame = self.frame.select(
            *(((nw.col(v) - c) * unit).alias(v) for v, c in zip(names, center, strict=True))
        )
        frame = running(frame, "square", [nw.col(v) * nw.col(v) for v in names])
        inside = frame.filter(nw.col("square").sqrt() <= radius * unit)
        return rows_of(inside)

    def split(self, index: int, parts: int) -> EnginePersonTable:
        i = nw.col("i")
        frame = self._ranked().filter(i % parts == index)
        frame = frame.select(*self._names(), i=((i - index) // parts).cast(INTEGER))
        return replace(self, frame=frame, _cache={"ranked": frame})

    def _names(self) -> list[str]:
        counts = [] if self.max_records is None else count_names(len(self.columns))
        return [PERSON, *value_names(len(self.columns)), *counts]

    def _ranked(self) -> Lazy:
        """The rows with their roster position i: the rank of the id, the same on every engine."""

        def ranked() -> Lazy:
            frame = self.frame.with_row_index("i", order_by=PERSON)
            return self.home.keep(frame.with_columns(nw.col("i").cast(INTEGER)))

        return self._once("ranked", ranked)

    @property
    def elsewhere(self) -> bool:
        """Whether the engine is no part of this process, so that collected rows travel."""
        held = self.frame.implementation
        return not (held.is_duckdb() or held.is_polars())

    def collect(self) -> ArrayPersonTable:
        """The same people in memory, in roster order: all rows leave the engine."""
        return self._fetched(self.frame.sort(PERSON))

    def _fetched(self, frame: Lazy) -> ArrayPersonTable:
        width, names = len(self.columns), self._names()[1:]
        found = list(fetch_columns(frame.select(*names), names).values())
        values = found[0][:, None] if width == 1 else np.stack(found[:width], axis=1)
        counts = None
        if self.max_records is not None:
            counts = np.stack(found[width:], axis=1).astype(np.int64)
        return ArrayPersonTable(values, self.columns, counts, self.max_records, engine=self.engine)

    def nearby(self) -> EnginePersonTable | UnorderedPersonTable:
        """The same people, in memory where the engine's store says so."""
        if not self.home.takes(self.frame, len(self.columns)):
            return self
        rows = self._fetched(self.frame)
        return UnorderedPersonTable(
            rows.values, rows.columns, rows.counts, rows.max_records, engine=rows.engine,
            in_order=self.collect, opened=self.opened,
        )  # fmt: skip

    def matrix(self) -> Floats:
        return self.collect().values
