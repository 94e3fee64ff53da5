"""Lines of JSON, each chained by its digest to the line before: ledgers in databases, and of 0.2.

A line is one object that begins with its own length in bytes and ends with its digest.

Files that privmean 0.2 wrote in place of a log of today: their entries, checked as it did.

A ledger is lines of JSON (`privmean.storage.older_logs`), every other log is frames. A frame is
the length of an entry (8 bytes) with a check (8 bytes), the entry, and a digest (32 bytes) that
chains it to all before. The first byte of an entry says whose it is: the file's own facts (0), or
what was given (1).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from privmean.storage.entry_chain import Broken

CHAIN_START = "privmean"


def line_of(before: str, number: int, entry: dict[str, object]) -> tuple[str, str]:
    """A line, without its end, and its digest. before: the digest of the line before."""
    size, text, digest = 0, "", ""
    while len(text) != size or not text:
        size = len(text)
        stated = {"bytes": size, "number": number, **entry}
        digest = _digest(before, stated)
        text = json.dumps({**stated, "digest": digest}, allow_nan=False)
    return text, digest


def taken(line: bytes, before: str, number: int) -> tuple[dict[str, Any], str]:
    """The entry of a line and its digest; Broken if it is not what was written."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise Broken from None
    if not isinstance(entry, dict) or entry.pop("number", None) != number:
        raise Broken
    digest = entry.pop("digest", None)
    if digest != _digest(before, {"number": number, **entry}):
        raise Broken
    if entry.pop("bytes", len(line)) != len(line):  # the first versions stated no length
        raise Broken
    return entry, str(digest)


def _digest(before: str, entry: dict[str, object]) -> str:
    text = json.dumps(entry, sort_keys=True, allow_nan=False)
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


HEAD, TAIL = 16, 32
START = b"privmean durable log 1, "
LENGTH = re.compile(rb'\{"bytes": (\d+), ')
BROKEN = "is damaged, or was changed"


class OlderLog(Exception):
    """A file of 0.2 that cannot be gone on with: what is wrong, and what to do."""

    def __init__(self, problem: str, remedy: str = "put an undamaged newest copy back") -> None:
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy


class Older(NamedTuple):
    """What a log of today is made of. notice: to be said when it is made."""

    entries: list[bytes]
    identity: str
    notice: str = ""


def lines_of(path: Path) -> Older | None:
    """A ledger, which had neither an identity nor a witness. Its charges keep their digests.

    A last line that is cut off is shorter than it says. What waited for it had not happened.
    """
    data = path.read_bytes()
    if not data.startswith(b"{"):
        return None
    *lines, rest = data.split(b"\n")
    cut = bool(lines) and _torn(rest)
    if rest and not cut:
        lines.append(rest)  # complete but for its end: it may have counted
    entries, digest = [], CHAIN_START
    for number, line in enumerate(lines):
        try:
            entry, digest = taken(line, digest, number)
        except Broken:
            raise OlderLog(
                f"is damaged or was changed in line {number + 1}",
                "put back the newest copy of the file that is whole, if no release was charged "
                "since",
            ) from None
        if number:
            entry["digest"] = digest
        entries.append(json.dumps(entry, sort_keys=True, separators=(",", ":")).encode())
    notice = (
        f"this ledger of privmean 0.2 with {len(entries) - 1} charges was converted. If you read "
        "this a second time, an older copy was put back, and charges made since are missing: put "
        "the newest file back before the next charge"
    )
    if cut:
        notice += (
            f". Line {len(lines) + 1}, the last entry, is cut off after {len(rest)} bytes and does "
            "not count. A crash while a charge is written leaves this, and nothing was released "
            "for that charge. If the file was cut later, put the whole file back"
        )
    return Older(entries, secrets.token_hex(16), notice)


def _torn(rest: bytes) -> bool:
    """Whether bytes after the last line end are the beginning of a line: shorter than it says; or,
    where no length is stated, without a whole object."""
    stated = LENGTH.match(rest)
    if stated:
        return len(rest) < int(stated[1])
    try:
        json.JSONDecoder().raw_decode(rest.decode(errors="replace"))
    except (ValueError, RecursionError):
        return rest.startswith(b"{")
    return False


def frames_of(path: Path, kind: str) -> Older | None:
    """A file of frames; None where it is none of this kind.

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
    return Older(entries, str(facts["log"]))


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


def forget(path: Path, handle: int) -> None:
    """What lay beside a file that was converted; and the file, for who has it open in 0.2."""
    os.lseek(handle, 0, os.SEEK_END)
    os.write(handle, b"converted\n")
    for ending in (".seen", ".new"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[int]:
    """The file, held as 0.2 held it; BlockingIOError where somebody holds it."""
    handle = os.open(path, os.O_RDWR)
    try:
        with contextlib.suppress(ImportError):
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield handle
    finally:
        os.close(handle)
