"""Whole calls from records in every kind of source to everything that can be seen, replayed.

    python benchmarks/audit_calls.py [--replays 100000] [--minutes 60]

Goes on where it stopped: what was counted stands in benchmarks/results/audit-calls.json. Exit
status 1 if anything was violated.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from report import RESULTS, publish

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

FILE = RESULTS / "audit-calls.json"
FEW = 30  # people; a call that needs more has its own number
EACH, DEAR = 40, 5  # neighbors of one recorded call, and of one that takes long
LONG = ("regression", "study", "saying")
FAST, OTHERS = "Polars", 7  # all but one call in seven: its engine needs no connection


def started() -> dict[str, Any]:
    if FILE.exists():
        found: dict[str, Any] = json.loads(FILE.read_text())["data"]
        return found
    return {
        "round": 0, "sources": {}, "relations": {}, "budgets": {}, "violations": [],
        "largest_loss_over_declared": 0.0,
    }  # fmt: skip


def total(state: dict[str, Any], word: str) -> float:
    return sum(item[word] for item in state["sources"].values())


def main() -> int:
    from auditing.sources import SOURCES
    from privmean.auditing import call_list
    from privmean.auditing.findings import Findings

    options = argparse.ArgumentParser()
    options.add_argument("--replays", type=int, default=100_000)
    options.add_argument("--minutes", type=float, default=60.0)
    said = options.parse_args()
    state, end = started(), time.monotonic() + 60 * said.minutes
    every, names = call_list.every_call(), list(SOURCES)
    listed = [case for case in every if case.call.rows is None]
    state["processors"] = os.cpu_count()
    try:
        with tempfile.TemporaryDirectory() as folder:
            while total(state, "replays") < said.replays and time.monotonic() < end:
                at = state["round"]
                state["round"] = at + 1
                # all calls in turn; a stride without a common factor visits all terms and tables
                case = listed[(at * 389) % len(listed)]
                turn, rest = divmod(at, OTHERS)
                name = FAST if rest else names[(turn + turn // len(names)) % len(names)]
                own = state["sources"].setdefault(
                    name, {"recorded": 0, "refused": 0, "replays": 0, "processor_seconds": 0.0}
                )
                start, found = time.process_time(), Findings()
                source = partial(_source, SOURCES[name], Path(folder))
                for persons in (FEW, 0):
                    made = call_list.called(case, at, source, persons)
                    if made.record(found):
                        own["recorded"] += 1
                        dear = made.where.startswith(LONG) or name != FAST
                        made.follow(DEAR if dear else EACH, found)
                        break
                else:
                    own["refused"] += 1
                for word, asked in (("relations", case.relation), ("budgets", _kind(case.said))):
                    counts = state.setdefault(word, {})
                    counts[asked] = counts.get(asked, 0) + found.runs
                own["replays"] += found.runs
                own["processor_seconds"] += time.process_time() - start
                shares = [float(item.largest) for item in found.mechanisms.values()]
                state["largest_loss_over_declared"] = max(
                    [state["largest_loss_over_declared"], *shares]
                )
                state["violations"] += [f"{name}, {x.where}: {x.what}" for x in found.violations]
    finally:  # what was counted is kept where it was stopped
        command = "python benchmarks/audit_calls.py"
        publish("audit-calls", "Whole calls", report(state), command=command, data=state)
    return int(bool(state["violations"]))


def _kind(said: Any) -> str:
    """Of a budget."""
    words = dict(said)
    return "zCDP" if words.get("rho") else "approximate" if words.get("delta") else "pure"


def _source(kind: Any, folder: Path, table: Any) -> Any:
    return kind(table, folder)


def report(state: dict[str, Any]) -> str:
    """A table of Markdown, and what it adds up to."""
    rows = ["| source | recorded calls | refused | replays | processor seconds | a replay |",
            "|---|---|---|---|---|---|"]  # fmt: skip
    for name, own in state["sources"].items():
        each = own["processor_seconds"] / max(1, own["replays"])
        rows.append(
            f"| {name} | {own['recorded']:,} | {own['refused']:,} | {own['replays']:,} | "
            f"{own['processor_seconds']:,.0f} | {each:.2f} s |"
        )
    words = (
        f"{total(state, 'replays'):,.0f} replays, {len(state['violations'])} violations, "
        f"{total(state, 'processor_seconds'):,.0f} processor seconds, {state['processors']} cores; "
        f"largest loss over declared {state['largest_loss_over_declared']:.9f}"
    )
    counts = [
        f"{word}: " + ", ".join(f"{name} {count:,}" for name, count in state[word].items())
        for word in ("relations", "budgets")
    ]
    return "\n".join([words, "", *counts, "", *rows])


if __name__ == "__main__":
    sys.exit(main())
