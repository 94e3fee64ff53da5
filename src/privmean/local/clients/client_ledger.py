"""What a client has sent and spent, on disk, so that a retry never randomizes again."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import NamedTuple

from privmean import validate
from privmean.errors import BudgetExceededError
from privmean.storage.append_log import DurableLog, LogExists

KIND = "client ledger"
PATIENCE = 60.0  # seconds to wait for another process


class _Sent(NamedTuple):
    epsilon: Fraction
    report: bytes


Reports = dict[bytes, _Sent]


class Ledger:
    """Reports of one client and their total epsilon, in a small append-only file.

    Parameters
    ----------
    path : path
        The file, made for its owner alone; ":memory:" for tests.
    limit : float
        The most that all reports together may cost.
    moved : bool, default False
        You state that a copied file is the newest, and that its original is never used again.
        Without it a copy and a hard link are refused.

    Raises
    ------
    PrivmeanError
        If the file cannot be used; nothing is sent then.

    Privacy
    -------
    A report is on disk before it is returned, so that no crash makes the client draw again. An
    older copy forgets later reports, and is refused where `FILE.seen` shows it. The file never
    holds values. Keep it secret: reports of many rounds reveal what the rounds reveal.

    Examples
    --------
    from privmean.local import Client, Ledger, mean_round

    round_ = mean_round(0, 24, epsilon=1, persons=10_000)
    client = Client(epsilon=1, ledger=Ledger("my-reports.db", limit=4))
    client.report(round_, 7.5)
    """

    def __init__(self, path: str | os.PathLike[str], *, limit: object, moved: bool = False) -> None:
        validate.positive("limit", limit)
        self.limit = Fraction(str(limit))
        validate.path("path", path, "name the file that keeps the reports")
        self._turn = threading.Lock()
        self._path = None if path == ":memory:" else os.path.abspath(path)
        self._sent: Reports = {}
        if self._path is not None:
            _make(self._path)
            _keep_private(self._path)
            with self._opened(moved=moved):
                pass

    def spent(self) -> Fraction:
        """The epsilon of all reports so far (basic composition)."""
        with self._opened() as (sent, _):
            return _spent(sent)

    def once(self, round_digest: bytes, epsilon: Fraction, make: Callable[[], bytes]) -> bytes:
        """The stored report of this round, or a new one, made and stored under one lock."""
        with self._opened() as (sent, store):
            if round_digest in sent:
                return sent[round_digest].report
            left = self.limit - _spent(sent)
            if epsilon > left:
                raise BudgetExceededError(f"epsilon={float(epsilon):g}", f"epsilon={float(left):g}")
            report = make()
            store(round_digest, _Sent(epsilon, report))
        return report

    @contextmanager
    def _opened(
        self, *, moved: bool = False
    ) -> Iterator[tuple[Reports, Callable[[bytes, _Sent], None]]]:
        """All reports, and a function that stores one more; nobody else uses the file meanwhile."""
        with self._turn:
            if self._path is None:
                yield self._sent, self._sent.__setitem__
                return
            sent: Reports = {}
            log = DurableLog.open(
                self._path,
                KIND,
                lambda entry: sent.update([_read(entry)]),
                moved=moved,
                patience=PATIENCE,
                name="ledger",
            )
            try:
                yield sent, lambda digest, item: log.append(_written(digest, item))
            finally:
                log.close()

    def close(self) -> None:
        """Nothing to do: the file is open only while it is read or written."""


def _make(path: str) -> None:
    """A new ledger, unless there is one or another process makes it just now."""
    until = time.monotonic() + PATIENCE
    while not os.path.exists(path):
        try:
            DurableLog.create(path, KIND, name="ledger").close()
        except LogExists:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def _keep_private(path: str) -> None:
    """A file that was let go is its owner's alone again; it is made so, too."""
    mode = os.stat(path).st_mode
    if os.name == "posix" and mode & 0o077:
        os.chmod(path, mode & 0o700)


def _spent(sent: Reports) -> Fraction:
    return sum((item.epsilon for item in sent.values()), Fraction(0))


def _read(entry: bytes) -> tuple[bytes, _Sent]:
    digest, epsilon, report = json.loads(entry)
    return bytes.fromhex(digest), _Sent(Fraction(epsilon), bytes.fromhex(report))


def _written(digest: bytes, item: _Sent) -> bytes:
    return json.dumps([digest.hex(), str(item.epsilon), item.report.hex()]).encode()
