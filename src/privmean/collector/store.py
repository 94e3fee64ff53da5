"""Where a collector keeps reports (SQLite, or PostgreSQL by URL), and estimates made of them.

Each server process is a writer. A writer numbers the reports it stores, 1, 2, 3, ..., in one
transaction after the other; a report is in exactly one writer's numbers, because its nonce is the
primary key. Whether a round still takes reports is read in the transaction that stores them.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import scipy.special  # noqa: F401  # intervals need it: not within the first answer's time
import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite

from privmean import validate
from privmean.array_types import Flags
from privmean.collector.round_registry import (
    CLOSED,
    COMMAND_LINE,
    OPEN,
    RoundRegistry,
    Tallies,
)
from privmean.collector.sqlite import (
    HEADS,
    META,
    REFUSALS,
    REPORTS,
    WRITERS,
    SqliteFile,
)
from privmean.errors import ArgumentError, PrivmeanError
from privmean.local.aggregators.estimate_result import Estimate
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.round_law import CHOICES, TESTED
from privmean.local.aggregators.tally import Batch, Tally
from privmean.local.round import Round
from privmean.plain_data import plain_tree

T = TypeVar("T")

LOOKUP = 500
ATTEMPTS = 3  # processes that start at once may want to make the same table


@dataclass
class Outcome:
    """What a transaction did with each of the offered reports, by their order.

    revoked: their tickets are; late: the round takes none any more (then all are).
    """

    fresh: Flags
    conflict: Flags
    revoked: Flags
    late: Flags

    @classmethod
    def of(cls, number: int) -> Outcome:
        """Nothing yet."""
        return cls(*(np.zeros(number, dtype=bool) for _ in range(4)))

    def refused(self) -> Counter[str]:
        """How many the database refused, by reason."""
        masks = {"conflict": self.conflict, "revoked": self.revoked, "late": self.late}
        return Counter({word: int(mask.sum()) for word, mask in masks.items() if mask.any()})


@dataclass
class Offer:
    """Reports of one round for one transaction, with the refusals to be counted along."""

    batch: Batch
    refused: Counter[str] = field(default_factory=Counter)


class Store:
    """The database of one collector process."""

    def __init__(self, url: str) -> None:
        try:
            self.engine = sql.create_engine(_driver(url), pool_pre_ping=True, hide_parameters=True)
        except (sql.exc.ArgumentError, ImportError):
            raise PrivmeanError(
                "the database cannot be used. Give sqlite:///FILE or "
                "postgresql://USER@HOST/NAME (PostgreSQL requires "
                "privmean[postgresql])."
            ) from None
        if self.engine.dialect.name not in ("sqlite", "postgresql"):
            raise PrivmeanError("the database must be SQLite or PostgreSQL. Give such a URL.")
        self._file = SqliteFile(self.engine) if self.engine.dialect.name == "sqlite" else None
        self.tallies = Tallies(self._connect)
        self.book = RoundRegistry(self._connect, self.transaction, self._cleared, self.tallies)
        try:
            self.writer = again(self._join)
        except BaseException:
            self.close()  # a refused database holds no connection
            raise
        self._insert = postgresql.insert if self._file is None else sqlite.insert
        self._numbers: dict[bytes, int] = {}
        self._unsure = False  # whether a transaction failed, maybe after it was committed

    def close(self) -> None:
        self.engine.dispose()
        if self._file is not None:
            self._file.close()

    @contextmanager
    def transaction(self) -> Iterator[sql.Connection]:
        """All or nothing; after it, everything is on disk."""
        file = self._file
        with self.engine.begin() as link, file.transaction(link) if file else nullcontext():
            yield link

    def _connect(self) -> sql.Connection:
        return self.engine.connect()

    def _cleared(self, link: sql.Connection, mark: bytes) -> None:
        if self._file is not None:
            self._file.forgotten(mark)

    def _join(self) -> int:
        """Make the tables if they are missing, and become a writer."""
        if self._file is None:
            META.create_all(self.engine, checkfirst=True)
        else:
            self._file.open()
        with self.transaction() as link:
            return _writer(link)

    def register(self, rounds: Iterable[Round], who: str = COMMAND_LINE) -> list[Round]:
        """Remember the rounds (their text is fixed by their identifier). Those that were deleted
        stay so; the others are given back."""
        offered = list(rounds)
        return again(lambda: [item for item in offered if self.book.register(item, who)])

    def write(self, offers: list[Offer]) -> list[Outcome]:
        """Store all offers in one transaction; after the return they are on disk.

        The first report of a nonce stays, whoever wrote it.
        """
        if self._unsure:
            # what the lost transaction numbered may be stored: go on under another name, so that
            # no number is given twice
            with self.transaction() as link:
                fresh = _writer(link)
            self.writer, self._numbers = fresh, {}
            self._unsure = False
        result: list[Outcome] = []
        self._unsure = True
        numbers = dict(self._numbers)
        with self.transaction() as link:
            for offer in offers:
                result.append(self._write(link, offer, numbers))
        self._numbers = numbers
        self._unsure = False
        return result

    def _write(self, link: sql.Connection, offer: Offer, numbers: dict[bytes, int]) -> Outcome:
        batch = offer.batch
        mark = batch.round.identifier
        outcome = Outcome.of(len(batch))
        state = self.book.state(link, mark)
        if state != OPEN:
            outcome.late[:] = True
            if state == CLOSED:
                self._refuse(link, offer, outcome)
            return outcome
        rows = batch.contents()
        if batch.round.issued:
            gone = self.book.revoked(link, mark, [nonce for nonce, _ in rows])
            outcome.revoked[:] = [nonce in gone for nonce, _ in rows]
        start = numbers.get(mark, 0)
        offered = np.flatnonzero(~outcome.revoked).tolist()
        if offered:
            link.execute(
                self._insert(REPORTS).on_conflict_do_nothing(),
                [
                    {
                        "round": mark,
                        "nonce": rows[k][0],
                        "content": rows[k][1],
                        "writer": self.writer,
                        "number": start + k + 1,
                    }
                    for k in offered
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
        added = np.fromiter(stored, dtype=np.int64)
        outcome.fresh[added - start - 1] = True
        if len(added):
            last, key = int(added.max()), {"round": mark, "writer": self.writer}
            self._put(link, HEADS, key, last=(last, last))
        old = np.flatnonzero(~outcome.fresh & ~outcome.revoked).tolist()
        for first in range(0, len(old), LOOKUP):
            some = old[first : first + LOOKUP]
            found = link.execute(
                sql.select(REPORTS.c.nonce, REPORTS.c.content).where(
                    REPORTS.c.round == mark, REPORTS.c.nonce.in_([rows[k][0] for k in some])
                )
            )
            known = {bytes(row[0]): bytes(row[1]) for row in found}
            for k in some:
                outcome.conflict[k] = known[rows[k][0]] != rows[k][1]
        self._refuse(link, offer, outcome, np.sort(added).tolist())
        return outcome

    def _refuse(
        self, link: sql.Connection, offer: Offer, outcome: Outcome, added: Sequence[int] = ()
    ) -> None:
        """Count what was refused; and on SQLite note what was stored."""
        mark = offer.batch.round.identifier
        reasons = offer.refused + outcome.refused()
        for reason, reports in reasons.items():
            key = {"round": mark, "writer": self.writer, "reason": reason}
            self._put(link, REFUSALS, key, reports=(reports, REFUSALS.c.reports + reports))
        if self._file is not None:
            self._file.stored(mark, self.writer, list(added), sum(reasons.values()))

    def _put(
        self, link: sql.Connection, table: sql.Table, key: dict[str, Any], **pairs: tuple[Any, Any]
    ) -> None:
        """Insert a row with the first value of each pair; where there is one, set the second."""
        first, then = ({name: pair[k] for name, pair in pairs.items()} for k in (0, 1))
        add = self._insert(table).values(**key, **first)
        link.execute(add.on_conflict_do_update(index_elements=list(key), set_=then))

    def tally(self, round_: Round) -> Tally:
        """The tally of every stored report of the round, by all writers."""
        return self.tallies.read(round_)

    def catch_up(self, round_: Round) -> None:
        """Read what earlier processes left uncounted, and store the tally if that was anything."""
        if self.tallies.behind(round_):
            self.checkpoint(round_)

    def checkpoint(self, round_: Round) -> None:
        """Store the tally, so that later processes need not count its reports again."""
        self.tallies.read(round_)
        with self.transaction() as link:
            if self.book.state(link, round_.identifier) in (OPEN, CLOSED):
                self.tallies.snapshot(link, round_)


def _writer(link: sql.Connection) -> int:
    """The number of a new writer."""
    done = link.execute(sql.insert(WRITERS).values(started=time.time()))
    return int(done.inserted_primary_key[0])


def again(work: Callable[[], T]) -> T:
    """Try some times: another process may be doing the same."""
    for attempt in range(ATTEMPTS):
        try:
            return work()
        except sql.exc.SQLAlchemyError as problem:
            full = "is full" in str(problem)
            kind = "the disk is full" if full else type(problem).__name__
            time.sleep(0.1 * (attempt + 1))
    raise PrivmeanError(
        f"the database does not work ({kind}). Check its URL, and check that it runs."
    )


def _driver(url: str) -> str:
    """PostgreSQL through psycopg 3 unless the URL names another driver."""
    for short in ("postgresql://", "postgres://"):
        if url.startswith(short):
            return "postgresql+psycopg://" + url[len(short) :]
    return url


KEPT = 64  # answers
QUICK = 0.05  # seconds: what takes longer is not made again for ten times as long
LONGEST_KEPT = 60.0
LARGEST, ALL = "largest", "all"
MANY, MOST = 4096, 100  # of more numbers than MANY an answer lists MOST
LEVEL = 0.95


class _Answer:
    """One question's last answer."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.mark: object = None
        self.data = b""
        self.until = 0.0
        self.slow = False


