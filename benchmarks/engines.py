"""The homes of people side by side: one table, printed by one command.

    python benchmarks/engines.py [--homes HOME ...] [--records N] [--persons M] [--tables T]
                                 [--publish]

For each home: answers of `People` on random dirty tables and on the hostile table of the tests that
equal the slow reference; questions about groups with the same release as Polars; and the cost of a
table of N records of M persons over that of the plain query of the same engine, in one run. The
plain query is what the private mean makes private: the mean of persons' means and their number, of
one GROUP BY person. Beside it: the table of persons (`privmean.read`: the one pass over the
records), and the whole private mean (`privmean.mean`, with reading, planning, noise and release).
All in processor time of every process that works, medians of ratios of runs that take turns. Memory
is the peak of the process that computes (for PostgreSQL, of the server's process of the session).
DuckDB, Polars and DataFusion read one Parquet file; PostgreSQL and ClickHouse hold tables of their
own, made before. PostgreSQL needs the system's package, DataFusion and ClickHouse (chdb) those of
the registry.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "data"))

import random_tables
import spark_homes
import sql_tables

import privmean as pm
from report import publish, table

HOMES = {"duckdb": "parquet", "polars": "lazy"} | {name: name for name in sql_tables.ENGINES}
TURNS = 3
PLAIN = "SELECT avg(m), count(m) FROM (SELECT who, avg(x) AS m FROM {} GROUP BY who) AS t"


def records(count: int, persons: int) -> pa.Table:
    generator = np.random.default_rng(1)
    who = generator.integers(0, persons, count)
    x = np.round(50 + generator.normal(0, 5, persons)[who] + generator.normal(0, 10, count), 1)
    return pa.table({"who": who, "x": x})


def reductions(home: str, tables: int) -> tuple[int, int]:
    """Answers on random tables: asked, wrong."""
    asked = wrong = 0
    for seed in range(tables):
        generator = random.Random(f"engines, {seed}")
        made = random_tables.table(generator)
        if made.rows_of_persons:
            continue
        chosen = generator.sample(random_tables.questions(made, generator), 8)
        with tempfile.TemporaryDirectory() as folder:
            wrong += len(random_tables.mismatches(made, chosen, Path(folder), (HOMES[home],)))
        asked += len(chosen)
    return asked, wrong


def hostile(home: str) -> tuple[int, int]:
    """Answers on the hostile table, with ids of two kinds and with weights: asked, wrong."""
    asked = wrong = 0
    for ids, cap in ((range(9), None), (["a", "B", "é", "0", "00"], None), (range(40), 3)):
        generator = random.Random(4)
        made = random_tables.of_rows(random_tables.dirty_rows(ids, 60, generator), cap)
        chosen = random_tables.questions(made, generator)
        with tempfile.TemporaryDirectory() as folder:
            wrong += len(random_tables.mismatches(made, chosen, Path(folder), (HOMES[home],)))
        asked += len(chosen)
    return asked, wrong


def groups(home: str) -> tuple[int, int]:
    """Questions about groups: asked, and how many give another release than Polars."""
    frame = spark_homes.grouped()
    whole = {"who": pa.int64(), "key": pa.string(), "arm": pa.int64()}
    kinds = pa.schema([(name, whole.get(name, pa.float64())) for name in frame.columns])
    arrow = frame.to_arrow().cast(kinds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "groups.parquet"
        pq.write_table(arrow, path)
        source = {"duckdb": path, "polars": frame.lazy()}.get(home)
        source = sql_tables.put(home, arrow) if source is None else source
        different = 0
        for release in spark_homes.comparisons().values():
            made = [release(one, pm.SimulatedNoise(3)).to_dict() for one in (frame, source)]
            for one in made:
                del one["provenance"]  # time and engine
            different += len({json.dumps(one, sort_keys=True) for one in made}) > 1
    return len(spark_homes.comparisons()), different


class Timed:
    """A table of one engine, its plain query, and the private mean."""

    def __init__(self, home: str, path: str) -> None:
        self.home, self.path = home, path
        self.table = None
        if home == "datafusion":
            link = sql_tables.connection(home)
            link.con.register_parquet("big", path)
            self.table = link.table("big")
        elif home == "postgres":
            self.table = self._copied(pq.ParquetFile(path))
        elif home == "clickhouse":
            self.table = self._inserted(pq.ParquetFile(path))

    def _copied(self, file: pq.ParquetFile) -> object:
        link = sql_tables.connection("postgres")
        with link.con.cursor() as cursor:
            cursor.execute("CREATE TABLE big (who bigint, x double precision)")
            with cursor.copy("COPY big FROM STDIN (FORMAT csv)") as copy:
                for batch in file.iter_batches(100_000):
                    text = io.BytesIO()
                    csv.write_csv(batch, text, csv.WriteOptions(include_header=False))
                    copy.write(text.getvalue())
            cursor.execute("VACUUM ANALYZE big")
        return link.table("big")

    def _inserted(self, file: pq.ParquetFile) -> object:
        link = sql_tables.connection("clickhouse")
        link.con.command("CREATE TABLE big (who Int64, x Float64) ENGINE = MergeTree ORDER BY ()")
        for batch in file.iter_batches(1_000_000):
            link.con.insert_arrow("big", pa.Table.from_batches([batch]))
        return link.table("big")

    def used(self) -> float:
        """Seconds of processor time so far, of all that works for this process."""
        own = time.process_time()
        if self.home != "postgres":
            return own
        backend = _ticks(self.backend)
        workers = _ticks(_parent(self.backend))  # who have ended, counted where they came from
        return own + backend[0] + backend[1] + workers[2] + workers[3]

    @cached_property
    def backend(self) -> int:
        """The server's process of the session."""
        asked = sql_tables.connection("postgres").con.execute("SELECT pg_backend_pid()")
        return int(asked.fetchone()[0])

    def plain(self) -> float:
        if self.home == "duckdb":
            import duckdb

            with duckdb.connect() as link:
                return float(link.execute(PLAIN.format(f"'{self.path}'")).fetchone()[0])
        if self.home == "polars":
            import polars as pl

            means = pl.scan_parquet(self.path).group_by("who").agg(pl.col("x").mean())
            return float(means.select(pl.col("x").mean()).collect().item())
        from privmean.data import sql_engines as sqlengines

        link = sql_tables.connection(self.home)
        text = PLAIN.format(self.table.get_name())
        if self.home == "postgres":
            return float(link.con.execute(text).fetchone()[0])
        if self.home == "datafusion":
            return float(link.con.sql(text).collect()[0].column(0)[0].as_py())
        return float(sqlengines.backend(self.table).con.query(text).result_rows[0][0])

    def persons(self) -> object:
        source = {"duckdb": self.path}.get(self.home, self.table)
        if self.home == "polars":
            import polars as pl

            source = pl.scan_parquet(self.path)
        return pm.read(source, person="who", values="x")

    def private(self) -> float:
        people = self.persons()
        return float(pm.mean(people, epsilon=1.0, noise=pm.SimulatedNoise(1)).estimate[0])

    def peak(self) -> float:
        """MB of the process that computes, so far."""
        if self.home != "postgres":
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        lines = Path(f"/proc/{self.backend}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def _ticks(pid: int) -> list[float]:
    """Seconds of a process, in its own code and in the system's, and of its children that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return [int(item) / os.sysconf("SC_CLK_TCK") for item in fields[11:15]]


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def child(home: str, what: str, path: str, tables: int) -> dict[str, object]:
    """What one process finds out about a home."""
    warnings.simplefilter("ignore")
    if what == "equal":
        return {
            "reductions": reductions(home, tables), "hostile": hostile(home), "groups": groups(home)
        }  # fmt: skip
    timed = Timed(home, path)
    if what == "time":
        timed.plain(), timed.private()  # imports, and pages into memory
        turns = []
        for _ in range(TURNS):
            seconds = []
            for run in (timed.plain, timed.persons, timed.private):
                start = timed.used()
                run()
                seconds.append(timed.used() - start)
            turns.append(seconds)
        plain = statistics.median(a for a, _, _ in turns)
        ratios = [statistics.median(turn[k] / turn[0] for turn in turns) for k in (1, 2)]
        return {"plain": plain, "persons": ratios[0], "ratio": ratios[1]}
    getattr(timed, what)()
    return {"peak": timed.peak()}


def asked(home: str, what: str, path: str, tables: int) -> dict[str, object]:
    command = [sys.executable, __file__, "--child", home, what, path, str(tables)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode:
        raise SystemExit(f"{home}, {what}:\n{said.stderr[-3000:]}")
    return json.loads(said.stdout.splitlines()[-1])


def row(home: str, path: str, tables: int) -> list[str]:
    equal = asked(home, "equal", path, tables)
    cells = [home]
    for item in ("reductions", "hostile", "groups"):
        count, wrong = equal[item]
        cells.append(f"{count - wrong} of {count}")
    found = asked(home, "time", path, tables)
    peaks = [asked(home, what, path, tables)["peak"] for what in ("plain", "private")]
    cells.append(f"{found['plain']:.2f} s")
    cells.append(f"{found['persons']:.2f}x")
    cells.append(f"{found['ratio']:.2f}x")
    cells.append(f"{peaks[1]:.0f} of {peaks[0]:.0f} MB, {peaks[1] / peaks[0]:.2f}x")
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--homes", nargs="+", default=list(HOMES), choices=list(HOMES))
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--persons", type=int, default=100_000)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        home, what, path, tables = given.child
        print(json.dumps(child(home, what, path, int(tables))))
        return 0
    homes, absent = [], []
    for home in given.homes:
        reason = sql_tables.missing(home) if home in sql_tables.ENGINES else ""
        (absent if reason else homes).append(f"{home}: {reason}" if reason else home)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "records.parquet")
        pq.write_table(records(given.records, given.persons), path)
        for home in homes:
            rows.append(row(home, path, given.tables))
            print("  ".join(rows[-1]), flush=True)
    head = ["home", "reductions equal", "hostile table equal", "groups equal", "plain query"]
    text = (
        f"{given.records:,} records of {given.persons:,} persons; equal: answers, and releases by "
        "group, that are those of the reference to the last bit. Processor time; the load of the "
        f"machine was {os.getloadavg()[0]:.0f} on {os.cpu_count()} processors.\n\n"
    ).replace(",", " ", 2)
    text += table([*head, "table of persons over it", "private mean over it", "memory"], rows)
    for line in absent:
        text += f"\nLeft out: {line}.\n"
    if given.publish:
        publish("engines", "Homes of people", text, command="make engines")
    else:
        print(text)
    return int(any(len(set(cell.split(" of "))) > 1 for item in rows for cell in item[1:4]))


if __name__ == "__main__":
    sys.exit(main())
