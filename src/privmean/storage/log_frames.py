"""How entries stand in a durable file: each with its length, chained by digests to all before."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator

OWN, GIVEN = b"\0", b"\1"  # whose an entry is: the log's own, or the caller's
HEAD, TAIL = 16, 32  # length and its check before an entry, the digest after it


def head_of(chain: bytes, length: int) -> bytes:
    """What stands before an entry of so many bytes: its length, and a check of it."""
    said = struct.pack(">Q", length)
    return said + hashlib.sha256(chain + said).digest()[: HEAD - 8]


def length_of(first: bytes) -> int:
    """The length that a head states."""
    return int(struct.unpack(">Q", first[:8])[0])


def frame_of(chain: bytes, payload: bytes) -> tuple[bytes, bytes]:
    """(an entry as it is written, the digest that the next one chains to)."""
    first = head_of(chain, len(payload))
    digest = hashlib.sha256(chain + first + payload).digest()
    return first + payload + digest, digest


def own(facts: dict[str, object]) -> bytes:
    """An entry of the log itself."""
    return OWN + json.dumps(facts).encode()


def with_ends(first: bytes, entries: Iterable[bytes], last: bytes) -> Iterator[bytes]:
    """The caller's entries between two of the log."""
    yield first
    yield from (GIVEN + entry for entry in entries)
    yield last
