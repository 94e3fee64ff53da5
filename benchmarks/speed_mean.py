"""Time and memory of a private mean against the plain query of the same mean.

Whole processes: a Parquet file of records (made here, in a temporary folder) is read into people
and released, and the plain DuckDB query computes the same mean without privacy; they alternate,
each in a process of its own, which also measures itself after its imports (for privmean: after a
release of a small table). Ids are numbered from 0 in one file, scattered over 63 bits in another,
and texts of 32 signs in the third. In memory: the whole release of an array against `numpy.mean`.

With --text: the same from CSV and JSON lines, in processor time, which other work on the machine
changes least.

    python benchmarks/speed_mean.py [--quick] [--records 5e7] [--persons 1e6] [--repeats 5]
                                    [--ids NAME ..] [--folder DIR --keep] [--text]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import as_installed

# The parent stays small: Linux counts its memory into the peak of a child, and imports nothing big.
MAKE = """
import duckdb
duckdb.execute('''COPY (
    SELECT {person} AS person,
           10 + 3 * sqrt(-2 * ln(random() + 1e-12)) * cos(2 * pi() * random()) AS y
    FROM range({records}) AS r(i)) TO '{path}' (FORMAT parquet)''')
"""
IDS = {
    "ids from 0": "(hash(i) % {persons})::BIGINT",
    "scattered ids": "(hash(hash(i) % {persons}) >> 1)::BIGINT",
    "text ids": "md5((hash(i) % {persons})::VARCHAR)",
}
MAKE_TEXT = """
import duckdb
duckdb.execute("SET enable_progress_bar = false")
duckdb.execute('''COPY (
    SELECT {person} AS person,
           round(10 + 3 * sqrt(-2 * ln(random() + 1e-12)) * cos(2 * pi() * random()), 3) AS y,
           (hash(i + 7) % 90)::INT AS age, 'site ' || hash(i + 9) % 50 AS site,
           round(random(), 4) AS w
    FROM range({records}) AS r(i)) TO '{path}' (FORMAT {form})''')
"""
TEXT_IDS = {
    "whole numbers": "(hash(i) % {persons})::BIGINT",
    "texts": "'p-' || hash(i) % {persons} || '-' || left(md5((hash(i) % {persons})::VARCHAR), 8)",
}
PLAIN = """
import time
import duckdb
start = time.{clock}()
query = "SELECT avg(m) FROM (SELECT avg(y) AS m FROM '{path}' GROUP BY person) AS t"
duckdb.execute("SET enable_progress_bar = false")
duckdb.execute(query).fetchall()
print(time.{clock}() - start)
"""
WARM = """
import time
import duckdb
import numpy as np
import privmean as pm
table = dict(person=np.arange(1000), y=np.arange(1000.0))
pm.mean(pm.read(table, person="person", values="y"), epsilon=1.0, delta=1e-6).estimate
start = time.{clock}()
"""
READ = (
    WARM
    + """
people = pm.read("{path}", person="person", values="y")
people.size()
print(time.{clock}() - start)
"""
)
PRIVATE = (
    WARM
    + """
people = pm.read("{path}", person="person", values="y")
pm.mean(people, epsilon=1.0, delta=1e-6).estimate
print(time.{clock}() - start)
"""
)
COMMAND = ["mean", "{path}", "--person", "person", "--value", "y", "--epsilon", "1"]
MEMORY = """
import json, time
import numpy as np
import privmean as pm

def once(task):
    start, used = time.perf_counter(), time.process_time()
    task()
    return time.perf_counter() - start, time.process_time() - used

found = {{}}
for name, center in (("centred at 0", 0.0), ("centred at 10", 10.0)):
    x = np.random.default_rng(1).normal(center, 3.0, {count})
    pm.mean(x[:1000], epsilon=1.0)  # imports and the first draw of noise
    found[name] = [
        (once(lambda: np.mean(x)), once(lambda: pm.mean(x, epsilon=1.0))) for _ in range({repeats})
    ]
