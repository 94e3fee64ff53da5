"""The command `privmean mean` as a whole process, on a small table and on 1e7 records, beside the
plain query of DuckDB as a whole process; and what its processor time goes to.

    python benchmarks/small_table.py [--runs 9]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from report import in_turns, publish, python, table, whole_process

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
    "SciPy's special functions": "import scipy.special",
    "Typer": "import typer, typer._adapters",
    "privmean": (
        "import privmean.cli.app, privmean.estimators.means.default_mean, privmean.data.read"
    ),
}
TABLES = {"73,000 records": (73_000, 7_300), "1e7 records": (10**7, 10**6)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--print", action="store_true", help="keep the stored results")
    options = parser.parse_args()
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
