"""Records to persons inside an engine: exact integer sums, one division a person.

Each value is cast to double on its own, limited to |x| <= resolution 2^80, and read on the public
grid of `resolution`, a power of two:

    t = floor(x / resolution + 1/2),   T = sum of t over the person's records,
    value = double(T) resolution / double(records)

T is summed in 128 bits, so it is exact for 2^46 records a person. double(T) is T rounded to the
nearest double and limited to +-2^100 (a sum of 10^18 at the default resolution). So a person's
value does not depend on the order in which an engine adds, on its threads, or on other persons,
and it is the same double on every engine.
"""

from __future__ import annotations

import math
from typing import Any

import narwhals as nw

LIMIT_BITS = 80
TOTAL_BITS = 100
SPLIT_BITS = 52

PERSON = "p"  # internal names: no clash with the caller's columns is possible

FLOAT, INTEGER, WIDE = nw.Float64(), nw.Int64(), nw.Int128()


def record_names(width: int) -> list[str]:
    return [f"x{j}" for j in range(width)]


def value_names(width: int) -> list[str]:
    return [f"v{j}" for j in range(width)]


def count_names(width: int) -> list[str]:
    return [f"c{j}" for j in range(width)]


def limited(x: nw.Expr, resolution: float) -> nw.Expr:
    """The value limited to the grid's reach; null and NaN become null.

    Engines let NaN equal itself and exceed every number, and DuckDB concludes from the statistics
    of Parquet files, which leave NaN out, that there is none: then `is_nan` is false and any
    comparison true without a look at the value. Only `is_finite` and equality are safe.
    """
    limit = resolution * 2.0**LIMIT_BITS
    beyond = nw.when(x < 0).then(nw.lit(-limit)).otherwise(nw.lit(limit))
    number = nw.when(x.abs() <= limit).then(x).otherwise(beyond)
    below = nw.when(x == -math.inf).then(nw.lit(-limit))
    infinite = nw.when(x == math.inf).then(nw.lit(limit)).otherwise(below)
    return nw.when(x.is_finite()).then(number).otherwise(infinite)


def person_rows(
    records: nw.LazyFrame[Any], width: int, resolution: float, *, counts: bool
) -> nw.LazyFrame[Any]:
    """One row a person (p, v0 .. and with `counts` c0 ..) from records (p, x0 ..).

    Persons are all distinct ids that are not null; nothing else is filtered, so a person without
    a usable value stays, with null values.
    """
    names = range(width)
    if records.implementation.is_duckdb():
        summed = totals_in_duckdb(records.to_native(), width, resolution)
        frame: nw.LazyFrame[Any] = nw.from_native(summed)
        spark = False
    else:
        frame = records.filter(~nw.col(PERSON).is_null())
        frame = frame.select(
            PERSON, *(limited(nw.col(f"x{j}"), resolution).alias(f"x{j}") for j in names)
        )
        spark = not frame.implementation.is_polars()
        frame = frame.select(
            PERSON, *((nw.col(f"x{j}") * (1 / resolution) + 0.5).alias(f"x{j}") for j in names)
        )
        frame = frame.select(
            PERSON, *(_floor(nw.col(f"x{j}"), spark).alias(f"x{j}") for j in names)
        )
        frame, sums = _halves(frame, width) if spark else _wholes(frame, width)
        counted = (nw.col(f"x{j}").count().cast(INTEGER).alias(f"c{j}") for j in names)
        frame = frame.group_by(PERSON).agg(*sums, *counted)
    totals = frame.select(PERSON, *count_names(width), *_nearest(frame, width, spark))
    values = []
    for j in names:
        count = nw.col(f"c{j}")
        mean = nw.col(f"d{j}") * resolution / count.cast(FLOAT)
        values.append(nw.when(count > 0).then(mean).alias(f"v{j}"))
    return totals.select(PERSON, *values, *(count_names(width) if counts else []))