print(json.dumps(found))
"""


def process(command: list[str]) -> tuple[float, float, float, float]:
    """Wall seconds, processor seconds, peak megabytes, and seconds after imports (0: not said)."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, env=as_installed())
    assert child.stdout is not None
    said = child.stdout.read()
    child.stdout.close()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"failed: {command}")
    inside = float(said.split()[-1]) if command[1] == "-c" else 0.0
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, inside


def whole_processes(path: Path, repeats: int) -> list[list[object]]:
    words = {"path": path, "clock": "perf_counter"}
    jobs = {
        "plain DuckDB query": [sys.executable, "-c", PLAIN.format(**words)],
        "privmean, reading only": [sys.executable, "-c", READ.format(**words)],
        "privmean, release": [sys.executable, "-c", PRIVATE.format(**words)],
        "privmean, command line": [
            sys.executable, "-m", "privmean", *(item.format(path=path) for item in COMMAND),
        ],
    }  # fmt: skip
    runs: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in jobs}
    for turn in range(repeats + 1):
        for name, command in jobs.items():
            found = process(command)
            if turn:  # the first turn only warms the file cache
                runs[name].append(found)
    least = {
        name: [min(column) for column in zip(*found, strict=True)] for name, found in runs.items()
    }
    base, rows = least["plain DuckDB query"], []
    for name, (wall, cpu, peak, inside) in least.items():
        pairs = list(zip(runs[name], runs["plain DuckDB query"], strict=True))
        paired = statistics.median(mine[0] / plain[0] for mine, plain in pairs)
        within = statistics.median(mine[3] / plain[3] for mine, plain in pairs)
        row: list[object] = [name, f"{wall:.2f}", f"{wall / base[0]:.2f}", f"{paired:.2f}"]
        if inside:
            row += [f"{inside:.2f}", f"{inside / base[3]:.2f}", f"{within:.2f}"]
        else:
            row += ["", "", ""]
        row += [f"{cpu / base[1]:.2f}", f"{peak:.0f}", f"{peak / base[2]:.2f}"]
        rows.append(row)
    return rows


def text_row(path: Path, repeats: int) -> list[object]:
    """Processor time and memory of a release against DuckDB's own reader, by pairs of runs."""
    words = {"path": path, "clock": "process_time"}
    pairs = []
    for turn in range(repeats + 1):
        plain, mine = (
            process([sys.executable, "-c", code.format(**words)]) for code in (PLAIN, PRIVATE)
        )
        if turn:
            pairs.append((plain, mine))

    def median(part: int) -> list[float]:
        runs = [statistics.median(pair[side][part] for pair in pairs) for side in (0, 1)]
        return [*runs, statistics.median(mine[part] / plain[part] for plain, mine in pairs)]

    (whole, inside, peak) = (median(part) for part in (1, 3, 2))
    shown = [f"{number:.2f}" for number in (*whole, *inside)]
    return [*shown, f"{peak[0]:.0f}", f"{peak[1]:.0f}", f"{peak[2]:.2f}"]


def text_files(folder: Path, records: int, persons: int, repeats: int) -> None:
    from report import publish, table

    rows: list[list[object]] = []
    for form, ending in (("csv", "CSV"), ("json", "JSON lines")):
        for title, person in TEXT_IDS.items():
            path = folder / f"{records}.{form}"
            code = MAKE_TEXT.format(
                records=records, person=person.format(persons=persons), path=path, form=form
            )
            subprocess.run([sys.executable, "-c", code], check=True)
            size = f"{path.stat().st_size / 1e6:.0f}"
            rows.append([ending, title, f"{records:.0e}", size, *text_row(path, repeats)])
            print(*rows[-1], sep=" | ", flush=True)
            path.unlink()
    header = [
        "format", "ids", "records", "file MB", "DuckDB s", "privmean s", "ratio",
        "DuckDB after imports s", "privmean after imports s", "ratio",
        "DuckDB peak MB", "privmean peak MB", "ratio",
    ]  # fmt: skip
    words = (
        f"The mean of the means of {persons:.0e} persons, from text with five columns: processor "
        "seconds (user and system) of whole processes in turns, of the work after imports (for "
        "privmean: after a release of a small table), and the peak of memory. DuckDB reads the "
        f"file with its own reader and adds no noise. Medians of {repeats} pairs, load "
        f"{os.getloadavg()[0]:.1f}.\n\n"
    )
    publish(
        "speed-text", "Time and memory of one mean from text", words + table(header, rows),
        command="python benchmarks/speed_mean.py --text",
    )  # fmt: skip


