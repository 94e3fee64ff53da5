"""Parquet files as one table. Their declared types are compared before anything is read.

DuckDB takes the types of the first file and casts the records of the others: one record that does
not fit would refuse the table, and decimals would be rounded. Here the types alone decide: files of
several types are read each by its own, to a type that has room for all, or refused.

Rows of one Parquet file in their order, for streams.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from typing import TYPE_CHECKING, Any

from privmean.data.column_types import hidden_types
from privmean.data.duckdb_engine import Engine, identifier, quoted
from privmean.data.engines import interruptible
from privmean.data.schema import Columns
from privmean.data.typenames import sql_type_name
from privmean.errors import ArgumentError, SchemaError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

WHOLE = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
DOUBLES = {"FLOAT", "DOUBLE"}
LAYOUT = ("name", "type", "type_length", "num_children", "converted_type", "scale", "precision",
          "logical_type")  # fmt: skip


@dataclass(frozen=True)
class Part:
    """Files of one schema: how SQL scans them, and the types of their columns."""

    scan: str
    types: Mapping[str, str]


@dataclass(frozen=True)
class ParquetTable:
    """Parquet files: the names of their columns, and the parts whose schemas differ."""

    columns: Columns
    parts: tuple[Part, ...]

    def records(
        self, engine: Engine, person: str, values: Sequence[str], texts: Sequence[str] = ()
    ) -> DuckDBPyRelation:
        """The records (p, x0, x1, ...): only these columns."""
        labels = {"p": person} | {f"x{j}": item for j, item in enumerate(values)}
        common = {
            label: self._common(item, "id" if label == "p" else "text" if item in texts else "")
            for label, item in labels.items()
        }
        selects = []
        for part in self.parts:
            fields = [
                f"{_cast(identifier(item), part.types[item], common[label])} AS {label}"
                for label, item in labels.items()
            ]
            selects.append(f"SELECT {', '.join(fields)} FROM {part.scan}")
        return engine.connection.sql(" UNION ALL ".join(selects))

    def _common(self, column: str, use: str) -> str | None:
        """The type in which a column of several types is read; None where it has one. use: "id",
        "text" (keys and texts) or "" (values)."""
        types = [part.types.get(column) for part in self.parts]
        known = {kind for kind in types if kind is not None}
        if len(known) < len(set(types)):
            raise SchemaError(
                f"column {column!r} is in some of the files and not in others. Name "
                "files that all have it."
            )
        if len(known) == 1:
            return None
        if use and known <= WHOLE:
            return "HUGEINT" if "UBIGINT" in known else "BIGINT"
        if use and known <= WHOLE | {"VARCHAR"}:
            return "VARCHAR"
        if known <= (DOUBLES if use == "id" else WHOLE | DOUBLES) or (
            not use and all(map(_is_number, known))
        ):
            return "DOUBLE"
        found = ", ".join(sorted({sql_type_name(kind) for kind in known}))
        raise SchemaError(
            f"column {column!r} has types that differ between the files "
            f"({found}). Write the files with one type."
        )


def _is_number(kind: str) -> bool:
    return kind in WHOLE | DOUBLES | {"BOOLEAN", "HUGEINT", "UHUGEINT"} or _is_decimal(kind)


def _is_decimal(kind: str) -> bool:
    return kind.startswith("DECIMAL(")


def _cast(column: str, kind: str, common: str | None) -> str:
    if common is None or kind == common:
        return column
    if common == "DOUBLE" and (_is_decimal(kind) or kind.endswith("HUGEINT")):
        column = f"CAST({column} AS VARCHAR)"  # a cast of 128 bits to double rounds twice
    return f"TRY_CAST({column} AS {common})"


def parquet_table(engine: Engine, path: str, pattern: str) -> ParquetTable:
    """The table of the files of a pattern. path: as the caller calls it."""
    import duckdb

    files: list[str] = []
    parts: list[Part] = []
    try:
        with interruptible(engine.connection):
            files = [row[0] for row in _rows(engine.connection, f"FROM glob({quoted(pattern)})")]
            if files:
                parts = _parts(engine.connection, pattern, files)
    except duckdb.Error:  # its words may quote what the file holds
        parts = []
    if not files:
        raise ArgumentError("source", path, "does not exist", "check the path")
    if not parts or not parts[0].types:
        raise SchemaError(f"{path} cannot be read as Parquet. Check the file and its permissions.")
    return ParquetTable(Columns(tuple(parts[0].types)), tuple(parts))


def _parts(connection: DuckDBPyConnection, pattern: str, files: Sequence[str]) -> list[Part]:
    """The files by the types of their columns, in the order of their first files."""
    where = quoted(pattern)
    place = {file: k for k, file in enumerate(files)}
    layout = ", ".join(LAYOUT)
    query = (
        f"SELECT list(file_name) FROM (SELECT file_name, string_agg(concat_ws(chr(1), {layout}), "
        f"chr(2)) AS layout FROM parquet_schema({where}) GROUP BY file_name) GROUP BY layout"
    )
    known = [row[0] for row in _rows(connection, query)] if len(files) > 1 else [files]
    hidden = hidden_types(connection, pattern)
    made: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for group in known:
        split: dict[frozenset[tuple[str, str]], list[str]] = {}
        for file in group:
            split.setdefault(frozenset(hidden.get(file, {}).items()), []).append(file)
        for said, some in split.items():
            described = _rows(connection, f"DESCRIBE SELECT * FROM {_scan([some[0]])}")
            types = {row[0]: row[1] for row in described} | {
                column: kind for column, kind in said if column in {row[0] for row in described}
            }
            made.setdefault(tuple(types.items()), []).extend(some)
    ordered = sorted(made.items(), key=lambda item: min(place[file] for file in item[1]))
    one = len(ordered) == 1
    return [
        Part(_replaced(_scan(pattern if one else some), dict(types)), dict(types))
        for types, some in ordered
    ]


def _scan(files: str | Sequence[str]) -> str:
    from glob import escape

    if isinstance(files, str):
        listed = quoted(files)
    else:
        listed = f"[{', '.join(quoted(escape(file)) for file in files)}]"
    return f"read_parquet({listed}, hive_types_autocast = false)"


def _replaced(scan: str, types: Mapping[str, str]) -> str:
    """The scan, with nulls of their type in columns that hold no numbers, whatever DuckDB sees."""
    chosen = [
        f"NULL::{kind} AS {identifier(item)}"
        for item, kind in types.items()
        if kind in ("INTERVAL", "BLOB")
    ]
    return f"(SELECT * REPLACE ({', '.join(chosen)}) FROM {scan})" if chosen else scan


def _rows(connection: DuckDBPyConnection, query: str) -> list[tuple[str, ...]]:
    """All rows: one that is not read to its end would hold the connection."""
    rows: list[tuple[str, ...]] = connection.execute(query).fetchall()
    return rows


ROWS = 10_000

Row = tuple[object, tuple[list[float | None], tuple[str | None, ...]]]


def rows_of(
    path: str | os.PathLike[str],
    person: str,
    values: list[str],
    public: list[str],
    *,
    skip: int = 0,
) -> Iterator[tuple[list[Row], bool]]:
    """Blocks of (person, (values, public texts)) of the rows after the first `skip`, and with each
    whether there are more: who has the last one need not open the file again.

    What is not a number is a missing value; ids are as they are, texts as DuckDB writes them.
    Raises SchemaError if the file is gone, no Parquet file, or lacks a column: a public fact.
    """
    import duckdb

    if not os.path.exists(path):
        raise SchemaError(
            f"{path} does not exist any more, and {skip or 'none'} of its rows "
            "were read. Put it back."
        )
    file = escape(os.fspath(path))  # a name with brackets or stars is no pattern
    with duckdb.connect() as engine:
        engine.execute("SET threads = 1")
        try:
            columns = engine.read_parquet(file).columns
        except duckdb.Error:
            raise SchemaError(
                f"{path} is not a complete Parquet file. Write it under another "
                "name, then rename it."
            ) from None
        for name in (person, *values, *public):
            if name not in columns:
                raise SchemaError(f"{path} has no column {name!r}. Its columns are {columns}.")
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in columns}
        cells = [quoted[person]]
        cells += [f"TRY_CAST({quoted[name]} AS DOUBLE)" for name in values]
        cells += [f"CAST({quoted[name]} AS VARCHAR)" for name in public]
        with interruptible():
            found = engine.execute(f"SELECT {', '.join(cells)} FROM read_parquet(?)", [file])
        last = 1 + len(values)
        block = _block(found)
        while block:
            rows, following = block[skip:], _block(found)
            skip = max(0, skip - len(block))
            if rows:
                shown = [(row[0], (list(row[1:last]), tuple(row[last:]))) for row in rows]
                yield shown, bool(following)
            block = following


def _block(found: DuckDBPyConnection) -> list[tuple[Any, ...]]:
    with interruptible():
        return list(found.fetchmany(ROWS))
