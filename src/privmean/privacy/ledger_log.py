"""An append-only file of JSON lines that survives crashes and several writers.

Each line is one object that begins with its own length in bytes and ends with a digest that chains
it to the line before. A write is one append, flushed to the disk before it counts. The first line
is there from the moment the file has its name, so that an empty file is never a new one.

A crash can cut off the last line while it is written: such a line is shorter than it says. It does
not count, since what waits for its write has not happened; readers are told of it, and the next
write removes it. A file that was cut later, when its last line had counted, looks the same. A line
that is complete is kept, also without its line end. Any other damage is refused: a ledger that
forgets is worse than one that stops. Reading changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from privmean.errors import ArgumentError, PrivmeanError
from privmean.storage.file_io import FULL, no_file, os_error_text, sync_folder, write_all

START = "privmean"
LENGTH = re.compile(rb'\{"bytes": (\d+), ')


class JournalDamaged(PrivmeanError):
    """The file is not a journal, or was changed or damaged other than by a cut-off last line."""


class Journal:
    """Entries in the order of writing; `locked` holds the file for one check-then-write."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def exists(self) -> bool:
        """Whether the file is there; ArgumentError for what can be no ledger, such as a device."""
        try:
            found = no_file(self.path)
            there = self.path.exists()
        except (OSError, ValueError) as error:
            raise _unusable(self.path, "opened", error) from None
        if found:
            raise ArgumentError(
                "ledger", str(self.path), f"is {found}", "name a regular file, or a new one"
            )
        return there

    def create(self, entry: dict[str, object]) -> bool:
        """A new file with its first entry, all at once; False if there is a file already."""
        if self.exists():
            return False
        line, _ = line_of(START, 0, entry)
        path = Path(os.path.realpath(self.path))  # where a link leads that has no file yet
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            try:
                with open(draft, "xb", buffering=0) as file:
                    _write(file, line)
                _name(draft, path, line)
            finally:
                draft.unlink(missing_ok=True)
        except FileExistsError:
            return False
        except OSError as error:
            raise _unusable(self.path, "made", error) from None
        sync_folder(path.parent)
        return True

    @contextmanager
    def locked(self) -> Iterator[Session]:
        """The file, which must be there, closed to every other process and thread meanwhile."""
        self.exists()  # opening a pipe would wait, and reading a device might never end
        # opened for each session: two threads then hold two locks, as two processes do
        try:
            file = open(self.path, "a+b", 0, opener=_existing)  # noqa: SIM115 - closed below
        except FileNotFoundError:
            raise JournalDamaged(f"{self.path}: the ledger was replaced: it is gone") from None
        except OSError as error:
            raise _unusable(self.path, "opened", error) from None
        with file:
            try:
                _lock(file)
                session = Session(self.path, file)
            except OSError as error:
                raise _unusable(self.path, "read", error) from None
            yield session  # closing the file releases the lock


