"""Where reports are kept: SQLite by default, PostgreSQL by URL, through SQLAlchemy.

Each server process is a writer. A writer numbers the reports it stores, 1, 2, 3, ..., in one
transaction after the other, and now and then stores the tally of its first `upto` reports. So any
process, now or after a crash, gets the tally of everything by adding each writer's stored tally
and the reports after it; and a report is in exactly one writer's numbers, because its nonce is the
primary key.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite

from privmean.errors import PrivmeanError
from privmean.local.aggregators.batch import Batch, add
from privmean.local.aggregators.tally import Tally
from privmean.local.collector.schema import META, REFUSALS, REPORTS, ROUNDS, TALLIES, WRITERS
from privmean.local.collector.sqlite import SqliteFile, sealed, unsealed
from privmean.local.descriptor import Round
from privmean.local.reports import payload_size

T = TypeVar("T")

READ = 20_000
LOOKUP = 500
ATTEMPTS = 3  # processes that start at once may want to make the same table


@dataclass
class Progress:
    """One writer's tally as far as it was read: its first `upto` reports."""

    tally: Tally
    upto: int = 0


@dataclass
class Outcome:
    """What a transaction did with each of the offered reports, by their order."""

    fresh: np.ndarray[Any, np.dtype[np.bool_]]
    conflict: np.ndarray[Any, np.dtype[np.bool_]]


@dataclass
class Offer:
    """Reports of one round for one transaction, with the refusals to be counted along."""

    batch: Batch
    refused: Counter[str] = field(default_factory=Counter)


def contents(batch: Batch) -> list[tuple[bytes, bytes]]:
    """(nonce, level and payload) of each report."""
    nonces = np.ascontiguousarray(batch.nonces, "<u8").tobytes()
    levels = np.ascontiguousarray(batch.levels, "<u2").tobytes()
    size, payload = batch.payload.shape[1], batch.payload.tobytes()
    return [
        (
            nonces[16 * k : 16 * (k + 1)],
            levels[2 * k : 2 * k + 2] + payload[size * k : size * (k + 1)],
        )
        for k in range(len(batch))
    ]


def batch_of(round_: Round, rows: list[tuple[bytes, bytes]]) -> Batch:
    """The reports of `contents` as arrays."""
    nonces = np.frombuffer(b"".join(row[0] for row in rows), "<u8").reshape(-1, 2)
    flat = np.frombuffer(b"".join(row[1] for row in rows), np.uint8)
    body = flat.reshape(-1, 2 + payload_size(round_))
    levels = np.ascontiguousarray(body[:, :2]).view("<u2")[:, 0]
    return Batch(round_, nonces, levels, np.ascontiguousarray(body[:, 2:]))


