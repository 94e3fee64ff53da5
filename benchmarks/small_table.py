"""The command `privmean mean` as a whole process, on a small table and on 1e7 records, beside the
plain query of DuckDB as a whole process; and what its processor time goes to.

    python benchmarks/small_table.py [--runs 9]          # writes small-table.json
    python benchmarks/small_table.py --loops [--runs 5]  # writes loops.json

--loops: a release and its interval in a loop, starts, a small file, and arrays of many columns
beside clipping and a Laplace draw a cell in NumPy.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from report import as_installed, in_turns, publish, python, table, whole_process

MAKE = """
import duckdb
duckdb.sql("COPY (SELECT (hash(i) % {persons})::BIGINT AS person, "
           "10 + (hash(3 * i) % 1000) / 250.0 AS y "
           "FROM range({records}) t(i)) TO '{path}' (FORMAT parquet)")
"""
PLAIN = """
import duckdb
means = "SELECT avg(y) AS m FROM '{path}' GROUP BY person"
print(duckdb.sql("SELECT avg(m) FROM (" + means + ")").fetchall())
"""
# what is imported, each line with all lines before it
IMPORTS = {
    "Python itself": "pass",
    "NumPy": "import numpy",
    "DuckDB, Narwhals": "import duckdb, narwhals",
    "OpenDP": "import opendp.mod, opendp.domains, opendp.measurements, opendp.metrics",
    "Typer": "import typer, typer.core",
    "privmean": (
        "import privmean.cli.app, privmean.estimators.means.default_mean, privmean.data.read"
    ),
}
LOOP = """
import json, time, statistics, numpy as np, privmean as pm
def seconds(task, times):
    taken = []
    for _ in range(times):
        start = time.process_time()
        task()
        taken.append(time.process_time() - start)
    return 1e3 * statistics.median(taken)
found = {}
for n in (1000, 10_000, 100_000):
    x = np.random.default_rng(0).normal(50, 10, n)
    releases = []
    pm.mean(x, epsilon=1).interval()
    release = seconds(lambda: releases.append(pm.mean(x, epsilon=1)), 200)
    waiting = iter(releases)
    found[n] = [release, seconds(lambda: next(waiting).interval(), 200)]
print(json.dumps(found))
"""
WIDE = """
import json, time, numpy as np, privmean as pm
def plain():
    return (np.clip(x, 0, 100) + np.random.default_rng(1).laplace(0, 1, x.shape)).mean(axis=0)
def private():
    return pm.mean(x, epsilon=1, delta=1e-6)
def seconds(task):
    start = time.process_time()
    task()
    return time.process_time() - start
x = np.random.default_rng(0).normal(50, 10, ({people}, {columns}))
pm.mean(x[:5000], epsilon=1, delta=1e-6)
print(json.dumps([[seconds(plain), seconds(private)] for _ in range(2)]))
"""
STARTS = {
    "python -c pass": ["-c", "pass"],
    "import privmean": ["-c", "import privmean"],
    "privmean --version": ["-m", "privmean", "--version"],
    "privmean --help": ["-m", "privmean", "--help"],
}
TABLES = {"73,000 records": (73_000, 7_300), "1e7 records": (10**7, 10**6)}


def loops(runs: int, widths: list[int]) -> None:
    """Publish what users repeat: releases in a loop, starts, a small file, many columns."""
    head = ["", "least wall s", "least processor s", "median ratio, processor"]
    data: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    data["loop"] = json.loads(_printed(LOOP))
    rows = [[n, *(f"{item:.2f}" for item in items)] for n, items in data["loop"].items()]
    texts = [
        "In one process, medians of 200, processor ms:\n\n"
        + table(["people", "`pm.mean(array)`", "then `interval()`"], rows)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        whole_process(python(MAKE.format(records=100_000, persons=10_000, path=path)))
        ours = ["mean", str(path), "--person", "person", "--value", "y", "--epsilon", "1"]
        data["processes"] = in_turns(
            {
                "plain DuckDB query, 1e5 records": python(PLAIN.format(path=path)),
                "privmean mean, 1e5 records": [sys.executable, "-m", "privmean", *ours],
                **{name: [sys.executable, *words] for name, words in STARTS.items()},
            },
            runs,
        )
    said = data["processes"].items()
    rows = [[name, *(f"{item:.3f}" for item in items)] for name, items in said]
    texts.append(f"Whole processes in turns, {runs} each:\n\n" + table(head, rows))
    rows, data["columns"] = [], {}
    for columns in widths:
        pairs = json.loads(_printed(WIDE.format(people=100_000, columns=columns)))
        plain, private = (min(pair[k] for pair in pairs) for k in (0, 1))
        data["columns"][columns] = {"plain": plain, "privmean": private, "ratio": private / plain}
        rows.append([columns, f"{plain:.2f}", f"{private:.2f}", f"{private / plain:.1f}"])
    texts.append(
        "1e5 people, processor s, least of 2:\n\n"
        + table(["columns", "clip and Laplace noise a cell in NumPy", "privmean", "ratio"], rows)
    )
    publish(
        "loops", "Releases in a loop, starts and many columns", "\n\n".join(texts),
        command=" ".join(["python benchmarks/small_table.py", *sys.argv[1:]]), data=data,
    )  # fmt: skip


def _printed(code: str) -> str:
    done = subprocess.run(python(code), check=True, env=as_installed(), stdout=subprocess.PIPE)
    return done.stdout.decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--print", action="store_true", help="keep the stored results")
    parser.add_argument("--loops", action="store_true", help="loops, starts, many columns")
    parser.add_argument("--columns", type=int, nargs="*", default=[20, 100, 1000])
    options = parser.parse_args()
    if options.loops:
        loops(options.runs, options.columns)
        return
    head = ["", "least wall s", "least processor s", "median ratio, processor"]
    texts = []
    with tempfile.TemporaryDirectory() as folder:
        for title, (records, persons) in TABLES.items():
            path = Path(folder) / "t.parquet"
            make = MAKE.format(records=records, persons=persons, path=path)
            code = PLAIN.format(path=path)
            ours = [sys.executable, "-m", "privmean", "mean", str(path), "--person", "person"]
            whole_process(python(make))
            said = in_turns(
                {
                    "plain DuckDB query": python(code),
                    "privmean mean": [*ours, "--value", "y", "--epsilon", "1"],
                },
                options.runs,
            )
            rows = [[name, *(f"{item:.2f}" for item in items)] for name, items in said.items()]
            texts.append(f"{title} of {persons:,} persons:\n\n{table(head, rows)}")
    lines, commands = [], {}
    for name, line in IMPORTS.items():
        lines.append(line)
        commands[name] = python("\n".join(lines))
    said = in_turns(commands, options.runs)
    so_far, rows = 0.0, []
    for name, (_, used, _) in said.items():
        rows.append([name, f"{1000 * (used - so_far):.0f}"])
        so_far = used
    texts.append("Imports of that command:\n\n" + table(["", "processor ms"], rows))
    text = (
        f"Whole processes in turns, {options.runs} each, load {os.getloadavg()[0]:.1f}; modules "
        "are compiled beforehand, as those of an installed package are.\n\n" + "\n\n".join(texts)
    )
    if options.print:
        print(text)
        return
    command = " ".join(["python benchmarks/small_table.py", *sys.argv[1:]])
    publish("small-table", "A small table", text, command=command)


if __name__ == "__main__":
    main()
