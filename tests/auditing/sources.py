"""Records in every kind of source that the package reads."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from privmean.auditing.calls import PERSON, Table


def frame(table: Table) -> pl.DataFrame:
    """Ids as whole numbers, texts as texts, all else as numbers; None is null."""
    kinds = dict.fromkeys(table.names, pl.Float64) | dict.fromkeys(table.texts, pl.String)
    return pl.DataFrame(table.columns(), schema={PERSON: pl.Int64, **kinds}, strict=False)


def lists(table: Table, _: Path) -> Any:
    """Python lists; a number that is not there is NaN."""
    columns = table.columns()
    return {
        name: [math.nan if x is None and name not in table.texts else x or "" if x is None else x
               for x in column]
        for name, column in columns.items()
    }  # fmt: skip


def shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else repr(value)


def csv(columns: dict[str, list[Any]], folder: Path) -> str:
    path = folder / "table.csv"
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(map(shown, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def json_lines(table: Table, folder: Path) -> Any:
    path, columns = folder / "table.jsonl", table.columns()
    with path.open("w", encoding="utf-8") as file:
        for row in zip(*columns.values(), strict=True):
            finite = [None if isinstance(x, float) and not math.isfinite(x) else x for x in row]
            file.write(json.dumps(dict(zip(columns, finite, strict=True))) + "\n")
    return str(path)


def parquet(rows: pl.DataFrame, folder: Path) -> str:
    path = folder / "table.parquet"
    rows.write_parquet(path)
    return str(path)


def parted(table: Table, folder: Path) -> Any:
    """A folder of Parquet files, cut at places that are public."""
    whole, home = frame(table), folder / "parts"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    for k, part in enumerate((whole[:100], whole[100:])):
        part.write_parquet(home / f"{k}.parquet")
    return str(home)


def database(rows: pl.DataFrame) -> Any:
    given = rows.to_arrow()  # noqa: F841 - DuckDB finds it by its name
    connection = duckdb.connect()
    connection.execute("CREATE TABLE records AS SELECT * FROM given")
    return connection.table("records")


Source = Callable[[Table, Path], Any]
SOURCES: dict[str, Source] = {
    "NumPy": lambda table, _: table.arrays(),
    "lists": lists,
    "pandas": lambda table, _: frame(table).to_pandas(),
    "Polars": lambda table, _: frame(table),
    "Arrow": lambda table, _: frame(table).to_arrow(),
    "DuckDB": lambda table, _: database(frame(table)),
    "CSV": lambda table, folder: csv(table.columns(), folder),
    "JSON lines": json_lines,
    "Parquet": lambda table, folder: parquet(frame(table), folder),
    "folder": parted,
}
