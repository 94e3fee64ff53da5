"""Where releases are written: standard output, or a file that holds each of them once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from privmean.errors import ArgumentError, PrivmeanError
from privmean.storage.file_io import FULL, os_error_text
from privmean.streams.stream_release import StreamRelease


class ReleaseOutput(Protocol):
    """Takes releases in order."""

    def write(self, releases: Iterable[StreamRelease]) -> int:
        """Writes and flushes; the last step written, 0 for none."""
        ...


def line_of(release: StreamRelease) -> str:
    """One line of JSON."""
    return json.dumps(release.to_dict()) + "\n"


class StandardOutput:
    """Releases to standard output."""

    def write(self, releases: Iterable[StreamRelease]) -> int:
        shown = 0
        try:
            for release in releases:
                sys.stdout.write(line_of(release))
                shown = release.step
            if shown:
                sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as problem:
            silence()
            raise _unwritten("standard output", problem) from None
        return shown


class ReleaseFile:
    """A file of releases that survives restarts: what it holds is compared, never written again.

    `follow` must come first. It refuses a file that holds a release which the state does not hold:
    the state is then an old copy, and going on would give that step a second noise.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        if self._path.exists() and not self._path.is_file():
            raise ArgumentError("output", str(path), "is not a file", "write to standard output")

    def follow(self, releases: Iterator[StreamRelease]) -> None:
        """Compare with all releases so far, and write those that are missing."""
        try:
            with open(self._path, "a+b") as file:
                file.seek(0)
                whole = 0
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # cut off by a crash
                    release = next(releases, None)
                    if release is None or line != line_of(release).encode():
                        raise self._other(release)
                    whole += len(line)
                file.truncate(whole)
        except OSError as problem:
            raise _unwritten(str(self._path), problem) from None
        self.write(releases)

    def _other(self, release: StreamRelease | None) -> ArgumentError:
        if release is None:
            return ArgumentError(
                "output",
                str(self._path),
                "holds releases that the state does not have: the state is an old copy, "
                "or of another stream",
                "put the newest state back; to go on with this one would reveal records",
            )
        return ArgumentError(
            "output",
            str(self._path),
            f"does not hold the release of step {release.step} as it was made",
            "name the file of this stream with the same options, or a new one",
        )

    def write(self, releases: Iterable[StreamRelease]) -> int:
        shown = 0
        try:
            with open(self._path, "ab") as file:
                for release in releases:
                    file.write(line_of(release).encode())
                    shown = release.step
        except OSError as problem:
            raise _unwritten(str(self._path), problem) from None
        return shown


def silence() -> None:
    """Send what is still buffered for a closed pipe or a full disk to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unwritten(where: str, problem: OSError) -> PrivmeanError:
    remedy = "make room" if problem.errno in FULL else "correct this"
    return PrivmeanError(
        f"{where}: {os_error_text(problem)}. With --state nothing is lost. "
        f"{remedy.capitalize()} and run the same command again."
    )