def in_memory(count: int, repeats: int) -> list[list[object]]:
    code = MEMORY.format(count=count, repeats=repeats)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    rows: list[list[object]] = []
    for name, runs in json.loads(done.stdout).items():
        plain, private = ([run[i][0] for run in runs] for i in (0, 1))
        paired = statistics.median(run[1][0] / run[0][0] for run in runs)
        busy = statistics.median(run[1][1] / run[0][1] for run in runs)
        typical = statistics.median(plain), statistics.median(private)
        rows.append(
            [
                name,
                *(f"{1000 * item:.1f}" for item in typical),
                f"{paired:.1f}",
                f"{min(private) / min(plain):.1f}",
                f"{busy:.1f}",
            ]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--records", type=float)
    parser.add_argument("--persons", type=float)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--ids", nargs="+", choices=IDS, default=list(IDS), help="kinds of ids")
    parser.add_argument("--folder", type=Path, help="where the table is made")
    parser.add_argument("--keep", action="store_true", help="keep the table (with --folder)")
    parser.add_argument("--text", action="store_true", help="CSV and JSON lines instead")
    options = parser.parse_args()
    if options.text:
        records = int(options.records or (5e5 if options.quick else 5e6))
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            persons = int(options.persons or 1e5)
            text_files(
                Path(folder), records, persons, options.repeats or (1 if options.quick else 3)
            )
        return
    records = int(options.records or (5e6 if options.quick else 5e7))
    persons = int(options.persons or (1e5 if options.quick else 1e6))
    repeats = options.repeats or (3 if options.quick else 5)
    from report import publish, table

    header = [
        "", "wall s", "ratio", "median", "after imports s", "ratio", "median", "processor ratio",
        "peak MB", "memory ratio",
    ]  # fmt: skip
    texts = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for title in options.ids:
            person = IDS[title]
            name = f"records-{records}-{persons}-{title.replace(' ', '-')}.parquet"
            path = (options.folder if options.folder and options.keep else Path(folder)) / name
            if not path.exists():
                code = MAKE.format(
                    records=records, person=person.format(persons=persons), path=path
                )
                subprocess.run([sys.executable, "-c", code], check=True)
            texts.append(f"{title}:\n\n" + table(header, whole_processes(path, repeats)))
    count = 10**6 if options.quick else 10**7
    arrays = in_memory(count, 5 * repeats)

    text = (
        f"{records:.0e} records of {persons:.0e} persons in Parquet, whole processes, least of "
        f"{repeats}, load {os.getloadavg()[0]:.1f} (ratios also as the median over neighbouring "
        "runs)\n\n" + "\n\n".join(texts)
        + f"\n\n{count:.0e} persons in memory, one column, nothing given, whole release (medians "
        + f"of {5 * repeats} neighbouring runs)\n\n"
        + table(
            ["", "numpy.mean ms", "privmean.mean ms", "wall ratio", "ratio of the least",
             "processor ratio"],
            arrays,
        )
    )  # fmt: skip
    name, title = "speed-mean", "Time and memory of one mean"
    command = "python benchmarks/speed_mean.py"
    if options.records and options.persons:
        name, title = f"{name}-{records:.0e}", f"{title}, {records:.0e} records"
        command += f" --ids {' '.join(map(repr, options.ids))}"
        command += f" --records {records:.0e} --persons {persons:.0e} --repeats {repeats}"
    publish(name.replace("+", ""), title, text, command=command)


if __name__ == "__main__":
    main()
