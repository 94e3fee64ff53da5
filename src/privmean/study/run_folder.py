"""The folder of a run: who runs there, what was charged, what was drawn, what came out.

Order, each step on the disk before the next: the folder is claimed (`run.json`), the ledger charged
under the run's id, the receipt written, every noisy answer kept before it is seen, the report.
Whatever moment a run stops at, the next run in the same folder goes on: it charges nothing twice
(the ledger knows the run's id) and draws nothing twice. docs/proofs/study.md, section 4.

The lock is what the folder is known by: `run.json` names its device, inode and birth, and it grows
by a byte with each answer kept, so that answers that are missing are noticed.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privmean.errors import ArgumentError, PrivmeanError
from privmean.storage.file_identity import Identity, names_of
from privmean.storage.file_io import os_error_text, sync_folder, write_all
from privmean.study.answer_log import AnswerLog, CannotResume
from privmean.study.table_state import is_table, table_state

if TYPE_CHECKING:
    from privmean.privacy.ledger_entry import LedgerEntry

PRIVATE = 0o600
LOCK, RUN, RECEIPT, DRAWS, RESULT = (
    "study.lock", "run.json", "receipt.json", "draws.jsonl", "release.json",
)  # fmt: skip


class RunFolder:
    """One run's folder, held while the run lasts; make it with `held`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path, self._lock, self._declared = path, lock, ""
        self.run_id = uuid.uuid4().hex
        state = self._state(RUN)
        if state is not None:
            self.run_id = str(state["run"])
            if not self._is_at(state.get("place")):
                raise CannotResume(
                    f"{path} is a copy: the run that was begun in the folder it was copied from "
                    "goes on there, or its budget is gone"
                )
            if names_of(lock) > 1 and not self.finished:
                raise ArgumentError(
                    "out",
                    str(path / LOCK),
                    f"has {names_of(lock)} names (hard links), so that another folder could "
                    "continue the same run",
                    "remove the other folder, or its name of this file",
                )

    @property
    def finished(self) -> bool:
        """Whether the result is there."""
        return (self.path / RESULT).exists()

    @property
    def begun(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / RUN).exists()

    def result(self) -> dict[str, Any]:
        """The stored result."""
        self._forget_digest()
        found: dict[str, Any] = json.loads((self.path / RESULT).read_text())
        return found

    def bind(self, declared: str) -> None:
        """Hold the run of this study and of no other; ArgumentError where another lies here."""
        self._declared = declared
        before = self._state(RUN)
        if before is not None and before.get("declared") != declared:
            raise ArgumentError(
                "out",
                str(self.path),
                "holds the run of another study, or of an earlier version of this one",
                "name another folder; what was charged for that run stays charged",
            )

    def finish(self, result: str) -> None:
        """Store the result: the run is finished."""
        self.write(RESULT, result)
        self._forget_digest()

    def _forget_digest(self) -> None:
        """Take the digest of the table out of `run.json`: it is no noisy answer."""
        state = self._state(RUN) or {}
        table = state.get("table")
        if isinstance(table, dict) and table.get("digest") is not None:
            kept = {**state, "table": {**table, "digest": None}}
            self.write(RUN, json.dumps(kept), PRIVATE)

    def claim(self, plan: str, table: object) -> None:
        """Bind the folder to a plan (its digest) and a table; Gone if either changed since a run
        was begun here."""
        before = self._state(RUN)
        if before is None:
            stated = {
                "run": self.run_id,
                "declared": self._declared,
                "plan": plan,
                "table": table_state(table),
                "place": self._place(),
            }
            self.write(RUN, json.dumps(stated), PRIVATE)
            return
        if self._tells_more_than(before["place"]):
            self.write(RUN, json.dumps({**before, "place": self._place()}), PRIVATE)
        for same, words in (
            (
                before.get("plan") == plan,
                "the questions, the budget, the people or privmean itself changed",
            ),
            (
                is_table(table, before.get("table")),
                "the table changed: answers about two tables would be mixed",
            ),
        ):
            if not same:
                raise CannotResume(
                    f"{self.path}: a run was begun here and {words}. What it charged stays "
                    "charged; take another folder for a new study"
                )

    def charged(self, entry: LedgerEntry | None) -> None:
        """Keep the receipt of the charge."""
        if not (self.path / RECEIPT).exists():
            line = None if entry is None else {"number": entry.number, "digest": entry.digest}
            self.write(RECEIPT, json.dumps({"run": self.run_id, "ledger": line}))

    def draws(self) -> AnswerLog:
        """The answers kept so far; Gone if some are missing."""
        draws = AnswerLog(self.path / DRAWS, self._counted)
        missing = os.fstat(self._lock).st_size - len(draws)
        if missing > 0:
            raise CannotResume(
                f"{self.path / DRAWS} is an old copy, or was removed: {missing} answers of this "
                "run are missing, and would be drawn a second time; put the newest one back"
            )
        with suppress(OSError):  # kept by a run that was stopped then, or by an older version
            self._counted(-missing)
        return draws

    def write(self, name: str, text: str, mode: int = 0o666) -> None:
        """A whole file, or none. mode: who may read it, as far as the process lets anybody."""
        draft = self.path / f".{name}.draft"

        def opener(path: str, flags: int) -> int:
            return os.open(path, flags, mode)

        try:
            draft.unlink(missing_ok=True)  # of a run that was stopped
            with open(draft, "w", encoding="utf-8", opener=opener) as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self.path / name)
        except OSError as error:
            raise PrivmeanError(
                f"{self.path / name}: cannot be written: {os_error_text(error)}. "
                "Correct this and run the same command again: nothing is charged or "
                "drawn twice."
            ) from None
        sync_folder(self.path)

    def _state(self, name: str) -> dict[str, Any] | None:
        try:
            found = json.loads((self.path / name).read_text())
        except FileNotFoundError:
            return None
        except ValueError:
            raise CannotResume(
                f"{self.path / name} is damaged: the budget of its run is gone"
            ) from None
        return found if isinstance(found, dict) else None

    def _counted(self, answers: int = 1) -> None:
        """So many more answers are kept."""
        write_all(self._lock, b"." * answers)

    def _place(self) -> list[int | None]:
        """Where the lock lies: a copy of the folder lies elsewhere."""
        here = Identity.of(self._lock)
        return [os.fstat(self._lock).st_dev, here.inode, here.born]

    def _is_at(self, place: object) -> bool:
        recorded = _recorded(place)
        if recorded is None:
            return False
        device, file = recorded
        return os.fstat(self._lock).st_dev == device and Identity.of(self._lock).is_of(file)

    def _tells_more_than(self, place: object) -> bool:
        recorded = _recorded(place)
        return recorded is not None and Identity.of(self._lock).tells_more_than(recorded[1])


def _recorded(place: object) -> tuple[int, Identity] | None:
    """A place as stored, without a birth by older versions: (device, file); None if it is none."""
    match place:
        case [int(device), int(inode)] | [int(device), int(inode), None]:
            return device, Identity(inode)
        case [int(device), int(inode), int(born)]:
            return device, Identity(inode, born)
    return None


@contextmanager
def held(path: str | os.PathLike[str]) -> Iterator[RunFolder]:
    """The folder, made if it is not there, closed to every other run meanwhile."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise ArgumentError(
            "out", str(path), f"cannot be used: {error.strerror}", "name a folder to write to"
        ) from None
    try:
        _hold(lock, path)
        yield RunFolder(folder, lock)
    finally:
        os.close(lock)  # which releases the lock


def _hold(lock: int, path: str | os.PathLike[str]) -> None:
    busy = ArgumentError(
        "out", str(path), "is used by another run", "wait for the other run to end"
    )
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            raise busy from None
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise busy from None