class Answers:
    """The estimate of a round with given weights, as JSON.

    It is computed again only if reports have come, and by one reader at a time; the others get the
    last one. What is slow to compute is kept for ten times as long as it took, so that readers
    take at most a tenth of one processor.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = threading.Lock()
        self._kept: OrderedDict[tuple[bytes, str, str, str], _Answer] = OrderedDict()

    def get(
        self, round_: Round, weights: str = TESTED, cap: str = "", numbers: str = LARGEST
    ) -> bytes:
        """weights: as in `estimate`. cap: one of the round's levels as text, or "". numbers:
        "largest" (of more than MANY numbers only the largest MOST are listed, with their
        places), or "all".

        Raises ArgumentError for anything else: there are only so many different answers.
        """
        validate.choice("numbers", numbers, [LARGEST, ALL])
        validate.choice("weights", weights, CHOICES)
        level = None
        if cap:
            levels = {f"{float(item):g}": item for item in round_.menu}
            if cap not in levels:
                raise ArgumentError(
                    "epsilon_cap", cap, "is not a level", f"choose one of {list(levels)[:64]}"
                )
            level = str(levels[cap])
        with self._turn:
            key = (round_.identifier, weights, cap, numbers)
            answer = self._kept.setdefault(key, _Answer())
            self._kept.move_to_end(key)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        late = time.monotonic() >= answer.until
        if answer.data and (not late or (answer.slow and answer.turn.locked())):
            return answer.data
        with answer.turn:
            if not answer.data or time.monotonic() >= answer.until:
                self._renew(answer, round_, weights, level, numbers)
            return answer.data

    def _renew(
        self, answer: _Answer, round_: Round, weights: str, cap: str | None, numbers: str
    ) -> None:
        start = time.monotonic()
        tally = self._store.tally(round_)
        mark = (tally.reports, tally.fingerprint, tuple(sorted(tally.rejected.items())))
        if mark != answer.mark or not answer.data:
            found = estimate(tally, weights=weights, epsilon_cap=cap)
            head = {"round": round_.identifier.hex(), "title": round_.title}
            public = {
                name: getattr(round_, name) for name in ("persons", "closes", "issued", "points")
            }
            text = {**head, **plain(found, numbers), **public}
            answer.data = json.dumps(text, separators=(",", ":"), allow_nan=False).encode()
            answer.mark = mark
        took = time.monotonic() - start
        answer.slow = took > QUICK
        answer.until = start + took + (min(10 * took, LONGEST_KEPT) if answer.slow else 0.0)


def plain(found: Estimate, numbers: str = LARGEST) -> dict[str, Any]:
    """An estimate with its interval as plain data; of very many numbers the largest alone."""
    size = found.value.size
    if size <= MANY:
        return {**found.to_dict(), "interval": _interval(found)}
    if numbers == ALL:
        return found.to_dict()
    flat = found.value.reshape(-1)
    largest = np.argpartition(-flat, MOST)[:MOST]
    largest = largest[np.lexsort((largest, -flat[largest]))]
    proved, shape = found.proved, found.value.shape

    def at_largest(beta: float) -> np.ndarray[Any, np.dtype[np.float64]]:
        assert proved is not None
        return np.broadcast_to(proved(beta), shape).reshape(-1)[largest]

    few = replace(
        found,
        proved=None if proved is None else at_largest,
        value=flat[largest],
        raw=found.raw.reshape(-1)[largest],
        radii=np.broadcast_to(found.radii, shape).reshape(-1)[largest],
        spread=found.spread.reshape(-1)[largest],
        noise=found.noise.reshape(-1)[largest],
    )
    return {
        **few.to_dict(),
        "interval": _interval(few),
        "places": largest.tolist(),
        "numbers": size,
    }


def _interval(found: Estimate) -> dict[str, Any]:
    """The approximate interval of each number, None where there are too few reports."""
    half = found.interval(LEVEL)
    ends = {"lower": half.lower, "upper": half.upper}
    return {"level": LEVEL, **plain_tree(ends)}
