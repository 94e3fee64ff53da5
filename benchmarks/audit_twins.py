"""Every mechanism with every deliberate mistake: what the audit catches.

    python benchmarks/audit_twins.py

A twin is the real mechanism with one thing broken (tests/auditing/twins.py). The cell says whether
the audit found a violation in at most 60 neighbours of one table, of up to four that come to the
mechanism; a dash: there is no such twin.
Exit status 1 if one escaped.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from report import publish, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))


def main() -> int:
    from auditing import twins

    start, escaped = time.monotonic(), 0
    rows: list[list[object]] = []
    for name, cases in twins.specimens().items():
        mechanism = twins.mechanism_of(name, cases[0])
        cells = []
        for twin, breaking in twins.TWINS.items():
            if not twins.applies(twin, mechanism):
                cells.append("–")
                continue
            tried = (twins.caught(case, {**breaking, "name": name}) for case in cases)
            found = next((count for count in tried if count), 0)
            escaped += not found
            cells.append("caught" if found else "ESCAPED")
        rows.append([name, *cells])
    others: list[list[object]] = []
    for twin in twins.PLANS:
        others.append([f"plan: {twin}", twins.plan_caught(twin)])
    for name, found in twins.streams_caught().items():
        others.append([f"stream, {name}: noise 1 % narrow", found])
    for name, found in twins.clients_caught().items():
        others.append([f"{name}: coins of 1.01 epsilon", found])
    escaped += sum(not row[1] for row in others)
    count = sum(cell == "caught" for row in rows for cell in row) + len(others)
    text = (
        f"{count - sum(not row[1] for row in others)} twins caught, {escaped} escaped, "
        f"{time.monotonic() - start:.0f} s.\n\n"
        + table(["mechanism", *twins.TWINS], rows)
        + "\n\n"
        + table(["twin of what has no single mechanism", "violations found"], others)
    )
    publish("audit-twins", "Twins", text, command="python benchmarks/audit_twins.py")
    return int(escaped > 0)


if __name__ == "__main__":
    sys.exit(main())
