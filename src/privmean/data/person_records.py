"""Records to people inside an engine: exact integer sums, one division a person.

Each value is cast to double on its own, limited to |x| <= resolution 2^80, and read on the public
grid of `resolution`, a power of two:

    t = floor(x / resolution + 1/2),   T = sum of t over the person's records,
    value = double(T) resolution / double(records)

T is summed exactly for 2^32 records a person and more. double(T) is T rounded to the nearest double
and limited to +-2^100 (a sum of 10^18 at the default resolution). So a person's value does not
depend on the order in which an engine adds, on its threads, or on other people, and it is the same
double on every engine. NaN and nulls are no records.

Each engine adds integers its own fastest way: functions take records (p, x0 ..), without null ids,
and give one row a person (one for every value of the columns `by`): p, c0 .. (usable records) and
d0 .. (double(T)); in SQL engines v0 .. at once. An overflow would be an error that depends on
values, so sums have room: 2^46 records a person in DuckDB and Polars (128 bits), 2^32 in Spark
(three words of 64 bits). PostgreSQL sums whole numbers of 64 bits without an overflow; other SQL
engines wrap, so there a point is two words, t = h 2^34 + l with 0 <= l < 2^34, with room for 2^29
records a person whose sizes add up to 2^97 steps (2^17 records at the limit). Beyond, sums wrap: a
person's value still depends on own records alone. No comparison in these is true of a NaN of either
sign, unless an engine's own rule is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw

from privmean.data.grids import LIMIT_BITS, TOTAL_BITS

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation
    from ibis.expr.types import Table
    from pyspark.sql import Column, DataFrame


Lazy: TypeAlias = nw.LazyFrame[Any]  # around a table of DuckDB, Polars or Spark

SPLIT_BITS = 52
EXACT_BITS = 53  # whole numbers below 2^53 are doubles
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
    null even where DuckDB believes that the column holds none (see `is_number`).
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
    known = states_are_known(lambda query: records.query("privmean_rows", query).fetchall())
    sums = exported_sums if known else plain_sums
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


def states_are_known(answers: Callable[[str], list[Any]]) -> bool:
    """Whether this DuckDB's state of an average is what `exported_sums` takes it for.

    What the state holds is not documented. So each process sums points that it knows, once, in a
    connection that `answers`, no record of which is read; where anything differs, or cannot be
    asked, totals are made of two documented aggregates.
    """
    if not _verdicts:
        _verdicts.append(_known_points_are_summed(answers))
    return _verdicts[0]


def _known_points_are_summed(answers: Callable[[str], list[Any]]) -> bool:
    listed = ", ".join(
        f"({p}, {'NULL' if t is None else t}::HUGEINT)"
        for p, points in KNOWN_POINTS.items()
        for t in points
    )
    expected = set()
    for p, points in KNOWN_POINTS.items():
        whole = [t for t in points if t is not None]
        expected.add((p, sum(whole), len(whole)))
    states, parts = (", ".join(columns(item, 1)) for item in ([STATE], STATE_PARTS))
    summed = f"SELECT p, {states} FROM (VALUES {listed}) AS v(p, t0) GROUP BY p"
    try:
        found = answers(f"SELECT p, coalesce(t0, 0), c0 FROM (SELECT p, {parts} FROM ({summed}))")
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
            t = between(total, limit)
            high = (t.cast(FLOAT) * 2.0**-SPLIT_BITS).floor()
            low = t - high.cast(WIDE) * 2**SPLIT_BITS
            far = high * 2.0**SPLIT_BITS + low.cast(INTEGER).cast(FLOAT)
            near = (total > -(2**EXACT_BITS)) & (total < 2**EXACT_BITS)
            double = nw.when(near).then(total.cast(INTEGER).cast(FLOAT)).otherwise(far)
        else:
            double = between(total.cast(FLOAT), float(limit))
        results.append(double.alias(f"d{j}"))
    return results


def between(t: nw.Expr, limit: float) -> nw.Expr:
    """The number t, no null or NaN, limited to +-limit: without a step where DuckDB knows that no
    number of a file is beyond it."""
    lower = nw.when(t < -limit).then(nw.lit(-limit)).otherwise(t)
    return nw.when(t > limit).then(nw.lit(limit)).otherwise(lower)


REACH = 2.0**TOTAL_BITS
LOW_BITS = 34  # of the low word of a point in SQL engines whose sums wrap
LOW = 2.0**LOW_BITS


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
    """n: near points, t: the other ones. A cast that is tried is null for what is no whole number
    of 64 bits."""
    x, n, t, most, inf = "x{j}", "n{j}", "t{j}", repr(grid.limit), "CAST('inf' AS DOUBLE)"
    far = (
        f"CASE WHEN {x} > {most} AND {x} <= {inf} THEN {most} "
        f"WHEN {x} < -{most} AND {x} >= -{inf} THEN -{most} "
        f"WHEN {x} <= {most} AND {x} >= -{most} THEN {x} END * {grid.scale!r}"
    )
    high = f"floor({t} * {1 / LOW!r})"
    before = [
        [x, f"TRY_CAST(floor({x} * {grid.scale!r} + 0.5) AS BIGINT) AS {n}"],
        [n, f"CASE WHEN {n} IS NULL THEN {far} END AS {t}"],
        [f"CASE WHEN {n} IS NULL THEN TRY_CAST({high} AS BIGINT) ELSE {n} >> {LOW_BITS} END "
         "AS a{j}",
         f"CASE WHEN {n} IS NULL THEN TRY_CAST({t} - {high} * {LOW!r} AS BIGINT) "
         f"ELSE {n} & {2**LOW_BITS - 1} END AS b{{j}}"],
    ]  # fmt: skip
    after = _of_words(lambda a, bits: f"({a} >> {bits})", lambda a, bits: f"({a} & {2**bits - 1})")
    return Words(before, ["SUM(a{j}) AS h{j}", "SUM(b{j}) AS l{j}", "COUNT(a{j}) AS c{j}"], after)


def _clickhouse(grid: Grid) -> Words:
    """A value that is missing is a NaN, of which no comparison is true. No NaN is in any branch or
    made whole: whether a branch that is not taken is computed is a setting of the session, and so
    is which of two things of one name is meant: there are no such."""
    limit = repr(grid.limit)
    kept = f"if(y{{j}} > 0.0, {limit}, if(y{{j}} < 0.0, -{limit}, 0.0))"
    kept = f"if(abs(y{{j}}) <= {limit}, y{{j}}, {kept})"
    before = [
        ["ifNull(x{j}, CAST('nan' AS Float64)) AS y{j}"],
        ["isNaN(y{j}) AS z{j}", f"floor({kept} * {grid.scale!r} + 0.5) AS t{{j}}"],
        ["z{j}", "t{j}", f"floor(t{{j}} * {1 / LOW!r}) AS g{{j}}"],
        ["z{j}", "toInt64(g{j}) AS a{j}", f"toInt64(t{{j}} - g{{j}} * {LOW!r}) AS b{{j}}"],
    ]
    sums = ["sum(a{j}) AS h{j}", "sum(b{j}) AS l{j}", "toInt64(countIf(NOT z{j})) AS c{j}"]
    after = _of_words(
        lambda a, bits: f"bitShiftRight({a}, {bits})",
        lambda a, bits: f"bitAnd({a}, {2**bits - 1})",
        "toFloat64({})".format,
    )
    return Words(before, sums, after)


def _of_words(
    shifted: Callable[[str, int], str],
    masked: Callable[[str, int], str],
    double: Callable[[str], str] = "CAST({} AS DOUBLE)".format,
) -> Sequence[Sequence[str]]:
    """From sums h and l of words: the carry, then one sum of two exact doubles."""
    between = SPLIT_BITS - LOW_BITS
    high, low = shifted("m{j}", between), masked("m{j}", between)
    return [
        ["c{j}", f"h{{j}} + {shifted('l{j}', LOW_BITS)} AS m{{j}}",
         f"{masked('l{j}', LOW_BITS)} AS k{{j}}"],
        ["c{j}", f"{double(high)} * {2.0**SPLIT_BITS!r} + "
         f"{double(f'{low} * {2**LOW_BITS} + k{{j}}')} AS d{{j}}"],
    ]  # fmt: skip


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


DAYS = (date.min, date.max)
TIMES = (datetime.min, datetime.max)


def within_years(frame: Lazy, types: Mapping[str, nw.dtypes.DType], columns: Sequence[str]) -> Lazy:
    """Return the frame with dates and times of other years missing, in `columns`.

    Polars ends the process with a panic where such a date becomes text. Spark and SQL engines write
    any date; some of these cannot compare one with the first day of the year 1.
    """
    if not (frame.implementation.is_polars() or frame.implementation.is_duckdb()):
        return frame
    kept = []
    for name in columns:
        kind, x = types[name], nw.col(name)
        if isinstance(kind, nw.Datetime):
            if kind.time_zone is not None or kind.time_unit == "ns":  # no time of other years fits
                continue
            # in the unit of the column: DuckDB fails where a time does not fit into another one
            first, last = (nw.lit(end).cast(kind) for end in TIMES)
        elif kind == nw.Date:
            first, last = map(nw.lit, DAYS)
        else:
            continue
        inside = (x >= first) & (x <= last)
        kept.append(nw.when(inside).then(x).alias(name))
    return frame.with_columns(*kept) if kept else frame


PERSON = "p"  # internal names: no clash with the caller's columns is possible


def record_names(width: int) -> list[str]:
    return [f"x{j}" for j in range(width)]


def value_names(width: int) -> list[str]:
    return [f"v{j}" for j in range(width)]


def count_names(width: int) -> list[str]:
    return [f"c{j}" for j in range(width)]


def is_number(x: nw.Expr) -> nw.Expr:
    """Whether a value is neither null, for which this is null or false, nor NaN.

    Engines let NaN equal itself and exceed every number, and DuckDB concludes from the statistics
    of Parquet files, which leave NaN out, that there is none: then `is_nan` is false and any
    comparison true without regard to the value. Only `is_finite` and equality are safe.
    """
    return x.is_finite() | (x == math.inf) | (x == -math.inf)


def limited(x: nw.Expr, resolution: float) -> nw.Expr:
    """The value limited to the grid's reach; null and NaN become null."""
    limit = resolution * 2.0**LIMIT_BITS
    return nw.when(is_number(x)).then(x.clip(-limit, limit))


