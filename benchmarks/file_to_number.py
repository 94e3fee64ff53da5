"""From a file to a number: hostile neighbours of a table in every home.

    python benchmarks/file_to_number.py [--cases 1000] [--processes 2]

The records of one person become hostile ones, the table is written and read anew, and a release
of it is replayed before a tape of the first (tests/auditing/filed.py). What leaves an engine is
watched. Exit status 1 if something else than counts and integer sums left, or moved by more than
the bill says.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from report import publish, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

HEADER = [
    "home", "neighbours", "violations", "largest loss/declared", "answers of engines",
    "most rows of one", "answers that are no whole numbers", "processor time",
]  # fmt: skip


def one(home: str, cases: int) -> tuple[list[object], int]:
    """A row of the table, and how much is wrong with it."""
    from auditing.filed import MOST_ROWS, audited

    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        found, boundary = audited(home, cases, Path(folder))
    used = time.process_time() - start
    largest = max(item.largest for item in found.mechanisms.values())
    wrong = found.count + len(boundary.others) + (boundary.rows > MOST_ROWS) + (largest > 1)
    shown: list[object] = [
        home, f"{found.runs:,}", found.count, f"{float(largest):.6g}",
        f"{boundary.answers:,}", boundary.rows, len(boundary.others), f"{used:.0f} s",
    ]  # fmt: skip
    print(*shown, *found.violations[:5], sep=" | ", flush=True)
    return shown, wrong


def main() -> int:
    from auditing.filed import HOMES

    options = argparse.ArgumentParser()
    options.add_argument("--cases", type=int, default=1000, help="neighbours of every home")
    options.add_argument("--processes", type=int, default=2)
    said = options.parse_args()
    cases = said.cases
    with ProcessPoolExecutor(said.processes, mp_context=get_context("spawn")) as pool:
        done = list(pool.map(one, HOMES, [cases] * len(HOMES)))
    rows = [row for row, _ in done]
    wrong = sum(count for _, count in done)
    words = (
        "Releases of a table of 41 persons with one to five records each: a mean with limits and "
        "without, over persons and over records, replace-one and add-remove. One person's records "
        "become others (null, NaN, infinities, edges, forty records, none; in text also words that "
        "are no numbers), the table is written and read anew, and what leaves the engine is "
        "compared with what left it before.\n\n"
    )
    command = f"python benchmarks/file_to_number.py --cases {cases}"
    publish(
        "file-to-number", "From a file to a number", words + table(HEADER, rows), command=command
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
