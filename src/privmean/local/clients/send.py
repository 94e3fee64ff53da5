"""Sending reports to a collector with the standard library alone."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

from privmean.errors import PrivmeanError
from privmean.local.descriptor import Round


def _ask(request: str | urllib.request.Request, timeout: float) -> bytes:
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return bytes(answer.read())


def _get(address: str, timeout: float) -> bytes:
    try:
        return _ask(address, timeout)
    except OSError:
        raise PrivmeanError("the server does not answer; check its address") from None


def fetch_rounds(server: str, *, timeout: float = 30) -> list[dict[str, str]]:
    """The rounds that a collector offers: round, digest, title, mechanism."""
    result: list[dict[str, str]] = json.loads(_get(f"{server.rstrip('/')}/rounds", timeout))
    return result


def fetch_round(server: str, round_id: str, *, timeout: float = 30) -> Round:
    """The description of one round; refused if it does not hash to the identifier asked for."""
    round_ = Round.from_json(_get(f"{server.rstrip('/')}/rounds/{round_id}", timeout))
    if round_.identifier.hex() != round_id:
        raise PrivmeanError("the server's description is not the round asked for; do not answer")
    return round_


def send(
    server: str, round_: Round, reports: bytes, *, timeout: float = 30, attempts: int = 5
) -> dict[str, Any]:
    """Send binary reports; the receipt of the server.

    Sends the same bytes again after an error, which the server recognises: nothing counts twice.
    """
    request = urllib.request.Request(
        f"{server.rstrip('/')}/rounds/{round_.identifier.hex()}/reports",
        data=reports,
        headers={"Content-Type": "application/octet-stream"},
    )
    for attempt in range(attempts):
        try:
            result: dict[str, Any] = json.loads(_ask(request, timeout))
            return result
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise PrivmeanError(f"the server refuses the request ({error.code})") from None
        except OSError:
            pass
        if attempt + 1 < attempts:
            time.sleep(min(8.0, 0.25 * 2**attempt))
    raise PrivmeanError("the server does not answer; try again later, the report is kept")
