"""The way of a request's reports: received, checked, and stored.

Nothing here blocks the service: bodies are received under limits and checked in threads, and one
thread stores what all requests bring, many requests a transaction. Little ones and large ones go
separate ways, so that large ones do not hold up the others.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from privmean.collector.request_limits import (
    EACH_BYTE,
    IN_BULK,
    NOTHING_NEW,
    WHOLE,
    Addresses,
    Limits,
    network,
)
from privmean.collector.store import Offer, Outcome, Store
from privmean.local.aggregators.aggregator import (
    ParsedReport,
    Receipt,
    ReportValidator,
    TooManyRefused,
)
from privmean.local.round import Round

T = TypeVar("T")

SHARE = 6  # seconds of rest for each second of work that can wait
RECENT = 1.0  # seconds after which the other kind of work counts as over


class Throttle:
    """While urgent work comes in, other work rests six times as long as it worked.

    So it gets a seventh of the time when there is much of both, and all of it when it is alone.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._urgent = float("-inf")
        self._free = float("-inf")
        self._wake = threading.Event()

    def first(self) -> None:
        """Urgent work has come."""
        self._urgent = self._clock()

    def rest(self) -> float:
        """How long other work should still wait."""
        now = self._clock()
        return max(0.0, self._free - now) if now - self._urgent < RECENT else 0.0

    def worked(self, seconds: float) -> None:
        """Other work took so long."""
        self._free = self._clock() + SHARE * seconds

    def last(self, work: Callable[[], T]) -> T:
        """Do other work now that its turn has come; waits before it."""
        while (rest := self.rest()) > 0:
            self._wake.wait(min(rest, RECENT))
        start = self._clock()
        try:
            return work()
        finally:
            self.worked(self._clock() - start)


# Reports a transaction at most, and of a request that can wait; and how many may be stored before
# the tally is stored too.
TRANSACTION, PART = 20_000, 2_000
CHECKPOINT = 100_000
WAITING = 1 << 26  # bytes that may wait


@dataclass
class _Job:
    """Checked reports on their way, how far they were stored, and what became of them."""

    round_id: bytes
    parsed: ParsedReport
    size: int
    done: Future[Receipt]
    light: bool
    stored: int = 0
    fresh: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def rest(self) -> int:
        return len(self.parsed.batch) - self.stored


class Writer(threading.Thread):
    """Stores checked reports. A receipt is given after the last commit, never before.

    Light requests go first, in order, many in one transaction. Of the others a part is stored at a
    time, each in turn, and at the pace of `Pace`: whoever brings very much, or the same again and
    again, does not hold up those who bring little. What was stored of a request that fails stays
    stored: its sender hears of the failure and sends it again, and nothing counts twice.
    """

    def __init__(
        self,
        store: Store,
        rounds: Mapping[bytes, Round],
        stored: Callable[[bytes], object] = lambda _: None,
    ) -> None:
        super().__init__(name="privmean-writer", daemon=True)
        self._store = store
        self._rounds = rounds
        self._light: deque[_Job] = deque()
        self._heavy: deque[_Job] = deque()
        self._stored = stored  # called with a round in which reports were stored
        self._since: Counter[bytes] = Counter()
        self._bytes = 0
        self._open = True
        self._changed = threading.Condition()
        self._pace = Throttle()

    def submit(
        self, round_id: bytes, parsed: ParsedReport, size: int, *, light: bool = True
    ) -> Future[Receipt]:
        """Queue checked reports; the future holds the receipt once everything is on disk.

        size: the bytes they came in. Raises queue.Full when too many wait.
        """
        job = _Job(round_id, parsed, size, Future(), light)
        with self._changed:
            if self._bytes + size > WAITING:
                raise queue.Full
            (self._light if light else self._heavy).append(job)
            self._bytes += size
            self._changed.notify()
        return job.done

    @property
    def waiting(self) -> int:
        """Bytes that are queued."""
        return self._bytes

    def stop(self) -> None:
        """Finish what is light, store the tallies, end. The others hear that all is not stored."""
        with self._changed:
            self._open = False
            self._changed.notify()
        self.join()

    def run(self) -> None:
        while parts := self._next():
            self._work(parts)
        for job in self._heavy:
            self._fail(job, InterruptedError("the service stops"))
        for round_id in list(self._since):
            self._checkpoint(round_id)

    def _next(self) -> list[tuple[_Job, int]]:
        """The next transaction: jobs, with how many reports of each. Nothing: all is done."""
        with self._changed:
            while True:
                if self._light:
                    self._pace.first()
                rest = self._pace.rest()
                if self._heavy and self._open and rest <= 0:
                    job = self._heavy.popleft()
                    return [(job, min(PART, job.rest()))]
                if self._light:
                    return self._many()
                if not self._open:
                    return []
                self._changed.wait(rest if self._heavy else None)

    def _many(self) -> list[tuple[_Job, int]]:
        jobs: list[tuple[_Job, int]] = []
        size = 0
        while self._light and size < TRANSACTION:
            job = self._light.popleft()
            size += max(1, job.rest())
            jobs.append((job, job.rest()))
        return jobs

    def _work(self, parts: list[tuple[_Job, int]]) -> None:
        going = [(job, number) for job, number in parts if self._awaited(job, number)]
        start = time.monotonic()
        try:
            outcomes = self._store.write([_offer(job, number) for job, number in going])
        except Exception as error:  # every waiting client must hear of it
            for job, _ in going:
                self._fail(job, error)
            return
        spent = time.monotonic() - start
        for (job, number), outcome in zip(going, outcomes, strict=True):
            self._count(job, number, outcome)
        if not all(job.light for job, _ in going):
            self._pace.worked(spent)
        for round_id, since in list(self._since.items()):
            if since >= CHECKPOINT:
                self._checkpoint(round_id)

    def _awaited(self, job: _Job, number: int) -> bool:
        """Whether somebody still waits for it. Until its last part a sender may go away."""
        last = number == job.rest()
        here = job.done.set_running_or_notify_cancel() if last else not job.done.cancelled()
        if not here:
            self._end(job)
        return here

    def _fail(self, job: _Job, error: BaseException) -> None:
        done = self._end(job)
        if done.running() or done.set_running_or_notify_cancel():
            done.set_exception(error)

    def _end(self, job: _Job) -> Future[Receipt]:
        with self._changed:
            self._bytes -= job.size
        return job.done

    def _count(self, job: _Job, number: int, outcome: Outcome) -> None:
        fresh = int(outcome.fresh.sum())
        job.stored += number
        job.fresh += fresh
        job.refused += outcome.refused()
        if fresh:
            self._since[job.round_id] += fresh
            self._stored(job.round_id)
        if job.rest():
            with self._changed:
                self._heavy.append(job)
            return
        reasons = dict(job.parsed.refused + job.refused)
        again = len(job.parsed.batch) - job.fresh - job.refused.total()
        self._end(job).set_result(Receipt(job.fresh, again, reasons))

    def _checkpoint(self, round_id: bytes) -> None:
        """A stored tally only saves time, so a failure here may wait for the next one."""
        if round_id not in self._rounds:  # deleted meanwhile
            del self._since[round_id]
            return
        try:
            self._store.checkpoint(self._rounds[round_id])
            self._since[round_id] = 0
        except Exception:
            self._since[round_id] = CHECKPOINT // 2


def _offer(job: _Job, number: int) -> Offer:
    """The next reports of a request; its refusals are counted along with the first."""
    batch = job.parsed.batch
    if number < len(batch):
        batch = batch.take(slice(job.stored, job.stored + number))
    return Offer(batch, Counter() if job.stored else job.parsed.refused)


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
