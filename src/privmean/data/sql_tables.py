"""Tables of SQL engines through Ibis, as records (p, x0, ..) that compare alike everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from privmean.data.column_types import DIGITS
from privmean.data.sql_engines import as_bytes, as_double, backend, facts
from privmean.data.sql_exact import LEAST
from privmean.data.sql_facts import KNOWN
from privmean.errors import ArgumentError

if TYPE_CHECKING:
    from ibis.expr.types import Table, Value

OTHERS = {"duckdb", "polars", "pyspark"}  # which have homes of their own


def known_engine(table: Table) -> None:
    """Refuse an engine whose arithmetic has not been compared with the other homes."""
    name = backend(table).name
    if name in KNOWN:
        return
    remedy = "use a table of PostgreSQL, ClickHouse or DataFusion, or write it to Parquet"
    if name in OTHERS:
        remedy = f"give {name}'s own table, without Ibis"
    raise ArgumentError("source", name, "is not a supported engine of Ibis", remedy)


def records_of(table: Table, person: str, values: Sequence[str], texts: Sequence[str]) -> Table:
    """The records of a table: the column of people, and the columns asked for, those of `texts`
    as they are."""
    chosen = {
        f"x{j}": _text(table[item]) if item in texts else _number(table[item])
        for j, item in enumerate(values)
    }
    return table.select(p=_id(table[person]), **chosen)


def _id(x: Value) -> Value:
    import ibis

    if x.type().is_floating():  # two zeros are one person
        return ibis.cases(((x > -LEAST) & (x < LEAST), 0.0), else_=x)
    return _text(x)


def _text(x: Value) -> Value:
    return as_bytes(x) if x.type().is_string() and facts(x.as_table()).collates else x


def _number(x: Value) -> Value:
    """Decimals as the nearest doubles: an engine's own cast may round twice, or raise."""
    kind = x.type()
    if not kind.is_decimal():
        return x
    digits = kind.precision
    if facts(x.as_table()).traps:
        return as_double(x) if digits is None or digits > DIGITS else x.cast("float64")
    return x if digits is None or digits > DIGITS else x.cast("string").cast("float64")
