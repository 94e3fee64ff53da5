"""Exact totals a person, the way each engine adds integers fastest.

Each function takes records (p, x0 ..), without null ids, and gives a frame with one row a person
(one for every value of the columns `by`, such as a person and a group): p, c0 .. (usable records)
and d0 .. (the exact total of the grid points floor(x/resolution + 1/2), |x| limited to resolution
2^80, rounded to the nearest double and limited to +-2^100). NaN and nulls are no records. An
overflow would be an error that depends on values, so sums have room: 2^46 records a person in
DuckDB and Polars (128 bits), 2^32 in Spark (three words of 64 bits).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw

from privmean.data.grids import LIMIT_BITS, TOTAL_BITS

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation
    from pyspark.sql import Column, DataFrame

Lazy: TypeAlias = nw.LazyFrame[Any]  # around a table of DuckDB, Polars or Spark

SPLIT_BITS = 52
NEAR_BITS = 62  # grid points below 2^62 go through 64-bit integers
WORD_BITS = 31
ALONE = ("p",)
# the state of an average in DuckDB: its count and its sum
STATE = "(avg(t{j}) EXPORT_STATE)::STRUCT(count UBIGINT, value HUGEINT) AS s{j}"
STATE_PARTS = ("s{j}.value AS t{j}", "s{j}.count::BIGINT AS c{j}")
# points of some people whose sums pass 64 bits, carry, cancel, or are of nothing
KNOWN_POINTS: dict[int, tuple[int | None, ...]] = {
    1: (1, 2, 3, -1),
    2: (2**63 - 1, 1, -(2**63)),
    3: (2**64 - 1, 1),
    4: (-(2**64), -1, None),
    5: (2**116, 2**116 - 1, -7),
    6: (-(2**116), -(2**115) - 2**52 - 1),
    7: (None, None),
    8: (2**80, -(2**80)),
    9: (0,),
}
_verdicts: list[bool] = []  # of this process: one, once it has been asked

FLOAT, INTEGER, WIDE = nw.Float64(), nw.Int64(), nw.Int128()


def in_duckdb(
    records: DuckDBPyRelation, width: int, resolution: float, by: Sequence[str] = ALONE
) -> Lazy:
    """Sums in 128 bits. A grid point below 2^62 is cast to 64 bits first, which DuckDB does faster
    than to 128; only the others (and what is no number) take the long way. TRY_CAST makes NaN a
    null even where DuckDB believes that the column holds none (see `records.limited`).
    """
    limit, scale = resolution * 2.0**LIMIT_BITS, 1 / resolution
    points, chosen = [*by], [*by]
    for j in range(width):
        points.append(f"x{j}, floor(x{j} * {scale!r}::DOUBLE + 0.5) AS t{j}")
        beyond = (
            f"CASE WHEN isfinite(x{j}) THEN greatest(least(x{j}, {limit!r}::DOUBLE), "
            f"{-limit!r}::DOUBLE) WHEN x{j} = 'inf'::DOUBLE THEN {limit!r}::DOUBLE "
            f"WHEN x{j} = '-inf'::DOUBLE THEN {-limit!r}::DOUBLE END"
        )
        chosen.append(
            f"CASE WHEN abs(t{j}) < {2.0**NEAR_BITS!r}::DOUBLE "
            f"THEN TRY_CAST(t{j} AS BIGINT)::HUGEINT "
            f"ELSE floor(({beyond}) * {scale!r}::DOUBLE + 0.5)::HUGEINT END AS t{j}"
        )
    relation = records.project(", ".join(points)).project(", ".join(chosen))
    sums = exported_sums if states_are_known(records) else plain_sums
    summed = sums(relation, width, by)
    frame: Lazy = nw.from_native(summed)
    return frame.select(*by, *(f"c{j}" for j in range(width)), *nearest(frame, width))


def exported_sums(
    points: DuckDBPyRelation, width: int, by: Sequence[str] = ALONE
) -> DuckDBPyRelation:
    """Sums and counts of grid points (p, t0 ..) as the exported state of one `avg`: 24 bytes a
    person and column and one update a record, where two aggregates take 32 bytes and two updates.
    """
    states = points.aggregate(", ".join([*by, *columns([STATE], width)]), ", ".join(by))
    return states.project(", ".join([*by, *columns(STATE_PARTS, width)]))


def states_are_known(records: DuckDBPyRelation) -> bool:
    """Whether this DuckDB's state of an average is what `exported_sums` takes it for.

    What the state holds is not documented. So each process sums points that it knows, once, in the
    connection of `records`, none of which is read; where anything differs, or cannot be asked,
    totals are made of two documented aggregates.
    """
    if not _verdicts:
        _verdicts.append(_known_points_are_summed(records))
    return _verdicts[0]


def _known_points_are_summed(records: DuckDBPyRelation) -> bool:
    listed = ", ".join(
        f"({p}, {'NULL' if t is None else t}::HUGEINT)"
        for p, points in KNOWN_POINTS.items()
        for t in points
    )
    known = f"SELECT p, t AS t0 FROM (VALUES {listed}) AS v(p, t)"
    expected = set()
    for p, points in KNOWN_POINTS.items():
        whole = [t for t in points if t is not None]
        expected.add((p, sum(whole), len(whole)))
    try:
        summed = exported_sums(records.query("privmean_rows", known), 1)
        found = summed.project("p, coalesce(t0, 0), c0").fetchall()
    except Exception:  # of types or functions: a DuckDB that has no such state
        return False
    return len(found) == len(expected) and set(found) == expected


def plain_sums(points: DuckDBPyRelation, width: int, by: Sequence[str] = ALONE) -> DuckDBPyRelation:
    """The same sums and counts as two aggregates."""
    sums = columns(("sum(t{j}) AS t{j}", "count(t{j}) AS c{j}"), width)
    return points.aggregate(", ".join([*by, *sums]), ", ".join(by))


def in_polars(records: Lazy, width: int, resolution: float, by: Sequence[str] = ALONE) -> Lazy:
    """Sums in 128 bits; the records are limited already."""
    names = range(width)
    points = (((nw.col(f"x{j}") * (1 / resolution) + 0.5).floor()).alias(f"x{j}") for j in names)
    frame = records.select(*by, *points)
    sums = (nw.col(f"x{j}").cast(WIDE).sum().alias(f"t{j}") for j in names)
    counts = (nw.col(f"x{j}").count().cast(INTEGER).alias(f"c{j}") for j in names)
    frame = frame.group_by(*by).agg(*sums, *counts)
    return frame.select(*by, *(f"c{j}" for j in names), *nearest(frame, width))


def in_spark(records: DataFrame, width: int, resolution: float, by: Sequence[str] = ALONE) -> Lazy:
    """Sums of three words, t = a 2^62 + b 2^31 + c with 0 <= b, c < 2^31 (b of either sign where
    a = 0), in 64-bit integers, which Spark aggregates in place; its decimals are objects.
    """
    expr = _expr(records)
    limit, scale = resolution * 2.0**LIMIT_BITS, 1 / resolution
    near, mask = f"{2.0**NEAR_BITS!r}D", 2**WORD_BITS - 1
    whole, bound = 2**NEAR_BITS, f"{2.0**TOTAL_BITS!r}D"
    before = (
        # every line selects from the one before; a double of 2^62 and more is whole
        [
            "CASE WHEN x{j} IS NOT NULL AND NOT isnan(x{j}) "
            f"THEN least(greatest(x{{j}}, {-limit!r}D), {limit!r}D) * {scale!r}D + 0.5D END "
            "AS y{j}",
        ],
        [
            "y{j}",
            f"CASE WHEN abs(y{{j}}) < {near} THEN 0L ELSE floor(y{{j}} / {near}) END AS a{{j}}",
        ],
        ["a{j}", f"floor(y{{j}} - CAST(a{{j}} AS DOUBLE) * {near}) AS m{{j}}"],
        ["a{j}", f"shiftright(m{{j}}, {WORD_BITS}) AS b{{j}}", f"m{{j}} & {mask}L AS e{{j}}"],
    )
    sums = ["sum(a{j}) AS a{j}", "sum(b{j}) AS b{j}", "sum(e{j}) AS e{j}", "count(e{j}) AS c{j}"]
    after = (
        # carries, then one long where the total fits, which is cast to the nearest double
        [
            "c{j}", "a{j}", f"b{{j}} + shiftright(e{{j}}, {WORD_BITS}) AS b{{j}}",
            f"e{{j}} & {mask}L AS e{{j}}",
        ],
        [
            "c{j}", f"a{{j}} + shiftright(b{{j}}, {WORD_BITS}) AS a{{j}}",
            f"shiftleft(b{{j}} & {mask}L, {WORD_BITS}) + e{{j}} AS m{{j}}",
        ],
        [
            "c{j}",
            "CASE WHEN a{j} = 0L THEN CAST(m{j} AS DOUBLE) "
            f"WHEN a{{j}} = -1L THEN CAST(m{{j}} - {whole}L AS DOUBLE) "
            f"ELSE CAST(CAST(a{{j}} AS DECIMAL(18, 0)) * CAST({whole} AS DECIMAL(19, 0)) "
            "+ CAST(m{j} AS DECIMAL(19, 0)) AS DOUBLE) END AS d{j}",
        ],
        ["c{j}", f"least(greatest(d{{j}}, -{bound}), {bound}) AS d{{j}}"],
    )  # fmt: skip
    frame = records
    for step in before:
        frame = frame.selectExpr(*by, *columns(step, width))
    frame = frame.groupBy(*by).agg(*(expr(item) for item in columns(sums, width)))
    for step in after:
        frame = frame.selectExpr(*by, *columns(step, width))
    result: Lazy = nw.from_native(frame)
    return result


def _expr(records: DataFrame) -> Any:
    """Spark's reader of expressions, of the kind of session that the records are in."""
    found: Callable[[str], Column]
    if nw.from_native(records).implementation.is_pyspark_connect():
        from pyspark.sql.connect.functions import expr as remote

        found = remote
    else:
        from pyspark.sql.functions import expr

        found = expr
    return found


def columns(step: Sequence[str], width: int) -> list[str]:
    return [item.replace("{j}", str(j)) for j in range(width) for item in step]


def nearest(frame: Lazy, width: int) -> list[nw.Expr]:
    """The 128-bit totals t{j} as the nearest doubles d{j}, limited to +-2^100."""
    limit = 2**TOTAL_BITS
    results = []
    for j in range(width):
        total = nw.col(f"t{j}")
        if frame.implementation.is_duckdb():
            # its own cast of 128 bits to double rounds twice: high and low are exact doubles here
            t = _between(total, limit)
            high = (t.cast(FLOAT) * 2.0**-SPLIT_BITS).floor()
            low = t - high.cast(WIDE) * 2**SPLIT_BITS
            double = high * 2.0**SPLIT_BITS + low.cast(INTEGER).cast(FLOAT)
        else:
            double = _between(total.cast(FLOAT), float(limit))
        results.append(double.alias(f"d{j}"))
    return results


def _between(t: nw.Expr, limit: float) -> nw.Expr:
    lower = nw.when(t < -limit).then(nw.lit(-limit)).otherwise(t)
    return nw.when(t > limit).then(nw.lit(limit)).otherwise(lower)