def divided(a: nw.Expr, b: nw.Expr) -> nw.Expr:
    """a/b for b != 0, row by row, correctly rounded on every engine; null where one of them is.

    Polars multiplies by the inverse where the divisor is one value for all rows that it works on
    (a literal, or a column that it knows to be constant) and the dividend is not, so that other
    rows decide about the last bit. Here the divisor gets a zero of the dividend's, and is a column
    whenever the dividend is one.
    """
    zero = nw.when(a.is_finite()).then(a).otherwise(nw.lit(0.0)) * 0.0
    return a / (b + zero)


def person_rows(
    records: Lazy,
    width: int,
    resolution: float,
    *,
    counts: bool,
    by: Sequence[str] = (PERSON,),
) -> Lazy:
    """One row a person (p, v0 .. and with `counts` c0 ..) from records (p, x0 ..).

    by: the columns of which every value gets a row, p among them.

    People are all distinct ids that are not null; nothing else is filtered, so a person without
    a usable value stays, with null values.
    """
    names = range(width)
    records = records.filter(~nw.col(PERSON).is_null())
    if records.implementation.is_duckdb():
        found = in_duckdb(records.to_native(), width, resolution, by)
    elif records.implementation.is_polars():
        records = records.select(
            *by, *(limited(nw.col(f"x{j}"), resolution).alias(f"x{j}") for j in names)
        )
        found = in_polars(records, width, resolution, by)
    elif records.implementation.is_ibis():
        return in_sql(records.to_native(), width, resolution, by, counts=counts)
    else:
        found = in_spark(records.to_native(), width, resolution, by)
    values = []
    for j in names:
        count = nw.col(f"c{j}")
        mean = divided(nw.col(f"d{j}") * resolution, count.cast(FLOAT))
        values.append(nw.when(count > 0).then(mean).alias(f"v{j}"))
    return found.select(*by, *values, *(count_names(width) if counts else []))
