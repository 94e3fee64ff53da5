"""What an audit says: three tables and a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privmean.auditing.coverage import covered
from privmean.auditing.findings import Findings

MOST_NAMED = 3  # of plans that were refused
NOT_AUDITED = (
    ("who is kept by a random filter (anisotropic)", "no pair of answers shows its loss: its own "
     "curve, enumerated filters in tests; here its questions and its outcome are compared"),
    ("a stream's private clipping region and intervals", "exact laws of their counts in tests"),
    ("fixed designs (a response, not a person)", "their sums and noise are tested by themselves"),
    ("forms as published (`privmean.published`)", "replays and accounting in tests"),
    ("the law of the noise", "exact laws at small scales, lattices at large ones, in tests"),
    ("from a file to one row a person", "neighbors of records at the engines' boundary, in tests"),
    ("running times, memory, logs of engines", "outside the model of every proof here"),
)  # fmt: skip


@dataclass(frozen=True)
class AuditReport:
    """Result of `audit`; true if something was audited and nothing was violated.

    Attributes
    ----------
    findings : Findings
        Violations by mechanism and subject.
    seconds : float
        Duration.
    about : str
        What was audited.
    seed : int
        Seed of the inputs.

    Examples
    --------
    table = pm.Table(pm.example("ratings"), person="student")
    report = pm.audit(pm.Mean("rating", assume=(1, 5)), table, runs=10)
    assert report  # nothing was violated
    report.runs, report.seconds
    """

    findings: Findings
    seconds: float
    about: str
    seed: int

    def __bool__(self) -> bool:
        return self.audited and self.findings.count == 0

    @property
    def audited(self) -> bool:
        """Whether anything was run at all: plans that public facts refuse are not."""
        return self.findings.runs > 0

    @property
    def runs(self) -> int:
        """Replays on neighbors, and pairs of inputs of what has no curator."""
        return self.findings.runs

    @property
    def violations(self) -> int:
        return self.findings.count

    def to_dict(self) -> dict[str, Any]:
        """Plain data; holds no value of any table."""
        found = self.findings
        return {
            "about": self.about,
            "verdict": self._verdict(),
            "runs": found.runs,
            "recorded": found.recorded,
            "violations": found.count,
            "control_flow_differences": found.differences,
            "mechanisms": {name: item.to_dict() for name, item in sorted(found.mechanisms.items())},
            "subjects": dict(sorted(found.subjects.items())),
            "first_violations": [item._asdict() for item in found.violations],
            "coverage": {
                kind: {"on_tape": have, "missing": left} for kind, have, _, left in self.coverage()
            },
            "refused": dict(sorted(found.refused.items())),
            "not_audited": dict(NOT_AUDITED),
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
        }

    def coverage(self) -> list[tuple[str, str, str, str]]:
        """What was on tapes of what the code has; of an audit of everything."""
        return covered(self.findings.seen) if self.about.startswith("privmean") else []

    def tables(self) -> tuple[str, str]:
        """The mechanisms, and what was not audited, as tables of Markdown."""
        rows = [
            (
                name,
                f"{item.runs:,}",
                _loss(item.largest) if item.runs > item.unmeasured else "not measured",
                f"{item.shifted:,}",
                str(item.violations),
            )
            for name, item in sorted(self.findings.mechanisms.items())
        ]
        head = ("mechanism", "pairs", "largest loss/declared", "by operands", "violations")
        return table(head, rows), table(("not audited", "what stands for it"), NOT_AUDITED)

    def __str__(self) -> str:
        found = self.findings
        more = "; the first of them below" if found.count else ""
        lines = [
            f"audit of {self.about}: {self._verdict()}{more}",
            f"  {found.runs:,} runs on neighbors of {found.recorded:,} recorded runs, "
            f"{len(found.subjects)} subjects, {self.seconds:.0f} s, seed {self.seed}",
            f"  control flow or outcome differed in {found.differences} of them",
            *self._refused(),
        ]
        lines += [f"  {kind}s on tape: {have} {x}".rstrip() for kind, have, _, x in self.coverage()]
        for block in self.tables():
            lines += ["", block]
        lines += [f"\n{item.where}:\n  {item.what}" for item in found.violations]
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.findings.count:
            return f"{self.findings.count} VIOLATIONS"
        return "no violation found" if self.audited else "NOTHING WAS AUDITED"

    def _refused(self) -> list[str]:
        """What was not run, beside the verdict, which does not hold for it."""
        places = sorted(self.findings.refused)
        lines = []
        if places:
            more = len(places) - MOST_NAMED
            named = "; ".join([*places[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])
            lines.append(
                f"  plans refused from public facts, hence not run: {len(places)} ({named})"
            )
        if not self.audited:
            lines.append(
                "  give a larger epsilon, or a table of more people" if places
                else "  the time was up before the first run: give more"
            )  # fmt: skip
        return lines


def _loss(share: Fraction) -> str:
    """1 where the declared loss is reached exactly; what is below is rounded down."""
    if share == 1:
        return "1"
    return f"{math.floor(share * 10**6) / 10**6:.6f}" if share < 1 else f"{float(share):.6g}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown that is also read as plain text: columns of one width."""
    widths = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in lines
    )
