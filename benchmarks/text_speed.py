"""Time of reading text and Parquet, beside another version of the code in the same run.

The table is that of the speed benchmark (records of persons with scattered ids). Every reading is a
process of its own, of this code and of the other in turn; the least CPU time of each counts.

    git worktree add ../before COMMIT
    python benchmarks/text_speed.py --baseline ../before/src [--records 5e6] [--publish]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MAKE = """
import duckdb
duckdb.execute('''CREATE TABLE t AS SELECT (hash(i) % {persons})::BIGINT AS person,
    10 + 3 * (random() + random() + random()) AS y, 'text ' || i AS note
    FROM range({records}) AS r(i)''')
duckdb.execute("COPY (SELECT person, y FROM t) TO '{folder}/two columns.csv' (FORMAT csv, HEADER)")
duckdb.execute("COPY t TO '{folder}/quoted text.csv' (FORMAT csv, HEADER, FORCE_QUOTE (note))")
duckdb.execute("COPY (SELECT person, y FROM t) TO '{folder}/two keys.jsonl' (FORMAT json)")
duckdb.execute("COPY (SELECT person, y FROM t) TO '{folder}/two columns.parquet' (FORMAT parquet)")
"""
READ = """
import sys, time
import privmean as pm
start = time.process_time(), time.perf_counter()
pm.read(sys.argv[1], person="person", values="y").size()
print(time.process_time() - start[0], time.perf_counter() - start[1])
"""


def timed(source: str, path: Path) -> tuple[float, float]:
    """CPU and wall seconds."""
    environment = os.environ | {"PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    cpu, wall = map(float, done.stdout.split())
    return cpu, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--baseline", required=True, help="folder `src` of the other version")
    parser.add_argument("--records", type=float, default=5e6)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--publish", action="store_true", help="store the results")
    options = parser.parse_args()
    ours = str(Path(__file__).resolve().parent.parent / "src")
    records = int(options.records)
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as name:
        code = MAKE.format(records=records, persons=records // 10, folder=name)
        subprocess.run([sys.executable, "-c", code], check=True)
        for path in sorted(Path(name).iterdir()):
            runs = [
                (timed(options.baseline, path), timed(ours, path)) for _ in range(options.repeats)
            ]
            before, now = (min(run[side][0] for run in runs) for side in (0, 1))
            walls = [min(run[side][1] for run in runs) for side in (0, 1)]
            rows.append(
                [path.name, f"{path.stat().st_size / 1e6:.0f}", f"{before:.2f}", f"{now:.2f}",
                 f"{now / before:.2f}", f"{walls[1] / walls[0]:.2f}"]
            )  # fmt: skip
    import report

    header = ["file", "MB", "before, CPU s", "now, CPU s", "ratio", "ratio of wall time"]
    text = (
        f"{records:.0e} records of {records // 10:.0e} persons; the least of "
        f"{options.repeats} runs in turn, load {os.getloadavg()[0]:.1f}\n\n"
        + report.table(header, rows)
    )
    if options.publish:
        command = "python benchmarks/text_speed.py --baseline BEFORE --publish"
        title = "Reading text line by line, beside the reader before"
        report.publish("text-speed", title, text, command=command)
    else:
        print(text)


if __name__ == "__main__":
    main()
