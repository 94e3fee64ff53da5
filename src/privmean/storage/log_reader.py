"""Reading a durable file: what its chained entries say of the file itself."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from privmean.storage.file_identity import NOWHERE, Identity
from privmean.storage.last_seen import LastSeenFile
from privmean.storage.log_frames import GIVEN, HEAD, TAIL, frame_of, head_of, length_of

START = b"privmean durable log 1, "


class Unreadable(Exception):
    """A file that is none, or not whole: what is wrong, and what to do."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy


@dataclass
class Content:
    """What the complete entries of a file come to.

    log: the identity of the log. number: entries since it was made. place: the file it was written
    to. chain and size: where the next entry goes. cut: whether more follows that is cut off.
    replaced: whether another file was put in its place. strays: whether the entry that was seen
    last here is not among them.
    """

    chain: bytes
    size: int
    log: str = ""
    number: int = 0
    place: Identity = NOWHERE
    cut: bool = False
    replaced: bool = False
    strays: bool = False


def head_line(kind: str) -> bytes:
    """The first line of a file of this kind."""
    return START + kind.encode() + b"\n"


def log_of(path: Path, kind: str) -> str | None:
    """The identity of the log in a file, None if there is none that can be told."""
    try:
        with path.open("rb") as file:
            chain = hashlib.sha256(head := file.readline(200)).digest()
            first = file.read(HEAD)
            if head != head_line(kind) or first != head_of(chain, length_of(first)):
                return None
            log = json.loads(file.read(length_of(first))[1:]).get("log")
    except (OSError, ValueError, struct.error):
        return None
    return str(log)


def read_log(
    file: BinaryIO, kind: str, take: Callable[[bytes], None], seen: LastSeenFile | None
) -> Content:
    """Take in all complete entries; the caller's are given to `take`."""
    end = os.fstat(file.fileno()).st_size
    if not end:
        raise Unreadable("is empty", "put its content back, or delete it if it never had one")
    head = file.readline(200)
    if head != head_line(kind):
        raise Unreadable(
            f"is not a {kind} file of this version", "name a new file or an old one of it"
        )
    found = Content(hashlib.sha256(head).digest(), len(head))
    whole, passed = False, set()
    while first := file.read(HEAD):
        if len(first) == HEAD and first != head_of(found.chain, length_of(first)):
            raise _damaged(found)
        if len(first) < HEAD or found.size + HEAD + length_of(first) + TAIL > end:
            break
        payload = file.read(length_of(first))
        frame, chain = frame_of(found.chain, payload)
        if file.read(TAIL) != frame[-TAIL:]:
            raise _damaged(found)
        found.chain = chain
        found.size += len(frame)
        found.number += whole
        if payload[:1] == GIVEN:
            take(payload[1:])
        else:
            facts = json.loads(payload[1:])
            found.log = facts.get("log", found.log)
            found.number = facts.get("number", found.number)
            found.replaced = "replaced" in facts
            if "place" in facts:  # older versions wrote no birth
                found.place = Identity(facts["place"], facts.get("born"))
            whole = whole or "whole" in facts
            passed.add(facts.get("after"))
        if seen is not None and found.number == seen.number:
            found.strays = True
            passed.add(chain.hex())
    if found.strays and seen is not None:
        found.strays = seen.mark not in passed
    if not whole:
        raise Unreadable("is cut off at its beginning", "copy the whole file again")
    found.cut = found.size < end
    return found


def _damaged(found: Content) -> Unreadable:
    return Unreadable(
        f"is damaged or was changed at byte {found.size}", "put an undamaged newest copy back"
    )
