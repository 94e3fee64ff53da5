"""Means by group from a Parquet file against the plain grouped query in the same engine.

The plain query: the mean of own means by group, one GROUP BY over persons and groups and one over
groups. Printed: with the text of the whole table. Every run is a process of its own, so that
nothing is kept from another; the processes take turns, and on a machine that others use their
processor time says more than the clock.
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
duckdb.sql('''COPY (SELECT hash(i) % {persons} AS who,
  'g' || (hash(hash(i) % {persons}) % {groups} + (hash(i + 7) % 5 = 0)::INT)::VARCHAR AS key,
  (hash(3 * i) % 10000) / 1000.0 + (hash(hash(i) % {persons}) % 100) / 50.0 AS x
  FROM range({records}) t(i)) TO '{path}' (FORMAT parquet)''')
"""
PLAIN = """
import duckdb
duckdb.sql('''SELECT key, avg(m), count(*) FROM (SELECT who, key, avg(x) AS m FROM '{path}'
  GROUP BY who, key) GROUP BY key''').fetchall()
"""
OURS = """
import privmean as pm
keys = ['g' + str(g) for g in range({groups} + 1)]
release = pm.mean('{path}', 'x', person='who', by='key', keys=keys, max_groups={k}, epsilon=1)
assert not release.failed
"""
SHOWN = "text = str(release)\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=50_000_000)
    parser.add_argument("--persons", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, nargs="*", default=[50, 10_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--print", action="store_true", help="keep the stored results")
    said = parser.parse_args()
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for groups in said.groups:
            known = {"path": Path(folder) / "t.parquet", "groups": groups, "persons": said.persons}
            known["records"] = said.records
            whole_process(python(MAKE.format(**known)))
            commands = {"plain query": python(PLAIN.format(**known))}
            for k in (1, 2):
                commands[f"max_groups={k}"] = python(OURS.format(**known, k=k))
            commands["max_groups=1, printed"] = python(OURS.format(**known, k=1) + SHOWN)
            for name, (clock, used, ratio) in in_turns(commands, said.runs).items():
                rows.append(
                    [
                        f"{said.records:.0e}",
                        f"{said.persons:.0e}",
                        groups,
                        name,
                        f"{clock:.1f}",
                        f"{used:.2f}",
                        f"{ratio:.2f}",
                    ]
                )
    head = ["records", "persons", "groups", "", "least wall s", "least processor s"]
    head.append("median ratio, processor")
    words = (
        f"From a Parquet file, whole processes (imports included) in {said.runs} turns, load "
        f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    )
    body = f"{words}\n\n{table(head, rows)}"
    if said.print:
        print(body)
        return
    command = " ".join(["python benchmarks/groups_speed.py", *sys.argv[1:]])
    publish("groups-speed", "Means by group: time", body, command=command)


if __name__ == "__main__":
    main()
