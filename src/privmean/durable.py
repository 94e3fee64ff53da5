"""An append-only file of entries: a copy of it, made at any moment, is a true beginning of it.

Nothing in the file is ever changed, so a copy holds the first entries, all of them complete but the
last, which may be cut off. An entry is on the disk before `append` returns; what waits for it has
not happened when its entry is cut off. Each entry carries its length, and a digest that chains it
to all before: any other damage is refused.

What a copy cannot say is whether it is the newest. Two things tell, wherever they can. The file
knows its own place (the inode): a copy is refused until the caller says that the original is not
used any more. And the last entry is noted beside it, in `FILE.seen`: an older copy put back over
the file, or one that went on elsewhere, is refused. What cannot be noticed: old copies of both in
their old places (a snapshot of the disk or of the machine put back), and a caller who is wrong
about the newest copy.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from privmean.disk import is_at, locked, require_process, sync_folder, try_lock, words_of, write_all
from privmean.errors import ArgumentError, PrivmeanError
from privmean.frames import HEAD, TAIL, frame_of, head_of, length_of
from privmean.noted import Noted, Seen

START = b"privmean durable log 1, "
OWN, GIVEN = b"\0", b"\1"  # whose an entry is: the log's own, or the caller's


class LogExists(ArgumentError):
    """There is a file of this name, or another process makes it just now."""


class DurableLog:
    """A log held by one process until `close`; `create` or `open` one.

    kind: what the entries are, part of the file. entries and take: the caller's entries, bytes.
    name: the argument that error messages name.

    Raises ArgumentError for a file that cannot be used and PrivmeanError when the disk cannot take
    an entry; the entry does not count then, and the log must be opened again. A process made by
    `os.fork` does not hold the logs of its parent.
    """

    def __init__(self, path: Path, kind: str, name: str, handle: int) -> None:
        self.path, self.kind, self._name = path, kind, name
        self._handle: int | None = handle
        self._process = os.getpid()
        self._chain = b""
        self._log = ""
        self._place = -1
        self._strays = False
        self._seen = Seen(path)
        self.size = 0
        self.number = 0
        _held.add(self)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        kind: str,
        entries: Iterable[bytes] = (),
        *,
        name: str = "state",
    ) -> DurableLog:
        """A new file, which gets its name once it is whole. Readable by its owner alone."""
        real = Path(path).resolve()
        exists = LogExists(name, str(path), "exists", "open it, or name a new file")
        if real.exists():
            raise exists
        log = cls(real, kind, name, -1)
        log._log = secrets.token_hex(8)
        try:
            log._write_anew(entries, new=True)
        except FileExistsError:
            raise exists from None
        except OSError as problem:
            raise ArgumentError(
                name, str(path), f"cannot be created ({words_of(problem)})", "name another file"
            ) from None
        log._noted()
        return log

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        kind: str,
        take: Callable[[bytes], None],
        *,
        moved: bool = False,
        patience: float = 0.0,
        name: str = "state",
    ) -> DurableLog:
        """A file that exists; every entry is given to `take`.

        moved: the caller's word that this is the newest copy and that the original is never used
        again. patience: seconds to wait for another process.
        """
        real = Path(path).resolve()
        try:
            handle = locked(real, time.monotonic() + patience)
        except OSError as problem:
            raise ArgumentError(
                name, str(path), f"cannot be opened ({words_of(problem)})", "check the path"
            ) from None
        if handle is None:
            raise ArgumentError(
                name, str(path), "is in use", "another process or thread holds it; wait for its end"
            )
        log = cls(real, kind, name, handle)
        try:
            log._take_over(take, moved)
        except BaseException:
            log.close()
            raise
        return log

    def append(self, entry: bytes) -> None:
        """Add an entry; it is on the disk when the call returns."""
        self._append(GIVEN + entry)
        self._noted()

    def entries(self) -> Iterator[bytes]:
        """All entries again, the oldest first."""
        self._usable()
        with open(self.path, "rb") as file:
            file.readline()
            while first := file.read(HEAD):
                payload = file.read(length_of(first))
                file.seek(TAIL, os.SEEK_CUR)
                if payload[:1] == GIVEN:
                    yield payload[1:]

    def replace(self, entries: Iterable[bytes]) -> bool:
        """Put these entries, which say the same as all before, in place of them.

        Whoever copies meanwhile gets all of the old file or all of the new one. False if the file
        cannot be replaced (no space, or the file alone is mounted): it stays as it is.
        """
        self._usable()
        try:
            self._write_anew(entries, new=False)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(self._beside(".new"))
            return False
        self._noted()
        return True

    def close(self) -> None:
        """Let go of the file."""
        self._seen.close()
        handle, self._handle = self._handle, None
        if handle is not None and handle >= 0:
            os.close(handle)

    def __del__(self) -> None:
        self.close()

    # -- writing --

    def _usable(self) -> int:
        require_process(self._process)
        if self._handle is None:
            raise PrivmeanError(f"{self.path} was closed; open it again")
        return self._handle

    def _append(self, payload: bytes) -> None:
        handle = self._usable()
        frame, chain = frame_of(self._chain, payload)
        try:
            write_all(handle, frame)
            os.fsync(handle)
        except OSError as problem:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, self.size)
            self.close()
            raise PrivmeanError(
                f"{self.path}: {words_of(problem)}; nothing of this batch counts or was shown, all "
                "before is safe: make room and open the file again"
            ) from None
        self._chain = chain
        self.size += len(frame)
        self.number += 1

    def _write_anew(self, entries: Iterable[bytes], *, new: bool) -> None:
        """Write a whole file beside, then give it the name, under lock all the time."""
        path = self._beside(".new")
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if not try_lock(handle) or not is_at(handle, path) or (new and self.path.exists()):
                raise FileExistsError(errno.EEXIST, "another process makes it")
            os.fchmod(handle, 0o600)
            os.ftruncate(handle, 0)
            place = os.fstat(handle).st_ino
            first = {"log": self._log, "number": self.number, "place": place}
            first["after"] = self._chain.hex()
            head = START + self.kind.encode() + b"\n"
            chain, size = hashlib.sha256(head).digest(), len(head)
            write_all(handle, head)
            for payload in _with_ends(_own(first), entries, _own({"whole": True})):
                frame, chain = frame_of(chain, payload)
                write_all(handle, frame)
                size += len(frame)
            os.fsync(handle)
            os.rename(path, self.path)
        except BaseException:
            os.close(handle)
            raise
        if self._handle is not None and self._handle >= 0:
            os.close(self._handle)
        self._handle, self._chain, self._place, self.size = handle, chain, place, size
        with contextlib.suppress(OSError):
            sync_folder(self.path.parent)

    def _noted(self) -> None:
        self._seen.note(Noted(self._log, self.number, self._chain.hex()))

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    # -- reading --

    def _take_over(self, take: Callable[[bytes], None], moved: bool) -> None:
        handle = self._usable()
        seen = self._seen.read()
        with open(self.path, "rb") as file:
            cut = self._read(file, take, seen)
        copy = os.fstat(handle).st_ino != self._place
        if seen is not None and seen.identity != self._log:
            seen = None
        if seen is not None and seen.number > self.number:
            raise self._refused(
                f"is an old copy: it holds {self.number} entries, and {seen.number} were written",
                "put the newest one back; noise drawn twice for one step would reveal the data",
            )
        if seen is not None and self._strays:
            raise self._refused(
                "is a copy that went on by itself: other entries were written here",
                "put the file back that was used here; what both released cannot be undone",
            )
        if copy and not moved:
            raise self._refused(
                "is a copy, or was moved from another disk",
                "if it is the newest and the original is never used again, say that it was moved",
            )
        if cut and copy:
            raise self._refused("is a copy whose end is cut off", "copy the whole file again")
        if cut:  # its writer was killed before anything was made of it
            os.ftruncate(handle, self.size)
            os.fsync(handle)
        if copy:
            self._place = os.fstat(handle).st_ino
            self._append(_own({"place": self._place}))
        self._noted()

    def _read(self, file: BinaryIO, take: Callable[[bytes], None], seen: Noted | None) -> bool:
        """Take in all complete entries; True if more follows that is cut off.

        Sets `_strays` if the entry that was seen last here is not among them.
        """
        end = os.fstat(file.fileno()).st_size
        if not end:
            raise self._refused(
                "is empty", "put its content back, or delete it if it never had one"
            )
        head = file.readline(200)
        if head != START + self.kind.encode() + b"\n":
            raise self._refused(
                f"is not a {self.kind} file of this version", "name a new file or an old one of it"
            )
        self._chain, self.size = hashlib.sha256(head).digest(), len(head)
        whole, passed = False, set()
        while first := file.read(HEAD):
            if len(first) == HEAD and first != head_of(self._chain, length_of(first)):
                raise self._damaged()
            if len(first) < HEAD or self.size + HEAD + length_of(first) + TAIL > end:
                break
            payload = file.read(length_of(first))
            frame, chain = frame_of(self._chain, payload)
            if file.read(TAIL) != frame[-TAIL:]:
                raise self._damaged()
            self._chain = chain
            self.size += len(frame)
            self.number += whole
            if payload[:1] == GIVEN:
                take(payload[1:])
            else:
                facts = json.loads(payload[1:])
                self._log = facts.get("log", self._log)
                self.number = facts.get("number", self.number)
                self._place = facts.get("place", self._place)
                whole = whole or "whole" in facts
                passed.add(facts.get("after"))
            if seen is not None and self.number == seen.number:
                self._strays = True
                passed.add(chain.hex())
        if self._strays and seen is not None:
            self._strays = seen.mark not in passed
        if not whole:
            raise self._refused("is cut off at its beginning", "copy the whole file again")
        return self.size < end

    def _refused(self, problem: str, remedy: str) -> ArgumentError:
        return ArgumentError(self._name, str(self.path), problem, remedy)

    def _damaged(self) -> ArgumentError:
        return self._refused(
            f"is damaged or was changed at byte {self.size}", "put an undamaged newest copy back"
        )


def _own(facts: dict[str, object]) -> bytes:
    return OWN + json.dumps(facts).encode()


def _with_ends(first: bytes, entries: Iterable[bytes], last: bytes) -> Iterator[bytes]:
    yield first
    yield from (GIVEN + entry for entry in entries)
    yield last


_held: weakref.WeakSet[DurableLog] = weakref.WeakSet()


def _let_go() -> None:
    """In a forked process: a lock would otherwise last until the last of all forks ends."""
    for log in list(_held):
        log.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
