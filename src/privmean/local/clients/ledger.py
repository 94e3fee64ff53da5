"""What a client has sent and spent, on disk, so that a retry never randomizes again."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable
from fractions import Fraction

from privmean import validate
from privmean.errors import BudgetExceeded


class Ledger:
    """The reports of one client and their total epsilon, in a small SQLite file.

    path: the file (":memory:" for tests). limit: the most that all reports together may spend.
    The report is stored and synchronised to disk before it is handed out; several processes may
    use the file. It holds only what was or may be sent, never the values; keep it all the same,
    because who reads the reports of many rounds learns what the rounds tell.
    """

    def __init__(self, path: str | os.PathLike[str], *, limit: object) -> None:
        validate.positive("limit", limit)
        self.limit = Fraction(str(limit))
        self._base = sqlite3.connect(os.fspath(path), isolation_level=None, timeout=60)
        weakref.finalize(self, self._base.close)
        self._base.execute("PRAGMA synchronous=FULL")
        self._base.execute(
            "CREATE TABLE IF NOT EXISTS reports "
            "(round BLOB PRIMARY KEY, epsilon TEXT NOT NULL, report BLOB NOT NULL)"
        )

    def spent(self) -> Fraction:
        """The epsilon of all reports so far (basic composition)."""
        rows = self._base.execute("SELECT epsilon FROM reports").fetchall()
        return sum((Fraction(row[0]) for row in rows), Fraction(0))

    def once(self, round_digest: bytes, epsilon: Fraction, make: Callable[[], bytes]) -> bytes:
        """The stored report of this round, or a new one, made and stored in one transaction."""
        self._base.execute("BEGIN IMMEDIATE")
        try:
            row = self._base.execute(
                "SELECT report FROM reports WHERE round = ?", (round_digest,)
            ).fetchone()
            if row is not None:
                return bytes(row[0])
            left = self.limit - self.spent()
            if epsilon > left:
                raise BudgetExceeded(f"epsilon={float(epsilon):g}", f"epsilon={float(left):g}")
            report = make()
            self._base.execute(
                "INSERT INTO reports VALUES (?, ?, ?)", (round_digest, str(epsilon), report)
            )
            self._base.execute("COMMIT")
            return report
        finally:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")

    def close(self) -> None:
        self._base.close()
