"""A collector's SQLite file: each commit complete in the file itself; torn or old ones refused.

A rollback journal instead of a write-ahead log: after a commit everything is in the one file. Yet
while a commit is written, the file without its journal is neither old nor new, and a copy taken
then, or one during which commits came, mixes pages of several moments. SQLite sees that only where
the mixture breaks a tree. So every transaction also writes down how many reports of each writer
there are and the sum of their numbers, and opening compares; a mixture fails. A copy that agrees
holds everything that was acknowledged when it was taken. An old copy put back over the file is
noticed by the number of commits beside it (`FILE.seen`); an old copy elsewhere is not.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql
from sqlalchemy.dialects import sqlite

from privmean.errors import PrivmeanError
from privmean.local.collector.store_schema import (
    FILE,
    MARKS,
    META,
    OWN,
    REFUSALS,
    ROUNDS,
    SNAPSHOTS,
    WRITERS,
)
from privmean.storage.file_identity import Identity
from privmean.storage.last_seen import LastSeen, LastSeenFile

if TYPE_CHECKING:
    import sqlite3


class SqliteFile:
    """The file behind an engine; `open` it before anything else."""

    def __init__(self, engine: sql.Engine) -> None:
        sql.event.listen(engine, "connect", _durable)
        self._engine = engine
        name = engine.url.database
        self.path = None if name in (None, "", ":memory:") else Path(str(name)).resolve()
        self._last = LastSeenFile("", 0, "")
        self._seen = None if self.path is None else LastSeen(self.path)

    def open(self) -> None:
        """Make the file, or check the one that is there. Raises PrivmeanError for one that is
        empty, of something else, torn or old."""
        if self.path is None or self._seen is None:
            _make(self._engine, 0)
            return
        if not self.path.exists():
            self._create(self.path)
        place = Identity.of(self.path).number
        not_one = PrivmeanError(
            f"{self.path} is empty or not a database of a collector. Put the "
            "right file back, or name a new file."
        )
        try:
            with self._engine.connect() as link:
                link.exec_driver_sql("BEGIN")  # one moment for all that is read
                row = self._checked(link, place, not_one)
                link.exec_driver_sql("COMMIT")
        except sql.exc.DatabaseError as problem:
            if "not a database" in str(problem):
                raise not_one from None
            if isinstance(problem, sql.exc.OperationalError):
                raise  # busy, say: to be tried again
            raise self._damaged() from None
        if row.place != place:
            with self._engine.begin() as link:
                link.execute(sql.update(FILE).values(place=place))

    def _checked(self, link: sql.Connection, place: int, not_one: PrivmeanError) -> sql.Row[Any]:
        if not link.exec_driver_sql(
            f"SELECT 1 FROM sqlite_master WHERE name = '{FILE.name}'"
        ).first():
            raise not_one
        row = link.execute(sql.select(FILE)).one()
        last = LastSeenFile(row.identity, row.commits, row.mark)
        assert self._seen is not None
        seen = self._seen.read()
        if seen is not None and seen.identity == last.identity:
            ahead = seen.number > last.number
            if ahead or (seen.number == last.number and seen.mark != last.mark):
                raise PrivmeanError(
                    f"{self.path} is an old copy without reports that were acknowledged. "
                    "Put the newest copy back."
                )
        if not _agrees(link, copied=row.place != place):
            raise self._damaged()
        return row

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
            with engine.connect():
                _make(engine, Identity.of(beside).number)
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

    def stored(
        self, link: sql.Connection, mark: bytes, writer: int, numbers: list[int], refused: int
    ) -> None:
        """Within a transaction: reports with these numbers were stored, so many refused."""
        row = {"round": mark, "writer": writer, "reports": len(numbers)}
        add = sqlite.insert(MARKS).values(**row, numbers=sum(numbers), refused=refused)
        counts = ("reports", "numbers", "refused")
        link.execute(
            add.on_conflict_do_update(
                index_elements=["round", "writer"],
                set_={name: MARKS.c[name] + add.excluded[name] for name in counts},
            )
        )

    def forgotten(self, link: sql.Connection, mark: bytes) -> None:
        """Within a transaction: all reports and refusals of a round were deleted."""
        link.execute(sql.delete(MARKS).where(MARKS.c.round == mark))

    def changed(self, link: sql.Connection) -> None:
        """At the end of a transaction."""
        mark = secrets.token_hex(16)
        link.execute(sql.update(FILE).values(commits=FILE.c.commits + 1, mark=mark))
        row = link.execute(sql.select(FILE)).one()
        self._last = LastSeenFile(row.identity, row.commits, mark)

    def committed(self) -> None:
        """After the commit, before anybody hears of it."""
        if self._seen is None:
            return
        seen = self._seen.read()
        # another process may have noted a later commit already
        if seen is None or seen.identity != self._last.identity or seen.number < self._last.number:
            self._seen.note(self._last)

    def close(self) -> None:
        if self._seen is not None:
            self._seen.close()


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


def _make(engine: sql.Engine, place: int) -> None:
    with engine.begin() as link:
        link.exec_driver_sql("BEGIN IMMEDIATE")
        META.create_all(link)
        OWN.create_all(link)
        if link.execute(sql.select(FILE)).first() is None:
            link.execute(
                sql.insert(FILE).values(
                    identity=secrets.token_hex(8), place=place, commits=0, mark="-"
                )
            )


def _snapshots_agree(link: sql.Connection, last: dict[tuple[bytes, int], int]) -> bool:
    """Whether the stored tallies are whole, and of no report that is not here."""
    if not sql.inspect(link).has_table(SNAPSHOTS.name):  # a file from before there were any
        return True
    for row in link.execute(sql.select(SNAPSHOTS)):
        if unsealed(row.uptos, row.state) is None:
            return False
        uptos = json.loads(row.uptos)
        if any(upto > last.get((row.round, int(writer)), 0) for writer, upto in uptos.items()):
            return False
    return True


def _agrees(link: sql.Connection, *, copied: bool) -> bool:
    """Whether the tables say the same as the marks.

    Where the file was not copied, SQLite itself has brought it back to one moment, and the quick
    check of its trees is enough.
    """
    try:
        check = "integrity_check" if copied else "quick_check"
        if link.exec_driver_sql(f"PRAGMA {check}(1)").scalar_one() != "ok":
            return False
        rows = link.execute(sql.select(MARKS)).all()
        marks = {(row.round, row.writer): (row.reports, row.numbers) for row in rows if row.reports}
        refused = {(row.round, row.writer): row.refused for row in rows if row.refused}
        query = "SELECT round, writer, count(*), sum(number), max(number) FROM privmean_reports"
        last: dict[tuple[bytes, int], int] = {}
        for place in ("NOT INDEXED", "INDEXED BY privmean_reports_place"):
            found = {}
            for mark, writer, *counts, largest in link.exec_driver_sql(
                f"{query} {place} GROUP BY round, writer"
            ):
                found[mark, writer] = tuple(counts)
                last[mark, writer] = largest
            if found != marks:
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
