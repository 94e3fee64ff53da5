"""The lemmas of the proof pages by enumeration, at wider widths than the suite.

    python benchmarks/lemmas.py

Exit status 1 if one is false.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from report import publish, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))


def main() -> int:
    from auditing.lemmas import LEMMAS

    rows: list[list[object]] = []
    failed, total = 0, 0
    for lemma in LEMMAS:
        start = time.process_time()
        try:
            cases, verdict = lemma.check(True), "holds"
        except AssertionError:
            cases, verdict = 0, "FALSE"
        failed, total = failed + (verdict != "holds"), total + cases
        step = f"[{lemma.page}](../proofs/{lemma.page}.md), {lemma.step}"
        seconds = f"{time.process_time() - start:.1f} s"
        rows.append([f"`{lemma.name}`", step, lemma.says, f"{cases:,}", seconds, verdict])
    head = ["lemma", "step of", "says", "cases", "time", ""]
    text = f"{len(rows)} lemmas, {total:,} cases, {failed} false.\n\n{table(head, rows)}"
    command = "python benchmarks/lemmas.py"
    publish("lemmas", "Lemmas", text, command=command)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