class Store:
    """The database of one collector process."""

    def __init__(self, url: str) -> None:
        try:
            self.engine = sql.create_engine(_driver(url), pool_pre_ping=True)
        except (sql.exc.ArgumentError, ImportError):
            raise PrivmeanError(
                "the database cannot be used; give sqlite:///FILE or postgresql://USER@HOST/NAME "
                "(and install privmean[postgresql])"
            ) from None
        if self.engine.dialect.name not in ("sqlite", "postgresql"):
            raise PrivmeanError("the database must be SQLite or PostgreSQL; give such a URL")
        self._file = SqliteFile(self.engine) if self.engine.dialect.name == "sqlite" else None
        self.writer = _again(self._join)
        self._insert = (
            postgresql.insert(REPORTS) if self._file is None else sqlite.insert(REPORTS)
        ).on_conflict_do_nothing()
        self._numbers: dict[bytes, int] = {}
        self._unsure = False  # whether a transaction failed, maybe after it was committed
        self._known: dict[bytes, dict[int, Progress]] = {}
        self._reading = threading.Lock()

    def close(self) -> None:
        self.engine.dispose()
        if self._file is not None:
            self._file.close()

    @contextmanager
    def _transaction(self) -> Iterator[sql.Connection]:
        """All or nothing; after it, everything is on disk."""
        with self.engine.begin() as link:
            yield link
            if self._file is not None:
                self._file.changed(link)
        if self._file is not None:
            self._file.committed()

    def _join(self) -> int:
        """Make the tables if they are missing, and become a writer."""
        if self._file is None:
            META.create_all(self.engine, checkfirst=True)
        else:
            self._file.open()
        return self._new_writer()

    def _new_writer(self) -> int:
        with self._transaction() as link:
            done = link.execute(sql.insert(WRITERS).values(started=time.time()))
            return int(done.inserted_primary_key[0])

    def register(self, rounds: Iterable[Round]) -> None:
        """Remember the rounds (their text is fixed by their identifier)."""
        offered = list(rounds)
        _again(lambda: self._register(offered))

    def _register(self, rounds: list[Round]) -> None:
        with self._transaction() as link:
            for round_ in rounds:
                row = link.execute(
                    sql.select(ROUNDS.c.description).where(ROUNDS.c.id == round_.identifier)
                ).first()
                if row is None:
                    link.execute(
                        sql.insert(ROUNDS).values(
                            id=round_.identifier, description=round_.to_json()
                        )
                    )
                elif Round.from_json(row[0]).digest != round_.digest:
                    raise PrivmeanError("another round has the same identifier; draw a new seed")

    def rounds(self) -> list[Round]:
        """All rounds that were ever registered here."""
        with self.engine.connect() as link:
            rows = link.execute(sql.select(ROUNDS.c.description).order_by(ROUNDS.c.id)).all()
        return [Round.from_json(row[0]) for row in rows]

    def write(self, offers: list[Offer]) -> list[Outcome]:
        """Store all offers in one transaction; after the return they are on disk.

        The first report of a nonce stays, whoever wrote it.
        """
        if self._unsure:
            # what the lost transaction numbered may be stored: go on under another name, so that
            # no number is given twice
            self.writer, self._numbers = self._new_writer(), {}
            self._unsure = False
        result: list[Outcome] = []
        self._unsure = True
        numbers = dict(self._numbers)
        with self._transaction() as link:
            for offer in offers:
                result.append(self._write(link, offer, numbers))
                self._refuse(link, offer, result[-1])
        self._numbers = numbers
        self._unsure = False
        return result

    def _write(self, link: sql.Connection, offer: Offer, numbers: dict[bytes, int]) -> Outcome:
        batch = offer.batch
        mark = batch.round.identifier
        start = numbers.get(mark, 0)
        rows = contents(batch)
        if rows:
            link.execute(
                self._insert,
                [
                    {
                        "round": mark,
                        "nonce": nonce,
                        "content": content,
                        "writer": self.writer,
                        "number": start + k + 1,
                    }
                    for k, (nonce, content) in enumerate(rows)
                ],
            )
        numbers[mark] = start + len(rows)
        stored = link.execute(
            sql.select(REPORTS.c.number).where(
                REPORTS.c.round == mark,
                REPORTS.c.writer == self.writer,
                REPORTS.c.number > start,
            )
        ).scalars()
        fresh = np.zeros(len(rows), dtype=bool)
        fresh[np.fromiter(stored, dtype=np.int64) - start - 1] = True
        conflict = np.zeros(len(rows), dtype=bool)
        old = np.flatnonzero(~fresh).tolist()
        for first in range(0, len(old), LOOKUP):
            some = old[first : first + LOOKUP]
            found = link.execute(
                sql.select(REPORTS.c.nonce, REPORTS.c.content).where(
                    REPORTS.c.round == mark, REPORTS.c.nonce.in_([rows[k][0] for k in some])
                )
            )
            known = {bytes(row[0]): bytes(row[1]) for row in found}
            for k in some:
                conflict[k] = known[rows[k][0]] != rows[k][1]
        if self._file is not None:
            added = (np.flatnonzero(fresh) + start + 1).tolist()
            refused = sum(offer.refused.values()) + int(conflict.sum())
            self._file.stored(link, mark, self.writer, added, refused)
        return Outcome(fresh, conflict)

    def _refuse(self, link: sql.Connection, offer: Offer, outcome: Outcome) -> None:
        reasons = offer.refused + Counter({"conflict": int(outcome.conflict.sum())})
        for reason, reports in reasons.items():
            place = (
                REFUSALS.c.round == offer.batch.round.identifier,
                REFUSALS.c.writer == self.writer,
                REFUSALS.c.reason == reason,
            )
            changed = link.execute(
                sql.update(REFUSALS).where(*place).values(reports=REFUSALS.c.reports + reports)
            )
            if changed.rowcount == 0:
                link.execute(
                    sql.insert(REFUSALS).values(
                        round=offer.batch.round.identifier,
                        writer=self.writer,
                        reason=reason,
                        reports=reports,
                    )
                )

    def tally(self, round_: Round) -> Tally:
        """The tally of every stored report of the round, by all writers."""
        with self._reading:
            return self._tally(round_)

    def _tally(self, round_: Round) -> Tally:
        known = self._known.setdefault(round_.identifier, {})
        total = Tally.empty(round_)
        with self.engine.connect() as link:
            for writer, upto in self._writers(link, round_):
                if writer not in known or known[writer].upto < upto:
                    known[writer] = self._stored(link, round_, writer)
                self._follow(link, round_, writer, known[writer])
                total = total.merge(known[writer].tally)
            rows = link.execute(
                sql.select(REFUSALS.c.reason, sql.func.sum(REFUSALS.c.reports))
                .where(REFUSALS.c.round == round_.identifier)
                .group_by(REFUSALS.c.reason)
            ).all()
        total.rejected = Counter({str(reason): int(reports) for reason, reports in rows})
        return total

    def _writers(self, link: sql.Connection, round_: Round) -> list[tuple[int, int]]:
        """Every writer, with how far its stored tally goes."""
        found = link.execute(
            sql.select(TALLIES.c.writer, TALLIES.c.upto).where(TALLIES.c.round == round_.identifier)
        )
        stored = {int(row[0]): int(row[1]) for row in found}
        everyone = link.execute(sql.select(WRITERS.c.id).order_by(WRITERS.c.id)).scalars()
        return [(int(writer), stored.get(int(writer), 0)) for writer in everyone]

    def _stored(self, link: sql.Connection, round_: Round, writer: int) -> Progress:
        row = link.execute(
            sql.select(TALLIES.c.upto, TALLIES.c.state).where(
                TALLIES.c.round == round_.identifier, TALLIES.c.writer == writer
            )
        ).first()
        if row is None:
            return Progress(Tally.empty(round_))
        state = unsealed(int(row[0]), bytes(row[1]))
        if state is None:
            raise PrivmeanError("a stored tally is damaged; put an undamaged database back")
        return Progress(Tally.from_bytes(round_, state), int(row[0]))

    def _follow(self, link: sql.Connection, round_: Round, writer: int, known: Progress) -> None:
        """Add the reports that the writer stored since."""
        while True:
            rows = link.execute(
                sql.select(REPORTS.c.number, REPORTS.c.nonce, REPORTS.c.content)
                .where(
                    REPORTS.c.round == round_.identifier,
                    REPORTS.c.writer == writer,
                    REPORTS.c.number > known.upto,
                )
                .order_by(REPORTS.c.number)
                .limit(READ)
            ).all()
            if not rows:
                return
            add(known.tally, batch_of(round_, [(bytes(row[1]), bytes(row[2])) for row in rows]))
            known.upto = int(rows[-1][0])

    def checkpoint(self, round_: Round) -> None:
        """Store this writer's tally, so that later readers need not count its reports again."""
        with self._reading:
            self._tally(round_)
            mine = self._known[round_.identifier].get(self.writer)
            if mine is None or mine.upto == 0:
                return
            values = {"upto": mine.upto, "state": sealed(mine.upto, mine.tally.to_bytes())}
        place = (TALLIES.c.round == round_.identifier, TALLIES.c.writer == self.writer)
        with self._transaction() as link:
            if link.execute(sql.update(TALLIES).where(*place).values(**values)).rowcount == 0:
                link.execute(
                    sql.insert(TALLIES).values(
                        round=round_.identifier, writer=self.writer, **values
                    )
                )


def _again(work: Callable[[], T]) -> T:
    """Try some times: another process may be doing the same."""
    for attempt in range(ATTEMPTS):
        try:
            return work()
        except sql.exc.SQLAlchemyError as problem:
            full = "is full" in str(problem)
            kind = "the disk is full" if full else type(problem).__name__
            time.sleep(0.1 * (attempt + 1))
    raise PrivmeanError(f"the database does not work ({kind}); check its URL and that it runs")


def _driver(url: str) -> str:
    """PostgreSQL through psycopg 3 unless the URL names another driver."""
    for short in ("postgresql://", "postgres://"):
        if url.startswith(short):
            return "postgresql+psycopg://" + url[len(short) :]
    return url
