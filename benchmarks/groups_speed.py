"""Means by group from a Parquet file against the plain grouped query in the same engine.

The plain query: the mean of own means by group, one GROUP BY over persons and groups and one over
groups. Every run is a process of its own, so that nothing is kept from another; on a machine that
others use, processor time says more than the clock.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from report import publish, table

MAKE = """
import duckdb
duckdb.sql('''COPY (SELECT hash(i) % {persons} AS who,
  'g' || (hash(hash(i) % {persons}) % {groups} + (hash(i + 7) % 5 = 0)::INT)::VARCHAR AS key,
  (hash(3 * i) % 10000) / 1000.0 + (hash(hash(i) % {persons}) % 100) / 50.0 AS x
  FROM range({records}) t(i)) TO '{path}' (FORMAT parquet)''')
"""
PLAIN = """
import resource, time, duckdb
start = time.perf_counter()
duckdb.sql('''SELECT key, avg(m), count(*) FROM (SELECT who, key, avg(x) AS m FROM '{path}'
  GROUP BY who, key) GROUP BY key''').fetchall()
used = resource.getrusage(resource.RUSAGE_SELF)
print(time.perf_counter() - start, used.ru_utime + used.ru_stime)
"""
OURS = """
import resource, time, privmean as pm
keys = ['g' + str(g) for g in range({groups} + 1)]
start = time.perf_counter()
release = pm.mean('{path}', 'x', person='who', by='key', keys=keys, max_groups={k}, epsilon=1)
used = resource.getrusage(resource.RUSAGE_SELF)
print(time.perf_counter() - start, used.ru_utime + used.ru_stime)
assert not release.failed
"""


def seconds(code: str, runs: int) -> tuple[float, float]:
    """The best of some runs by the clock, and by processor time (of the whole process)."""
    found = []
    for _ in range(runs):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        clock, used = done.stdout.split()[-2:]
        found.append((float(clock), float(used)))
    return min(item[0] for item in found), min(item[1] for item in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=50_000_000)
    parser.add_argument("--persons", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, nargs="*", default=[50, 10_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--print", action="store_true", help="keep docs/benchmarks.md as it is")
    said = parser.parse_args()
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for groups in said.groups:
            known = {"path": Path(folder) / "t.parquet", "groups": groups, "persons": said.persons}
            known["records"] = said.records
            subprocess.run(
                [sys.executable, "-c", MAKE.format(**known)], check=True, capture_output=True
            )
            plain = seconds(PLAIN.format(**known), said.runs)
            for k in (1, 2):
                ours = seconds(OURS.format(**known, k=k), said.runs)
                shown = []
                for one, two in zip(plain, ours, strict=True):
                    shown += [f"{one:.1f} s", f"{two:.1f} s", f"{two / one:.2f}"]
                rows.append([f"{said.records:.0e}", f"{said.persons:.0e}", groups, k, *shown])
    head = ["records", "persons", "groups", "max_groups", "plain query", "release", "ratio"]
    head += ["plain, processor", "release, processor", "ratio, processor"]
    words = (
        "Seconds from a Parquet file, the best of some runs, by the clock and by processor time of "
        "the process (imports included in both)."
    )
    body = f"{words}\n\n{table(head, rows)}"
    if said.print:
        print(body)
        return
    command = " ".join(["python benchmarks/groups_speed.py", *sys.argv[1:]])
    publish("groups-speed", "Means by group: time", body, command=command)


if __name__ == "__main__":
    main()
