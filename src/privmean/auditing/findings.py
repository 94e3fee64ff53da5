"""What an audit found, by mechanism, and how findings of several processes are put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

MOST_SHOWN = 20


@dataclass
class Mechanism:
    """runs: pairs of exact answers of neighbors; largest: loss over declared loss; unmeasured:
    pairs whose loss no pair of answers can show; shifted: pairs measured from the draws alone."""

    runs: int = 0
    largest: Fraction = Fraction(0)
    violations: int = 0
    unmeasured: int = 0
    shifted: int = 0

    def add(self, other: Mechanism) -> None:
        self.largest = max(self.largest, other.largest)
        _sum(self, other, "runs", "violations", "unmeasured", "shifted")

    def to_dict(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "largest_loss_over_declared": float(self.largest),
            "largest_exact": str(self.largest),
            "violations": self.violations,
            "not_measured": self.unmeasured,
            "measured_by_shifts_too": self.shifted,
        }


class Violation(NamedTuple):
    """where: the subject, budget, neighbors; what: in words, without any value of the table."""

    where: str
    what: str


@dataclass
class Findings:
    """runs: replays on neighbors. differences: control flow or outcome differed. refused: subjects
    that a table or budget did not allow, with the reason. seen: what was on tapes (`coverage`)."""

    runs: int = 0
    recorded: int = 0
    differences: int = 0
    count: int = 0
    mechanisms: dict[str, Mechanism] = field(default_factory=dict)
    subjects: dict[str, int] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    seen: set[tuple[str, str]] = field(default_factory=set)

    def mechanism(self, name: str) -> Mechanism:
        return self.mechanisms.setdefault(name, Mechanism())

    def violated(self, where: str, what: str) -> None:
        self.count += 1
        if len(self.violations) < MOST_SHOWN:
            self.violations.append(Violation(where, what))

    def paired(self, name: str, share: Fraction, where: str, wrong: str) -> None:
        """A pair of inputs of what has no curator, its share of the declared loss, and what is
        wrong with it."""
        self.runs += 1
        self.mechanism(name).add(Mechanism(1, share, int(bool(wrong))))
        if wrong:
            self.violated(where, wrong)

    def add(self, other: Findings) -> None:
        _sum(self, other, "runs", "recorded", "differences", "count")
        for name, item in other.mechanisms.items():
            self.mechanism(name).add(item)
        self.subjects = dict(Counter(self.subjects) + Counter(other.subjects))
        self.violations += other.violations[: MOST_SHOWN - len(self.violations)]
        self.refused |= other.refused
        self.seen |= other.seen

    @classmethod
    def of(cls, parts: Iterable[Findings]) -> Findings:
        found = cls()
        for part in parts:
            found.add(part)
        return found


def _sum(one: object, other: object, *names: str) -> None:
    for name in names:
        setattr(one, name, getattr(one, name) + getattr(other, name))
