"""The parts of one collector process: its settings, its tokens, and what every route asks first.

Only digests of tokens are kept, and a given one is compared with all of them in constant time. A
role may have several tokens, so that a new one can be handed out before the old one is withdrawn.
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
from privmean.collector.receive_reports import Intake, Writer, address_of
from privmean.collector.request_limits import READING, WHOLE, Addresses, Limits, OpenConnections
from privmean.collector.round_catalog import Housekeeper, Log, Metrics, Retention, RoundCatalog
from privmean.collector.store import Answers, Store
from privmean.errors import ArgumentError
from privmean.local.aggregators.aggregator import require_secret
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


class Collector:
    """The parts of one service process, and the guards of its routes."""

    def __init__(self, rounds: Iterable[Round], database: str, settings: Settings) -> None:
        self.settings, self.limits, self.log = settings, settings.limits, settings.log
        self.metrics = Metrics()
        offered = list(rounds)
        require_secret(offered, settings.secrets)
        self.store = Store(database)
        taken = {item.digest for item in self.store.register(offered)}
        for item in [item for item in offered if item.digest not in taken]:
            self.log.action("not offered: it was deleted", round=item.identifier.hex())
        self.catalogue = RoundCatalog(self.store)
        for mark, known in self.catalogue.entries.items():
            if known.round.issued and not settings.secrets and known.takes_reports(time.time()):
                self.log.action("takes no reports: no secret for its tickets", round=mark.hex())
        self.answers = Answers(self.store)
        self.keeper = Housekeeper(self.catalogue, self.store, settings.retention, self.log)
        rounds_now = self.catalogue.rounds
        self.writer = Writer(self.store, rounds_now, self.keeper.fresh.add)
        self.addresses, self.crowd = Addresses(self.limits), OpenConnections(self.limits)
        self.intake = Intake(rounds_now, self.writer, self.limits, self.addresses, settings.secrets)

    def close(self) -> None:
        self.keeper.stop()
        self.intake.close()
        self.writer.stop()
        self.store.close()

    def round(self, round_id: str) -> Round:
        """The round of this name; HTTP 404, or 410 for one that was deleted."""
        try:
            key = bytes.fromhex(round_id)
        except ValueError:
            key = b""
        found = self.catalogue.rounds.get(key)
        if found is None:
            gone = key in self.catalogue.gone
            raise HTTPException(
                410 if gone else 404, "the round was deleted" if gone else "no such round"
            )
        return found

    def state(self, round_: Round) -> str:
        """Whether it takes reports."""
        entry = self.catalogue.entries.get(round_.identifier)
        return "open" if entry is not None and entry.takes_reports(time.time()) else "closed"

    async def reader(self, request: Request) -> None:
        """Only who may read results passes, at the pace of the limits."""
        address = address_of(request)
        await self.intake.admit(address)
        if not self.settings.roles.reader(request.headers.get("authorization", "")):
            await self._refuse(address)
        self.addresses.charge(address, READING)

    async def administrator(self, request: Request) -> str:
        """Only who may administer passes; the name for the audit log."""
        address = address_of(request)
        await self.intake.admit(address)
        name = self.settings.roles.administrator(request.headers.get("authorization", ""))
        if not name:
            await self._refuse(address)
        return name

    async def _refuse(self, address: str) -> None:
        """Late, so that tokens cannot be tried at speed."""
        self.addresses.charge(address, WHOLE)
        await asyncio.sleep(self.limits.penalty)
        raise HTTPException(401, "a token is needed, or this one is none", CHALLENGE)
