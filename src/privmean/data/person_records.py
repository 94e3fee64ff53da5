"""Records to people inside an engine: exact integer sums, one division a person.

Each value is cast to double on its own, limited to |x| <= resolution 2^80, and read on the public
grid of `resolution`, a power of two:

    t = floor(x / resolution + 1/2),   T = sum of t over the person's records,
    value = double(T) resolution / double(records)

T is summed exactly (`exact_totals.py`) for 2^32 records a person and more. double(T) is T rounded
to the nearest double and limited to +-2^100 (a sum of 10^18 at the default resolution). So a
person's value does not depend on the order in which an engine adds, on its threads, or on other
people, and it is the same double on every engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import narwhals as nw

from privmean.data import exact_totals
from privmean.data.exact_totals import Lazy
from privmean.data.grids import LIMIT_BITS

PERSON = "p"  # internal names: no clash with the caller's columns is possible

FLOAT, INTEGER, WIDE = exact_totals.FLOAT, exact_totals.INTEGER, exact_totals.WIDE


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
    comparison true without regard to the value. Only `is_finite` and equality are safe.
    """
    limit = resolution * 2.0**LIMIT_BITS
    below = nw.when(x == -math.inf).then(nw.lit(-limit))
    infinite = nw.when(x == math.inf).then(nw.lit(limit)).otherwise(below)
    return nw.when(x.is_finite()).then(x.clip(-limit, limit)).otherwise(infinite)


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
        found = exact_totals.in_duckdb(records.to_native(), width, resolution, by)
    elif records.implementation.is_polars():
        records = records.select(
            *by, *(limited(nw.col(f"x{j}"), resolution).alias(f"x{j}") for j in names)
        )
        found = exact_totals.in_polars(records, width, resolution, by)
    elif records.implementation.is_ibis():
        return exact_totals.in_sql(records.to_native(), width, resolution, by, counts=counts)
    else:
        found = exact_totals.in_spark(records.to_native(), width, resolution, by)
    values = []
    for j in names:
        count = nw.col(f"c{j}")
        mean = divided(nw.col(f"d{j}") * resolution, count.cast(FLOAT))
        values.append(nw.when(count > 0).then(mean).alias(f"v{j}"))
    return found.select(*by, *values, *(count_names(width) if counts else []))
