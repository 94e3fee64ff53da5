"""The folder of a run: who runs there, what was charged, what was drawn, what came out.

Its log (`run.log`, see `privmean.storage.durable_log`) is held while a run lasts. Order, each step
on the disk before the next: the claim, the charge of the ledger under the run's id, its receipt,
every noisy answer before it is seen, the result. Whatever moment a run stops at, the next run in
the same folder goes on: it charges nothing twice (the ledger knows the run's id) and draws nothing
twice. docs/proofs/study.md, section 4. All other files are for people.

A study run in a folder: release.json, the report, a CSV a question; goes on if stopped.
"""

from __future__ import annotations

import csv
import io
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privmean.data.table import Table
from privmean.errors import ArgumentError, PrivmeanError
from privmean.release.stored_release import ROW_FIELDS
from privmean.storage.durable_log import DurableLog, LogExists, LogInUse
from privmean.storage.witness import os_error_text, sync_folder
from privmean.study.stored_answers import AnswerLog, CannotResume, is_table, table_state
from privmean.study.study import run
from privmean.study.study_report import pages

if TYPE_CHECKING:
    from privmean.noise.noise_source import Noise
    from privmean.privacy.ledger import Ledger
    from privmean.privacy.ledger_charges import LedgerEntry
    from privmean.study.study import Study

KIND = "study run"
LOG, RECEIPT, RESULT = "run.log", "receipt.json", "release.json"
OLDER = "run.json"  # of a run of 0.2
CLAIM, CHARGE, ANSWER, END = "claim", "receipt", "answer", "end"  # what an entry says
AGAIN = "Correct this and run the same command again: nothing is charged or drawn twice."
SPENT = "What it charged stays charged. For a new study, take another folder."


class RunFolder:
    """One run's folder, held while the run lasts; make it with `held`."""

    def __init__(self, path: Path) -> None:
        self.path, self.run_id = path, uuid.uuid4().hex
        self._declared: Mapping[str, Any] = {}
        self._facts: dict[str, Any] = {}
        self.answers: dict[str, tuple[str, str]] = {}
        self._log: DurableLog | None = None  # of a run of 0.2 there is none

    @property
    def finished(self) -> bool:
        """Whether the result is there."""
        return END in self._facts

    def open(self, *, moved: bool = False) -> None:
        """Hold the folder's log, which is made if no run was begun here."""
        path = self.path / LOG
        if not path.exists():
            if (self.path / OLDER).exists():
                self._read_older()
                return
            if (self.path / RECEIPT).exists() or (self.path / RESULT).exists():
                raise CannotResume(
                    f"{path} is missing, but a run was begun here: its answers would be drawn a "
                    f"second time. Put the newest one back. {SPENT}"
                )
            with suppress(LogExists):  # another run was faster
                DurableLog.create(path, KIND, name="out")
        try:
            self._log = DurableLog.open(
                path, KIND, lambda entry: self._know(entry.payload), name="out", moved=moved
            )
        except LogInUse:
            raise ArgumentError(
                "out", str(self.path), "is used by another run", "wait for the other run to end"
            ) from None
        except ArgumentError as refused:
            remedy = refused.remedy[0].upper() + refused.remedy[1:]
            raise CannotResume(f"{path} {refused.problem}. {remedy}. {SPENT}") from None

    def close(self) -> None:
        """Let go of the folder."""
        if self._log is not None:
            self._log.close()

    def result(self) -> dict[str, Any]:
        """The stored result."""
        if not (self.path / RESULT).exists():
            self.write(RESULT, self._facts[END])
        found: dict[str, Any] = json.loads(self._facts[END])
        return found

    def bind(self, declared: Mapping[str, Any]) -> None:
        """Hold the run of what is declared and no other; ArgumentError where another lies here."""
        self._declared = declared
        before = self._facts[CLAIM]["declared"] if CLAIM in self._facts else {}
        changed = [name for name, said in before.items() if declared.get(name) != said]
        if changed:
            raise ArgumentError(
                "out",
                str(self.path),
                "holds the run of another study, or of an earlier version of this one (changed: "
                f"{', '.join(changed)})",
                "name another folder; what was charged for that run stays charged",
            )

    def claim(self, plan: str, source: object) -> None:
        """Bind the folder to a plan (its digest) and a table; CannotResume if either changed since
        a run was begun here."""
        before = self._facts.get(CLAIM)
        if before is None:
            stated = {"run": self.run_id, "declared": self._declared, "plan": plan}
            self._add(CLAIM, {**stated, "table": table_state(source)})
            return
        for same, words in (
            (
                before["plan"] == plan,
                "the questions, the budget, the people or privmean itself changed",
            ),
            (
                is_table(source, before["table"]),
                "the table changed: answers about two tables would be mixed",
            ),
        ):
            if not same:
                raise CannotResume(f"{self.path}: a run was begun here and {words}. {SPENT}")

    def charged(self, entry: LedgerEntry | None) -> None:
        """Keep the receipt of the charge."""
        if CHARGE not in self._facts:
            line = None if entry is None else {"number": entry.number, "digest": entry.digest}
            self._add(CHARGE, {"run": self.run_id, "ledger": line})
        if not (self.path / RECEIPT).exists():
            self.write(RECEIPT, json.dumps(self._facts[CHARGE]))

    def draws(self) -> AnswerLog:
        """The answers kept so far, and where those to come are kept."""
        return AnswerLog(self.answers, lambda *answer: self._add(ANSWER, answer))

    def finish(self, result: str) -> None:
        """Store the result: the run is finished. What the table was is forgotten, since its digest
        is no noisy answer."""
        claim = {name: said for name, said in self._facts[CLAIM].items() if name != "table"}
        answers = [(ANSWER, (at, *answer)) for at, answer in self.answers.items()]
        entries = [(CLAIM, claim), (CHARGE, self._facts[CHARGE]), *answers, (END, result)]
        assert self._log is not None
        if not self._log.replace(_entry(*entry) for entry in entries):
            raise PrivmeanError(f"{self.path / LOG}: the disk is full. {AGAIN}")
        self._facts |= {CLAIM: claim, END: result}

    def write(self, name: str, text: str) -> None:
        """A whole file, or none."""
        draft = self.path / f".{name}.draft"
        try:
            draft.unlink(missing_ok=True)  # of a run that was stopped
            with open(draft, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self.path / name)
        except OSError as error:
            raise PrivmeanError(
                f"{self.path / name}: cannot be written: {os_error_text(error)}. {AGAIN}"
            ) from None
        sync_folder(self.path)

    def _add(self, name: str, said: Any) -> None:
        assert self._log is not None
        entry = _entry(name, said)
        self._log.append(entry)
        self._know(entry)

    def _know(self, entry: bytes) -> None:
        ((name, said),) = json.loads(entry).items()
        if name == ANSWER:
            at, *answer = said
            self.answers[at] = tuple(answer)
            return
        self._facts[name] = said
        if name == CLAIM:
            self.run_id = said["run"]

    def _read_older(self) -> None:
        """A run of 0.2, of which only the result is read."""
        if not (self.path / RESULT).exists():
            raise CannotResume(
                f"{self.path}: a run of privmean 0.2 was stopped here. End it with that version. "
                f"{SPENT}"
            )
        result = (self.path / RESULT).read_text()
        stored = json.loads(result)
        declared = {name: stored[name] for name in ("name", "level", "simultaneous")}
        self._facts = {CLAIM: {"declared": declared}, END: result}


