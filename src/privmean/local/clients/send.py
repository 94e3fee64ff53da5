"""Sending reports to a collector, and administering it, with the standard library alone.

Reports wait on disk until the server has taken them.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import re
import sqlite3
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from privmean.errors import ArgumentError, PrivmeanError
from privmean.local.round import Round
from privmean.plain_data import parsed

if TYPE_CHECKING:
    from privmean.local.aggregators.tally import Tally

LARGEST_ANSWER = 1 << 24
LARGEST_BODY = 1 << 22  # what a collector takes in one request
LONGEST_PAUSE = 60.0  # seconds
ODD = "the server's answer cannot be read; check its address"


def address_of(server: str) -> str:
    """The address without its last slash; only web addresses."""
    try:
        parts = urllib.parse.urlsplit(server)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or any(sign.isspace() for sign in server):
        raise ArgumentError(
            "server", server, "is not a web address", "write it with http:// or https:// in front"
        )
    return server.rstrip("/")


def fetch_rounds(server: str) -> list[dict[str, str]]:
    """The rounds that a collector offers: round, digest, title, mechanism."""
    data = Remote(server).ask("rounds", most=LARGEST_ANSWER)
    try:
        result = parsed(data)
        return [{str(key): str(value) for key, value in dict(item).items()} for item in result]
    except (TypeError, ValueError):
        raise PrivmeanError(ODD) from None


def fetch_round(server: str, round_id: str) -> Round:
    """The description of one round; refused if it does not hash to the identifier asked for."""
    if not round_id.isalnum():
        raise ArgumentError(
            "round_id", round_id, "is not an identifier", "give 16 hexadecimal digits"
        )
    round_ = Round.from_json(Remote(server).ask(f"rounds/{round_id}", most=LARGEST_ANSWER))
    if round_.identifier.hex() != round_id.lower():
        raise PrivmeanError(
            "the description of the server is not the requested round. Do not answer it."
        )
    return round_


class NotSent(PrivmeanError):
    """A request that a server did not take. status: of HTTP, 0 without an answer. kept: whether
    the same bytes may be taken later."""

    def __init__(self, message: str, *, status: int = 0, kept: bool = True) -> None:
        self.status, self.kept = status, kept
        super().__init__(message)


def pause(attempt: int, asked: str | None = None) -> float:
    """Seconds until the next attempt: what the server asks for (a minute at most), and at least a
    random part of 2^attempt/4 seconds (eight at most), so that many clients do not come at once."""
    wanted = int(asked) if asked is not None and re.fullmatch("[0-9]{1,6}", asked) else 0
    own = min(8.0, 0.25 * 2.0**attempt) * (0.5 + random.random() / 2)
    return min(LONGEST_PAUSE, max(float(wanted), own))


def send(
    server: str, round_: Round | str, reports: bytes, *, timeout: float = 30, attempts: int = 5
) -> dict[str, Any]:
    """Send binary reports in one request; the receipt of the server.

    round_: the round, or its identifier in hexadecimal. Sends the same bytes again after an error,
    with growing pauses; the server recognizes them: nothing counts twice. Raises NotSent.
    """
    if len(reports) > LARGEST_BODY:
        raise ArgumentError(
            "reports", len(reports), f"must be at most {LARGEST_BODY} bytes", "send fewer at once"
        )
    name = round_ if isinstance(round_, str) else round_.identifier.hex()
    request = urllib.request.Request(
        f"{address_of(server)}/rounds/{name}/reports",
        data=reports,
        headers={"Content-Type": "application/octet-stream"},
    )
    status = 0
    for attempt in range(attempts):
        asked = None
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return read_receipt(answer.read(LARGEST_ANSWER))
        except urllib.error.HTTPError as error:
            status, asked = error.code, error.headers.get("Retry-After")
            error.close()
            if status < 500 and status not in (408, 429):
                raise NotSent(
                    f"the server refuses the request ({status})", status=status, kept=False
                ) from None
        except (OSError, ValueError, http.client.HTTPException):
            pass
        if attempt + 1 < attempts:
            time.sleep(pause(attempt, asked))
    raise NotSent("the server does not answer; try again later, the report is kept", status=status)


def read_receipt(answer: bytes) -> dict[str, Any]:
    """What a server says that it did: whole numbers, or ValueError. An answer that is something
    else (of a network's login page, say) has taken nothing."""
    match parsed(answer):
        case {"accepted": int(), "duplicate": int(), "rejected": dict() as rejected} as receipt if (
            all(isinstance(count, int) for count in rejected.values())
        ):
            return dict(receipt)
    raise ValueError(ODD)


def batches(reports: Iterable[bytes], most: int = LARGEST_BODY) -> Iterator[list[bytes]]:
    """Reports in bodies of at most `most` bytes, none of them cut."""
    batch: list[bytes] = []
    size = 0
    for report in reports:
        if batch and size + len(report) > most:
            yield batch
            batch, size = [], 0
        batch.append(report)
        size += len(report)
    if batch:
        yield batch


def send_many(
    server: str,
    round_: Round | str,
    reports: Iterable[bytes],
    *,
    most: int = LARGEST_BODY,
    timeout: float = 30,
    attempts: int = 5,
) -> dict[str, Any]:
    """Send any number of reports of one round, each batch with its own attempts.

    Returns the receipts added up. A server that takes less than `most` bytes at once (413) gets
    smaller batches. Raises NotSent; what was sent until then counts, and may be sent again.
    """
    total: dict[str, Any] = {"accepted": 0, "duplicate": 0, "rejected": {}}
    for batch in batches(reports, most):
        body = b"".join(batch)
        try:
            receipt = send(server, round_, body, timeout=timeout, attempts=attempts)
        except NotSent as problem:
            if problem.status != 413 or len(batch) < 2:
                raise
            half = max(len(body) // 2, len(batch[0]))
            receipt = send_many(
                server, round_, batch, most=half, timeout=timeout, attempts=attempts
            )
        add_receipt(total, receipt)
    return total


def add_receipt(total: dict[str, Any], receipt: dict[str, Any]) -> None:
    """Add the counts of one receipt (of `read_receipt`) to those of others."""
    for name in ("accepted", "duplicate"):
        total[name] += receipt[name]
    for reason, count in receipt["rejected"].items():
        total["rejected"][reason] = total["rejected"].get(reason, 0) + count


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


LARGEST = 1 << 32  # bytes of a tally
TIMEOUT = 120.0


class Remote:
    """A collector at an address, and the token that is shown to it."""

    def __init__(self, server: str, token: str | None = None) -> None:
        self._server, self._token = address_of(server), token

    def tally(self, round_: Round) -> Tally:
        """The tally of a round now. Imports the numerical half."""
        from privmean.local.aggregators.tally import Tally

        return Tally.from_bytes(round_, self.ask(f"rounds/{round_.identifier.hex()}/tally"))

    def ask(
        self, path: str, *, method: str = "GET", body: bytes | None = None, most: int = LARGEST
    ) -> bytes:
        """The answer, cut off at `most` bytes. Raises PrivmeanError in words for a refusal or
        none."""
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(
            f"{self._server}/{urllib.parse.quote(path, safe='/?=&.')}",
            data=body if body is not None or method != "POST" else b"",
            headers=headers,
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                return bytes(answer.read(most))
        except urllib.error.HTTPError as error:
            with error:
                raise PrivmeanError(_words(error)) from None
        except (OSError, ValueError, http.client.HTTPException):
            raise PrivmeanError("the server does not answer. Check its address.") from None


def _words(error: urllib.error.HTTPError) -> str:
    if error.code == 401:
        return "the collector wants a token that it knows; give it by file or environment"
    try:
        detail = str(json.loads(error.read(1 << 16))["detail"])
    except (OSError, ValueError, TypeError, KeyError, http.client.HTTPException):
        detail = "no reason was given"
    return f"the collector refuses ({error.code}): {detail}"
