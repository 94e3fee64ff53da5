"""Files that privmean 0.2 wrote in place of a log of today: their entries, checked as it did.

A frame of 0.2 is the length of an entry (8 bytes) with a check (8 bytes), the entry, and a digest
(32 bytes) that chains it to all before. The first byte of an entry says whose it is: the file's
own facts (0), or what was given (1).
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HEAD, TAIL = 16, 32
START = b"privmean durable log 1, "
BROKEN = "is damaged, or was changed"


class OlderLog(Exception):
    """A file of 0.2 that cannot be gone on with: what is wrong, and what to do."""

    def __init__(self, problem: str, remedy: str = "put an undamaged newest copy back") -> None:
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy


def entries_of(path: Path, kind: str) -> tuple[list[bytes], str] | None:
    """(entries, identity) of a file of 0.2; None for one that is none of this kind."""
    return frames_of(path, kind)


def frames_of(path: Path, kind: str) -> tuple[list[bytes], str] | None:
    """(entries, identity) of a file of frames; None where it is none of this kind.

    An entry that is cut off had not happened yet. What lay beside the file (`FILE.seen`) tells an
    old copy.
    """
    with path.open("rb") as file:
        head = file.readline(200)
        if head != START + kind.encode() + b"\n":
            return None
        data = file.read()
    facts: dict[str, Any] = {}
    entries, number, whole = [], 0, False
    marks: defaultdict[int, set[str]] = defaultdict(set)
    for payload, digest in _frames(head, data):
        number += whole
        if payload[:1] == b"\1":
            entries.append(payload[1:])
        else:
            own = json.loads(payload[1:])
            facts |= own
            number = own.get("number", number)
            whole = whole or "whole" in own
            marks[number].add(str(own.get("after")))  # of the file that this one was made of
        marks[number].add(digest.hex())
    if not whole:
        raise OlderLog("is cut off at its beginning")
    if "replaced" in facts:
        raise OlderLog("is an old copy: it was written anew, and the new file went on")
    seen = last_seen(path, str(facts["log"]))
    if seen is not None and (seen[0] > number or seen[1] not in marks.get(seen[0], seen)):
        raise OlderLog("is an old copy, or one that went on by itself")
    return entries, str(facts["log"])


def _frames(head: bytes, data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Complete entries with their digests."""
    chain, at = hashlib.sha256(head).digest(), 0
    while at + HEAD <= len(data):
        said, check = data[at : at + 8], data[at + 8 : at + HEAD]
        if hashlib.sha256(chain + said).digest()[:8] != check:
            raise OlderLog(BROKEN)
        end = at + HEAD + struct.unpack(">Q", said)[0]
        if end + TAIL > len(data):
            return
        chain = hashlib.sha256(chain + data[at:end]).digest()
        if chain != data[end : end + TAIL]:
            raise OlderLog(BROKEN)
        yield data[at + HEAD : end], chain
        at = end + TAIL


def last_seen(path: Path, identity: str) -> tuple[int, str] | None:
    """The last entry that was noted beside the file."""
    try:
        log, number, mark = path.with_name(path.name + ".seen").read_text().split()
        return (int(number), mark) if log == identity else None
    except (OSError, ValueError):
        return None


def forget(path: Path) -> None:
    """What lay beside a file that was converted."""
    for ending in (".seen", ".new"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def locked(path: Path) -> int | None:
    """The file, held as 0.2 held it; None where somebody holds it."""
    handle = os.open(path, os.O_RDWR)
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        pass
    except BlockingIOError:
        os.close(handle)
        return None
    return handle
