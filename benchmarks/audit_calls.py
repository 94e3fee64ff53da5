"""Whole calls from records in every kind of source to everything that can be seen, replayed.

    python benchmarks/audit_calls.py [--replays 100000] [--minutes 60]

Goes on where it stopped: what was counted stands in benchmarks/results/audit_calls.json. Exit
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

from report import PAGE, publish

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

RESULTS = Path(__file__).resolve().parent / "results" / "audit_calls.json"
AUDIT = PAGE.with_name("audit.md")
EACH = 10  # neighbours of one recorded call


def started() -> dict[str, Any]:
    if RESULTS.exists():
        found: dict[str, Any] = json.loads(RESULTS.read_text())
        return found
    return {"round": 0, "sources": {}, "violations": [], "largest_loss_over_declared": 0.0}


def kept(state: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    beside = RESULTS.with_suffix(".new")
    beside.write_text(json.dumps(state, indent=1) + "\n")
    os.replace(beside, RESULTS)


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
    listed, names = list(call_list.every_call()), list(SOURCES)
    state["processors"] = os.cpu_count()
    with tempfile.TemporaryDirectory() as folder:
        while total(state, "replays") < said.replays and time.monotonic() < end:
            at = state["round"]
            state["round"] = at + 1
            # all calls in turn; a stride that has no factor in common visits all terms and tables
            case, name = listed[(at * 389) % len(listed)], names[at % len(names)]
            own = state["sources"].setdefault(
                name, {"recorded": 0, "refused": 0, "replays": 0, "processor_seconds": 0.0}
            )
            start, found = time.process_time(), Findings()
            made = call_list.called(case, at, partial(_source, SOURCES[name], Path(folder)))
            if made.record(found):
                own["recorded"] += 1
                made.follow(EACH, found)
            else:
                own["refused"] += 1
            own["replays"] += found.runs
            own["processor_seconds"] += time.process_time() - start
            shares = [float(item.largest) for item in found.mechanisms.values()]
            state["largest_loss_over_declared"] = max(
                [state["largest_loss_over_declared"], *shares]
            )
            state["violations"] += [f"{name}, {x.where}: {x.what}" for x in found.violations]
            kept(state)
    text = report(state)
    print(text)
    publish("calls", "Whole calls", text, command="python benchmarks/audit_calls.py", on=AUDIT)
    return int(bool(state["violations"]))


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
    return "\n".join([words, "", *rows])


if __name__ == "__main__":
    sys.exit(main())
