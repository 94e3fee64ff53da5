"""Which file it is, so that a copy is known as one: its inode number and the time of its birth.

The number alone does not tell: a file system soon gives the number of a deleted file to a new one,
which may be a copy of it. The time of birth is the file system's own and no tool that copies files
keeps it. Where the system does not tell it, the number is all there is.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

SYSTEM: str = sys.platform
BILLION = 10**9
_EMPTY_PATH, _HERE = 0x1000, -100  # AT_EMPTY_PATH, AT_FDCWD
_BIRTH, _SIZE = 0x800, 256  # STATX_BTIME, bytes of struct statx


class Identity(NamedTuple):
    """inode: the number of a file. born: nanoseconds since 1970, None where not told."""

    inode: int
    born: int | None = None

    @classmethod
    def of(cls, file: int | Path) -> Identity:
        """The identity of an open file, or of a path, which is not opened: to close a file of
        SQLite's would let go of its locks."""
        return cls(_inode(file), _born(file))

    def is_of(self, recorded: Identity) -> bool:
        """Whether it is the recorded file, as far as was recorded.

        A birth that was recorded must be told again: a number alone could be that of a copy.
        """
        return self.inode == recorded.inode and recorded.born in (None, self.born)

    def tells_more_than(self, recorded: Identity) -> bool:
        """Whether the birth is told that the record, of an older version or system, lacks."""
        return self.born is not None and recorded.born is None

    @property
    def number(self) -> int:
        """Both in 63 bits, where one number is kept; the inode number where there is no birth."""
        if self.born is None:
            return self.inode
        import hashlib

        told = hashlib.sha256(f"{self.inode} {self.born}".encode()).digest()
        return int.from_bytes(told[:8], "big") >> 1


NOWHERE = Identity(-1)


def names_of(handle: int) -> int:
    """How many names (hard links) an open file has; 1 where this is not told."""
    return max(1, os.fstat(handle).st_nlink)


def _inode(file: int | Path) -> int:
    return os.stat(file).st_ino


def _born(file: int | Path) -> int | None:
    """The time of birth of a file in nanoseconds, None where it is not told."""
    if SYSTEM == "linux":
        return _statx_born(file)
    found: Any = os.stat(file)  # its fields are other ones on each system
    if SYSTEM == "win32":
        time = getattr(found, "st_birthtime_ns", found.st_ctime_ns)
    else:
        time = round(getattr(found, "st_birthtime", 0) * BILLION)
    return int(time) if time > 0 else None


def _statx_born(file: int | Path) -> int | None:
    call = _statx()
    if call is None:
        return None
    found = ctypes.create_string_buffer(_SIZE)
    handle, path = (file, b"") if isinstance(file, int) else (_HERE, os.fsencode(file))
    if call(handle, path, 0 if path else _EMPTY_PATH, _BIRTH, found) != 0:
        return None
    (told,) = struct.unpack_from("=I", found, 0)
    seconds, nanoseconds = struct.unpack_from("=qI", found, 80)
    return seconds * BILLION + nanoseconds if told & _BIRTH and seconds > 0 else None


@functools.cache
def _statx() -> Callable[..., int] | None:
    """The system call of Linux, which Python does not have; None in a C library without it."""
    try:
        call = ctypes.CDLL(None).statx
    except (OSError, AttributeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
    call.restype = ctypes.c_int
    found: Callable[..., int] = call
    return found
