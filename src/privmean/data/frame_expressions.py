"""Pieces of queries for `FramePeople`: exact arithmetic that every engine does alike."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import narwhals as nw

from privmean.data import sql_engines as sqlengines
from privmean.data.engines import EngineStore, fetch
from privmean.data.exact_totals import Lazy
from privmean.data.grids import (
    GROW,
    HALF_OCTAVE,
    HUGE,
    LOG_GRID,
    SHRINK,
    TINY,
    LogGrid,
    quotient,
)
from privmean.data.person_records import FLOAT, INTEGER, divided
from privmean.data.person_table import ClipInterval, L2Ball, Standardization

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


def log_cells(
    frame: Lazy, home: EngineStore, grid: LogGrid = LOG_GRID, null: int | None = None
) -> Lazy:
    """With the logarithmic bin of v as k (a double), which is `null` (the zero bin if None) for a
    null."""
    null = grid.zero if null is None else null
    if frame.implementation.is_duckdb() or frame.implementation.is_ibis():
        return home.log_cells(frame, grid, null)
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


def on_box(x: nw.Expr, box: ClipInterval) -> nw.Expr:
    """The grid point of `Box` as a double; the middle (zero) for a null."""
    clipped = (
        nw.when(x > box.upper)
        .then(nw.lit(box.upper))
        .otherwise(nw.when(x < box.lower).then(nw.lit(box.lower)).otherwise(x))
    )
    grid = ((clipped - box.middle) * (1.0 / box.step) + 0.5).floor()
    return grid.fill_null(0.0)


def in_units(x: nw.Expr, unit: Standardization) -> nw.Expr:
    """A column as `Standard` has it."""
    inside = (
        nw.when(x > unit.upper)
        .then(nw.lit(unit.upper))
        .otherwise(nw.when(x < unit.lower).then(nw.lit(unit.lower)).otherwise(x))
    )
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