def _entry(name: str, said: Any) -> bytes:
    return json.dumps({name: said}).encode()


@contextmanager
def held(path: str | os.PathLike[str], *, moved: bool = False) -> Iterator[RunFolder]:
    """The folder, made if it is not there, closed to every other run meanwhile. moved: the caller's
    word that it is the newest copy and that no other is used again."""
    folder = RunFolder(Path(path))
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(
            "out", str(path), f"cannot be used: {error.strerror}", "name a folder to write to"
        ) from None
    try:
        folder.open(moved=moved)
        yield folder
    finally:
        folder.close()


def run_in(
    study: Study,
    out: str | os.PathLike[str],
    *,
    ledger: Ledger | None = None,
    noise: Noise | None = None,
    label: str | None = None,
    analyst: str = "",
    moved: bool = False,
) -> dict[str, Any]:
    """Run a study in a folder, or go on with the run that was begun there, or give its result.

    moved: the caller's word that the folder, moved from another machine, is the newest copy.

    Returns what release.json holds. Raises ArgumentError, InfeasibleError or BudgetExceededError
    before anything is charged; CannotResume where a run was begun that cannot go on, saying why.
    """
    with held(out, moved=moved) as folder:
        folder.bind(declared(study, noise))
        if not folder.finished:
            found = run(
                study,
                ledger=ledger,
                noise=noise,
                label=label,
                analyst=analyst,
                run_id=folder.run_id,
                draws=folder.draws().of,
                claimed=lambda plan: folder.claim(plan.digest, study.source),
                charged=folder.charged,
            )
            stored = found.to_dict()
            for question in stored["questions"]:
                folder.write(f"{question['name']}.csv", csv_of(question))
            facts = {"table": study.table_name, "analyst": analyst}
            for name, text in pages(stored, **facts).items():
                folder.write(name, text)
            folder.finish(json.dumps(stored, allow_nan=False) + "\n")
        return folder.result()


def declared(study: Study, noise: Noise | None = None) -> dict[str, Any]:
    """What a study says, beside its table's content: a folder holds the run of one study."""
    said, source = study.options, study.source
    noise = said.noise if noise is None else noise
    table: dict[str, Any] = {}
    if isinstance(source, Table):  # ids that are no column lie in memory
        person = source.person if isinstance(source.person, str) else None
        table = {"person": person, "text options": repr(sorted(source.text.items()))}
    return table | {
        "name": study.name,
        "budget": said.budget.to_dict(),
        "neighbors": said.budget.neighbors,
        "n_guess": said.n_guess,
        "level": said.level,
        "simultaneous": study.simultaneous,
        "questions": [repr(item) for item in study.questions.values()],
        "secure noise": noise is None or noise.secure,
    }


def csv_of(question: Mapping[str, Any]) -> str:
    """The rows of one stored question; empty cells where there is no number."""
    release = question["release"]
    rows = [] if release is None else release["rows"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(ROW_FIELDS)
    for row in rows:
        writer.writerow(["" if row[name] is None else row[name] for name in ROW_FIELDS])
    return text.getvalue()
