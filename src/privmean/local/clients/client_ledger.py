"""What a client has sent and spent, on disk, so that a retry never randomizes again."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import NamedTuple

from privmean import validate
from privmean.errors import BudgetExceededError
from privmean.storage.durable_log import DurableLog, LogExists
from privmean.storage.entry_chain import Entry

KIND = "client ledger"


class _Sent(NamedTuple):
    epsilon: Fraction
    report: bytes


Reports = dict[bytes, _Sent]


class Ledger:
    """Reports of one client and their total epsilon, in a small SQLite file.

    Parameters
    ----------
    path : path
        The file, made for its owner alone; ":memory:" for tests.
    limit : float
        The most that all reports together may cost.
    moved : bool, default False
        You state that a copied file is the newest, and that its original is never used again.
        Without it a file that this user never used on this machine is refused.

    Raises
    ------
    PrivmeanError
        If the file cannot be used; nothing is sent then.

    Privacy
    -------
    A report is on disk before it is returned, so that no crash makes the client draw again. An
    older copy forgets later reports. It is refused by a witness in `$XDG_STATE_HOME/privmean`,
    outside of the file's folder; a snapshot of the whole machine is not noticed. The file never
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
        self._path = None if path == ":memory:" else os.path.abspath(path)
        self._memory = threading.Lock(), Reports()
        self._opened: tuple[DurableLog, Reports] | None = None
        if self._path is not None:
            with suppress(LogExists):
                if not os.path.exists(self._path):
                    DurableLog.create(self._path, KIND, name="ledger")
            _keep_private(self._path)
            self._open(self._path, moved=moved)

    def spent(self) -> Fraction:
        """The epsilon of all reports so far (basic composition)."""
        with self._turn() as (sent, _):
            return _spent(sent)

    def once(self, round_digest: bytes, epsilon: Fraction, make: Callable[[], bytes]) -> bytes:
        """The stored report of this round, or a new one, made and stored under one lock."""
        with self._turn() as (sent, log):
            if round_digest in sent:
                return sent[round_digest].report
            left = self.limit - _spent(sent)
            if epsilon > left:
                raise BudgetExceededError(f"epsilon={float(epsilon):g}", f"epsilon={float(left):g}")
            made = _Sent(epsilon, make())
            if log is not None:
                log.append(_written(round_digest, made))
            sent[round_digest] = made
            return made.report

    @contextmanager
    def _turn(self) -> Iterator[tuple[Reports, DurableLog | None]]:
        """All reports, and where one more is stored; nobody else uses them meanwhile."""
        if self._path is None:
            turn, sent = self._memory
            with turn:
                yield sent, None
            return
        log, sent = self._open(self._path)
        with log.turn():
            yield sent, log

    def _open(self, path: str, *, moved: bool = False) -> tuple[DurableLog, Reports]:
        """The file, opened anew after a fork or a failure, and where another has its name."""
        if self._opened is not None and self._opened[0].usable:
            return self._opened
        sent: Reports = {}

        def take(entry: Entry) -> None:
            digest, epsilon, report = json.loads(entry.payload)
            sent[bytes.fromhex(digest)] = _Sent(Fraction(epsilon), bytes.fromhex(report))

        log = DurableLog.open(path, KIND, take, moved=moved, shared=True, name="ledger")
        self._opened = log, sent
        return self._opened

    def close(self) -> None:
        """Let go of the file. It is opened again when it is needed."""
        if self._opened is not None:
            self._opened[0].close()


def _keep_private(path: str) -> None:
    """A file that was let go is its owner's alone again; it is made so, too."""
    mode = os.stat(path).st_mode
    if os.name == "posix" and mode & 0o077:
        os.chmod(path, mode & 0o700)


def _spent(sent: Reports) -> Fraction:
    return sum((item.epsilon for item in sent.values()), Fraction(0))


def _written(digest: bytes, item: _Sent) -> bytes:
    return json.dumps([digest.hex(), str(item.epsilon), item.report.hex()]).encode()
