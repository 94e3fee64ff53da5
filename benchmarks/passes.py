"""How often each question goes over its data, and what it asks of each engine, counted as sent.

A pass over the file is a query that reads records; a pass over the people is one that reads the
table of people, or of people by group, that was made of them. "later": the same question asked once
more of the same table, with other noise.

    python benchmarks/passes.py [--persons 20000] [--homes HOME ...]

The second table counts statements sent to SQL engines (those that make temporary tables among
them) and jobs of Spark. Engines that are not installed here are looked for in the environments of
`make engines` and `make test-spark`; those that are not asked keep their stored counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import polars as pl
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "data"))

import sql_tables

import privmean as pm
from privmean.data import duckdb_engine, sql_engines
from privmean.errors import ArgumentError
from report import few, publish, table

ROOT = Path(__file__).resolve().parent.parent
LISTED = "SELECT message FROM duckdb_logs WHERE type = 'QueryLog'"
RECORDS = 5  # a person
HOMES = (*sql_tables.ENGINES, "spark")
GROUPS = (0, 1, 2, 3)


def study(source: pm.Table, noise: pm.SimulatedNoise) -> object:
    """Eight questions with one budget."""
    made = pm.Study(source, epsilon=8.0, delta=1e-6, noise=noise)
    for name in ("y", "x", "t"):
        made.add(f"mean of {name}", pm.Mean(name))
    for name in ("y", "x"):
        made.add(f"{name} by group", pm.Mean(name, by="g", keys=GROUPS))
        made.add(f"quantiles of {name}", pm.Quantile(name, [0.25, 0.5]))
    made.add("variance", pm.Variance("y"))
    return made.release()


Ask = Callable[[pm.Table, pm.SimulatedNoise], object]
QUESTIONS: dict[str, Ask] = {
    "mean": lambda t, n: pm.mean(t, "y", epsilon=1, noise=n),
    "mean within bounds": lambda t, n: pm.mean(t, "y", assume=(0, 10), epsilon=1, noise=n),
    "three columns": lambda t, n: pm.mean(t, ["y", "x", "t"], epsilon=1, noise=n),
    "by group": lambda t, n: pm.mean(t, "y", by="g", keys=GROUPS, epsilon=1, noise=n),
    "curve": lambda t, n: pm.curve(t, "y", time="t", bins=[0, 1, 2, 3, 4], epsilon=1, noise=n),
    "quantile": lambda t, n: pm.quantile(t, "y", epsilon=1, noise=n),
    "variance": lambda t, n: pm.variance(t, "y", epsilon=1, noise=n),
    "regression": lambda t, n: pm.regress(t, "y ~ x", epsilon=1, noise=n),
    "study of eight": study,
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
    for text in queries:
        if not text.startswith(("DESCRIBE", "DROP")):
            records = "read_parquet(" in text
            file += records
            people += not records and "privmean_people" in text
    return file, people


def twice(ask: Ask, source: Any, asked: Callable[[], Any]) -> list[Any]:
    """What `asked` says after a question, and after the same one with other noise."""
    described, found = pm.Table(source, person="who"), []
    for seed in (1, 2):
        ask(described, pm.SimulatedNoise(seed))
        found.append(asked())
    return found


def counts_of(source: Any, asked: Callable[[], Any]) -> dict[str, list[Any]]:
    """What `asked` says of every question; nothing of those that the source refuses."""
    found = {}
    for name, ask in QUESTIONS.items():
        asked()
        try:
            found[name] = twice(ask, source, asked)
        except ArgumentError:
            found[name] = []
    return found


def counted(path: Path, ask: Ask) -> list[int]:
    """The passes of a question, and of the same one asked once more of the same table."""
    with logged() as asked:
        found = twice(ask, path, lambda: passes(asked()))
    return [number for pair in found for number in pair]


def in_sql(home: str, path: Path) -> dict[str, list[int]]:
    """Statements sent to an SQL engine; none where it refuses the question."""
    source = sql_tables.put(home, pq.read_table(path))
    sent: list[object] = []

    def counting(usual: Callable[..., Any], *given: Any) -> Any:
        sent.append(given)
        return usual(*given)

    def asked() -> int:
        number = len(sent)
        sent.clear()
        return number

    rows, run = partial(counting, sql_engines.rows), partial(counting, sql_engines.run)
    with mock.patch.object(sql_engines, "rows", rows), mock.patch.object(sql_engines, "run", run):
        return counts_of(source, asked)


def in_spark(path: Path) -> dict[str, list[int]]:
    """Jobs of Spark."""
    import spark

    session = spark.session()
    source, context = session.read.parquet(str(path)), session.sparkContext
    seen = 0

    def asked() -> int:
        nonlocal seen
        before, seen = seen, len(context.statusTracker().getJobIdsForGroup("counted"))
        return seen - before

    context.setJobGroup("counted", "questions")
    found = counts_of(source, asked)
    session.stop()
    return found


def asked_of(home: str, path: Path) -> dict[str, list[int]] | str:
    """The counts of a home, in a process of its own; or why there are none."""
    needed = {"clickhouse": ("chdb", "engines"), "spark": ("pyspark", "spark")}
    module, name = needed.get(home, ("duckdb", ""))
    python = Path(sys.executable)
    if find_spec(module) is None:
        python = ROOT / f".venv-{name}" / "bin" / "python"
        if not python.exists():
            return f"{module} is not installed"
    elif home in sql_tables.ENGINES and sql_tables.missing(home):
        return sql_tables.missing(home)
    packages = os.pathsep.join([str(ROOT / "src"), sysconfig.get_path("purelib")])
    said = subprocess.run(
        [str(python), "-W", "ignore", __file__, "--child", home, str(path)],
        env=os.environ | {"PYTHONPATH": packages}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if said.returncode:
        raise SystemExit(f"{home}:\n{said.stderr[-3000:]}")
    made: dict[str, list[int]] = json.loads(said.stdout.splitlines()[-1])
    return made


def known() -> dict[str, Any]:
    """The counts of homes that were stored before."""
    stored = Path(__file__).resolve().parent / "results" / "passes.json"
    found: dict[str, Any] = json.loads(stored.read_text()).get("data", {})
    return found


def child(home: str, path: Path) -> dict[str, list[int]]:
    warnings.simplefilter("ignore")
    return in_spark(path) if home == "spark" else in_sql(home, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--persons", type=int, default=few(20_000, 2000))
    parser.add_argument("--homes", nargs="*", default=few(len(HOMES), 1), choices=HOMES)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(given.child[0], Path(given.child[1]))))
        return
    homes = HOMES[: given.homes] if isinstance(given.homes, int) else given.homes
    rng, n = np.random.default_rng(1), given.persons * RECORDS
    columns = {
        "who": np.repeat(np.arange(given.persons), RECORDS),
        "y": rng.normal(5, 1, n),
        "x": rng.normal(0, 1, n),
        "t": rng.uniform(0, 4, n),
        "g": np.repeat(rng.integers(0, 4, given.persons), RECORDS),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        pl.DataFrame(columns).write_parquet(path)
        # what a process asks of DuckDB once
        QUESTIONS["mean"](pm.Table(path, person="who"), pm.SimulatedNoise(1))
        rows: list[list[object]] = [[name, *counted(path, ask)] for name, ask in QUESTIONS.items()]
        found = known() | {home: asked_of(home, path) for home in homes}
    sent = {home: found[home] for home in HOMES if isinstance(found.get(home), dict)}
    text = table(["question", "file", "people", "file, later", "people, later"], rows)
    text += "\n\nStatements, and jobs of Spark: of the first question, then of a later one.\n\n"
    text += table(
        ["question", *sent],
        [
            [name, *(" then ".join(map(str, item[name])) or "refused" for item in sent.values())]
            for name in QUESTIONS
        ],
    )
    for home, reason in found.items():
        text += "" if home in sent else f"\n\nLeft out: {home}, {reason}."
    publish(
        "passes",
        "Passes over the data per question, as sent to the engine",
        text,
        command=f"python benchmarks/passes.py --persons {given.persons}",
        data=sent,
    )


if __name__ == "__main__":
    main()
