"""What was written last to a file, noted beside it: an older copy put back is noticed."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple


class LastSeenFile(NamedTuple):
    """Which file, how often it was changed, and a mark of the last change."""

    identity: str
    number: int
    mark: str


class LastSeen:
    """The last change of a file, noted beside it: tells that the file is an old copy.

    Where nothing can be noted, nothing is. A note may be lost with the machine's power; it is never
    ahead of the file, because it is written after the change is on the disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + ".seen")
        self._handle: int | None = None

    def note(self, noted: LastSeenFile) -> None:
        """This is on the disk."""
        text = f"{noted.identity} {noted.number:020d} {noted.mark}\n"
        with contextlib.suppress(OSError):
            if self._handle is None:
                self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            os.pwrite(self._handle, text.encode(), 0)

    def read(self) -> LastSeenFile | None:
        """What was noted last, None if nothing can be read."""
        try:
            identity, number, mark = self._path.read_text().split()
            return LastSeenFile(identity, int(number), mark)
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)
