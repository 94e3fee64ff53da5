"""Processor seconds of a release by group, or of many columns, and of its print, against an
earlier version.

Every run is a process of its own, and the versions take turns. `--baseline` names a folder with the
sources of the earlier version; without it only this version is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

from report import as_installed, publish, python, table

MAKE = """
import duckdb
duckdb.sql('''COPY (SELECT hash(i) % {persons} AS who,
  'g' || (hash(hash(i) % {persons}) % {groups})::VARCHAR AS key,
  (hash(3 * i) % 10000) / 1000.0 + (hash(hash(i) % {persons}) % 100) / 50.0 AS x
  FROM range({records}) t(i)) TO '{path}' (FORMAT parquet)''')
"""
COLUMNS = """
import json, time
import numpy as np
import privmean as pm
values = np.random.default_rng(0).normal(50, 10, (3000, {columns}))
used = [time.process_time()]
release = pm.mean(values, epsilon={columns} / 2)
used.append(time.process_time())
str(release)
used.append(time.process_time())
release.rows(), release.interval(), release.to_dict()
used.append(time.process_time())
shown = int(np.isfinite(release.estimate).sum())
print(json.dumps([b - a for a, b in zip(used, used[1:])] + [shown]))
"""
OURS = """
import json, time
import privmean as pm
keys = ['g' + str(g) for g in range({groups})]
used = [time.process_time()]
release = pm.mean('{path}', 'x', person='who', by='key', keys=keys, epsilon=1)
used.append(time.process_time())
str(release)
used.append(time.process_time())
if {record}:
    release.rows(), release.interval(), release.to_dict()
used.append(time.process_time())
shown = sum(row.status != 'suppressed' for row in release.rows()) if {record} else 0
print(json.dumps([b - a for a, b in zip(used, used[1:])] + [shown]))
"""


def measured(source: Path | None, code: str) -> list[float]:
    """Seconds of the release, of its first print and of its record after that, and how many
    groups are shown."""
    environment = as_installed() | ({} if source is None else {"PYTHONPATH": str(source)})
    run = subprocess.run(python(code), check=True, capture_output=True, env=environment)
    found: list[float] = json.loads(run.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--persons", type=int, default=100_000)
    parser.add_argument("--groups", type=int, nargs="*", default=[500, 1000, 2000, 10_000])
    parser.add_argument("--columns", type=int, nargs="*", default=[20, 200])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--baseline", type=Path, help="sources of the version to compare with")
    parser.add_argument("--print", action="store_true", help="keep the stored results")
    said = parser.parse_args()
    versions = {"now": None} | ({"before": said.baseline} if said.baseline else {})
    rows: list[list[object]] = []
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        asked: list[tuple[str, int, str]] = []
        for groups in said.groups:
            known = {"path": Path(folder) / f"{groups}.parquet", "groups": groups}
            known |= {"persons": said.persons, "records": said.records}
            subprocess.run(python(MAKE.format(**known)), check=True)
            asked.append(("groups", groups, OURS.format(**known, record="{record}")))
        asked += [("columns", k, COLUMNS.format(columns=k)) for k in said.columns]
        for kind, number, code in asked:
            runs: dict[str, list[list[float]]] = {name: [] for name in versions}
            for turn in range(said.runs):
                for name, source in versions.items():
                    if name == "now" or turn == 0:  # an earlier print of many groups takes minutes
                        full = code.replace("{record}", str(name == "now"))
                        runs[name].append(measured(source, full))
            for name, found in runs.items():
                release, text, record, shown = (min(item) for item in zip(*found, strict=True))
                kept.append({kind: number, "version": name, "runs": len(found)})
                kept[-1] |= {"release": release, "print": text, "ratio": text / release}
                numbers = [f"{x:.2f}" for x in (release, text, text / release)]
                if name == "now":
                    kept[-1] |= {"record": record, "shown": shown}
                    numbers += [f"{record:.2f}", f"{shown:.0f}"]
                rows.append([f"{number} {kind}", name, *numbers, *[""] * (5 - len(numbers))])
    head = ["rows", "version", "release s", "print s", "print / release", "record s"]
    head.append("shown")
    words = f"{said.records:.0e} records of {said.persons:.0e} people in a Parquet file"
    words += ", columns of 3,000 people; least "
    words += f"processor seconds, load {os.getloadavg()[0]:.1f}."
    text = f"{words}\n\n{table(head, rows)}"
    if said.print:
        print(text)
        return
    command = f"python benchmarks/print_groups.py --runs {said.runs}"
    command += " --baseline SRC" if said.baseline else ""
    publish("print-groups", "Seconds of a print of many rows", text, command=command, data=kept)


if __name__ == "__main__":
    main()
