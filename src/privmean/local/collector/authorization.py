"""What every route asks first: which round, and who may do this."""

from __future__ import annotations

import asyncio
import time

from fastapi import HTTPException, Request

from privmean.local.collector.receive_reports import Intake, address_of
from privmean.local.collector.request_limits import READING, WHOLE, Addresses, Limits
from privmean.local.collector.roles import Roles
from privmean.local.collector.round_catalog import RoundCatalog
from privmean.local.round import Round

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
