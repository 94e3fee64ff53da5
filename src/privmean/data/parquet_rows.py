"""Rows of one Parquet file in their order, for streams."""

from __future__ import annotations

import os
from collections.abc import Iterator
from glob import escape
from typing import TYPE_CHECKING, Any

from privmean.data.engines import interruptible
from privmean.errors import SchemaError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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
