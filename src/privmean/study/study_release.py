"""What a study gives back: every release by name, one guarantee, one JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from privmean.errors import ArgumentError
from privmean.inference.interval import UNSAFE
from privmean.inference.status import OK
from privmean.output import HasOutput, Output, percent
from privmean.plain_data import plain_tree
from privmean.privacy.guarantee import Guarantee
from privmean.release.formatting import (
    advice_of,
    study_output,
)
from privmean.release.release import Release
from privmean.release.stored_release import Provenance, Row, columns_of, sealed

if TYPE_CHECKING:
    from privmean.study.budget_shares import QuestionShare
    from privmean.study.shared_locations import StudyQuestion
    from privmean.study.study_plan import StudyPlan

SCHEMA = 2  # of a stored study
KIND = "study"


@dataclass(frozen=True)
class Answer:
    """One question's outcome. release: None where an error came after the charge: nothing is told
    of it, since which error it is may depend on records."""

    item: StudyQuestion
    part: QuestionShare
    release: Release | None
    status: str = ""
    advice: str = ""

    @property
    def stated(self) -> tuple[str, str]:
        """Status and advice."""
        if self.release is None:
            return self.status, self.advice
        made = self.release
        return made.status if made.status != OK else made.interval().status, advice_of(made)


@dataclass(frozen=True, repr=False)
class StudyRelease(HasOutput):
    """Releases of a study, by name: `found["wage"]`.

    Attributes
    ----------
    name : str
        Name of the study.
    answers : tuple of Answer
        One per question.
    plan : StudyPlan
        The plan that was run.
    guarantee : Guarantee
        Privacy guarantee of the whole study.
    level : float
        Confidence level of the intervals.
    simultaneous : bool
        Whether the intervals of all rows hold jointly (Bonferroni).
    secure : bool
        False for simulated noise.
    run_id : str
        Id of the run.
    card : dict
        Texts of the report.
    provenance : Provenance
        When and by what the study was run, and its ledger entry.

    Examples
    --------
    study = pm.Study(pm.example("wages"), person="id", epsilon=1.0)
    study.add("hours", pm.Mean("hours", assume=(0, 100)))
    found = study.release()
    found["hours"].estimate
    found.report("report.html")
    """

    name: str
    answers: tuple[Answer, ...]
    plan: StudyPlan
    guarantee: Guarantee
    level: float
    simultaneous: bool
    secure: bool
    run_id: str
    card: Mapping[str, str] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)

    def __getitem__(self, name: str) -> Release:
        for answer in self.answers:
            if answer.item.name == name:
                if answer.release is None:
                    raise ArgumentError(
                        "name", name, f"has no release: {answer.status}", answer.advice
                    )
                return answer.release
        raise ArgumentError("name", name, "is not a question of the study", ", ".join(self.names))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(answer.item.name for answer in self.answers)

    @property
    def failed(self) -> tuple[str, ...]:
        """The questions without an estimate."""
        return tuple(
            answer.item.name
            for answer in self.answers
            if answer.release is None or not answer.release.answered
        )

    def with_simultaneous(self) -> StudyRelease:
        """With intervals that hold for all lines at once (Bonferroni over the lines)."""
        number = sum(len(item.release.rows()) for item in self.answers if item.release is not None)
        each = 1 - (1 - self.level) / max(number, 1)
        answers = tuple(
            item if item.release is None
            else replace(item, release=replace(item.release, level=each))
            for item in self.answers
        )  # fmt: skip
        return replace(self, answers=answers, simultaneous=True)

    def rows(self) -> tuple[tuple[str, Row], ...]:
        """(question, row) of every line."""
        return tuple(
            (answer.item.name, row)
            for answer in self.answers
            for row in (
                answer.release.rows()
                if answer.release is not None
                else (Row(answer.item.name, status=answer.status),)
            )
        )

    def to_frame(self, backend: str | None = None) -> Any:
        """All rows as one frame: question, then the columns of `Release.to_frame`."""
        from privmean.data.list_columns import frame_of

        found = self.rows()
        names = {"question": [name for name, _ in found]}
        return frame_of(names | columns_of([row for _, row in found]), backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON, with one accounting and a digest over all of it."""
        return sealed(plain_tree(self.facts()), self.provenance.to_dict())

    def facts(self) -> dict[str, Any]:
        """What `to_dict` holds besides the provenance."""
        result: dict[str, Any] = {
            "schema": SCHEMA,
            "kind": KIND,
            "name": self.name,
            "run": self.run_id,
            "card": dict(self.card),
            "level": self.level,
            "simultaneous": self.simultaneous,
            "guarantee": self.guarantee.to_dict(),
            "shared_locations": self._looks(),
            "questions": self._questions(),
            "plan": self.plan.describe(),
            "secure": self.secure,
        }
        if not self.secure:
            result["warning"] = UNSAFE
        return result

    def _looks(self) -> list[dict[str, Any]]:
        """The steps that questions share, with their mechanism calls."""
        found, at = [], 0
        for look, _, serves in self.plan.looked():
            lines = list(range(at, at + len(look.events)))
            at += len(lines)
            found.append({"column": look.column, "lines": lines, "serves": list(serves)})
        return found

    def _questions(self) -> list[dict[str, Any]]:
        found, at = [], sum(len(look.events) for look in self.plan.shared_locations)
        for answer in self.answers:
            lines = list(range(at, at + len(answer.part.lines)))
            at += len(lines)
            status, advice = answer.stated
            found.append(
                {
                    "name": answer.item.name,
                    "ask": answer.item.question.kind,
                    "options": repr(answer.item.question),
                    "label": answer.item.label,
                    "unit": answer.item.unit,
                    "note": answer.item.note,
                    "weight": answer.item.weight,
                    "wanted_error": answer.item.error,
                    "budget": answer.part.budget.to_dict(),
                    "lines": lines,
                    "shared_locations": [look.column for look in answer.part.looks],
                    "status": status,
                    "advice": advice,
                    "release": None if answer.release is None else answer.release.to_dict(),
                }
            )
        return found

    def report(self, path: str, **facts: Any) -> None:
        """Write two pages for readers, with an appendix beside them, as HTML, or as Markdown where
        `path` ends in .md; facts: see `write_report`."""
        from privmean.study.study_report import write_report

        write_report(self.to_dict(), path, **facts)

    def output(self) -> Output:
        """What `print` shows: the rows of all questions in one table."""
        level = f"{percent(self.level)} confidence intervals, "
        return study_output(
            self.name,
            [(item.item.name, item.release, item.stated[0]) for item in self.answers],
            self.guarantee,
            level + ("simultaneous" if self.simultaneous else "pointwise"),
            ["One question: study[name]. As a frame: study.to_frame()."],
            "" if self.secure else UNSAFE,
            self.provenance,
        )

    def __repr__(self) -> str:
        bad = f", failed: {', '.join(self.failed)}" if self.failed else ""
        return (
            f"StudyRelease({self.name}: {', '.join(self.names)}; {self.guarantee.describe()}{bad})"
        )
