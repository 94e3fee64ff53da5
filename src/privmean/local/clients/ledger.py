"""What a client has sent and spent, on disk, so that a retry never randomizes again."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction

from privmean import validate
from privmean.errors import ArgumentError, BudgetExceeded, PrivmeanError

PATIENCE = 60.0  # seconds to wait for another process
_CREATING = threading.Lock()


class Ledger:
    """The reports of one client and their total epsilon, in a small SQLite file.

    path: the file (":memory:" for tests). limit: the most that all reports together may spend.
    The report is stored and synchronised to disk before it is handed out, so that neither a crash
    nor a loss of power makes the client draw again; several processes and threads may use the
    file. It holds only what was or may be sent, never the values; keep it all the same, because
    who reads the reports of many rounds learns what the rounds tell.

    Raises PrivmeanError if the file cannot be used; nothing is sent then.
    """

    def __init__(self, path: str | os.PathLike[str], *, limit: object) -> None:
        validate.positive("limit", limit)
        self.limit = Fraction(str(limit))
        if not os.fspath(path):
            raise ArgumentError("path", path, "is empty", "name the file that keeps the reports")
        self._turn = threading.Lock()
        with _CREATING, _in_words():
            _keep_private(path)
            self._base = sqlite3.connect(
                os.fspath(path), isolation_level=None, timeout=PATIENCE, check_same_thread=False
            )
        weakref.finalize(self, self._base.close)
        with self._turn, _in_words():
            # EXTRA: the end of a transaction is itself on disk. With less, a loss of power right
            # after it may bring the journal back, and with it the state before the report.
            self._base.execute("PRAGMA synchronous=EXTRA")
            with self._transaction():
                self._base.execute(
                    "CREATE TABLE IF NOT EXISTS reports "
                    "(round BLOB PRIMARY KEY, epsilon TEXT NOT NULL, report BLOB NOT NULL)"
                )

    def spent(self) -> Fraction:
        """The epsilon of all reports so far (basic composition)."""
        with self._turn, _in_words():
            return self._spent()

    def _spent(self) -> Fraction:
        rows = self._base.execute("SELECT epsilon FROM reports").fetchall()
        return sum((Fraction(row[0]) for row in rows), Fraction(0))

    def once(self, round_digest: bytes, epsilon: Fraction, make: Callable[[], bytes]) -> bytes:
        """The stored report of this round, or a new one, made and stored in one transaction."""
        with self._turn, _in_words(), self._transaction():
            row = self._base.execute(
                "SELECT report FROM reports WHERE round = ?", (round_digest,)
            ).fetchone()
            if row is not None:
                return bytes(row[0])
            left = self.limit - self._spent()
            if epsilon > left:
                raise BudgetExceeded(f"epsilon={float(epsilon):g}", f"epsilon={float(left):g}")
            report = make()
            self._base.execute(
                "INSERT INTO reports VALUES (?, ?, ?)", (round_digest, str(epsilon), report)
            )
        return report

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing, and nobody else writes meanwhile."""
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._base.execute("COMMIT")
        finally:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")

    def close(self) -> None:
        self._base.close()


def _keep_private(path: str | os.PathLike[str]) -> None:
    """Only the file's owner may read it: made so, and made so again if it was let go.

    Its journals take its mode. A file that is there is not opened: to close it would drop the locks
    that other ledgers of this process hold on it.
    """
    if os.fspath(path) == ":memory:" or os.name != "posix":
        return
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        mode = os.stat(path).st_mode
        if mode & 0o077:
            os.chmod(path, mode & 0o700)


@contextmanager
def _in_words() -> Iterator[None]:
    """SQLite's errors in words: no report leaves the device while the ledger cannot be written."""
    try:
        yield
    except (sqlite3.Error, OSError) as problem:
        said = str(problem)
    else:
        return
    raise PrivmeanError(f"the ledger cannot be used ({said}); check its path and its disk")
