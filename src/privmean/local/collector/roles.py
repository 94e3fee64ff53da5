"""Who may administer rounds and who may read results: tokens, given by environment or file.

Only digests of tokens are kept, and a given one is compared with all of them in constant time. A
role may have several tokens, so that a new one can be handed out before the old one is withdrawn.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass

from privmean.errors import ArgumentError

SHORTEST = 16  # characters
SHAPE = re.compile(r"[!-~]+")
OPEN_DOOR = "anybody"


@dataclass(frozen=True)
class Roles:
    """The digests of the tokens of each role; an administrator may read, too."""

    administer: tuple[bytes, ...] = ()
    read: tuple[bytes, ...] = ()
    public: bool = True

    @classmethod
    def of(
        cls, administer: Iterable[str] = (), read: Iterable[str] = (), *, public: bool = False
    ) -> Roles:
        """The roles of these tokens. public: whether anybody may read results."""
        return cls(
            tuple(_digest("admin-token", token) for token in administer),
            tuple(_digest("read-token", token) for token in read),
            public,
        )

    def administrator(self, header: str) -> str:
        """The name in the audit log of who sent this Authorization header, "" for nobody."""
        return self._found(self.administer, header, "admin")

    def reader(self, header: str) -> str:
        """Who may read results with this header, "" for nobody."""
        found = self._found(self.read, header, "reader") or self.administrator(header)
        return found or (OPEN_DOOR if self.public else "")

    @staticmethod
    def _found(digests: tuple[bytes, ...], header: str, role: str) -> str:
        scheme, _, token = header.partition(" ")
        given = hashlib.sha256(token.strip().encode(errors="replace")).digest()
        matches = [hmac.compare_digest(given, digest) for digest in digests]
        if scheme.lower() != "bearer" or not any(matches):
            return ""
        return f"{role} {given.hex()[:8]}"  # tells two tokens apart, and not what they are


def _digest(name: str, token: str) -> bytes:
    if len(token) < SHORTEST or not SHAPE.fullmatch(token):
        raise ArgumentError(
            name,
            "...",
            f"must have at least {SHORTEST} letters, digits, - or _",
            "draw it: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return hashlib.sha256(token.encode()).digest()
