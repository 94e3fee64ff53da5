"""Texts that compare by their bytes, whatever rules a column or the session has for them.

Where texts that differ compare as equal (another case, an accent left out), people and groups
would be merged, and the one spelling of a group that an engine shows would be one person's choice.
SQL engines behind Ibis have their own words for the same (`sql_tables.py`); Polars has no rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw

from privmean.data.duckdb_engine import name
from privmean.data.exact_totals import Lazy

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

PLAIN = "UTF8_BINARY"  # Spark's name for comparing bytes


def is_spark(engine: nw.Implementation) -> bool:
    """Whether frames are Spark's, in a session of this process or of a server (Spark Connect)."""
    return engine.is_pyspark() or engine.is_pyspark_connect()


def bytewise(frame: Lazy) -> Lazy:
    """A frame of DuckDB or Spark whose texts compare by bytes from here on; others as they are."""
    native = frame.to_native()
    if frame.implementation.is_duckdb():
        made: Any = in_duckdb(native)
    elif is_spark(frame.implementation):
        made = _in_spark(native)
    else:
        return frame
    found: Lazy = nw.from_native(made)
    return found


def in_duckdb(relation: DuckDBPyRelation) -> DuckDBPyRelation:
    """The type that `COLLATE C` makes is kept by temporary tables, joins and casts, and stands
    above the connection's `default_collation`. A cast alone would not do: the column's own rules
    outlive it. JSON, a text by another name, is cast."""
    chosen = {
        name(column): f"CAST({name(column)} AS VARCHAR) COLLATE C AS {name(column)}"
        for column, kind in zip(relation.columns, relation.types, strict=True)
        if kind.id == "varchar"
    }
    if not chosen:
        return relation
    return relation.project(
        ", ".join(chosen.get(name(column), name(column)) for column in relation.columns)
    )


def _in_spark(frame: Any) -> object:
    """Before version 4 Spark has no such rules, and no word for them."""
    chosen = [
        f"collate(`{field.name}`, '{PLAIN}') AS `{field.name}`"
        if getattr(field.dataType, "collation", PLAIN) != PLAIN
        else f"`{field.name}`"
        for field in frame.schema.fields
    ]
    return frame.selectExpr(*chosen)
