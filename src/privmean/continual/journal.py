"""A journal of records and noise draws: the durable state of streams that a restart replays.

The same promise as `state`: a batch is on disk before its releases are shown, and what was drawn is
drawn once. The file is as secret as the data.
"""

from __future__ import annotations

import json
import os
import sqlite3
import weakref
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean.continual.rows import plain
from privmean.continual.series import Floats
from privmean.continual.sqlite import open_exclusively
from privmean.errors import ArgumentError, PrivmeanError
from privmean.noise.base import FromBits, Integers, Noise

SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE events (number INTEGER PRIMARY KEY, batch INTEGER, person TEXT, data BLOB);
CREATE TABLE draws (number INTEGER PRIMARY KEY, data BLOB)
"""

Event = tuple[str, Floats]


class Journal:
    """An open journal, locked until `close`."""

    def __init__(self, path: str | os.PathLike[str], settings: Any, secure: bool) -> None:
        self._db: sqlite3.Connection
        self._db, new = open_exclusively(path, SCHEMA)
        weakref.finalize(self, self._db.close)
        facts = {"kind": "withhold-release", "settings": plain(settings), "secure": secure}
        if new:
            rows = [(name, json.dumps(value)) for name, value in facts.items()]
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT INTO facts VALUES (?, ?)", rows)
            self._db.execute("COMMIT")
        stored = dict(self._db.execute("SELECT name, value FROM facts").fetchall())
        if {name: json.loads(value) for name, value in stored.items()} != facts:
            self._db.close()
            raise ArgumentError(
                "state",
                str(path),
                "belongs to a stream with other settings",
                "use the same settings, or a new state file",
            )

    def append(self, events: list[Event], draws: list[Integers]) -> None:
        """Make a batch durable."""
        self._db.execute("BEGIN IMMEDIATE")
        last = self._db.execute("SELECT coalesce(max(batch), 0) FROM events").fetchone()[0]
        self._db.executemany(
            "INSERT INTO events (batch, person, data) VALUES (?, ?, ?)",
            ((last + 1, person, row.tobytes()) for person, row in events),
        )
        self._db.executemany(
            "INSERT INTO draws (data) VALUES (?)", ((item.tobytes(),) for item in draws)
        )
        self._db.execute("COMMIT")

    def read(self, dimension: int) -> tuple[list[list[Event]], list[Integers]]:
        """The batches of events, and the draws, so far."""
        batches: dict[int, list[Event]] = {}
        rows = self._db.execute("SELECT batch, person, data FROM events ORDER BY number")
        for batch, person, data in rows:
            row = np.frombuffer(data, dtype=np.float64).reshape(dimension)
            batches.setdefault(batch, []).append((person, row))
        draws = [
            np.frombuffer(data, dtype=np.int64)
            for (data,) in self._db.execute("SELECT data FROM draws ORDER BY number")
        ]
        return list(batches.values()), draws

    def close(self) -> None:
        self._db.close()


class RecordedNoise(FromBits):
    """Noise that keeps what it draws, and repeats recorded draws first."""

    def __init__(self, source: Noise) -> None:
        self._source = source
        self._recorded: list[Integers] = []
        self._next = 0
        self._drawn: list[Integers] = []

    @property
    def secure(self) -> bool:
        return self._source.secure

    def replay(self, draws: list[Integers]) -> None:
        """Answer with these draws before any new one."""
        self._recorded, self._next = draws, 0

    def require_replayed(self) -> None:
        """All recorded draws are used and none was new; anything else would be a second noise."""
        if self._next != len(self._recorded) or self._drawn:
            raise PrivmeanError("the state was written by a version that draws differently")

    def take_drawn(self) -> list[Integers]:
        """The new draws since the last call."""
        drawn, self._drawn = self._drawn, []
        return drawn

    def _answer(self, size: int, fresh: Any) -> Integers:
        if self._next < len(self._recorded):
            draw = self._recorded[self._next]
            self._next += 1
            if len(draw) != size:
                raise PrivmeanError("the state was written by a version that draws differently")
            return draw
        result: Integers = fresh()
        self._drawn.append(result)
        return result

    def laplace(self, size: int, scale: Fraction) -> Integers:
        return self._answer(size, lambda: self._source.laplace(size, scale))

    def gaussian(self, size: int, scale: float) -> Integers:
        return self._answer(size, lambda: self._source.gaussian(size, scale))

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        draw = self._answer(1, lambda: np.array([self._source.argmax(scores, scale)]))
        return int(draw[0])

    def bits64(self, size: int) -> npt.NDArray[np.uint64]:
        return self._answer(size, lambda: self._source.bits64(size).view(np.int64)).view(np.uint64)
