"""Lines of JSON, each chained by its digest to the line before: ledgers in databases, and of 0.2.

A line is one object that begins with its own length in bytes and ends with its digest.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from privmean.storage.entry_chain import Broken

START = "privmean"


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
