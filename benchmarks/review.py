"""Runs the ten commands of docs/review.md and prints one table.

    python benchmarks/review.py

Exit status 1 if one of them found something.
"""

from __future__ import annotations

import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

from report import table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "review.md"


def claims() -> list[tuple[str, str, str]]:
    """(number, claim, command) of every row of the page."""
    rows = [line.strip("|").split(" | ") for line in PAGE.read_text().splitlines()]
    return [
        (row[0].strip(), row[1].strip(), row[2].strip().strip("`"))
        for row in rows
        if len(row) == 5 and re.fullmatch(r"\d+", row[0].strip())
    ]


def words(command: str) -> list[str]:
    """The command with this interpreter, and the package that it imports."""
    first, *rest = shlex.split(command)
    return [sys.executable, *(["-m", "privmean"] if first == "privmean" else []), *rest]


def main() -> int:
    rows: list[list[object]] = []
    for number, claim, command in claims():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(words(command), cwd=ROOT, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        verdict = "held" if done.returncode == 0 else f"REFUTED ({done.returncode})"
        print(f"{number}. {verdict}, {seconds:.0f} processor seconds: {command}", flush=True)
        if done.returncode:
            print(done.stdout[-3000:], done.stderr[-3000:], sep="\n")
        rows.append([number, claim, verdict, f"{seconds:.0f} s"])
    print("\n" + table(["#", "claim", "", "processor time"], rows))
    return int(any(row[2] != "held" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
