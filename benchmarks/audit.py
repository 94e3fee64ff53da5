"""The audit of everything with many neighbours.

    python benchmarks/audit.py [--runs 100000] [--processes 2]

Exit status 1 if anything was violated.
"""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path

import privmean as pm
from privmean.auditing.findings import covered
from report import publish, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--runs", type=int, default=100_000)
    options.add_argument("--processes", type=int, default=2)
    said = options.parse_args()
    report = pm.audit(runs=said.runs, processes=said.processes)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(item.ru_utime + item.ru_stime for item in used)
    mechanisms, others = report.tables()
    known = covered(report.findings.seen)
    kinds = table(["kind", "on tape", "share", "missing"], [list(row) for row in known])
    text = (
        f"{report.runs:,} runs on neighbours of {report.findings.recorded:,} recorded runs of "
        f"{len(report.findings.subjects)} subjects: {report.violations} violations, control flow "
        f"or outcome differed in {report.findings.differences}. {seconds:.0f} processor seconds, "
        f"{report.seconds:.0f} s.\n\n{kinds}\n\n{mechanisms}\n\n{others}"
    )
    command = f"python benchmarks/audit.py --runs {said.runs}"
    publish("audit", "The audit", text, command=command)
    return 0 if report else 1


if __name__ == "__main__":
    sys.exit(main())
