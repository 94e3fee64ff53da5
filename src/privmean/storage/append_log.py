"""An append-only file of entries: a copy of it, made at any moment, is a true beginning of it.

Nothing in the file is ever changed, so a copy holds the first entries, all of them complete but the
last, which may be cut off. An entry is on the disk before `append` returns; what waits for it has
not happened when its entry is cut off. Each entry carries its length, and a digest that chains it
to all before: any other damage is refused.

What a copy cannot say is whether it is the newest. Three things tell, wherever they can. The file
knows which one it is (`privmean.storage.file_identity`): a copy is refused until the caller says
that the original is not used any more, and so is a file of several names, one of which could be
left behind. The last entry is noted beside it, in `FILE.seen`: an older copy put back over the
file, or one that went on elsewhere, is refused. And a file that another was put in place of says
so, under whatever name it is still found. What cannot be noticed: a snapshot of the disk or of the
machine put back, and a caller who is wrong about the newest copy.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from privmean.errors import ArgumentError, PrivmeanError
from privmean.storage.file_identity import NOWHERE, Identity, names_of
from privmean.storage.file_io import (
    is_at,
    locked,
    os_error_text,
    require_process,
    sync_folder,
    try_lock,
    write_all,
)
from privmean.storage.last_seen import LastSeen, LastSeenFile
from privmean.storage.log_frames import GIVEN, HEAD, TAIL, frame_of, length_of, own, with_ends
from privmean.storage.log_reader import Unreadable, head_line, log_of, read_log


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
        self._place = NOWHERE
        self._weak = False
        self._seen = LastSeen(path)
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
                name,
                str(path),
                f"cannot be created ({os_error_text(problem)})",
                "name another file",
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
                name, str(path), f"cannot be opened ({os_error_text(problem)})", "check the path"
            ) from None
        if handle is None:
            raise ArgumentError(
                name, str(path), "is in use by another process or thread", "wait for its end"
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
        if self._weak:
            self._place_here()
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
            raise PrivmeanError(f"{self.path} was closed. Open it again.")
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
                f"{self.path}: {os_error_text(problem)}. Nothing of this batch "
                "counts or was shown, and earlier batches are safe. Make room and "
                "open the file again."
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
            place = Identity.of(handle)
            first: dict[str, object] = {"log": self._log, "number": self.number, **_said(place)}
            first["after"] = self._chain.hex()
            head = head_line(self.kind)
            chain, size = hashlib.sha256(head).digest(), len(head)
            write_all(handle, head)
            for payload in with_ends(own(first), entries, own({"whole": True})):
                frame, chain = frame_of(chain, payload)
                write_all(handle, frame)
                size += len(frame)
            os.fsync(handle)
            self._name_it(path)
        except BaseException:
            os.close(handle)
            raise
        if self._handle is not None and self._handle >= 0:
            os.close(self._handle)
        self._handle, self._chain, self._place, self.size = handle, chain, place, size
        self._weak = False
        with contextlib.suppress(OSError):
            sync_folder(self.path.parent)

    def _name_it(self, path: Path) -> None:
        """Give a file written anew the name; the old one, if any, says what became of it.

        Where the old one has another name, it says so first: after a crash in between it is refused
        under all its names, and the new file lies beside.
        """
        old = self._handle
        if old is None or old < 0 or not Identity.of(old).is_of(self._place):
            os.rename(path, self.path)  # a copy is refused under any name
            return
        first = names_of(old) > 1 or not is_at(old, self.path)
        try:
            if first:
                sync_folder(self.path.parent)
                self._say_replaced(old)
                os.fsync(old)
            os.rename(path, self.path)
        except OSError:
            if first:
                self._take_back(old)
            raise
        if not first:  # it may be mounted elsewhere, or have got another name just now
            with contextlib.suppress(OSError):
                self._say_replaced(old)

    def _say_replaced(self, old: int) -> None:
        write_all(old, frame_of(self._chain, own({"replaced": True}))[0])

    def _take_back(self, old: int) -> None:
        try:
            os.ftruncate(old, self.size)
            os.fsync(old)
        except OSError:
            self.close()  # nothing may follow those words
            raise

    def _place_here(self) -> None:
        """Note which file it is."""
        self._place, self._weak = Identity.of(self._usable()), False
        self._append(own(_said(self._place)))

    def _noted(self) -> None:
        self._seen.note(LastSeenFile(self._log, self.number, self._chain.hex()))

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    # -- reading --

    def _take_over(self, take: Callable[[bytes], None], moved: bool) -> None:
        handle = self._usable()
        seen = self._seen.read()
        try:
            with open(self.path, "rb") as file:
                found = read_log(file, self.kind, take, seen)
        except Unreadable as unread:
            raise self._refused(unread.problem, unread.remedy) from None
        self._log, self.number, self._place = found.log, found.number, found.place
        self._chain, self.size = found.chain, found.size
        here, names = Identity.of(handle), names_of(handle)
        copy = not here.is_of(self._place)
        if seen is not None and seen.identity != self._log:
            seen = None
        if seen is not None and seen.number > self.number:
            raise self._refused(
                f"is an old copy: it holds {self.number} entries, and {seen.number} were written",
                "put the newest one back; noise drawn twice for one step would reveal the data",
            )
        if seen is not None and found.strays:
            raise self._refused(
                "is a copy that went on by itself: other entries were written here",
                "put the file back that was used here; what both released cannot be undone",
            )
        if found.replaced and not copy:  # a copy is a beginning, whenever it was made
            raise self._refused(
                "is an old copy: it was written anew, and the new file went on",
                f"use that one; a crash may have left it as {self._beside('.new').name}, to be "
                f"renamed to {self.path.name}",
            )
        if copy and not moved:
            raise self._refused(
                "is a copy, or was moved from another disk",
                "if it is the newest and the original is never used again, say that it was moved",
            )
        if names > 1 and not moved:
            raise self._refused(
                f"has {names} names (hard links), and one could be left behind as an old copy",
                "remove the others; or, if they are never used again, say that it was moved",
            )
        if found.cut and copy:
            raise self._refused(
                "is a copy whose end is cut off",
                "copy the whole file again; if its writer was killed, open the original once first",
            )
        if found.cut:  # its writer was killed before anything was made of it
            os.ftruncate(handle, self.size)
            os.fsync(handle)
        if not copy:
            self._drop_draft()
        self._weak = here.tells_more_than(self._place)
        # of several names, this one gets a file of its own, and the others are refused
        if not (names > 1 and self.replace(self.entries())) and copy:
            self._place_here()
        self._noted()

    def _drop_draft(self) -> None:
        """A crash may have left a file written anew, without the name: never a state to go on from.

        Emptied, too: it may have another name.
        """
        draft = self._beside(".new")
        if log_of(draft, self.kind) == self._log:
            with contextlib.suppress(OSError):
                os.truncate(draft, 0)
                os.unlink(draft)

    def _refused(self, problem: str, remedy: str) -> ArgumentError:
        return ArgumentError(self._name, str(self.path), problem, remedy)


def _said(place: Identity) -> dict[str, object]:
    return {"place": place.inode, "born": place.born}


_held: weakref.WeakSet[DurableLog] = weakref.WeakSet()


def _let_go() -> None:
    """In a forked process: a lock would otherwise last until the last of all forks ends."""
    for log in list(_held):
        log.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
