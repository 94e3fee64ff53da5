"""What an operator asks of a running collector, with the standard library alone."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING

from privmean.errors import PrivmeanError
from privmean.local.clients.send import address_of

if TYPE_CHECKING:
    from privmean.local.aggregators.tally import Tally
    from privmean.local.round import Round

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

    def ask(self, path: str, *, method: str = "GET", body: bytes | None = None) -> bytes:
        """The answer. Raises PrivmeanError in words for a refusal or none."""
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
                return bytes(answer.read(LARGEST))
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
