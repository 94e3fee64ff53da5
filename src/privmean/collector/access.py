"""Who may administer rounds and who may read results: tokens, given by environment or file.

Only digests of tokens are kept, and a given one is compared with all of them in constant time. A
role may have several tokens, so that a new one can be handed out before the old one is withdrawn.

What the operator of a collector settles.

What every route asks first: which round, and who may do this.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fastapi import HTTPException, Request

from privmean import validate
from privmean.collector.receive_reports import Intake, address_of
from privmean.collector.request_limits import READING, WHOLE, Addresses, Limits
from privmean.collector.round_catalog import Log, Retention, RoundCatalog
from privmean.errors import ArgumentError
from privmean.local.round import Round

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


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything but the rounds and the database.

    secrets: of the tickets, the newest first. roles: who may administer and read; without them
    anybody may read and nobody administer. retention: how long reports are kept. origins: of web
    pages that may send reports besides the collector's own. certfile, keyfile: PEM files for TLS.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    secrets: tuple[bytes, ...] = ()
    limits: Limits = field(default_factory=Limits)
    roles: Roles = field(default_factory=Roles)
    retention: Retention = field(default_factory=Retention)
    log: Log = field(default_factory=Log)
    origins: tuple[str, ...] = ()
    certfile: Path | None = None
    keyfile: Path | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "port", validate.whole("port", self.port, most=65535))
        if not self.host:
            raise ArgumentError("host", self.host, "is empty", "use 0.0.0.0 for every address")
        for origin in self.origins:
            if origin != "*" and not re.fullmatch(r"https?://[^/?#\s]+", origin):
                raise ArgumentError(
                    "origin",
                    origin,
                    "is not a web origin",
                    "write https://HOST, and :PORT if it has one",
                )


CHALLENGE = {"WWW-Authenticate": "Bearer"}


class Authorization:
    """The guards of a service."""

    def __init__(
        self,
        roles: Roles,
        catalogue: RoundCatalog,
        intake: Intake,
        addresses: Addresses,
        limits: Limits,
    ) -> None:
        self._roles, self._catalogue = roles, catalogue
        self._intake, self._addresses, self._limits = intake, addresses, limits

    def round(self, round_id: str) -> Round:
        """The round of this name; HTTP 404, or 410 for one that was deleted."""
        try:
            key = bytes.fromhex(round_id)
        except ValueError:
            key = b""
        found = self._catalogue.rounds.get(key)
        if found is None:
            gone = key in self._catalogue.gone
            raise HTTPException(410 if gone else 404, "the round was deleted" if gone else NONE)
        return found

    def state(self, round_: Round) -> str:
        """Whether it takes reports."""
        entry = self._catalogue.entries.get(round_.identifier)
        return "open" if entry is not None and entry.takes_reports(time.time()) else "closed"

    async def reader(self, request: Request) -> None:
        """Only who may read results passes, at the pace of the limits."""
        address = address_of(request)
        await self._intake.admit(address)
        if not self._roles.reader(request.headers.get("authorization", "")):
            await self._refuse(address)
        self._addresses.charge(address, READING)

    async def administrator(self, request: Request) -> str:
        """Only who may administer passes; the name for the audit log."""
        address = address_of(request)
        await self._intake.admit(address)
        name = self._roles.administrator(request.headers.get("authorization", ""))
        if not name:
            await self._refuse(address)
        return name

    async def _refuse(self, address: str) -> None:
        """Late, so that tokens cannot be tried at speed."""
        self._addresses.charge(address, WHOLE)
        await asyncio.sleep(self._limits.penalty)
        raise HTTPException(401, "a token is needed, or this one is none", CHALLENGE)


NONE = "no such round"
