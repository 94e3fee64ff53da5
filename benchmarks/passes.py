"""How often each question goes over its data, counted from the log of the engine.

A pass over the file is a query that reads records; a pass over the people is one that reads the
table of people, or of people by group, that was made of them. "later": the same question asked once
more of the same table.

    python benchmarks/passes.py [--persons 20000]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import polars as pl

import privmean as pm
from privmean.data import duckdb_engine
from report import few, publish, table

LISTED = "SELECT message FROM duckdb_logs WHERE type = 'QueryLog'"
RECORDS = 5  # a person
QUESTIONS: dict[str, Callable[[pm.Table], object]] = {
    "mean": lambda t: pm.mean(t, "y", epsilon=1, noise=pm.SimulatedNoise(1)),
    "mean within bounds": lambda t: pm.mean(
        t, "y", assume=(0, 10), epsilon=1, noise=pm.SimulatedNoise(1)
    ),
    "three columns": lambda t: pm.mean(t, ["y", "x", "t"], epsilon=1, noise=pm.SimulatedNoise(1)),
    "by group": lambda t: pm.mean(
        t, "y", by="g", keys=(0, 1, 2, 3), epsilon=1, noise=pm.SimulatedNoise(1)
    ),
    "curve": lambda t: pm.curve(
        t, "y", time="t", bins=[0, 1, 2, 3, 4], epsilon=1, noise=pm.SimulatedNoise(1)
    ),
    "quantile": lambda t: pm.quantile(t, "y", epsilon=1, noise=pm.SimulatedNoise(1)),
    "variance": lambda t: pm.variance(t, "y", epsilon=1, noise=pm.SimulatedNoise(1)),
    "regression": lambda t: pm.regress(t, "y ~ x", epsilon=1, noise=pm.SimulatedNoise(1)),
}


@contextmanager
def logged() -> Iterator[Callable[[], list[str]]]:
    """The queries, since they were asked for last, of all engines that are made meanwhile."""
    queries: list[str] = []
    opened: list[Any] = []
    real, close = duckdb.connect, duckdb_engine._close

    def connect(*given: Any, **named: Any) -> Any:
        link = real(*given, **named)
        link.execute("CALL enable_logging('QueryLog')")
        opened.append(link)
        return link

    def read(link: Any) -> None:
        queries.extend(text for (text,) in link.execute(LISTED).fetchall())
        link.execute("CALL truncate_duckdb_logs()")

    def closing(link: Any, *rest: Any) -> None:
        if link in opened:
            read(link)
            opened.remove(link)
        close(link, *rest)

    def asked() -> list[str]:
        for link in opened:
            read(link)
        found = list(queries)
        queries.clear()
        return found

    with (
        mock.patch.object(duckdb, "connect", connect),
        mock.patch.object(duckdb_engine, "_close", closing),
    ):
        yield asked


def passes(queries: list[str]) -> tuple[int, int]:
    """Queries that read records, and that read people."""
    file = people = 0
    view = ""
    for text in queries:
        if text.startswith("CREATE TEMPORARY VIEW"):
            view = text  # what a table of people is made of
        elif not text.startswith("DESCRIBE"):
            read = view if text.startswith("CREATE TEMP TABLE privmean_people") else text
            file += "read_parquet(" in read
            people += "privmean_people" in read and "read_parquet(" not in read
    return file, people


def counted(path: Path, ask: Callable[[pm.Table], object]) -> list[int]:
    """The passes of a question, and of the same one asked once more of the same table."""
    source = pm.Table(path, person="who")
    found: list[int] = []
    with logged() as asked:
        for _ in range(2):
            ask(source)
            found += passes(asked())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--persons", type=int, default=few(20_000, 2000))
    persons = parser.parse_args().persons
    rng, n = np.random.default_rng(1), persons * RECORDS
    columns = {
        "who": np.repeat(np.arange(persons), RECORDS),
        "y": rng.normal(5, 1, n),
        "x": rng.normal(0, 1, n),
        "t": rng.uniform(0, 4, n),
        "g": np.repeat(rng.integers(0, 4, persons), RECORDS),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        pl.DataFrame(columns).write_parquet(path)
        QUESTIONS["mean"](pm.Table(path, person="who"))  # what a process asks of DuckDB once
        rows: list[list[object]] = [[name, *counted(path, ask)] for name, ask in QUESTIONS.items()]
    publish(
        "passes",
        "Passes over the data per question, from the engine's log",
        table(["question", "file", "people", "file, later", "people, later"], rows),
        command=f"python benchmarks/passes.py --persons {persons}",
    )


if __name__ == "__main__":
    main()
