"""Exact means a person in SQL engines, in the words of each.

As in `records`: from records (p, x0 ..) one row a person, c0 .. (usable records) and v0 .. (their
mean: the exact total of the grid points as the nearest double d, limited to +-2^100, in units of
the grid, over c). What is done for a record is nearly all that records cost above the plain query,
so it is as few aggregates and steps as an engine allows; carries and roundings are done once a
person. PostgreSQL sums whole numbers of 64 bits without an overflow; the others wrap, so there a
point is words, t = h 2^31 + l with 0 <= l < 2^31, each with room for 2^31 records a person. Larger
points are rare: they are decimals of 38 digits, or have a third word.

No comparison here is true of a NaN of either sign, unless an engine's own rule is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import narwhals as nw

from privmean.data.exact_totals import ALONE, NEAR_BITS, SPLIT_BITS, WORD_BITS, Lazy, columns
from privmean.data.grids import LIMIT_BITS, TOTAL_BITS

if TYPE_CHECKING:
    from ibis.expr.types import Table

MASK, REACH = 2**WORD_BITS - 1, 2.0**TOTAL_BITS


@dataclass(frozen=True)
class Grid:
    """A point is floor(x scale + 1/2), near where |x| < most; |x| is limited to `limit`."""

    step: float
    scale: float
    most: float
    limit: float

    @classmethod
    def of(cls, resolution: float) -> Grid:
        most, limit = resolution * 2.0**NEAR_BITS, resolution * 2.0**LIMIT_BITS
        return cls(resolution, 1 / resolution, most, limit)


@dataclass(frozen=True)
class Words:
    """What is selected, for each column ({j}): step by step from the records (x{j}), the aggregates
    of the last of these, and step by step from these, at last c{j} and d{j}."""

    before: Sequence[Sequence[str]]
    sums: Sequence[str]
    after: Sequence[Sequence[str]]


def _postgres(grid: Grid) -> Words:
    """s: near points. f: the others, null where there are none. NaN exceeds all numbers here
    (documented); a filter is decided before what it lets pass is computed (tested)."""

    def number(value: float | str) -> str:
        return f"CAST('{value}' AS DOUBLE PRECISION)"

    x, nan = "x{j}", number("NaN")
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
    sums = [
        f"SUM({point}) FILTER (WHERE {x} > {low} AND {x} < {most}) AS s{{j}}",
        f"SUM(CASE WHEN {x} < {nan} THEN {far} END) FILTER (WHERE {x} >= {most} OR {x} <= {low}) "
        "AS f{j}",
        f"COUNT(*) FILTER (WHERE {x} < {nan}) AS c{{j}}",
    ]
    # a decimal's cast goes through its digits: it is the nearest double
    total = "CASE WHEN f{j} IS NULL THEN s{j} ELSE COALESCE(s{j}, 0) + f{j} END"
    return Words([], sums, [["c{j}", f"CAST({total} AS DOUBLE PRECISION) AS d{{j}}"]])


def _datafusion(grid: Grid) -> Words:
    """h, l: the words of near points. f: the other ones, null where there are none. A cast that is
    tried is null for what is no whole number of 64 bits."""
    x, n, limit, inf = "x{j}", "n{j}", grid.limit, "CAST('inf' AS DOUBLE)"
    limited = f"CASE WHEN {x} < {-limit} THEN {-limit} WHEN {x} > {limit} THEN {limit} ELSE {x} END"
    far = (
        f"CASE WHEN {n} IS NULL THEN CASE WHEN {x} <= {inf} AND {x} >= -{inf} THEN "
        f"arrow_cast(({limited}) * {grid.scale!r}, 'Decimal128(38, 0)') END END"
    )
    before = [x, f"TRY_CAST(floor({x} * {grid.scale!r} + 0.5) AS BIGINT) AS {n}"]
    sums = [
        f"SUM({n} >> {WORD_BITS}) AS h{{j}}",
        f"SUM({n} & {MASK}) AS l{{j}}",
        f"SUM({far}) AS f{{j}}",
        f"COUNT(NULLIF(isnan({x}), TRUE)) AS c{{j}}",
    ]

    def decimal(value: object) -> str:
        return f"arrow_cast({value}, 'Decimal128(38, 0)')"

    shift, most = SPLIT_BITS - WORD_BITS, decimal(f"'{2**TOTAL_BITS}'")
    least, unit = decimal(f"'{-(2**TOTAL_BITS)}'"), decimal(f"'{2**SPLIT_BITS}'")
    both = f"{decimal('h{j}')} * {decimal(2**WORD_BITS)} + {decimal('l{j}')} + f{{j}}"
    after = [
        ["c{j}", "f{j}", "COALESCE(h{j}, 0) AS h{j}", "COALESCE(l{j}, 0) AS l{j}"],
        ["c{j}", f"CASE WHEN f{{j}} IS NOT NULL THEN {both} END AS t{{j}}",
         f"h{{j}} + (l{{j}} >> {WORD_BITS}) AS h{{j}}", f"l{{j}} & {MASK} AS l{{j}}"],
        ["c{j}", f"CASE WHEN t{{j}} > {most} THEN {most} WHEN t{{j}} < {least} THEN {least} "
         "ELSE t{j} END AS t{j}",
         # of near points alone: (h >> 21) 2^52 + rest, 0 <= rest < 2^52
         f"CAST(h{{j}} >> {shift} AS DOUBLE) * {2.0**SPLIT_BITS!r} + "
         f"CAST((h{{j}} & {2**shift - 1}) * {2**WORD_BITS} + l{{j}} AS DOUBLE) AS d{{j}}"],
        ["c{j}", "t{j}", "d{j}",
         "CASE WHEN t{j} IS NOT NULL THEN "
         f"floor(CAST(t{{j}} AS DOUBLE) * {2.0**-SPLIT_BITS!r}) END AS a{{j}}"],
        # one sum of two exact doubles
        ["c{j}", "CASE WHEN t{j} IS NULL THEN d{j} ELSE "
         f"a{{j}} * {2.0**SPLIT_BITS!r} + CAST(TRY_CAST(t{{j}} - "
         f"{decimal('TRY_CAST(a{j} AS BIGINT)')} * {unit} AS BIGINT) AS DOUBLE) END AS d{{j}}"],
    ]  # fmt: skip
    return Words([before], sums, after)


def _clickhouse(grid: Grid) -> Words:
    """Points are a 2^62 + n, n = h 2^31 + l; a is zero for near ones, and a double, of which sums
    below 2^53 are exact. A value that is missing is a NaN, of which no comparison is true. No NaN
    is in any branch or made whole: whether a branch that is not taken is computed is a setting of
    the session, and so is which of two things of one name is meant: there are no such."""
    high, limit = 2.0**NEAR_BITS, repr(grid.limit)
    kept = f"if(y{{j}} > 0.0, {limit}, if(y{{j}} < 0.0, -{limit}, 0.0))"
    kept = f"if(abs(y{{j}}) <= {limit}, y{{j}}, {kept})"
    before = [
        ["ifNull(x{j}, CAST('nan' AS Float64)) AS y{j}"],
        ["isNaN(y{j}) AS z{j}", f"floor({kept} * {grid.scale!r} + 0.5) AS t{{j}}"],
        ["z{j}", "t{j}", f"trunc(t{{j}} * {1 / high!r}) AS a{{j}}"],
        ["z{j}", "a{j}", f"toInt64(t{{j}} - a{{j}} * {high!r}) AS n{{j}}"],
    ]
    sums = [
        "sum(a{j}) AS b{j}",
        f"sum(bitShiftRight(n{{j}}, {WORD_BITS})) AS h{{j}}",
        f"sum(bitAnd(n{{j}}, {MASK})) AS l{{j}}",
        "toInt64(countIf(NOT z{j})) AS c{j}",
    ]
    # carries; then t = b 2^62 + r, 0 <= r < 2^62; and one sum of two exact doubles
    most, rest = 2 ** (TOTAL_BITS - NEAR_BITS + 1), 2**SPLIT_BITS - 1
    after = [
        ["c{j}", "toInt64(b{j}) AS a{j}", f"h{{j}} + bitShiftRight(l{{j}}, {WORD_BITS}) AS m{{j}}",
         f"bitAnd(l{{j}}, {MASK}) AS k{{j}}"],
        ["c{j}", f"a{{j}} + bitShiftRight(m{{j}}, {WORD_BITS}) AS b{{j}}",
         f"bitAnd(m{{j}}, {MASK}) * {2**WORD_BITS} + k{{j}} AS r{{j}}"],
        ["c{j}", "r{j}", f"if(b{{j}} > {most}, {most}, if(b{{j}} < -{most}, -{most}, b{{j}})) "
         "AS a{j}"],
        ["c{j}", f"toFloat64(a{{j}} * {2**(NEAR_BITS - SPLIT_BITS)} + "
         f"bitShiftRight(r{{j}}, {SPLIT_BITS})) * {2.0**SPLIT_BITS!r} + "
         f"toFloat64(bitAnd(r{{j}}, {rest})) AS d{{j}}"],
    ]  # fmt: skip
    return Words(before, sums, after)


WORDS: dict[str, Callable[[Grid], Words]] = {
    "postgres": _postgres,
    "datafusion": _datafusion,
    "clickhouse": _clickhouse,
}


def in_sql(
    records: Table, width: int, resolution: float, by: Sequence[str] = ALONE, *, counts: bool
) -> Lazy:
    """One row a person and value of `by`: v0 .. and with `counts` c0 .. ."""
    import ibis

    from privmean.data.sql_engines import facts, worded

    grid = Grid.of(resolution)
    words, double = WORDS[facts(records).name](grid), "CAST({} AS DOUBLE PRECISION)".format
    most, least = double(f"'{REACH!r}'"), double(f"'{-REACH!r}'")
    limited = (
        f"CASE WHEN d{{j}} > {most} THEN {most} WHEN d{{j}} < {least} THEN {least} ELSE d{{j}} END"
    )
    step = double(f"'{grid.step!r}'")
    last = [
        ["c{j}", f"{limited} AS e{{j}}"],
        [f"CASE WHEN c{{j}} > 0 THEN e{{j}} * {step} / {double('c{j}')} END AS v{{j}}"],
    ]
    after = [columns(step, width) for step in [*words.after, *last]]
    kinds = {name: records.schema()[name] for name in by}
    kinds |= {f"v{j}": ibis.expr.datatypes.float64 for j in range(width)}
    if counts:
        after[-1] += columns(["c{j}"], width)
        kinds |= {f"c{j}": ibis.expr.datatypes.int64 for j in range(width)}
    before = [columns(step, width) for step in words.before]
    found = worded(records, before, columns(words.sums, width), after, by, ibis.schema(kinds))
    result: Lazy = nw.from_native(found)
    return result
