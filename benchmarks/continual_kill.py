"""kill -9 at random moments, again and again, and compare what was published, and its copies.

Streams, withhold-release, both ledgers and the collector's store work in forks of this process
that are killed amid new work. At each kill the state is copied, the file alone and all files, and
the run goes on from one of them; now and then the disk is full or a second process tries to open.
What was published must never change and never be missing, and at the end nothing may be missing.

    python benchmarks/continual_kill.py [--quick]
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from killing import Charging, Collecting, Count, Reporting, Running, Withholding, Work, run
from report import publish, table

SEGMENT = 50  # kills of one state file, then a new one
PLACES = ("running", "the file", "all files")
WORKS: list[tuple[int, Callable[[Path, random.Random, int], Work]]] = [
    (250, lambda folder, rng, kills: Running(folder, rng, 40 * kills, 1)),
    (200, lambda folder, rng, kills: Running(folder, rng, 60 * kills, 5)),
    (250, lambda folder, rng, kills: Withholding(folder, rng, 40 * kills)),
    (200, lambda folder, rng, kills: Reporting(folder, rng, 12 * kills)),
    (100, lambda folder, rng, kills: Charging(12 * kills)),
    (200, lambda folder, rng, kills: Collecting(folder, rng, 12 * kills)),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    rows: list[list[object]] = []
    total, start = Count(), time.perf_counter()
    for kills, make in WORKS:
        count = Count()
        segments = 1 if arguments.quick else kills // SEGMENT
        for _ in range(segments):
            with tempfile.TemporaryDirectory() as folder:
                kills_here = 10 if arguments.quick else SEGMENT
                work = make(Path(folder), rng, kills_here)
                run(work, Path(folder), rng, kills_here, count)
        copies = [f"{count.copies[kind]} ({count.refused[kind]})" for kind in PLACES]
        second = f"{count.second}" if work.alone else "shared"
        row = [work.name, count.kills, count.amid, *copies, count.full, second, count.steps]
        rows.append([*row, count.ahead, count.two, count.lost])
        total.kills += count.kills
        print(*rows[-1], f"{time.perf_counter() - start:.0f} s", sep=" | ", flush=True)
    head = [
        "work", "kills", "amid new results", "copies while running (refused)",
        "copies of the file alone at the kill (refused)", "copies of all files (refused)",
        "disk full", "second process refused", "results", "in a copy before they counted",
        "with two values", "lost",
    ]  # fmt: skip
    publish(
        "continual-kill",
        "States killed at random",
        f"{total.kills:,} times kill -9 in {time.perf_counter() - start:.0f} s. After each, the "
        "run goes on from the file, or from a copy of it that is said to be the newest. Results "
        "are released steps, reports and acknowledged batches. A copy that is not refused holds "
        "every result published before the kill; one made while the work ran, every result of its "
        "moment, unchanged (the collector's may hold one more batch, complete but not yet "
        "acknowledged).\n\n" + table(head, rows),
        command="python benchmarks/continual_kill.py",
    )


if __name__ == "__main__":
    main()
