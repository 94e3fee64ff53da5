"""One Polars frame in the shape of the sources that `read` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars as pl


def relation(frame: pl.DataFrame) -> Any:
    """The frame as a table of a connection of DuckDB."""
    connection = duckdb.connect()
    connection.register("records", frame.to_arrow())
    return connection.table("records")


def homes(frame: pl.DataFrame, folder: Path) -> dict[str, Any]:
    """The frame in every engine, and in memory."""
    path = folder / "frame.parquet"
    frame.write_parquet(path)
    return {
        "polars": frame,
        "lazy": frame.lazy(),
        "arrow": frame.to_arrow(),
        "pandas": frame.to_pandas(),
        "relation": relation(frame),
        "parquet": str(path),
        "arrays": {name: frame[name].to_numpy() for name in frame.columns},
    }
