"""Exact totals a person in SQL engines, in the words of each.

As in `totals`: from records (p, x0 ..) one row a person, c0 .. (usable records) and d0 .. (the
exact total of the grid points as the nearest double, limited to +-2^100). A value is near where its
grid point is a whole number of 64 bits. That takes as few steps a record as an engine allows, since
they are nearly all that records cost above the plain query; what is not near is rare, and is added
in decimals of 38 digits. PostgreSQL sums whole numbers of 64 bits without an overflow; the others
wrap, so there a point is two words, t = h 2^31 + l with 0 <= l < 2^31, each with room for 2^31
records a person.

No comparison here is true of a NaN of either sign, unless an engine's own rule is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import narwhals as nw

from privmean.people.grids import LIMIT_BITS, TOTAL_BITS
from privmean.people.totals import ALONE, NEAR_BITS, SPLIT_BITS, WORD_BITS, Lazy

if TYPE_CHECKING:
    from ibis.expr.types import Table, Value

MASK, REACH = 2**WORD_BITS - 1, 2.0**TOTAL_BITS


@dataclass(frozen=True)
class Grid:
    """A point is floor(x scale + 1/2), near where |x| < most; |x| is limited to `limit`."""

    scale: float
    most: float
    limit: float

    @classmethod
    def of(cls, resolution: float) -> Grid:
        return cls(1 / resolution, resolution * 2.0**NEAR_BITS, resolution * 2.0**LIMIT_BITS)


# columns of a record, and the aggregates of these that are made of column x{j}
Items = tuple[list[str], list[str]]


def _postgres(j: int, grid: Grid) -> Items:
    """s: near points. f: the others, null where there are none. c: usable records. NaN exceeds all
    numbers here (documented); a filter is decided before what it lets pass is computed (tested)."""

    def number(value: float | str) -> str:
        return f"CAST('{value}' AS DOUBLE PRECISION)"

    x, nan = f"x{j}", number("NaN")
    most, limit = number(grid.most), number(grid.limit)
    low, floor = number(-grid.most), number(-grid.limit)
    point = f"int8(floor(float8mul({x}, {number(grid.scale)}) + {number(0.5)}))"
    if grid.scale < 1.0:  # a product that vanishes is an error
        point = f"CASE WHEN abs({x}) < {number(0.25 / grid.scale)} THEN 0 ELSE {point} END"
    limited = f"CASE WHEN {x} < {floor} THEN {floor} WHEN {x} > {limit} THEN {limit} ELSE {x} END"
    large = f"float8mul({limited}, {number(grid.scale)})"
    high = f"floor(float8mul({large}, {number(2.0**-SPLIT_BITS)}))"
    rest = f"{large} - float8mul({high}, {number(2.0**SPLIT_BITS)})"
    far = f"CAST(int8({high}) AS DECIMAL) * {2**SPLIT_BITS} + CAST(int8({rest}) AS DECIMAL)"
    return [], [
        f"SUM({point}) FILTER (WHERE {x} > {low} AND {x} < {most}) AS s{j}",
        f"SUM(CASE WHEN {x} < {nan} THEN {far} END) FILTER (WHERE {x} >= {most} OR {x} <= {low}) "
        f"AS f{j}",
        f"COUNT(*) FILTER (WHERE {x} < {nan}) AS c{j}",
    ]


def _datafusion(j: int, grid: Grid) -> Items:
    """h, l: the words of near points. f: the other ones. c: near ones, m: the others. A cast that
    is tried is null for what is no whole number of 64 bits."""
    x, n, limit, inf = f"x{j}", f"n{j}", grid.limit, "CAST('inf' AS DOUBLE)"
    limited = f"CASE WHEN {x} < {-limit} THEN {-limit} WHEN {x} > {limit} THEN {limit} ELSE {x} END"
    far = (
        f"CASE WHEN {n} IS NULL THEN CASE WHEN {x} <= {inf} AND {x} >= -{inf} THEN "
        f"arrow_cast(({limited}) * {grid.scale!r}, 'Decimal128(38, 0)') END END"
    )
    return [f"{x}", f"TRY_CAST(floor({x} * {grid.scale!r} + 0.5) AS BIGINT) AS {n}"], [
        f"SUM({n} >> {WORD_BITS}) AS h{j}",
        f"SUM({n} & {MASK}) AS l{j}",
        f"SUM({far}) AS f{j}",
        f"COUNT({n}) + COUNT({far}) AS c{j}",
    ]


def _clickhouse(j: int, grid: Grid) -> Items:
    """h, l: the words of near points. f: the others. c: usable records. No column is nullable: a
    missing value is a NaN, of which no comparison is true."""
    x, n, most, limit = f"x{j}", f"n{j}", repr(grid.most), repr(grid.limit)
    # no NaN in any branch: whether one that is not taken is computed is a setting of the session
    inside = f"if(abs({x}) <= {limit}, {x}, 0)"
    limited = f"if({x} < -{limit}, -{limit}, if({x} > {limit}, {limit}, {inside}))"
    decimal = "Decimal(38, 0)"
    far = (
        f"if(abs({x}) >= {most}, CAST({limited} * {grid.scale!r} AS {decimal}), "
        f"CAST(0 AS {decimal}))"
    )
    near = f"({x} > -{most}) AND ({x} < {most})"
    value = f"ifNull(records.{x}, CAST('nan' AS Float64))"
    point = f"toInt64(floor({x} * {grid.scale!r} + 0.5))"
    return [f"{value} AS {x}", f"if({near}, {point}, 0) AS {n}"], [
        f"sum(bitShiftRight({n}, {WORD_BITS})) AS h{j}",
        f"sum(bitAnd({n}, {MASK})) AS l{j}",
        f"sumIf({far}, abs({x}) >= {most}) AS f{j}",
        f"toInt64(countIf(abs({x}) <= CAST('inf' AS Float64))) AS c{j}",
    ]


WORDS: dict[str, Callable[[int, Grid], Items]] = {
    "postgres": _postgres,
    "datafusion": _datafusion,
    "clickhouse": _clickhouse,
}


def in_sql(records: Table, width: int, resolution: float, by: Sequence[str] = ALONE) -> Lazy:
    """One row a person and value of `by`: c0 .. and d0 .. ."""
    import ibis

    from privmean.people.sqlengines import facts, worded

    known, grid = facts(records), Grid.of(resolution)
    decimal = ibis.expr.datatypes.Decimal(38, 0)
    kinds = {name: records.schema()[name] for name in by}
    before, after = [], []
    for j in range(width):
        items = WORDS[known.name](j, grid)
        before += items[0]
        after += items[1]
        words = {"s": decimal} if known.wide else {"h": "int64", "l": "int64"}
        kinds |= {
            f"{name}{j}": kind for name, kind in (words | {"f": decimal, "c": "int64"}).items()
        }
    found = worded(records, before, after, by, ibis.schema(kinds))
    totals = found.mutate(**{f"t{j}": _total(found, j, known.wide) for j in range(width)})
    doubles = totals.select(
        *by,
        *(f"c{j}" for j in range(width)),
        **{
            f"d{j}": _rounded(totals[f"t{j}"]) if known.wide else _from_words(totals, j)
            for j in range(width)
        },
    )
    limited = doubles.mutate(**{f"d{j}": _between(doubles[f"d{j}"], REACH) for j in range(width)})
    result: Lazy = nw.from_native(limited)
    return result


def _total(found: Table, j: int, wide: bool) -> Value:
    """The total of all points, a decimal; null of none."""
    import ibis

    decimal = ibis.expr.datatypes.Decimal(38, 0)
    if wide:
        s, f = found[f"s{j}"], found[f"f{j}"]
        return ibis.cases((f.isnull(), s), else_=s.fill_null(0) + f)
    high, low, far = (found[f"{name}{j}"].fill_null(0).cast(decimal) for name in "hlf")
    both = high * ibis.literal(str(2**WORD_BITS)).cast(decimal) + low + far
    least, most = (ibis.literal(str(k * 2**TOTAL_BITS)).cast(decimal) for k in (-1, 1))
    return ibis.cases((both > most, most), (both < least, least), else_=both).cast(decimal)


def _rounded(t: Value) -> Value:
    """A decimal as the nearest double where the engine goes through its digits."""
    return t.cast("float64")


def _from_words(totals: Table, j: int) -> Value:
    """The total as the nearest double: where no point is far, of two words alone, in whole numbers
    of 64 bits, which engines are faster with than with decimals."""
    import ibis

    high, low = (totals[f"{name}{j}"].fill_null(0) for name in "hl")
    carried = high + (low >> WORD_BITS)
    shift = SPLIT_BITS - WORD_BITS  # t = (carried >> shift) 2^52 + rest, 0 <= rest < 2^52
    rest = (carried & (2**shift - 1)) * 2**WORD_BITS + (low & MASK)
    near = (carried >> shift).cast("float64") * 2.0**SPLIT_BITS + rest.cast("float64")
    far = totals[f"f{j}"].fill_null(0)
    return ibis.cases((far == 0, near), else_=_from_halves(totals[f"t{j}"]))


def _from_halves(t: Value) -> Value:
    """The same by one sum of two exact doubles: t is at most 2^100 here."""
    import ibis

    decimal = ibis.expr.datatypes.Decimal(38, 0)
    high = (t.cast("float64") * 2.0**-SPLIT_BITS).floor()
    low = t - high.cast(decimal) * ibis.literal(str(2**SPLIT_BITS)).cast(decimal)
    return high * 2.0**SPLIT_BITS + low.cast("int64").cast("float64")


def _between(x: Value, reach: float) -> Value:
    import ibis

    return ibis.cases((x > reach, reach), (x < -reach, -reach), else_=x)
