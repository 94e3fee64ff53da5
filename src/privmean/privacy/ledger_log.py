"""Where a ledger keeps its charges: in memory, in a log that processes share, or in a database.

Entry 1 holds the facts of the ledger: schema, total and policies. Each further entry is a charge or
what settles one; its number is therefore one less. It is on the disk before `append` returns
(`privmean.storage.durable_log`); what waits for it has not happened when it is missing.

A database is used through SQLAlchemy: SQLite or PostgreSQL, for teams. A charge is a line, chained
to all before by its digest, in a row of its own. A session is a transaction that holds the ledger's
first row (PostgreSQL) or the database (SQLite) to its end: what was checked is what is written, and
a line is there when the transaction is. A process that dies leaves nothing of what it had not
committed. A database that went back to an older backup is told by the witness of each user
(`privmean.storage.witness`).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from privmean.errors import ArgumentError
from privmean.plain_data import canonical
from privmean.privacy.ledger_charges import LedgerEntry
from privmean.storage.durable_log import DurableLog, LogExists
from privmean.storage.entry_chain import Broken, Entry, chained, disagreement
from privmean.storage.older_logs import CHAIN_START, line_of, taken
from privmean.storage.witness import Seen, Witness, no_file, os_error_text

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

KIND = "ledger"


class Turn(NamedTuple):
    """A ledger that is held: its facts, its charges, and what writes one more, or settles one."""

    first: dict[str, Any]
    entries: list[LedgerEntry]
    append: Callable[[LedgerEntry], LedgerEntry]


class Charges:
    """The facts of a ledger, and its charges, as they were read and written."""

    def __init__(self) -> None:
        self.first: dict[str, Any] = {}
        self.entries: list[LedgerEntry] = []

    def take(self, entry: Entry) -> None:
        """An entry that was read, the oldest first."""
        item = json.loads(entry.payload)
        if entry.number == 1:
            self.first = item
        else:  # a charge of 0.2 keeps its digest, which releases state
            digest = item.get("digest", entry.digest)
            self.keep(LedgerEntry.from_dict(item), entry.number, digest)

    def keep(self, charge: LedgerEntry, number: int, digest: str) -> LedgerEntry:
        """One more charge, or the one that this settles; Broken where there is none. number: of its
        entry."""
        made = replace(charge, number=number - 1, digest=digest)
        if not made.settles:
            self.entries.append(made)
            return made
        for at, before in enumerate(self.entries):
            if before.number == made.settles and before.settlement is None:
                self.entries[at] = replace(before, settlement=made)
                return self.entries[at]
        raise Broken

    def turn(self, add: Callable[[bytes], Entry]) -> Turn:
        """add: writes an entry. It is kept nowhere, so that a log ends with its ledger."""

        def append(charge: LedgerEntry) -> LedgerEntry:
            made = add(canonical(charge.to_dict()).encode())
            return self.keep(charge, made.number, made.digest)

        return Turn(self.first, self.entries, append)


class LedgerMemory:
    """Charges that end with the process."""

    path = "in memory"

    def __init__(self, first: dict[str, Any]) -> None:
        self._turn = threading.Lock()
        self._last = Seen(0, "")
        self._charges = Charges()
        self._charges.take(self._add(canonical(first).encode()))

    def _add(self, payload: bytes) -> Entry:
        (made,) = chained([payload], self._last)
        self._last = made.seen
        return made

    @contextmanager
    def locked(self) -> Iterator[Turn]:
        """The charges, closed to every other thread meanwhile."""
        with self._turn:
            yield self._charges.turn(self._add)

    def close(self) -> None:
        """Nothing to do."""


class LedgerFile:
    """Charges in a file, which stays open between two of them."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._opened: tuple[DurableLog, Charges] | None = None

    def exists(self) -> bool:
        """Whether the file is there; ArgumentError for what can be no ledger, such as a device."""
        try:
            found = no_file(self.path)
            there = self.path.exists()
        except (OSError, ValueError) as error:
            said = os_error_text(error) if isinstance(error, OSError) else str(error)
            raise self._refused(
                f"cannot be opened: {said}", "name a file in a folder where you may write"
            ) from None
        if found:
            raise self._refused(f"is {found}", "name a regular file, or a new one")
        return there

    def create(self, first: dict[str, Any]) -> bool:
        """A new file with its facts, all at once; False if there is a file already."""
        payload = canonical(first).encode()
        try:  # others may use it, as far as the process lets anybody
            DurableLog.create(self.path, KIND, [payload], name="ledger", mode=0o666)
        except LogExists:
            return False
        return True

    @contextmanager
    def locked(self) -> Iterator[Turn]:
        """The charges, closed to every other process and thread meanwhile."""
        log, charges = self._open()
        with log.turn():
            yield charges.turn(log.append)

    def _open(self) -> tuple[DurableLog, Charges]:
        """The file, opened anew after a fork or a failure, and where another has its name."""
        found = self._opened
        if found is not None and found[0].usable:
            return found
        charges = Charges()
        # several users may share a ledger, each with a witness of their own
        log = DurableLog.open(self.path, KIND, charges.take, moved=True, shared=True, name="ledger")
        if found is not None and found[0].identity != log.identity:
            raise self._refused("was replaced by another ledger", "open it again if it is right")
        self._opened = log, charges
        return self._opened

    def close(self) -> None:
        """Let go of the file; it is opened again when it is needed."""
        if self._opened is not None:
            self._opened[0].close()

    def _refused(self, problem: str, remedy: str) -> ArgumentError:
        return ArgumentError("ledger", str(self.path), problem, remedy)


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


