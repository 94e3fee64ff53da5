"""From a private value to the bytes that leave a person's device, and what all of them may cost.

The ledger keeps on disk what a client has sent and spent, so that a retry never randomizes again.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import NamedTuple

from privmean import validate
from privmean.errors import ArgumentError, BudgetExceededError
from privmean.local.clients.randomizers import RANDOMIZERS
from privmean.local.exact_coins import Entropy, SystemEntropy, exact_epsilon
from privmean.local.reports import NONCE_SIZE, POINT, Report, Ticket, authentication
from privmean.local.round import Round
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
                said = [round_digest.hex(), str(made.epsilon), made.report.hex()]
                log.append(json.dumps(said).encode())
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


def _level(round_: Round, epsilon: object, ticket: Ticket | None) -> int:
    """The level to answer at: the ticket's, if the client allows it, else the largest allowed."""
    validate.instance("round", round_, Round, "give what Round.from_json makes")
    own = round_.level(epsilon)
    if not round_.issued:
        if ticket is not None:
            raise ArgumentError("ticket", "...", "is not used by this round", "remove the ticket")
        return own
    if ticket is None:
        raise ArgumentError(
            "ticket", None, "is required by this round", "ask the server's operator"
        )
    validate.instance("ticket", ticket, Ticket, "give what Ticket.from_text makes")
    if ticket.round_id != round_.identifier:
        raise ArgumentError("ticket", "...", "is not for this round", "ask for the right one")
    if not 0 <= ticket.level <= own:
        raise ArgumentError(
            "ticket", ticket.level, "requires more epsilon than this client allows", "refuse it"
        )
    return ticket.level


def _place(round_: Round, point: int | None) -> bytes:
    """The design point as it stands before the payload; nothing in other rounds."""
    if not round_.points:
        if point is not None:
            raise ArgumentError("point", point, "is not used by this round", "remove it")
        return b""
    number = len(round_.points)
    if point is None or not 0 <= validate.whole("point", point) < number:
        raise ArgumentError("point", point, "is not a design point", f"give 0 to {number - 1}")
    return POINT.pack(point)


def randomize(
    round_: Round,
    value: object,
    *,
    epsilon: object,
    nonce: bytes | None = None,
    ticket: Ticket | None = None,
    entropy: Entropy | None = None,
    point: int | None = None,
) -> bytes:
    """Return one report on a value, ready to be sent.

    Parameters
    ----------
    round_ : Round
        The round.
    value : float, list of float or int
        A number, a vector or an item. Anything else counts as missing, and is reported too.
    epsilon : float
        What the client allows for its reports of one protocol. The report uses the largest level of
        the menu that is within it, or within its share of several rounds.
    nonce : bytes, optional
        Default: random.
    ticket : Ticket, optional
        The right to report, if the round issues its nonces.
    entropy : callable, optional
        For simulations only. Default: system entropy.
    point : int, optional
        In a round for a curve: public number of the design point of the value.

    Returns
    -------
    bytes
        The report.

    Privacy
    -------
    The unit is this report, with all records behind it. The distribution of the bytes changes by a
    factor of at most e^epsilon between any two values, exactly. Public are the round, level, nonce
    and design point, and that a report was sent. Each call costs epsilon again: see `Client`.

    Examples
    --------
    from privmean.local import mean_round, randomize

    report = randomize(mean_round(0, 24, epsilon=1, persons=100), 7.5, epsilon=1)
    """
    level = _level(round_, epsilon, ticket)
    before = _place(round_, point)
    source = SystemEntropy() if entropy is None else entropy
    if ticket is not None:
        nonce = ticket.nonce
    elif nonce is None:
        nonce = source.bytes(NONCE_SIZE)
    elif len(nonce) != NONCE_SIZE:
        raise ArgumentError("nonce", len(nonce), "is not 16 bytes", "let the client draw it")
    payload = before + RANDOMIZERS[round_.mechanism](round_, level, value, nonce, source)
    report = Report(round_.code, round_.identifier, nonce, level, payload)
    if ticket is not None:
        mac = authentication(ticket.key, report.body())
        report = Report(round_.code, round_.identifier, nonce, level, payload, mac)
    return report.to_bytes()


class Client:
    """One person's device, with an epsilon and a ledger that never charges it twice.

    Parameters
    ----------
    epsilon : float
        The most that one measurement may cost: one report, or all rounds of one protocol
        (`Round.messages`).
    ledger : Ledger
        Remembers the reports and the total that this person allows.
    identity : str, optional
        Public name, required for rounds that ask a part of the clients.
    entropy : callable, optional
        For simulations only. Default: system entropy.

    Privacy
    -------
    Each report is epsilon-DP for the value of this person; see `randomize`.

    Examples
    --------
    from privmean.local import Client, Ledger, mean_round

    round_ = mean_round(0, 24, epsilon=1, persons=10_000)
    client = Client(epsilon=1, ledger=Ledger(":memory:", limit=4))
    client.report(round_, 7.5)
    """

    def __init__(
        self,
        *,
        epsilon: object,
        ledger: Ledger,
        identity: str | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon: Fraction = exact_epsilon("epsilon", epsilon)
        self.ledger = ledger
        self.identity = identity
        self._entropy: Entropy = SystemEntropy() if entropy is None else entropy
        if not self._entropy.secure:
            raise ArgumentError(
                "entropy", "seeded", "is not private", "use `randomize` for simulations"
            )

    def report(
        self,
        round_: Round,
        value: object,
        *,
        ticket: Ticket | None = None,
        point: int | None = None,
    ) -> bytes | None:
        """Return the report for this round: made once, and the same bytes at every further call.

        point: in a round for a curve, the public number of the design point. None if the round asks
        another part of the clients. Raises BudgetExceededError if the ledger would exceed its
        limit, and ArgumentError for a new report after the deadline; then nothing is charged.

        Guarantees. The reports of this client together are (ledger limit)-DP, for any rounds that
        any server publishes, adaptively, and for any number of retries.
        """
        validate.instance("round", round_, Round, "give what Round.from_json makes")
        if round_.part is not None:
            if self.identity is None:
                raise ArgumentError(
                    "identity",
                    None,
                    "is required: the round asks a part of the clients",
                    "give an identity",
                )
            if not round_.part.chosen(self.identity):
                return None
        level = _level(round_, self.epsilon, ticket)
        _place(round_, point)  # refused before anything is written down

        def make() -> bytes:
            if round_.closes is not None and time.time() > round_.closes:
                raise ArgumentError("round", round_.title, "is over", "do not answer the round")
            return randomize(
                round_,
                value,
                epsilon=self.epsilon,
                ticket=ticket,
                entropy=self._entropy,
                point=point,
            )

        return self.ledger.once(round_.digest, round_.menu[level], make)
