"""Which columns of a table are Boolean by their declared type. Reads the schema, never a record."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw

from privmean.data import databases, schema
from privmean.data.duckdb_engine import Engine
from privmean.data.engines import lazy
from privmean.data.open_path import open_table
from privmean.data.open_source import open_source
from privmean.data.parquetfiles import ParquetTable


def boolean_columns(
    source: Any,
    person: object,
    values: Sequence[str] | None,
    text: Mapping[str, object],
    resources: Mapping[str, Any],
) -> tuple[tuple[str, ...], frozenset[str]]:
    """The columns that `values` mean, and those of them that are Boolean. Text files declare no
    types."""
    if isinstance(source, str | os.PathLike) and not databases.is_address(source):
        engine = Engine(**resources)
        table = open_table(engine, os.path.expanduser(os.fspath(source)), text)
        if not isinstance(table, ParquetTable):
            return tuple(values or ()), frozenset()
        who = schema.person_column(table.columns, person)
        named = schema.value_columns(table.columns, who, values)
        records = lazy(table.records(engine, who, named))
    else:
        opened = open_source(source, text, resources)
        who = schema.person_column(opened.names, person)
        named = schema.value_columns(opened.names, who, values)
        records = opened.records(who, named)
    types = records.collect_schema()
    return named, frozenset(item for j, item in enumerate(named) if types[f"x{j}"] == nw.Boolean)