class SqlLedger:
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
        from sqlalchemy.pool import NullPool

        try:  # a connection of its own for every session: forked processes share none
            engine = create_engine(address, poolclass=NullPool)
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

    def create(self, first: dict[str, Any]) -> bool:
        """A new ledger with its facts; False if there is one already."""
        from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

        with self._answering():
            try:
                self._lines.metadata.create_all(self._engine)
            except (OperationalError, ProgrammingError, IntegrityError):
                if not self.exists():  # another process made the table at the same moment
                    self._lines.metadata.create_all(self._engine)
        # its own, so that a ledger made anew at this address is not taken for this one
        line, _ = line_of(CHAIN_START, 0, {**first, "identity": secrets.token_hex(16)})
        try:
            with self._transaction() as connection:
                self.add(connection, 0, line)
        except IntegrityError:
            return False
        return True

    @contextmanager
    def locked(self) -> Iterator[Turn]:
        """The charges, closed to every other writer until the transaction ends."""
        with ExitStack() as noting:
            with self._transaction() as connection:
                session = SqlSession(self, connection, self._read(connection, hold=True))
                witness = noting.enter_context(closing(Witness(self._identity(session))))
                witness.lock()  # until what is committed here is noted
                seen = witness.read()
                if seen is not None:
                    self._compare(seen, session, witness)
                yield Turn(session.first, session.entries, session.append)
            if seen != session.last:
                witness.note(session.last, durable=seen is None)

    def _identity(self, session: SqlSession) -> str:
        """What the witness calls this ledger: those of 0.2 have their place alone."""
        url, place = self._engine.url, self.path
        if self._engine.dialect.name == "sqlite":
            place = f"{os.path.realpath(str(url.database))}#{self.name}"
        own = session.first.get("identity", place)
        return hashlib.sha256(f"{own} {session.digests[0]}".encode()).hexdigest()

    def _compare(self, seen: Seen, session: SqlSession, witness: Witness) -> None:
        digests = dict(enumerate(session.digests, 1))
        problem = disagreement(seen, Seen(0, ""), digests, session.last)
        if problem:
            raise ArgumentError(
                "ledger", self.path, problem,
                "put the newest one back: what it forgot would be spent twice. Its last entry is "
                f"noted in {witness.path}",
            )  # fmt: skip

    def close(self) -> None:
        """Nothing to do: each session has a connection of its own."""

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

    def add(self, connection: Connection, number: int, line: str) -> None:
        """One more row; it counts when the transaction does."""
        values = {"ledger": self.name, "number": number, "line": line}
        connection.execute(self._lines.insert().values(**values))


class SqlSession(Charges):
    """The charges under lock. digests: of all lines, that of the facts first."""

    def __init__(self, home: SqlLedger, connection: Connection, lines: list[str]) -> None:
        super().__init__()
        self._home, self._connection = home, connection
        self.digests: list[str] = []
        if not lines:
            raise ArgumentError("ledger", home.path, "is not in the database", "put it back")
        for number, line in enumerate(lines):
            before = self.digests[-1] if number else CHAIN_START
            try:
                item, digest = taken(line.encode(), before, number)
                if number:
                    self.keep(LedgerEntry.from_dict(item), number + 1, digest)
                else:
                    self.first = item
            except Broken:
                raise ArgumentError(
                    "ledger", home.path, f"is damaged or was changed in row {number}",
                    "put an undamaged newest backup back",
                ) from None  # fmt: skip
            self.digests.append(digest)

    @property
    def last(self) -> Seen:
        return Seen(len(self.digests), self.digests[-1])

    def append(self, charge: LedgerEntry) -> LedgerEntry:
        """Add one charge; it counts when the session ends."""
        number = len(self.digests)
        line, digest = line_of(self.digests[-1], number, charge.to_dict())
        self._home.add(self._connection, number, line)
        self.digests.append(digest)
        return self.keep(charge, number + 1, digest)
