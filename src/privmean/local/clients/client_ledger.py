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
    """The reports of one client and their total epsilon, in a small append-only file.

    path: the file (":memory:" for tests), made if there is none, for its owner alone. limit: the
    most that all reports together may spend. moved: your word that the file, which is a copy or
    comes from another disk, is the newest one and that the original is never used again; without it
    such a file is refused, and one of several names (hard links).

    The report is stored and synchronised to disk before it is handed out, so that neither a crash
    nor a loss of power makes the client draw again; several processes and threads may use the
    file. A copy of it made at any moment holds all that was handed out until then; an old copy put
    back forgets what came later, and is refused where `FILE.seen` beside it tells. It holds only
    what was or may be sent, never the values; keep it all the same, because who reads the reports
    of many rounds learns what the rounds tell.

    Raises PrivmeanError if the file cannot be used; nothing is sent then.
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
