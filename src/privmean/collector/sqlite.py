"""The tables of a collector, and its SQLite file: each commit complete in the file itself.

Reports are keyed by round and nonce: one report a nonce. The file has a rollback journal instead of
a write-ahead log: after a commit everything is in the one file. Yet while a commit is written, the
file without its journal is neither old nor new, and a copy taken then, or one during which commits
came, mixes pages of several moments. SQLite sees that only where the mixture breaks a tree. So
every transaction also adds an entry to the log in the same file (`privmean.storage.entry_chain`):
how many reports each writer stored, and the sum of their numbers. Opening compares, and a mixture
fails. A witness outside of the folder notes the last entry after each commit, so that an old copy
put back over the file is noticed; an old copy elsewhere is not.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql

from privmean.errors import PrivmeanError
from privmean.local.reports import NONCE_SIZE
from privmean.storage.entry_chain import Broken, Chain, disagreement
from privmean.storage.older_logs import last_seen
from privmean.storage.witness import Seen, Witness

if TYPE_CHECKING:
    import sqlite3

Kinds = Mapping[str, sql.types.TypeEngine[Any]]

META = sql.MetaData()
ROUND, NONCE, BYTES = sql.LargeBinary(8), sql.LargeBinary(NONCE_SIZE), sql.LargeBinary()
WRITER, COUNT, TEXT, WORD = sql.Integer(), sql.BigInteger(), sql.Text(), sql.String(64)
TIME = sql.Float()  # seconds since 1970


def table(
    name: str,
    keys: Kinds,
    columns: Kinds,
    *more: sql.Index,
    empty: Collection[str] = (),
) -> sql.Table:
    """keys: what a row is found by; columns: what else it says, always but for `empty`."""
    found = [sql.Column(key, kind, primary_key=True) for key, kind in keys.items()]
    found += [sql.Column(key, kind, nullable=key in empty) for key, kind in columns.items()]
    return sql.Table(f"privmean_{name}", META, *found, *more)


ROUNDS = table("rounds", {"id": ROUND}, {"description": TEXT})
WRITERS = table("writers", {"id": WRITER}, {"started": TIME})
REPORTS = table(
    "reports",
    {"round": ROUND, "nonce": NONCE},
    {"content": BYTES, "writer": WRITER, "number": COUNT},  # content: level (2 bytes) and payload
    sql.Index("privmean_reports_place", "round", "writer", "number"),
)
REFUSALS = table("refusals", {"round": ROUND, "writer": WRITER, "reason": WORD}, {"reports": COUNT})
# What a round is at: whether it takes reports, and what is still kept of it.
STATES = table("states", {"round": ROUND}, {"state": sql.String(16), "changed": TIME})
# The last number that each writer gave in a round: who is behind it reads on, nobody asks further.
HEADS = table("heads", {"round": ROUND, "writer": WRITER}, {"last": COUNT})
# The tally of all writers' reports as far as `uptos` says (JSON: writer, last number).
SNAPSHOTS = table("snapshots", {"round": ROUND}, {"uptos": TEXT, "state": BYTES})
REVOKED = table("revoked", {"round": ROUND, "nonce": NONCE}, {})
AUDIT = table(
    "audit",
    {"id": sql.Integer()},
    {"time": TIME, "who": WORD, "action": sql.String(32), "round": ROUND, "detail": TEXT},
    empty=("round",),
)
# What was answered at so many reports: the page's curve over time.
HISTORY = table("history", {"round": ROUND, "reports": COUNT}, {"time": TIME, "answer": TEXT})


KIND = "collector"
MOST = 500  # entries, before one that says the same is put in place of them

# (round, writer): reports stored, the sum of their numbers, reports refused
Marks = dict[tuple[str, int], list[int]]


class SqliteFile:
    """The file behind an engine; `open` it before anything else."""

    def __init__(self, engine: sql.Engine) -> None:
        sql.event.listen(engine, "connect", _durable)
        self._engine = engine
        name = engine.url.database
        self.path = None if name in (None, "", ":memory:") else Path(str(name)).resolve()
        self._turn = threading.Lock()
        self._chain: Chain | None = None
        self._witness: Witness | None = None
        self._changes: list[list[Any]] = []
        self._entries = 0

    def open(self) -> None:
        """Make the file, or check the one that is there. Raises PrivmeanError for one that is
        empty, of something else, torn or old."""
        if self.path is None:
            with self._engine.begin() as link:
                META.create_all(link)
            return
        if not self.path.exists():
            self._create(self.path)
        try:
            with self._engine.connect() as link:
                # of this place: a copy elsewhere, looked at or tried out, harms no service here
                name = f"{self._identity(link)} {self.path}".encode()
                self._witness = Witness(hashlib.sha256(name).hexdigest()[:32])
            self._witness.lock()  # before the database, as in `transaction`
            try:
                with self._engine.begin() as link:
                    link.exec_driver_sql("BEGIN IMMEDIATE")  # one moment for all that is read
                    self._check(link, self._witness)
            finally:
                self._witness.unlock()
        except sql.exc.DatabaseError as problem:
            if "not a database" in str(problem):
                raise self._not_one() from None
            if isinstance(problem, sql.exc.OperationalError):
                raise  # busy, say: to be tried again
            raise self._damaged() from None

    def _identity(self, link: sql.Connection) -> str:
        tables = sql.inspect(link).get_table_names()
        for name in ("privmean_log", "privmean_file"):
            if name in tables:
                found = link.exec_driver_sql(f"SELECT identity FROM {name}").scalar_one()
                return str(found)
        raise self._not_one()

    def _check(self, link: sql.Connection, witness: Witness) -> None:
        if not sql.inspect(link).has_table("privmean_log"):
            self._convert(link)
        chain = Chain(link.exec_driver_sql)
        chain.head()
        self._entries, marks = 0, _folded(())
        try:
            seen = self._news(chain, witness, lambda entry: _fold(marks, entry))
        except Broken:
            raise self._damaged() from None
        if not _agrees(link, marks, known=seen is not None):
            raise self._damaged()
        witness.note(chain.last, durable=seen is None)
        self._chain = chain

    def _news(self, chain: Chain, witness: Witness, take: Callable[[bytes], object]) -> Seen | None:
        """Read what the chain has after `last`; what the witness saw, which does not contradict."""
        before, digests = chain.last, {}
        for entry in chain.news():
            digests[entry.number] = entry.digest
            take(entry.payload)
        seen = witness.read()
        problem = "" if seen is None else disagreement(seen, before, digests, chain.last)
        if problem:
            raise self._old(problem)
        self._entries += len(digests)
        return seen

    @contextmanager
    def transaction(self, link: sql.Connection) -> Iterator[None]:
        """What is read within holds until the end; at the end, with a commit, an entry is added."""
        chain, witness = self._chain, self._witness
        if chain is None or witness is None:
            link.exec_driver_sql("BEGIN IMMEDIATE")
            yield
            link.exec_driver_sql("COMMIT")
            return
        with self._turn:
            witness.lock()  # until the note of this commit, no other commit comes between
            try:
                link.exec_driver_sql("BEGIN IMMEDIATE")
                chain.behind(link.exec_driver_sql)
                self._news(chain, witness, lambda _: None)
                self._changes, self._entries = [], self._entries + 1
                yield
                said = json.dumps(self._changes).encode()
                if self._entries > MOST:
                    marks = _folded((*chain.payloads(), said))
                    said = json.dumps([[*key, *counts] for key, counts in marks.items()]).encode()
                    made, self._entries = chain.replace([said]), 1
                else:
                    made = chain.add([said])
                link.exec_driver_sql("COMMIT")
                chain.last = made[-1].seen
                witness.note(chain.last)
            except Broken:
                raise self._damaged() from None
            finally:
                witness.unlock()

    def stored(self, mark: bytes, writer: int, numbers: list[int], refused: int) -> None:
        """Within a transaction: reports with these numbers were stored, so many refused."""
        self._changes.append([mark.hex(), writer, len(numbers), sum(numbers), refused])

    def forgotten(self, mark: bytes) -> None:
        """Within a transaction: all reports and refusals of a round were deleted."""
        self._changes.append([mark.hex()])

    def _convert(self, link: sql.Connection) -> None:
        """A file of 0.2: what it noted in tables of its own becomes the first entry."""
        assert self.path is not None
        identity, commits, mark = link.exec_driver_sql(
            "SELECT identity, commits, mark FROM privmean_file"
        ).one()
        seen = last_seen(self.path, identity)
        if seen is not None and (seen[0] > commits or (seen[0] == commits and seen[1] != mark)):
            raise self._old("is an old copy")
        rows = link.exec_driver_sql(
            "SELECT round, writer, reports, numbers, refused FROM privmean_marks"
        ).fetchall()
        chain = Chain(link.exec_driver_sql)
        chain.make(KIND, identity)
        chain.add([json.dumps([[row[0].hex(), *row[1:]] for row in rows]).encode()])
        for name in ("privmean_file", "privmean_marks"):
            link.exec_driver_sql(f"DROP TABLE {name}")

    def _old(self, problem: str) -> PrivmeanError:
        assert self._witness is not None
        return PrivmeanError(
            f"{self.path} {problem}: reports that were acknowledged are not in it. Put the newest "
            "copy back. If it is lost, so are those reports; then remove what notes the last "
            f"commit, {self._witness.path}."
        )

    def _not_one(self) -> PrivmeanError:
        return PrivmeanError(
            f"{self.path} is empty or not a database of a collector. Put the right file back, or "
            "name a new file."
        )

    def _damaged(self) -> PrivmeanError:
        return PrivmeanError(
            f"{self.path} is damaged, or was copied while it was written. Copy "
            "it while no collector runs, or with the .backup command of SQLite."
        )

    def _create(self, path: Path) -> None:
        """A file that has its name only once it is whole."""
        beside = path.with_name(f"{path.name}.new{os.getpid()}")
        beside.unlink(missing_ok=True)
        engine = sql.create_engine(self._engine.url.set(database=str(beside)))
        sql.event.listen(engine, "connect", _durable)
        try:
            with engine.begin() as link:
                META.create_all(link)
                Chain(link.exec_driver_sql).make(KIND)
        finally:
            engine.dispose()
        try:
            os.link(beside, path)
        except FileExistsError:  # another process was faster: its file serves
            pass
        except OSError:  # no second names on this file system
            if not path.exists():
                os.rename(beside, path)
        for left in (beside, beside.with_name(beside.name + "-journal")):
            left.unlink(missing_ok=True)

    def close(self) -> None:
        if self._witness is not None:
            self._witness.close()


def _folded(entries: Iterable[bytes]) -> Marks:
    """What entries come to."""
    marks: Marks = {}
    for entry in entries:
        _fold(marks, entry)
    return marks


def _fold(marks: Marks, entry: bytes) -> None:
    for mark, *counts in json.loads(entry):
        if not counts:
            for key in [key for key in marks if key[0] == mark]:
                del marks[key]
            continue
        writer, *added = counts
        sums = marks.setdefault((mark, writer), [0, 0, 0])
        sums[:] = [one + more for one, more in zip(sums, added, strict=True)]


def sealed(uptos: str, state: bytes) -> bytes:
    """A stored tally with its digest before it."""
    return hashlib.sha256(uptos.encode() + b" " + state).digest() + state


def unsealed(uptos: str, data: bytes) -> bytes | None:
    """The tally again, None if it is not whole."""
    state = data[32:]
    return state if sealed(uptos, state) == data else None


def _durable(link: sqlite3.Connection, _: object) -> None:
    """Every commit reaches the disk, and the file itself."""
    cursor = link.cursor()
    cursor.execute("PRAGMA busy_timeout=60000")
    cursor.execute("PRAGMA journal_mode=TRUNCATE")
    cursor.execute("PRAGMA synchronous=EXTRA")
    cursor.execute("PRAGMA secure_delete=ON")  # what is deleted is overwritten
    cursor.close()


def _snapshots_agree(link: sql.Connection, last: dict[tuple[bytes, int], int]) -> bool:
    """Whether the stored tallies are whole, and of no report that is not here."""
    for row in link.execute(sql.select(SNAPSHOTS)):
        if unsealed(row.uptos, row.state) is None:
            return False
        uptos = json.loads(row.uptos)
        if any(upto > last.get((row.round, int(writer)), 0) for writer, upto in uptos.items()):
            return False
    return True


def _agrees(link: sql.Connection, said: Marks, *, known: bool) -> bool:
    """Whether the tables say the same as the entries.

    Where the witness knows the file, SQLite itself has brought it back to one moment, and the quick
    check of its trees is enough.
    """
    try:
        check = "quick_check" if known else "integrity_check"
        if link.exec_driver_sql(f"PRAGMA {check}(1)").scalar_one() != "ok":
            return False
        found = {(bytes.fromhex(mark), writer): item for (mark, writer), item in said.items()}
        marks = {key: (item[0], item[1]) for key, item in found.items() if item[0]}
        refused = {key: item[2] for key, item in found.items() if item[2]}
        query = "SELECT round, writer, count(*), sum(number), max(number) FROM privmean_reports"
        last: dict[tuple[bytes, int], int] = {}
        for place in ("NOT INDEXED", "INDEXED BY privmean_reports_place"):
            held = {}
            for mark, writer, *counts, largest in link.exec_driver_sql(
                f"{query} {place} GROUP BY round, writer"
            ):
                held[mark, writer] = tuple(counts)
                last[mark, writer] = largest
            if held != marks:
                return False
        by_nonce = (
            "SELECT count(*) FROM privmean_reports INDEXED BY sqlite_autoindex_privmean_reports_1"
        )
        if link.exec_driver_sql(by_nonce).scalar_one() != sum(n for n, _ in marks.values()):
            return False
        sums = sql.select(REFUSALS.c.round, REFUSALS.c.writer, sql.func.sum(REFUSALS.c.reports))
        grouped = link.execute(sums.group_by(REFUSALS.c.round, REFUSALS.c.writer))
        if {(row[0], row[1]): row[2] for row in grouped if row[2]} != refused:
            return False
        if not _snapshots_agree(link, last):
            return False
        rounds = set(link.execute(sql.select(ROUNDS.c.id)).scalars())
        writers = set(link.execute(sql.select(WRITERS.c.id)).scalars())
        return all(mark in rounds and writer in writers for mark, writer in marks)
    except sql.exc.DatabaseError as problem:
        if isinstance(problem, sql.exc.OperationalError) and "locked" in str(problem):
            raise
        return False
