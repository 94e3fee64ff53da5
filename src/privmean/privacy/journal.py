"""An append-only file of JSON lines that survives crashes and several writers.

Each line is one object with a running number and a digest that chains it to the line before. A
write is one append, flushed to the disk before it counts. A last line cut off by a crash never
counted, since nothing that waits for its write has happened; it is removed by the next writer. Any
other damage is refused: a ledger that forgets is worse than one that stops.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from privmean.errors import PrivmeanError

START = "privmean"


class JournalDamaged(PrivmeanError):
    """The file is not a journal, or was changed or damaged other than by a cut-off last line."""


class Journal:
    """Entries in the order of writing; `locked` holds the file for one check-then-write."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @contextmanager
    def locked(self) -> Iterator[Session]:
        """The file, created if need be, closed to every other process and thread meanwhile."""
        new = not self.path.exists()
        # opened for each session: two threads then hold two locks, as two processes do
        with open(self.path, "a+b", buffering=0) as file:
            _lock(file)
            if new:
                _sync_folder(self.path.parent)
            yield Session(self.path, file)  # closing the file releases the lock


class Session:
    """A journal under lock."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._digest = START
        self.entries: list[dict[str, Any]] = []
        self._read()

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        *lines, rest = data.split(b"\n")
        for number, line in enumerate(lines):
            self.entries.append(self._checked(line, number))
        if not rest:
            return
        try:
            entry = self._checked(rest, len(lines))
        except JournalDamaged:
            self._file.truncate(len(data) - len(rest))  # cut off while it was written
        else:
            self.entries.append(entry)  # only the line's end is missing: it may have counted
            self._write(b"\n")

    def _checked(self, line: bytes, number: int) -> dict[str, Any]:
        damaged = JournalDamaged(f"{self._path}: line {number + 1} is damaged or was changed")
        try:
            entry = json.loads(line)
        except ValueError:
            raise damaged from None
        if not isinstance(entry, dict) or entry.get("number") != number:
            raise damaged
        digest = entry.pop("digest", None)
        if digest != _digest(self._digest, entry):
            raise damaged
        self._digest = digest
        return entry

    def append(self, entry: dict[str, Any]) -> None:
        """Writes one entry and returns when it is on the disk."""
        entry = {"number": len(self.entries), **entry}
        digest = _digest(self._digest, entry)
        self._write(json.dumps({**entry, "digest": digest}, allow_nan=False).encode() + b"\n")
        self.entries.append(entry)
        self._digest = digest

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        os.fsync(self._file.fileno())


def _digest(before: str, entry: dict[str, Any]) -> str:
    text = json.dumps(entry, sort_keys=True, allow_nan=False)
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def _lock(file: BinaryIO) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: a lock far beyond the end of the file
        import msvcrt

        file.seek(2**40)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
        return
    fcntl.flock(file.fileno(), fcntl.LOCK_EX)


def _sync_folder(folder: Path) -> None:
    """Makes a new file's name durable, where folders can be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
