"""Sending reports to a collector with the standard library alone."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from privmean.errors import ArgumentError, PrivmeanError
from privmean.local.descriptor import Round

LARGEST_ANSWER = 1 << 24
LARGEST_BODY = 1 << 22  # what a collector takes in one request
SILENT = "the server does not answer; check its address"
ODD = "the server's answer cannot be read; check its address"


def _address(server: str) -> str:
    """The address without its last slash; only web addresses."""
    try:
        parts = urllib.parse.urlsplit(server)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        whole = False
    if not whole or any(sign.isspace() for sign in server):
        raise ArgumentError(
            "server", server, "is no web address", "write it with http:// or https:// in front"
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
    data = _get(f"{_address(server)}/rounds", timeout)
    try:
        result = json.loads(data)
        return [{str(key): str(value) for key, value in dict(item).items()} for item in result]
    except (TypeError, ValueError, RecursionError):
        raise PrivmeanError(ODD) from None


def fetch_round(server: str, round_id: str, *, timeout: float = 30) -> Round:
    """The description of one round; refused if it does not hash to the identifier asked for."""
    if not round_id.isalnum():
        raise ArgumentError("round_id", round_id, "is no identifier", "give 16 hexadecimal digits")
    round_ = Round.from_json(_get(f"{_address(server)}/rounds/{round_id}", timeout))
    if round_.identifier.hex() != round_id.lower():
        raise PrivmeanError("the server's description is not the round asked for; do not answer")
    return round_


def send(
    server: str, round_: Round, reports: bytes, *, timeout: float = 30, attempts: int = 5
) -> dict[str, Any]:
    """Send binary reports; the receipt of the server.

    Sends the same bytes again after an error, which the server recognises: nothing counts twice.
    """
    if len(reports) > LARGEST_BODY:
        raise ArgumentError(
            "reports", len(reports), f"bytes are more than {LARGEST_BODY}", "send fewer at once"
        )
    request = urllib.request.Request(
        f"{_address(server)}/rounds/{round_.identifier.hex()}/reports",
        data=reports,
        headers={"Content-Type": "application/octet-stream"},
    )
    for attempt in range(attempts):
        try:
            result = json.loads(_ask(request, timeout))
            if isinstance(result, dict):
                return result
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in (408, 429):
                raise PrivmeanError(f"the server refuses the request ({error.code})") from None
        except (OSError, ValueError, RecursionError, http.client.HTTPException):
            pass
        if attempt + 1 < attempts:
            time.sleep(min(8.0, 0.25 * 2**attempt))
    raise PrivmeanError("the server does not answer; try again later, the report is kept")
