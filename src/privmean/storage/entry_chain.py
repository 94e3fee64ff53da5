"""Two tables of a SQLite database that hold entries, each chained by its digest to all before.

They stand in a file of their own (`privmean.storage.durable_log`) or in a database that has other
tables, whose transactions then change both or none.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from privmean.storage.witness import Seen

TABLES = (
    "CREATE TABLE privmean_log (kind TEXT, identity TEXT, base INTEGER, digest TEXT)",
    "CREATE TABLE privmean_entries (number INTEGER PRIMARY KEY, payload BLOB, digest TEXT)",
)
Execute = Callable[[str, tuple[Any, ...]], Any]  # one statement; its rows


class Entry(NamedTuple):
    """number: from 1, never used twice. digest: chains it to all before."""

    number: int
    payload: bytes
    digest: str

    @property
    def seen(self) -> Seen:
        return Seen(self.number, self.digest)


class Broken(Exception):
    """Entries that do not follow each other: changed, lost, or mixed from two moments."""


class Chain:
    """The entries behind `execute`, within the transactions of the caller.

    last: the last entry that was read or written here. base: the last before all that are kept.
    """

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self.last = self.base = Seen(0, "")

    def behind(self, execute: Execute) -> Seen:
        """Go on within another transaction: after `last`, or after all that others have replaced
        meanwhile. What is read next follows that."""
        self._execute = execute
        rows = execute("SELECT base, digest FROM privmean_log", ())
        self.base = Seen(*rows.fetchone())
        if self.base.number > self.last.number:
            self.last = self.base
        return self.last

    def make(self, kind: str, identity: str = "") -> str:
        """New tables, empty; the identity that they have from now on."""
        identity = identity or secrets.token_hex(16)
        for statement in TABLES:
            self._execute(statement, ())
        row = (kind, identity, 0, hashlib.sha256(identity.encode()).hexdigest())
        self._execute("INSERT INTO privmean_log VALUES (?, ?, ?, ?)", row)
        self.last = self.base = Seen(*row[2:])
        return identity

    def head(self) -> tuple[str, str]:
        """Kind and identity; what is read next is everything."""
        kind, identity, *base = self._execute("SELECT * FROM privmean_log", ()).fetchone()
        self.last = self.base = Seen(*base)
        return kind, str(identity)

    def news(self) -> Iterator[Entry]:
        """The entries after `last`, one after the other; Broken where they do not follow it."""
        found = self._execute(
            "SELECT number, payload, digest FROM privmean_entries WHERE number > ? ORDER BY number",
            (self.last.number,),
        )
        for number, payload, digest in found:
            if not isinstance(payload, bytes):
                raise Broken
            (entry,) = chained([payload], self.last)
            if tuple(entry) != (number, payload, digest):
                raise Broken
            self.last = entry.seen
            yield entry

    def add(self, entries: Iterable[bytes]) -> list[Entry]:
        """Write entries after `last`. Once they are committed, the caller moves `last` on."""
        return self._write(list(chained(entries, self.last)))

    def replace(self, entries: Iterable[bytes]) -> list[Entry]:
        """Write entries, which may be made of those that are there, in place of all."""
        made = list(chained(entries, self.last))
        self._execute("DELETE FROM privmean_entries", ())
        self._execute("UPDATE privmean_log SET base = ?, digest = ?", tuple(self.last))
        return self._write(made)

    def payloads(self) -> Iterator[bytes]:
        """All entries again, the oldest first."""
        for (payload,) in self._execute("SELECT payload FROM privmean_entries ORDER BY number", ()):
            yield payload

    def _write(self, made: list[Entry]) -> list[Entry]:
        for entry in made:
            self._execute("INSERT INTO privmean_entries VALUES (?, ?, ?)", tuple(entry))
        return made


def chained(entries: Iterable[bytes], last: Seen) -> Iterator[Entry]:
    """The entries that follow the last one."""
    number, digest = last
    for payload in entries:
        number += 1
        digest = hashlib.sha256(f"{digest} {number} ".encode() + payload).hexdigest()
        yield Entry(number, payload, digest)


def disagreement(seen: Seen, base: Seen, entries: dict[int, str], last: Seen) -> str:
    """What the witness says against a chain; "" for nothing. entries: digests by number."""
    if seen.number > last.number:
        return f"is an old copy: it holds {last.number} entries, and {seen.number} were written"
    digest = base.digest if seen.number == base.number else entries.get(seen.number, seen.digest)
    return (
        ""
        if digest == seen.digest
        else ("is a copy that went on by itself: other entries were written here")
    )
