"""What reading results costs a collector: many restarts before, many items, many reports.

Usage: python benchmarks/collector_reads.py [--quick] [--baseline SRC]
SRC: the folder `src` of an older version, measured beside this one. Seconds of a processor (least
of three), so that a busy machine says the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sqlalchemy as sql

from privmean.collector.sqlite import WRITERS
from privmean.collector.store import Answers, Offer, Store
from privmean.local.aggregators.aggregator import ReportValidator
from privmean.local.round import Round
from privmean.local.round_builders import items_round, mean_round
from privmean.local.vectorized import randomize_many
from report import publish, table

RESTARTS, ITEMS, REPORTS = 3300, 1 << 20, 400_000


def some(round_: Round, n: int) -> list[Offer]:
    values = np.arange(n) % 7
    batch = randomize_many(round_, values, epsilon=1)
    return [Offer(ReportValidator(round_).parse(batch.to_bytes()).batch)]


def timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def least(work: Callable[[], object], between: Callable[[], object]) -> float:
    """The least of three, each after something changed."""
    found = []
    for _ in range(3):
        between()
        found.append(timed(work))
    return min(found)


def restarted(folder: Path, restarts: int) -> dict[str, float]:
    """Reads after so many restarts, each of which stored something, and the last its tally."""
    round_ = mean_round(0, 10, epsilon=[0.5, 1], persons=100_000)
    url = f"sqlite:///{folder}/restarts.db"
    store = Store(url)
    store.register([round_])
    with store.engine.begin() as link:
        link.execute(sql.insert(WRITERS), [{"started": 0.0} for _ in range(restarts)])
    last = store.writer + restarts
    for writer in range(store.writer, last + 1, max(1, restarts // 300)):
        store.writer = writer
        store.write(some(round_, 20))
    store.checkpoint(round_)
    fresh = [Store(url) for _ in range(3)]
    first = min(timed(lambda item=item: item.tally(round_)) for item in fresh)
    for item in fresh:
        item.close()
    again = least(lambda: store.tally(round_), lambda: store.write(some(round_, 1)))
    store.close()
    return {
        f"tally after {restarts:,} restarts, in a new process": first,
        "the same after one more report": again,
    }


def listed(folder: Path, items: int) -> dict[str, float]:
    """The estimate of very many items, after one more report each time."""
    round_ = items_round(items, epsilon=[0.5, 1], persons=1_000_000, mechanism="hadamard")
    store = Store(f"sqlite:///{folder}/items.db")
    store.register([round_])
    own = np.where(np.arange(40_000) % 2, 0.5, 1.0)
    batch = randomize_many(round_, np.arange(40_000) % items, epsilon=own)
    store.write([Offer(batch)])
    size = []

    def served() -> None:
        size.append(len(Answers(store).get(round_)))

    took = least(served, lambda: store.write(some(round_, 1)))
    store.close()
    what = f"estimate of {items:,} items after one more report"
    return {what: took, "its answer, MB": size[-1] / 1e6}


def counted(folder: Path, reports: int) -> dict[str, float]:
    """The tally of many reports: in a new process, and after 20 more."""
    round_ = mean_round(0, 10, epsilon=1, persons=10_000_000)
    url = f"sqlite:///{folder}/reports.db"
    store = Store(url)
    store.register([round_])
    for _ in range(reports // 20_000):
        store.write(some(round_, 20_000))
    store.checkpoint(round_)
    fresh = Store(url)
    first = timed(lambda: fresh.tally(round_))
    fresh.close()
    again = least(lambda: store.tally(round_), lambda: store.write(some(round_, 20)))
    store.close()
    return {
        f"tally of {reports:,} reports, in a new process": first,
        "the same after 20 more": again,
    }


def measured(quick: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = 20 if quick else 1
        return {
            **restarted(folder, RESTARTS // small),
            **listed(folder, ITEMS >> (6 if quick else 0)),
            **counted(folder, REPORTS // small),
        }


def elsewhere(src: Path, quick: bool) -> dict[str, float]:
    """The same by another version."""
    paths = [str(src.resolve()), str(Path(__file__).resolve().parent)]
    done = subprocess.run(
        [sys.executable, __file__, "--numbers", *(["--quick"] if quick else [])],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of everything")
    parser.add_argument("--baseline", type=Path, help="the folder src of an older version")
    parser.add_argument("--numbers", action="store_true", help="print JSON alone")
    given = parser.parse_args()
    if given.numbers:
        print(json.dumps(measured(given.quick)))
        return
    before = {} if given.baseline is None else elsewhere(given.baseline, given.quick)
    now = measured(given.quick)
    rows: list[list[object]] = []
    for what, value in now.items():
        old = before.get(what)
        ratio = "" if old is None else f"{old / value:.1f}"
        rows.append([what, "" if old is None else f"{old:.4f}", f"{value:.4f}", ratio])
    text = (
        "Seconds of a processor (of the answer's size: megabytes), least of three, on SQLite. "
        "Every tenth or so of the restarts stored 20 reports, and the last stored its tally. "
        "An answer about more than 4,096 numbers lists the 100 largest; all of them "
        "are asked for by `numbers=all`.\n\n"
        + table(["read", "before", "now", "before / now"], rows)
    )
    command = "python benchmarks/collector_reads.py" + (" --quick" if given.quick else "")
    command += "" if given.baseline is None else " --baseline SRC"
    publish("collector-reads", "What reading results costs a collector", text, command=command)


if __name__ == "__main__":
    main()
