"""Files as the operating system has them: what lies there, named durably, told in words."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from privmean.errors import PrivmeanError

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