def totals_in_duckdb(records: Any, width: int, resolution: float) -> Any:
    """(p, t0 .., c0 ..): a relation of exact totals in 128 bits and counts of usable records.

    A grid point below 2^62 is cast to 64 bits, which DuckDB does several times faster than to 128;
    only the others (and what is no number) take the long way. TRY_CAST makes NaN a null even where
    DuckDB believes that the column holds none (see `limited`).
    """
    names = range(width)
    limit, scale = resolution * 2.0**LIMIT_BITS, 1 / resolution
    near = [f"x{j}, floor(x{j} * {scale!r}::DOUBLE + 0.5) AS t{j}" for j in names]
    chosen = []
    for j in names:
        beyond = (
            f"CASE WHEN isfinite(x{j}) THEN greatest(least(x{j}, {limit!r}::DOUBLE), "
            f"{-limit!r}::DOUBLE) WHEN x{j} = 'inf'::DOUBLE THEN {limit!r}::DOUBLE "
            f"WHEN x{j} = '-inf'::DOUBLE THEN {-limit!r}::DOUBLE END"
        )
        chosen.append(
            f"CASE WHEN abs(t{j}) < {2.0**62!r}::DOUBLE THEN TRY_CAST(t{j} AS BIGINT)::HUGEINT "
            f"ELSE floor(({beyond}) * {scale!r}::DOUBLE + 0.5)::HUGEINT END AS t{j}"
        )
    sums = [f"sum(t{j}) AS t{j}, count(t{j}) AS c{j}" for j in names]
    points = records.filter("p IS NOT NULL").project(", ".join(["p", *near]))
    return points.project(", ".join(["p", *chosen])).aggregate(", ".join(["p", *sums]), "p")


def _floor(t: nw.Expr, spark: bool) -> nw.Expr:
    """The floor as a double. Spark's is a 64-bit integer: doubles from 2^53 on are whole anyway."""
    if not spark:
        return t.floor()
    return nw.when(t.abs() < 2.0**53).then(t.floor().cast(FLOAT)).otherwise(t)


def _wholes(frame: nw.LazyFrame[Any], width: int) -> tuple[nw.LazyFrame[Any], list[nw.Expr]]:
    """Sums t{j} in 128-bit integers."""
    return frame, [nw.col(f"x{j}").cast(WIDE).sum().alias(f"t{j}") for j in range(width)]


def _halves(frame: nw.LazyFrame[Any], width: int) -> tuple[nw.LazyFrame[Any], list[nw.Expr]]:
    """Sums h{j}, l{j} of two halves (t = 2^40 h + l) for engines whose widest sums are decimals."""
    split = 2.0 ** (LIMIT_BITS // 2)
    frame = frame.with_columns(
        (nw.col(f"x{j}") * (1 / split)).floor().alias(f"h{j}") for j in range(width)
    )
    narrow, sums = nw.Decimal(15, 0), []
    for j in range(width):
        high = nw.col(f"h{j}")
        low = nw.col(f"x{j}") - high * split
        frame = frame.with_columns(low.cast(INTEGER).alias(f"l{j}"))
        sums.append(high.cast(INTEGER).cast(narrow).sum().alias(f"h{j}"))
        sums.append(nw.col(f"l{j}").cast(narrow).sum().alias(f"l{j}"))
    return frame, sums


def _nearest(frame: nw.LazyFrame[Any], width: int, spark: bool) -> list[nw.Expr]:
    """The totals d{j} as the nearest doubles, limited to +-2^100."""
    limit = 2**TOTAL_BITS
    results = []
    for j in range(width):
        if spark:
            high, low = nw.col(f"h{j}"), nw.col(f"l{j}")
            total = high * nw.lit(2 ** (LIMIT_BITS // 2)) + low
        else:
            total = nw.col(f"t{j}")
        if frame.implementation.is_duckdb():
            # its own cast of 128 bits to double rounds twice: high and low are exact doubles here
            t = _between(total, limit)
            high = (t.cast(FLOAT) * 2.0**-SPLIT_BITS).floor()
            low = t - high.cast(WIDE) * 2**SPLIT_BITS
            nearest = high * 2.0**SPLIT_BITS + low.cast(INTEGER).cast(FLOAT)
        else:
            nearest = _between(total.cast(FLOAT), float(limit))
        results.append(nearest.alias(f"d{j}"))
    return results


def _between(t: nw.Expr, limit: float) -> nw.Expr:
    lower = nw.when(t < -limit).then(nw.lit(-limit)).otherwise(t)
    return nw.when(t > limit).then(nw.lit(limit)).otherwise(lower)
