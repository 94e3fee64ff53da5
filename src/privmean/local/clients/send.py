"""Sending reports to a collector with the standard library alone."""

from __future__ import annotations

import http.client
import random
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from typing import Any

from privmean.errors import ArgumentError, PrivmeanError
from privmean.local.round import Round
from privmean.strict_json import parsed

LARGEST_ANSWER = 1 << 24
LARGEST_BODY = 1 << 22  # what a collector takes in one request
LONGEST_PAUSE = 60.0  # seconds
SILENT = "the server does not answer; check its address"
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


def _ask(request: str | urllib.request.Request, timeout: float) -> bytes:
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        data = bytes(answer.read(LARGEST_ANSWER + 1))
    if len(data) > LARGEST_ANSWER:
        raise PrivmeanError(ODD)
    return data


def _get(address: str, timeout: float) -> bytes:
    try:
        return _ask(address, timeout)
    except (OSError, ValueError, http.client.HTTPException):
        raise PrivmeanError(SILENT) from None


def fetch_rounds(server: str, *, timeout: float = 30) -> list[dict[str, str]]:
    """The rounds that a collector offers: round, digest, title, mechanism."""
    data = _get(f"{address_of(server)}/rounds", timeout)
    try:
        result = parsed(data)
        return [{str(key): str(value) for key, value in dict(item).items()} for item in result]
    except (TypeError, ValueError):
        raise PrivmeanError(ODD) from None


def fetch_round(server: str, round_id: str, *, timeout: float = 30) -> Round:
    """The description of one round; refused if it does not hash to the identifier asked for."""
    if not round_id.isalnum():
        raise ArgumentError(
            "round_id", round_id, "is not an identifier", "give 16 hexadecimal digits"
        )
    round_ = Round.from_json(_get(f"{address_of(server)}/rounds/{round_id}", timeout))
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
            return read_receipt(_ask(request, timeout))
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
