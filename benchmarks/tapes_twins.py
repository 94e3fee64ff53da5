"""What the foreign checker finds: tapes of the audit as they are, and of every mechanism, broken.

    python benchmarks/tapes_twins.py [--neighbors 12]

Every tape goes through JSON to clients/tape-checker/check.py, which imports nothing of privmean.
The table says on how many tapes each mechanism is, and what the checker finds on a tape of a twin
of it: noise of 1/1000, no loss, noise 1 % too narrow (as if one person counted 1 % more). Written
to benchmarks/results/tapes.json. Exit status 1 if the checker and the audit disagree, or a twin
escaped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tapes
from report import table

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "tapes.json"
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "clients" / "tape-checker"))

TWINS = ("noise of 1/1000", "losses missing", "scale 1 % too small")


def found(tape: dict[str, Any]) -> tuple[list[str], int, int, float]:
    """What the checker says of a tape that went through JSON."""
    import check

    return check.check(json.loads(json.dumps(tape)))


def cases() -> Iterator[tuple[str, Callable[[int], Any]]]:
    for case in tapes.plans():
        yield case.where, lambda few, case=case: tapes.tape_of_plan(case, few)
    for call in tapes.calls():
        yield call.where, lambda few, call=call: tapes.tape_of_call(call, few)


def classes(tape: dict[str, Any]) -> set[str]:
    return {item["mechanism"] for item in tape["answers"]}


def main() -> int:
    from auditing.broken import twin
    from privmean.auditing.findings import mechanisms

    options = argparse.ArgumentParser()
    options.add_argument("--neighbors", type=int, default=12)
    few = options.parse_args().neighbors
    start, known = time.process_time(), {item.__name__: item for item in mechanisms()}
    where: dict[str, list[Callable[[int], Any]]] = {}
    number = measured = answers = disagree = 0
    for name, made in cases():
        tape, audit = made(few)
        wrong, seen, every, _ = found(tape)
        number, measured, answers = number + 1, measured + seen, answers + every
        if bool(wrong) != bool(audit.count):
            disagree += 1
            print(f"DISAGREE {name}: {wrong[:2]}, the audit: {audit.violations[:2]}")
        for one in classes(tape) & known.keys():
            where.setdefault(one, []).append(made)
    rows, escaped = [], 0
    for name, makers in sorted(where.items()):
        cells = []
        for kind in TWINS:
            with twin(known[name], kind):
                cell = "ESCAPED"
                for made in makers[:4]:
                    try:
                        tape, _ = made(few)
                    except Exception as problem:  # a twin may not even plan
                        cell = f"refused ({type(problem).__name__})"
                        continue
                    if found(tape)[0]:
                        cell = "caught"
                        break
            escaped += cell == "ESCAPED"
            cells.append(cell)
        rows.append([name, len(makers), *cells])
    print(table(["mechanism", "tapes", *TWINS], rows))
    summary = {
        "tapes": number,
        "neighbors": few,
        "answers": answers,
        "answers_measured": measured,
        "disagreements": disagree,
        "twins_caught": sum(cell == "caught" for row in rows for cell in row),
        "twins_escaped": escaped,
        "cores": os.cpu_count(),
        "processor_seconds": round(time.process_time() - start),
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(summary, indent=1) + "\n")
    print({name: value for name, value in summary.items() if name != "rows"})
    return int(disagree > 0 or escaped > 0)


if __name__ == "__main__":
    sys.exit(main())
