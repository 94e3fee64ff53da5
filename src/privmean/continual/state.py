"""The durable state of a stream: one SQLite file, one transaction a batch of records.

A batch is committed (and synced to disk) before any of its releases is shown. So a crash at any
moment leaves the state either before the batch, of which nothing was shown, or after it, with the
very releases that are then shown: no step ever has two noises, no participation is forgotten.

The file holds raw clipped records and is as secret as the data. One process at a time may open it.
Never restore an old copy of it: noise drawn again for a released step would reveal the records.
"""

from __future__ import annotations

import json
import os
import sqlite3
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from privmean.continual.sqlite import open_exclusively
from privmean.errors import ArgumentError

FORMAT = 1

SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE arrays (name TEXT PRIMARY KEY, kind TEXT, shape TEXT, data BLOB) WITHOUT ROWID;
CREATE TABLE people (person TEXT PRIMARY KEY, used INTEGER, last INTEGER) WITHOUT ROWID;
CREATE TABLE waiting (arrival INTEGER PRIMARY KEY, person TEXT, data BLOB);
CREATE TABLE releases (step INTEGER PRIMARY KEY, arrivals INTEGER, records INTEGER,
                       waiting INTEGER, square REAL, sums BLOB)
"""

Array = npt.NDArray[Any]


class StoredRelease(NamedTuple):
    """One release as stored: the noisy prefix sums of a step and the public counts."""

    step: int
    arrivals: int
    records: int
    waiting: int
    square: float
    sums: npt.NDArray[np.float64]


class StateFile:
    """An open state file, locked until `close`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._db, self.new = open_exclusively(path, SCHEMA)
        weakref.finalize(self, self._db.close)
        try:
            if self.new:
                self.write_fact("format", FORMAT)
            known = self.fact("format") == FORMAT
        except sqlite3.DatabaseError:
            known = False
        if not known:
            self._db.close()
            raise ArgumentError(
                "state", str(path), "is not a state of this kind", "name a new file or an old state"
            )

    def begin(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make everything since `begin` durable."""
        self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()

    def fact(self, name: str) -> Any:
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def write_fact(self, name: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def array(self, name: str) -> Array | None:
        row = self._db.execute(
            "SELECT kind, shape, data FROM arrays WHERE name = ?", (name,)
        ).fetchone()
        if row is None:
            return None
        return np.frombuffer(row[2], dtype=row[0]).reshape(json.loads(row[1])).copy()

    def write_array(self, name: str, value: Array) -> None:
        row = (name, value.dtype.str, json.dumps(value.shape), value.tobytes())
        self._db.execute("INSERT OR REPLACE INTO arrays VALUES (?, ?, ?, ?)", row)

    def people(self) -> Iterator[tuple[str, int, int | None]]:
        yield from self._db.execute("SELECT person, used, last FROM people")

    def write_people(self, rows: Iterable[tuple[str, int, int | None]]) -> None:
        self._db.executemany("INSERT OR REPLACE INTO people VALUES (?, ?, ?)", rows)

    def waiting(self) -> Iterator[tuple[int, str, bytes]]:
        yield from self._db.execute("SELECT arrival, person, data FROM waiting ORDER BY arrival")

    def add_waiting(self, rows: Iterable[tuple[int, str, bytes]]) -> None:
        self._db.executemany("INSERT OR REPLACE INTO waiting VALUES (?, ?, ?)", rows)

    def drop_waiting(self, arrivals: Iterable[int]) -> None:
        self._db.executemany("DELETE FROM waiting WHERE arrival = ?", ((i,) for i in arrivals))

    def add_releases(self, releases: Iterable[StoredRelease]) -> None:
        self._db.executemany(
            "INSERT INTO releases VALUES (?, ?, ?, ?, ?, ?)",
            ((*item[:5], item.sums.tobytes()) for item in releases),
        )

    def replace_release(self, release: StoredRelease) -> None:
        """Keep this release only."""
        self._db.execute("DELETE FROM releases")
        self.add_releases([release])

    def releases(self, after: int = 0) -> Iterator[StoredRelease]:
        rows = self._db.execute(
            "SELECT step, arrivals, records, waiting, square, sums FROM releases "
            "WHERE step > ? ORDER BY step",
            (after,),
        )
        for step, arrivals, records, waiting, square, data in rows:
            sums = np.frombuffer(data, dtype=np.float64)
            yield StoredRelease(step, arrivals, records, waiting, square, sums)
