"""Writing to the store, at a pace that it can hold.

Work that can wait takes turns with work that cannot.

One thread that stores what all requests bring, many requests a transaction.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from privmean.local.aggregators.aggregator import Receipt
from privmean.local.aggregators.report_validation import ParsedReport
from privmean.local.collector.store import Offer, Outcome, Store
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
        reasons = dict(job.parsed.reasons() + job.refused)
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
    return Offer(batch, Counter() if job.stored else job.parsed.reasons())