class Session:
    """A journal under lock. `entries` are as they were written, without what binds them;
    `digests` are the digests of their lines. `cut`: bytes of a last line that is cut off."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self.entries: list[dict[str, Any]] = []
        self.digests: list[str] = []
        self.cut = 0
        self._due = b""  # the end of the last line, where it is all that is missing
        self._whole = 0  # where complete lines end
        self._read()

    @property
    def _digest(self) -> str:
        return self.digests[-1] if self.digests else START

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._take(line)
        if rest and _torn(rest) and self.entries:
            self.cut = len(rest)
        elif rest:
            self._take(rest)  # complete but for the line's end: it may have counted
            self._due = b"\n"
        self._whole = len(data) - self.cut
        if not self.entries:
            raise JournalDamaged(
                f"{self._path}: the file has no complete first line, which no ledger is without, "
                "however it is interrupted; if it never was a ledger, remove it or name another"
            )

    def _take(self, line: bytes) -> None:
        entry, digest = taken(str(self._path), line, self._digest, len(self.entries))
        self.entries.append(entry)
        self.digests.append(digest)

    def append(self, entry: dict[str, object]) -> str:
        """Writes one entry and returns, when it is on the disk, its line's digest.

        PrivmeanError where the disk does not take it: the complete lines stay as they are.
        """
        line, digest = line_of(self._digest, len(self.entries), entry)
        line = self._due + line
        try:
            if self.cut:
                self._shorten()
            _write(self._file, line)
        except OSError as problem:
            raise self._unwritten(problem) from None
        self._whole, self._due, self.cut = self._whole + len(line), b"", 0
        self.entries.append({"number": len(self.entries), **entry})
        self.digests.append(digest)
        return digest

    def _shorten(self) -> None:
        """Remove what follows the complete lines."""
        self._file.truncate(self._whole)
        os.fsync(self._file.fileno())

    def _unwritten(self, problem: OSError) -> PrivmeanError:
        try:
            self._shorten()
            counts = "this charge does not count"
        except OSError:  # all of the line may be there
            counts = "`privmean ledger show` shows whether this charge counts"
        remedy = "make room" if problem.errno in FULL else "correct this"
        return PrivmeanError(
            f"{self._path}: {os_error_text(problem)}. {counts.capitalize()}. "
            "Nothing was released for it, and earlier entries are safe. "
            f"{remedy.capitalize()} and ask again."
        )


def taken(path: str, line: bytes, before: str, number: int) -> tuple[dict[str, Any], str]:
    """The entry of a line and its digest; JournalDamaged if it is not what was written."""
    damaged = JournalDamaged(
        f"{path}: line {number + 1} is damaged or was changed; put back the newest copy of the "
        "file that is whole, if no release was charged since"
    )
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise damaged from None
    if not isinstance(entry, dict) or entry.get("number") != number:
        raise damaged
    digest = entry.pop("digest", None)
    if digest != _digest(before, entry):
        raise damaged
    if entry.pop("bytes", len(line)) != len(line):  # lines of older versions state no length
        raise damaged
    return entry, str(digest)


def _torn(rest: bytes) -> bool:
    """Whether bytes after the last line end are the beginning of a line, cut off by a crash.

    They are shorter than they say. Of a line without a stated length (older versions), or of which
    not even that is there: they hold no whole object.
    """
    stated = LENGTH.match(rest)
    if stated:
        return len(rest) < int(stated[1])
    try:
        json.JSONDecoder().raw_decode(rest.decode(errors="replace"))
    except (ValueError, RecursionError):
        return rest.startswith(b"{")
    return False


def line_of(before: str, number: int, entry: dict[str, object]) -> tuple[bytes, str]:
    """The bytes of a line, its end included, and its digest."""
    size, text, digest = 0, "", ""
    while len(text) != size or not text:
        size = len(text)
        stated = {"bytes": size, "number": number, **entry}
        digest = _digest(before, stated)
        text = json.dumps({**stated, "digest": digest}, allow_nan=False)
    return text.encode() + b"\n", digest


def chained(before: str | None, number: int, entry: dict[str, object]) -> str:
    """The digest that a line would have after a line of digest `before` (None: the first one)."""
    return line_of(START if before is None else before, number, entry)[1]


def _write(file: BinaryIO, data: bytes) -> None:
    write_all(file.fileno(), data)
    os.fsync(file.fileno())


def _digest(before: str, entry: dict[str, object]) -> str:
    text = json.dumps(entry, sort_keys=True, allow_nan=False)
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def _name(draft: Path, path: Path, line: bytes) -> None:
    """Give a whole file its name; FileExistsError if the name is taken."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # no second names on this file system: a crash here leaves a part of the line
        with open(path, "xb", buffering=0) as file:
            try:
                _write(file, line)
            except OSError:
                path.unlink(missing_ok=True)
                raise


def _existing(path: str, flags: int) -> int:
    return os.open(path, flags & ~os.O_CREAT)


def _unusable(path: Path, done: str, error: OSError | ValueError) -> ArgumentError:
    said = os_error_text(error) if isinstance(error, OSError) else str(error)
    full = isinstance(error, OSError) and error.errno in FULL
    return ArgumentError(
        "ledger",
        str(path),
        f"cannot be {done}: {said}",
        "make room" if full else "name a file in a folder where you may write",
    )


def _lock(file: BinaryIO) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: a lock far beyond the end of the file
        import msvcrt

        file.seek(2**40)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
        return
    fcntl.flock(file.fileno(), fcntl.LOCK_EX)
