"""The way of a request's reports: received, checked, and handed to the writer.

Nothing here blocks the service: bodies are received under limits and checked in threads. Little
ones and large ones go separate ways, so that large ones do not hold up the others.
"""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from privmean.local.aggregators.aggregator import Receipt
from privmean.local.aggregators.report_validation import (
    ParsedReport,
    ReportValidator,
    TooManyRefused,
)
from privmean.local.collector.request_limits import (
    EACH_BYTE,
    IN_BULK,
    NOTHING_NEW,
    WHOLE,
    Addresses,
    Limits,
    network,
)
from privmean.local.collector.store_writer import Throttle, Writer
from privmean.local.round import Round

AGAIN = {"Retry-After": "10", "Connection": "close"}  # what is still to come is not read
BUSY = "busy; send the same reports again later"
UNSURE = "not stored; send the same reports again later"


def address_of(request: Request) -> str:
    """Whom a request is from, as the limits see it."""
    return network(request.client.host if request.client else None)


class Intake:
    """Takes the bodies of requests. Receipts are given after the commit, never before."""

    def __init__(
        self,
        rounds: Mapping[bytes, Round],
        writer: Writer,
        limits: Limits,
        addresses: Addresses,
        secret: bytes | tuple[bytes, ...] | None,
    ) -> None:
        self._rounds, self._secret = rounds, secret
        self._gates: dict[bytes, ReportValidator] = {}
        self._writer, self._limits, self._addresses = writer, limits, addresses
        self._pace = Throttle()
        self._small = ThreadPoolExecutor(1, "privmean-parse-small")
        self._large = ThreadPoolExecutor(1, "privmean-parse-large")

    def close(self) -> None:
        for pool in (self._small, self._large):
            pool.shutdown(wait=False, cancel_futures=True)

    async def admit(self, address: str) -> None:
        """Lets an address wait that made too much trouble, and then refuses it."""
        if not self._addresses.welcome(address):
            await asyncio.sleep(self._limits.penalty)
            raise HTTPException(429, "too much from this address was refused; later", AGAIN)

    async def take(self, round_id: bytes, request: Request, *, json_lines: bool) -> Receipt:
        """Receive, check and store the body of a request.

        What is refused is answered late: who sends again at once is held up, and nobody else.
        """
        address = address_of(request)
        await self.admit(address)
        body = bytearray()
        try:
            try:
                await self._receive(request, address, body)
                parsed = await self._parse(round_id, bytes(body), address, json_lines)
                receipt = await self._store(round_id, parsed, len(body), request)
            finally:
                self._addresses.give_back(address, len(body))
        except HTTPException as problem:
            own = problem.status_code != 503  # then others may have brought too much
            price = WHOLE + EACH_BYTE * len(body) if own else NOTHING_NEW
            self._addresses.charge(address, price)
            await asyncio.sleep(self._limits.penalty)
            raise
        except asyncio.CancelledError:  # the service stops
            raise HTTPException(503, UNSURE) from None
        self._addresses.charge(address, cost(parsed, receipt))
        return receipt

    async def _receive(self, request: Request, address: str, body: bytearray) -> None:
        limits = self._limits
        declared = request.headers.get("content-length", "")
        length = int(declared[:20]) if declared.isdigit() else 0
        if length > limits.body:
            raise HTTPException(413, "too many reports at once")
        if not self._addresses.fits(address, length):  # before it is sent, where that is said
            raise HTTPException(503, BUSY, AGAIN)
        start = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(limits.patience) as clock:
                async for piece in request.stream():
                    body += piece
                    self._addresses.take(address, len(piece))
                    if len(body) > limits.body:
                        raise HTTPException(413, "too many reports at once")
                    if not self._addresses.fits(address):
                        raise HTTPException(503, BUSY, AGAIN)
                    clock.reschedule(start + limits.patience + len(body) / limits.pace)
        except TimeoutError:
            raise HTTPException(408, "too slow; send fewer reports at once") from None
        except ClientDisconnect:
            raise HTTPException(400, "the request has no end") from None

    def _gate(self, round_id: bytes) -> ReportValidator:
        round_ = self._rounds.get(round_id)
        if round_ is None:
            self._gates.pop(round_id, None)
            raise HTTPException(410, "the round was deleted")
        if round_.issued and not self._secret:  # its senders keep their reports
            raise HTTPException(503, "this collector has no secret for tickets; later", AGAIN)
        if round_id not in self._gates:
            self._gates[round_id] = ReportValidator(round_, secret=self._secret)
        return self._gates[round_id]

    async def _parse(
        self, round_id: bytes, body: bytes, address: str, json_lines: bool
    ) -> ParsedReport:
        gate = self._gate(round_id)
        parse = gate.parse_json if json_lines else gate.parse
        light = self._addresses.first(address, len(body))

        def work() -> ParsedReport:
            return parse(body, now=time.time(), most_odd=self._limits.odd)

        paced: Callable[[], ParsedReport] = work
        if light:
            self._pace.first()
        else:
            paced = lambda: self._pace.last(work)  # noqa: E731
        pool = self._small if light else self._large
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, paced)
        except TooManyRefused as problem:
            raise HTTPException(400, f"{problem}; nothing of the request counts") from None

    async def _store(
        self, round_id: bytes, parsed: ParsedReport, size: int, request: Request
    ) -> Receipt:
        light = self._addresses.first(address_of(request), size)
        try:
            future = self._writer.submit(round_id, parsed, size, light=light)
        except queue.Full:
            raise HTTPException(503, BUSY, AGAIN) from None
        stored = asyncio.wrap_future(future)
        if not light:
            await _unless_gone(request, stored)
        try:
            return await stored
        except (Exception, asyncio.CancelledError):
            raise HTTPException(503, UNSURE) from None


async def _end_of(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _unless_gone(request: Request, stored: asyncio.Future[Receipt]) -> None:
    """Wait, and give the work up if the sender goes away before it is done."""
    gone = asyncio.ensure_future(_end_of(request))
    try:
        both: set[asyncio.Future[Any]] = {gone, stored}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
    if not stored.done():
        stored.cancel()


def cost(parsed: ParsedReport, receipt: Receipt) -> float:
    """What a request cost that brought nothing new, or things that are no reports."""
    useless = parsed.total - receipt.accepted
    return IN_BULK * useless + (0.0 if receipt.accepted else NOTHING_NEW)
