"""The journal of a ledger in a database, through SQLAlchemy: SQLite or PostgreSQL, for teams.

The lines are those of the file (privacy/ledger_log.py), chained by digests in the same way, one a
row. A session is a transaction that holds the ledger's first row (PostgreSQL) or the database
(SQLite) to its end: what was checked is what is written,
and a line is there when the transaction is. A
process that dies leaves nothing of what it had not committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from privmean.errors import ArgumentError
from privmean.privacy.ledger_log import START, JournalDamaged, line_of, taken

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine
    from sqlalchemy.pool import Pool

DRIVERS = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
ADDRESSES = "write sqlite:///FILE#NAME or postgresql://USER@HOST/DATABASE#NAME"
LONGEST = 200  # signs of a ledger's name


def is_database(path: object) -> bool:
    """Whether a ledger's path names a database: `sqlite:///team.db#ledger`, `postgresql://...`."""
    return isinstance(path, str) and ("://" in path or path.partition(":")[0] in DRIVERS)


class SqlJournal:
    """Lines in the table `privmean_ledger` of a database, those of one ledger by its name."""

    def __init__(self, url: str) -> None:
        try:
            from sqlalchemy import Column, Integer, MetaData, String, Table, Text
        except ModuleNotFoundError:
            raise ArgumentError(
                "ledger", url, "requires SQLAlchemy", "install privmean[ledger]"
            ) from None
        address, _, name = url.partition("#")
        self.name = name or "ledger"
        scheme, _, place = address.partition(":")
        driver = DRIVERS.get(scheme)
        address = f"{driver or scheme}:{place}"
        self.path = f"{address.rpartition('@')[2]}#{self.name}"  # without user and password
        if len(self.name) > LONGEST or "\0" in self.name:
            raise ArgumentError(
                "ledger",
                self.path,
                "has a name that is too long",
                f"use at most {LONGEST} characters",
            )
        if driver is None:
            raise ArgumentError("ledger", self.path, "is not the address of a ledger", ADDRESSES)
        self._engine: Engine = self._connected(address)
        self._lines = Table(
            "privmean_ledger",
            MetaData(),
            Column("ledger", String(LONGEST), primary_key=True),
            Column("number", Integer, primary_key=True, autoincrement=False),
            Column("line", Text, nullable=False),
        )

    def _connected(self, address: str) -> Engine:
        """What connects to the database, which must outlast a connection."""
        from sqlalchemy import create_engine
        from sqlalchemy.exc import SQLAlchemyError

        try:
            engine = create_engine(address, poolclass=_no_pool())
        except ModuleNotFoundError:
            raise ArgumentError(
                "ledger", self.path, "requires psycopg", "install privmean[postgresql]"
            ) from None
        except (SQLAlchemyError, ValueError):
            raise ArgumentError("ledger", self.path, "is not an address", ADDRESSES) from None
        if engine.dialect.name == "sqlite" and engine.url.database in (None, "", ":memory:"):
            raise ArgumentError(
                "ledger", self.path, "is an address of a database in memory", ADDRESSES
            )
        return engine

    def exists(self) -> bool:
        """Whether the ledger is there."""
        from sqlalchemy import inspect

        file = self._engine.url.database
        if self._engine.dialect.name == "sqlite" and not (file and os.path.exists(file)):
            return False  # looking would make it
        with self._answering():
            if not inspect(self._engine).has_table("privmean_ledger"):
                return False
            with self._engine.begin() as connection:
                return bool(self._read(connection))

    def create(self, entry: dict[str, Any]) -> bool:
        """A new ledger with its first entry; False if there is one already."""
        from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

        with self._answering():
            try:
                self._lines.metadata.create_all(self._engine)
            except (OperationalError, ProgrammingError, IntegrityError):
                if not self.exists():  # another process made the table at the same moment
                    self._lines.metadata.create_all(self._engine)
        line, _ = line_of(START, 0, entry)
        try:
            with self._transaction() as connection:
                self._add(connection, 0, line)
        except IntegrityError:
            return False
        return True

    @contextmanager
    def locked(self) -> Iterator[SqlSession]:
        """The lines, closed to every other writer until the transaction ends."""
        with self._transaction() as connection:
            yield SqlSession(self, connection, self._read(connection, hold=True))

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._answering(), self._engine.connect() as connection:
            if self._engine.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA busy_timeout = 600000")
                connection.exec_driver_sql("PRAGMA synchronous = FULL")
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:  # on the disk when it says so, whatever the server's usual setting is
                connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
            yield connection
            connection.commit()  # not reached where the session broke: then nothing was written

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """A database that is gone, or that refuses, is said in words. Nothing was released: noise
        is drawn when the charge has returned."""
        from sqlalchemy.exc import IntegrityError, SQLAlchemyError

        try:
            yield
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            why = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise ArgumentError(
                "ledger", self.path, f"is in a database that does not answer: {why}",
                "start it, and check the charge with `privmean ledger show`; nothing was released",
            ) from None  # fmt: skip

    def _read(self, connection: Connection, *, hold: bool = False) -> list[str]:
        from sqlalchemy import select

        rows = self._lines.c
        if hold and self._engine.dialect.name != "sqlite":
            first = select(rows.number).where(rows.ledger == self.name, rows.number == 0)
            connection.execute(first.with_for_update())
        found = select(rows.line).where(rows.ledger == self.name).order_by(rows.number)
        return [row[0] for row in connection.execute(found)]

    def _add(self, connection: Connection, number: int, line: bytes) -> None:
        values = {"ledger": self.name, "number": number, "line": line.decode().rstrip("\n")}
        connection.execute(self._lines.insert().values(**values))

    def add(self, connection: Connection, number: int, line: bytes) -> None:
        """One more row; it counts when the transaction does."""
        self._add(connection, number, line)


class SqlSession:
    """The lines under lock; as `journal.Session`. A row is there whole or not at all."""

    cut = 0

    def __init__(self, journal: SqlJournal, connection: Connection, lines: list[str]) -> None:
        self._journal, self._connection = journal, connection
        self.entries: list[dict[str, Any]] = []
        self.digests: list[str] = []
        for line in lines:
            entry, digest = taken(journal.path, line.encode(), self._digest, len(self.entries))
            self.entries.append(entry)
            self.digests.append(digest)
        if not self.entries:
            raise JournalDamaged(f"{journal.path}: there is no such ledger in the database")

    @property
    def _digest(self) -> str:
        return self.digests[-1] if self.digests else START

    def append(self, entry: dict[str, Any]) -> str:
        """Adds one entry and returns its line's digest; it counts when the session ends."""
        line, digest = line_of(self._digest, len(self.entries), entry)
        self._journal.add(self._connection, len(self.entries), line)
        self.entries.append({"number": len(self.entries), **entry})
        self.digests.append(digest)
        return digest


def _no_pool() -> type[Pool]:
    """A connection of its own for every session: forked processes share none."""
    from sqlalchemy.pool import NullPool

    kept: type[Pool] = NullPool
    return kept
