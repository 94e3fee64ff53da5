"""One thread that checks and stores what all requests bring, many requests a transaction."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmean.local.aggregators.aggregator import Receipt
from privmean.local.aggregators.gate import Gate, Parsed
from privmean.local.collector.store import Offer, Outcome, Store
from privmean.local.descriptor import Round

# Reports a transaction at most; and how many may be stored before the tally is stored too.
TRANSACTION = 20_000
CHECKPOINT = 100_000
WAITING = 1 << 26  # bytes that may wait


@dataclass
class _Job:
    round_id: bytes
    stream: bytes
    json_lines: bool
    done: Future[Receipt]


class Writer(threading.Thread):
    """Stores streams of reports in order. A receipt is given after the commit, never before."""

    def __init__(self, store: Store, rounds: dict[bytes, Round], secret: bytes | None) -> None:
        super().__init__(name="privmean-writer", daemon=True)
        self._store = store
        self._gates = {key: Gate(round_, secret=secret) for key, round_ in rounds.items()}
        self._jobs: queue.Queue[_Job | None] = queue.Queue(maxsize=1024)
        self._since = dict.fromkeys(rounds, 0)
        self._bytes = 0
        self._turn = threading.Lock()

    def submit(self, round_id: bytes, stream: bytes, *, json_lines: bool) -> Future[Receipt]:
        """Queue a stream; the future holds the receipt once everything is on disk.

        Raises queue.Full when too many streams wait.
        """
        done: Future[Receipt] = Future()
        with self._turn:
            if self._bytes + len(stream) > WAITING:
                raise queue.Full
            self._jobs.put_nowait(_Job(round_id, stream, json_lines, done))
            self._bytes += len(stream)
        return done

    def stop(self) -> None:
        """Finish what is queued, store the tallies, end."""
        self._jobs.put(None)
        self.join()

    def run(self) -> None:
        running = True
        while running:
            jobs = [self._jobs.get()]
            size = 0
            while jobs[-1] is not None and size < TRANSACTION:
                size += max(1, len(jobs[-1].stream) // 43)
                try:
                    jobs.append(self._jobs.get_nowait())
                except queue.Empty:
                    break
            running = jobs[-1] is not None
            waited = [job for job in jobs if job is not None]
            with self._turn:
                self._bytes -= sum(len(job.stream) for job in waited)
            # who does not wait any more may have gone; the others cannot cancel from here on
            self._work([job for job in waited if job.done.set_running_or_notify_cancel()])
        for round_id in self._since:
            self._checkpoint(round_id)

    def _work(self, jobs: list[_Job]) -> None:
        parsed: list[Parsed] = []
        try:
            now = time.time()
            for job in jobs:
                gate = self._gates[job.round_id]
                parse = gate.parse_json if job.json_lines else gate.parse
                parsed.append(parse(job.stream, now=now))
            outcomes = self._store.write([Offer(item.batch, item.reasons()) for item in parsed])
        except Exception as error:  # nothing was stored; every waiting client must hear of it
            for job in jobs:
                job.done.set_exception(error)
            return
        for job, item, outcome in zip(jobs, parsed, outcomes, strict=True):
            job.done.set_result(_receipt(item, outcome))
            self._since[job.round_id] += len(item.batch)
        for round_id, since in self._since.items():
            if since >= CHECKPOINT:
                self._checkpoint(round_id)

    def _checkpoint(self, round_id: bytes) -> None:
        """A stored tally only saves time, so a failure here may wait for the next one."""
        try:
            self._store.checkpoint(self._gates[round_id].round)
            self._since[round_id] = 0
        except Exception:
            self._since[round_id] = CHECKPOINT // 2


def _receipt(parsed: Parsed, outcome: Outcome) -> Receipt:
    reasons: dict[str, Any] = dict(parsed.reasons())
    conflicts = int(outcome.conflict.sum())
    if conflicts:
        reasons["conflict"] = conflicts
    fresh = int(outcome.fresh.sum())
    return Receipt(fresh, int(np.sum(~outcome.fresh)) - conflicts, reasons)
