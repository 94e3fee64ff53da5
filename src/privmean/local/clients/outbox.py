"""Reports that wait for a server, on disk, until it has taken them."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from privmean.errors import PrivmeanError
from privmean.local.clients.send import NotSent, add_receipt, address_of, send_many
from privmean.local.round import Round

PATIENCE = 60.0  # seconds to wait for another process


class Outbox:
    """Queue of reports for any number of servers and rounds, in an SQLite file.

    Parameters
    ----------
    path : path
        The file, made for its owner alone. Several processes may use it.

    Raises
    ------
    PrivmeanError
        If the file cannot be used.

    Privacy
    -------
    Holds private reports only. A server counts a repeated report once, and the ledger returns the
    same bytes for a lost one.

    Examples
    --------
    from privmean.local import Client, Ledger, Outbox, mean_round

    round_ = mean_round(0, 24, epsilon=1, persons=10_000)
    client = Client(epsilon=1, ledger=Ledger("my-reports.db", limit=4))
    outbox = Outbox("to-send.db")
    outbox.put("http://127.0.0.1:8000", round_, client.report(round_, 7.5))
    outbox.flush(attempts=1)  # {"accepted": ..., "waiting": ..., "problems": [...], ...}
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.path.abspath(path)
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as problem:
            raise PrivmeanError(
                f"the outbox cannot be opened ({problem.strerror}). Check the path."
            ) from None
        with self._opened() as link:
            link.execute(
                "CREATE TABLE IF NOT EXISTS outbox "
                "(id BLOB PRIMARY KEY, server TEXT, round TEXT, report BLOB)"
            )

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=PATIENCE)) as link, link:
                yield link
        except sqlite3.Error as problem:
            raise PrivmeanError(
                f"the outbox cannot be used ({problem}). Name another file."
            ) from None

    def put(self, server: str, round_: Round, report: bytes) -> None:
        """Keep a report until this server has taken it. The same report is kept once."""
        server, name = address_of(server), round_.identifier.hex()
        key = hashlib.blake2b(f"{server} {name} ".encode() + report, digest_size=32).digest()
        with self._opened() as link:
            link.execute(
                "INSERT OR IGNORE INTO outbox VALUES (?, ?, ?, ?)", (key, server, name, report)
            )

    def __len__(self) -> int:
        with self._opened() as link:
            return int(link.execute("SELECT count(*) FROM outbox").fetchone()[0])

    def flush(self, *, timeout: float = 30, attempts: int = 5) -> dict[str, Any]:
        """Try to send everything, in batches; the receipts added up.

        What a server took, knew or refused for good leaves the queue; what found no answer stays
        ("waiting" counts it). "problems" says why servers refused whole requests. Call it again
        when there is a network.
        """
        total: dict[str, Any] = {"accepted": 0, "duplicate": 0, "rejected": {}}
        waiting, problems = 0, []
        with self._opened() as link:
            groups = link.execute("SELECT DISTINCT server, round FROM outbox").fetchall()
        for server, name in groups:
            with self._opened() as link:
                rows = link.execute(
                    "SELECT id, report FROM outbox WHERE server = ? AND round = ?", (server, name)
                ).fetchall()
            try:
                reports = [report for _, report in rows]
                receipt = send_many(server, name, reports, timeout=timeout, attempts=attempts)
                add_receipt(total, receipt)
            except NotSent as problem:
                problems.append(f"{server}: {problem}")
                if problem.kept:
                    waiting += len(rows)
                    continue
            with self._opened() as link:
                link.executemany("DELETE FROM outbox WHERE id = ?", [(key,) for key, _ in rows])
        return {**total, "waiting": waiting, "problems": problems}
