"""Events on standard input to releases on standard output, with nothing lost over restarts."""

from __future__ import annotations

import hashlib
import os
import select
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from privmean.continual.eventlines import Lines, Reader
from privmean.continual.releasefile import Output, ReleaseFile, StandardOutput
from privmean.continual.stream import MeanStream
from privmean.errors import ArgumentError

CHUNK = 1 << 16
NOTHING = {"read": 0, "ids": "", "shown": 0, "nameless": 0}


class Run:
    """What a run of `run` came to: public facts for the summary."""

    def __init__(self) -> None:
        self.stopped = False
        self.unfinished = False  # whether the last line was left for the next run
        self.nameless = 0


def run(
    stream: MeanStream,
    reader: Reader,
    *,
    append: bool,
    replay: bool,
    complete: bool = True,
    output: ReleaseFile | None = None,
) -> Run:
    """Feed standard input to the stream until its end or a signal.

    Every chunk of input is one durable batch; its releases are written after that. complete: a last
    line without a line feed counts; if not, it is left, and read when it is whole.
    """
    mark = {**NOTHING, **(stream.mark or {})}
    target: Output = StandardOutput() if output is None else output
    if output is None:
        after = 0 if replay and not append else mark["shown"]
        mark["shown"] = max(mark["shown"], target.write(stream.releases(after=after)))
    else:
        output.follow(stream.releases())
    skip = 0 if append else mark["read"]
    seen = ""
    result = Run()
    with Interrupts() as interrupts:
        for lines in chunks(interrupts, result, complete=complete):
            events = reader.read(lines)
            if skip:
                past, events = events[:skip], events[skip:]
                skip -= len(past)
                for person, _ in past:
                    seen = _chain(seen, person)
                if not skip and seen != mark["ids"]:
                    raise ArgumentError(
                        "state",
                        "input",
                        "does not start with the events that were read before",
                        "give the same input again, or only new events with --append",
                    )
            if events and not stream.finished:
                for person, _ in events:
                    mark["ids"] = _chain(mark["ids"], person)
                    mark["nameless"] += person is None
                mark["read"] += len(events)
                cells = [values if len(values) > 1 else values[0] for _, values in events]
                released = stream.extend([person for person, _ in events], cells, mark)
                mark["shown"] = max(mark["shown"], target.write(released))
            if interrupts.stop or stream.finished:
                break
    if skip and not interrupts.stop:
        raise ArgumentError(
            "state",
            "input",
            f"ends {skip} events before the point that was reached",
            "give the same input again, or only new events with --append",
        )
    stream.mark = mark
    result.stopped, result.nameless = interrupts.stop, mark["nameless"]
    return result


def chunks(interrupts: Interrupts, result: Run, *, complete: bool) -> Iterator[list[bytes]]:
    """Whole lines of standard input as they become available, until its end or a signal."""
    lines = Lines()
    source = stdin()
    while True:
        if not interrupts.wait_for(source):
            return
        data = os.read(source, CHUNK)
        if not data:
            break
        if whole := lines.take(data):
            yield whole
    if rest := lines.rest():
        result.unfinished = not complete
        if complete:
            yield [rest]


def stdin() -> int:
    """The descriptor that events are read from."""
    return sys.stdin.fileno()


class Interrupts:
    """Ctrl-C and termination stop the stream between batches, never within one.

    Signals only set a flag and wake `wait_for`, so that nothing that was read is ever dropped.
    """

    def __init__(self) -> None:
        self.stop = False
        self._before: dict[int, Any] = {}
        self._wake = (-1, -1)

    def __enter__(self) -> Interrupts:
        self._wake = os.pipe()
        os.set_blocking(self._wake[1], False)
        self._before_fd = signal.set_wakeup_fd(self._wake[1])
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._before_fd)
        for end in self._wake:
            os.close(end)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.stop = True

    def wait_for(self, source: int) -> bool:
        """Wait until `source` can be read; False if a signal came."""
        if not self.stop:
            select.select([source, self._wake[0]], [], [])
        return not self.stop


def _chain(before: str, person: str | None) -> str:
    """A running fingerprint of the ids read so far. Ids are public; values do not enter."""
    return hashlib.sha256(f"{before}\n{person!r}".encode()).hexdigest()


def summary(stream: MeanStream, run: Run) -> str:
    """What happened, in public facts."""
    guarantee = stream.guarantee
    lines = [
        f"{'stopped' if run.stopped else 'done'}: {stream.arrivals} events, {stream.steps} steps, "
        f"{stream.records} records in the mean, {stream.waiting} waiting",
        f"promise: {guarantee.describe()} for one {guarantee.unit}, {guarantee.relation}; "
        f"{guarantee.note}",
        f"method: {stream.plan.why}",
        f"planned: {stream.plan.outlook}",
    ]
    if run.nameless:
        some = "no line had a" if not stream.arrivals else f"{run.nameless} lines had no"
        lines.append(f"{some} readable id: not events, and counted nowhere; check --person")
    if run.unfinished:
        lines.append(
            "the last line has no line feed and was left for the next run; if the input is "
            "complete, say --complete"
        )
    if not stream.secure:
        lines.insert(0, "*** SIMULATED NOISE: not private, for tests and studies only ***")
    if stream.region is None and stream.plan.search is not None:
        lines.append(
            f"nothing was released: the clipping radius is found when {stream.plan.search.persons} "
            "persons have come; give --clip or --bounds to start at once"
        )
    if stream.finished:
        lines.append(f"the horizon of {stream.steps} steps is reached; later events are not used")
    return "\n".join(lines)
