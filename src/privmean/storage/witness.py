"""A witness of each durable log: how far it went, noted outside of the folder where the log lies.

What restores a folder does not bring the witness back, so a log that went back is noticed. The note
is written after the entry is on the disk, hence never ahead of the log. It reaches the disk itself
at most once a second: after a power cut it may be behind by what was written in that time, and a
backup from that second, put back, would not be noticed. The power cut alone costs nothing.

A note has two places in its file, written in turn: a kill amid one of them leaves the other.

Notes lie in `$XDG_STATE_HOME/privmean`, by default `~/.local/state/privmean`: one small file a log,
without anything of the data. The file is locked while its log is used, so that two copies of a log
are never used at the same time.

Files as the operating system has them: what lies there, named durably, told in words.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from privmean.errors import PrivmeanError, PrivmeanWarning

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def os_error_text(problem: OSError) -> str:
    """What the operating system said, with a full disk called that."""
    if problem.errno in FULL:
        return "the disk is full"
    return os.strerror(problem.errno) if problem.errno else str(problem)


def no_file(path: Path) -> str:
    """What lies there where that is no regular file; "" for one, and for a name that is free."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return ""
    if stat.S_ISREG(mode):
        return ""
    return next((name for holds, name in KINDS if holds(mode)), "no regular file")


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """What cannot be written here names this file: of a write, the system's own error does not."""
    try:
        yield
    except OSError as problem:
        problem.filename = problem.filename or os.fspath(path)
        raise


def is_at(handle: int, path: Path) -> bool:
    """Whether the open file still has this name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def sync_folder(folder: Path) -> None:
    """Make a new name durable, where folders can be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def require_process(process: int) -> None:
    """Refuse what another process opened: a fork of it would be a second copy of its state."""
    if process != os.getpid():
        raise PrivmeanError(
            "a forked process cannot continue with it. Open or start it in the "
            "process that uses it."
        )


EVERY = 1.0  # seconds between two times that a note reaches the disk
PLACE = 128  # bytes of one of the two places of a note


class Seen(NamedTuple):
    """How many entries a log had, and the digest of the last."""

    number: int
    digest: str


class Witness:
    """The note about one log. identity: the log's own."""

    def __init__(self, identity: str) -> None:
        self.path = folder() / identity
        self._handle: int | None = None
        self._synced = 0.0

    def lock(self, *, wait: bool = True) -> bool:
        """Hold the note; False if another process or thread holds it and `wait` is false.

        Where no note can be kept, a warning says so and nothing is held.
        """
        if self._handle is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            except OSError:
                warnings.warn(
                    f"{self.path.parent} cannot be written: a backup that is restored over a file "
                    "of privmean would not be noticed. Set XDG_STATE_HOME to a folder where you "
                    "may write",
                    PrivmeanWarning,
                    stacklevel=5,
                )
                return True
        try:
            import fcntl  # held by the open file, gone with its process

            fcntl.flock(self._handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except ImportError:  # Windows: the lock of SQLite is all there is
            pass
        except BlockingIOError:
            return False
        return True

    @property
    def kept(self) -> bool:
        """Whether a note can be kept."""
        return self._handle is not None

    def unlock(self) -> None:
        """Let others use the log."""
        if self._handle is not None:
            with contextlib.suppress(ImportError):
                import fcntl

                fcntl.flock(self._handle, fcntl.LOCK_UN)

    def read(self) -> Seen | None:
        """What was noted last; None if nothing was."""
        return max((seen for seen in self._places() if seen is not None), default=None)

    def note(self, seen: Seen, *, durable: bool = False) -> None:
        """This is on the disk. durable: the note must be, too, before the call returns."""
        if self._handle is None:
            return
        first, second = (-1 if item is None else item.number for item in self._places())
        with contextlib.suppress(OSError):
            os.pwrite(self._handle, _line(seen), PLACE if second < first else 0)
            now = time.monotonic()
            if durable or now - self._synced >= EVERY:
                os.fsync(self._handle)
                self._synced = now
            if durable:
                sync_folder(self.path.parent)

    def _places(self) -> list[Seen | None]:
        """What both places hold."""
        data = b""
        if self._handle is not None:
            with contextlib.suppress(OSError):
                data = os.pread(self._handle, 2 * PLACE, 0)
        return [_seen(data[at : at + PLACE]) for at in (0, PLACE)]

    def close(self) -> None:
        """Let go of the note."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def folder() -> Path:
    """Where the notes of this user lie."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "privmean"


def _line(seen: Seen) -> bytes:
    """A note in bytes; it ends with a check of what stands before."""
    text = f"{seen.number} {seen.digest} "
    check = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text}{check}\n".encode().rjust(PLACE)


def _seen(line: bytes) -> Seen | None:
    """The note in a place; None where it is not whole."""
    try:
        number, digest, _ = line.decode().split()
        seen = Seen(int(number), digest)
    except ValueError:
        return None
    return seen if _line(seen) == line else None
