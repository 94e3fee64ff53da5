"""Records to persons inside an engine: exact sums, one division a person.

Each value is cast to double on its own, limited to |x| <= resolution 2^80 and read on the public
grid of `resolution` in two integer limbs, so that a person's sums are integers and do not depend
on the order in which an engine adds:

    high = floor(x / A),  low = floor((x - high A) / resolution + 1/2),  A = resolution 2^36
    value = (double(sum high) A + double(sum low) resolution) / double(records)

Sums are taken in 128 bits and limited to +-(2^63 - 1) before they become doubles. That limit is
reached only by a person whose values add up to 2^99 resolution (6e17 by default) or who has more
than 2^27 records; the value is then wrong but still a function of that person's records alone.
"""

from __future__ import annotations

from typing import Any

import narwhals as nw

LOW_BITS = 36
LIMIT_BITS = 80
WIDEST = 2**63 - 1

PERSON = "p"  # internal names: no clash with the caller's columns is possible


def record_names(width: int) -> list[str]:
    return [f"x{j}" for j in range(width)]


def value_names(width: int) -> list[str]:
    return [f"v{j}" for j in range(width)]


def count_names(width: int) -> list[str]:
    return [f"c{j}" for j in range(width)]


def on_the_grid(x: nw.Expr, resolution: float) -> nw.Expr:
    """The value limited to the grid's reach; null and NaN become null.

    Engines disagree with IEEE about NaN (it equals itself and exceeds every number), so it must
    be gone before the first comparison that matters.
    """
    limit = resolution * 2.0**LIMIT_BITS
    beyond = (
        nw.when(x < -limit).then(nw.lit(-limit)).otherwise(nw.when(~x.is_nan()).then(nw.lit(limit)))
    )
    return nw.when((x >= -limit) & (x <= limit)).then(x).otherwise(beyond)


def person_rows(
    records: nw.LazyFrame[Any], width: int, resolution: float, *, counts: bool
) -> nw.LazyFrame[Any]:
    """One row a person (p, v0 .. and with `counts` c0 ..) from records (p, x0 ..).

    Persons are all distinct ids that are not null; nothing else is filtered, so a person without
    a usable value stays, with null values.
    """
    coarse = resolution * 2.0**LOW_BITS
    xs, highs = record_names(width), [f"h{j}" for j in range(width)]
    frame = records.filter(~nw.col(PERSON).is_null())
    frame = frame.select(PERSON, *(on_the_grid(nw.col(x), resolution).alias(x) for x in xs))
    frame = frame.with_columns(
        *((nw.col(x) * (1 / coarse)).floor().alias(h) for x, h in zip(xs, highs, strict=True))
    )
    wide = wide_integer(frame)
    sums: list[nw.Expr] = []
    for j, (x, h) in enumerate(zip(xs, highs, strict=True)):
        low = ((nw.col(x) - nw.col(h) * coarse) * (1 / resolution) + 0.5).floor()
        sums += [nw.col(h).cast(nw.Int64()).alias(h), low.cast(nw.Int64()).alias(f"l{j}")]
    frame = frame.select(PERSON, *xs, *sums)
    totals: list[nw.Expr] = []
    for j, (x, h) in enumerate(zip(xs, highs, strict=True)):
        totals += [
            wide(nw.col(h)).sum().alias(h),
            wide(nw.col(f"l{j}")).sum().alias(f"l{j}"),
            nw.col(x).count().cast(nw.Int64()).alias(f"c{j}"),
        ]
    grouped = frame.group_by(PERSON).agg(*totals)
    values = []
    for j, h in enumerate(highs):
        total = _double(nw.col(h)) * coarse + _double(nw.col(f"l{j}")) * resolution
        count = nw.col(f"c{j}")
        mean = total / count.cast(nw.Float64())
        values.append(nw.when(count > 0).then(mean).alias(f"v{j}"))
    return grouped.select(PERSON, *values, *(count_names(width) if counts else []))


def wide_integer(frame: nw.LazyFrame[Any]) -> Any:
    """How the engine of `frame` widens an int64 so that its sum cannot overflow."""
    implementation = frame.implementation
    if implementation.is_polars():
        return lambda expression: expression.cast(nw.Int128())
    if implementation.is_duckdb():
        return lambda expression: expression  # sums of int64 are 128 bits wide already
    return lambda expression: expression.cast(nw.Decimal(28, 0))  # Spark: sums get 10 more digits


def _double(total: nw.Expr) -> nw.Expr:
    limited = (
        nw.when(total > WIDEST)
        .then(nw.lit(WIDEST))
        .otherwise(nw.when(total < -WIDEST).then(nw.lit(-WIDEST)).otherwise(total))
    )
    return limited.cast(nw.Int64()).cast(nw.Float64())
