"""A folder of Parquet files that does not fit into the memory allowed: time, peak memory, progress.

The table (made here, in a temporary folder) is averaged by the command line with `--memory-limit`,
and by the plain DuckDB query under the same limit, each in a process of its own. Standard error of
the command is a terminal, so that it shows its progress bar.

    python benchmarks/larger_than_memory.py [--quick] [--records 2e8] [--persons 1e7]
                                            [--memory-limit 3GB 4GB] [--folder DIR]
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ALLOWED = 4.0  # gigabytes of resident memory for the whole tree of processes

# The parent stays small: Linux counts its memory into the peak of a child, and imports nothing big.
MAKE = """
import duckdb
duckdb.execute("SET memory_limit = '2GB'; SET preserve_insertion_order = false")
duckdb.execute('''COPY (
    SELECT (hash(hash(i) % {persons}) >> 1)::BIGINT AS person,
           10 + 3 * sqrt(-2 * ln(random() + 1e-12)) * cos(2 * pi() * random()) AS y
    FROM range({first}, {last}) AS r(i)) TO '{path}' (FORMAT parquet)''')
"""
PLAIN = """
import duckdb
duckdb.execute("SET memory_limit = '{memory}'; SET temp_directory = '{spill}'")
duckdb.execute("SET preserve_insertion_order = false")
query = "SELECT avg(m) FROM (SELECT avg(y) AS m FROM '{path}/*.parquet' GROUP BY person) AS t"
print(duckdb.execute(query).fetchall())
"""


def resident(root: int) -> float:
    """Gigabytes resident now in a process and all that it started."""
    parents: dict[int, int] = {}
    pages: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)], pages[int(entry.name)] = int(fields[1]), int(fields[21])
    total = 0
    for pid, mine in pages.items():
        item = pid
        while item not in (root, 0, 1):
            item = parents.get(item, 0)
        total += mine if item == root else 0
    return total * os.sysconf("SC_PAGE_SIZE") / 1e9


def run(command: list[str]) -> tuple[float, float, str]:
    """Wall seconds, peak gigabytes of the tree, and what was shown on the terminal."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        while True:
            try:
                found = os.read(ours, 65536)
            except OSError:  # the other side is closed
                return
            if not found:
                return
            shown.append(found)

    start, peak = time.perf_counter(), 0.0
    terminal = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=terminal)
    os.close(theirs)
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while child.poll() is None:
        peak = max(peak, resident(child.pid))
        time.sleep(0.05)
    wall = time.perf_counter() - start
    reader.join(2)
    os.close(ours)
    text = b"".join(shown).decode(errors="replace")
    if child.returncode:
        raise SystemExit(f"failed: {command}\n{text}")
    return wall, peak, text


def make(folder: Path, records: int, persons: int) -> None:
    files = 16
    for index in range(files):
        first, last = records * index // files, records * (index + 1) // files
        path = folder / f"part-{index:02d}.parquet"
        code = MAKE.format(persons=persons, first=first, last=last, path=path)
        subprocess.run([sys.executable, "-c", code], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a twentieth of everything")
    parser.add_argument("--records", type=float)
    parser.add_argument("--persons", type=float)
    parser.add_argument(
        "--memory-limit", nargs="*", help="limits to run under, one after the other"
    )
    parser.add_argument("--folder", type=Path, help="where the table is made")
    parser.add_argument("--keep", action="store_true", help="use and keep the table in --folder")
    options = parser.parse_args()
    records = int(options.records or (1e7 if options.quick else 2e8))
    persons = int(options.persons or (5e5 if options.quick else 1e7))
    limits = options.memory_limit or (["200MB"] if options.quick else ["3GB", "4GB"])
    where = Path(tempfile.mkdtemp(dir=options.folder)) if not options.keep else options.folder
    try:
        spill = where / "spill"
        spill.mkdir(parents=True, exist_ok=True)
        if not list(where.glob("part-*.parquet")):
            make(where, records, persons)
        size = sum(path.stat().st_size for path in where.glob("part-*.parquet")) / 1e9
        found = []
        for memory in limits:
            command = [
                sys.executable, "-m", "privmean", "mean", str(where / "part-*.parquet"),
                "--person", "person", "--value", "y", "--epsilon", "1", "--memory-limit", memory,
                "--temp-directory", str(spill),
            ]  # fmt: skip
            plain = PLAIN.format(memory=memory, spill=spill, path=where)
            found.append((memory, run([sys.executable, "-c", plain]), run(command)))
    finally:
        if not options.keep:
            shutil.rmtree(where)
    shown = [{int(item) for item in re.findall(r"(\d+)%", mine[2])} for _, _, mine in found]
    bar = all(len(item) > 1 for item in shown)
    peak = max(mine[1] for _, _, mine in found)

    from report import publish, table

    rows: list[list[object]] = [
        [memory, name, f"{wall:.1f}", f"{wall / base[0]:.2f}", f"{most:.2f}",
         f"{most / base[1]:.2f}"]
        for memory, base, mine in found
        for name, (wall, most, _) in (("plain DuckDB query", base), ("privmean mean", mine))
    ]  # fmt: skip
    header = ["memory limit", "", "wall s", "ratio", "peak GB of the process tree", "ratio"]
    text = (
        f"{records:.0e} records of {persons:.0e} persons with scattered ids, {size:.1f} GB of "
        f"Parquet in 16 files, load {os.getloadavg()[0]:.1f}\n\n"
        + table(header, rows)
        + f"\n\n- within {ALLOWED:g} GB: {'yes' if peak <= ALLOWED else 'NO'}"
        + f"\n- progress bar on the terminal: {'yes' if bar else 'NO'}"
    )
    publish(
        "larger-than-memory", "Larger than memory", text,
        command="python benchmarks/larger_than_memory.py",
    )  # fmt: skip
    return 0 if peak <= ALLOWED and (bar or options.quick) else 1


if __name__ == "__main__":
    sys.exit(main())
