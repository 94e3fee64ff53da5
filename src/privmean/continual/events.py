"""Events on standard input to releases on standard output, with nothing lost over restarts."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import select
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from privmean import validate
from privmean.continual.release import StreamRelease
from privmean.continual.rows import person_name
from privmean.continual.stream import MeanStream
from privmean.errors import ArgumentError, SchemaError

CHUNK = 1 << 16
Event = tuple[str | None, list[Any]]


class Reader:
    """Lines to (person, values). A line whose person cannot be read has person None.

    What is not a number becomes a missing value; the text of a value never raises and never
    decides whether its event counts.
    """

    def __init__(self, person: str, values: tuple[str, ...], kind: str = "auto") -> None:
        self.person = person
        self.values = values
        self.kind = validate.choice("format", kind, ["auto", "jsonl", "csv"])
        self._columns: list[int] | None = None
        self._first = True

    def read(self, lines: list[str]) -> list[Event]:
        """The events of some lines (blank ones and the CSV header are none)."""
        events: list[Event] = []
        for line in lines:
            if not line.strip():
                continue
            if self.kind == "auto":
                self.kind = "jsonl" if line.lstrip().startswith("{") else "csv"
            event = self._json(line) if self.kind == "jsonl" else self._csv(line)
            if event is not None:
                events.append(event)
            self._first = False
        return events

    def _json(self, line: str) -> Event:
        try:
            record = json.loads(line, parse_int=_whole)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            record = {}
        missing = [key for key in (self.person, *self.values) if key not in record]
        if self._first and missing:
            raise SchemaError(
                f"the first event has no {missing[0]!r}; name the keys with --person and --value"
            )
        name = record.get(self.person)
        known = isinstance(name, str | int | float) and not isinstance(name, bool)
        person = person_name(name) if known else None
        return person, [record.get(key) for key in self.values]

    def _csv(self, line: str) -> Event | None:
        try:
            cells = next(csv.reader([line]), [])
        except csv.Error:
            cells = line.split(",")
        if self._columns is None:
            names = [cell.strip().lstrip("\ufeff") for cell in cells]
            missing = [key for key in (self.person, *self.values) if key not in names]
            if missing:
                raise SchemaError(
                    f"the header has no column {missing[0]!r}; it has {', '.join(names)}"
                )
            self._columns = [names.index(key) for key in (self.person, *self.values)]
            return None
        found = [cells[i] if i < len(cells) else None for i in self._columns]
        return found[0] or None, found[1:]


def _whole(text: str) -> int | float:
    # very long integers must not raise: they are (infinitely) large values
    return int(text) if len(text) < 400 else float(text)


def run(stream: MeanStream, reader: Reader, *, append: bool, replay: bool) -> bool:
    """Feed standard input to the stream; True if it was stopped by a signal.

    Every chunk of input is one durable batch; its releases are written after that.
    """
    mark = stream.mark or {"read": 0, "ids": "", "shown": 0}
    output = Output(stream, mark)
    output.write(stream.releases(after=0 if replay and not append else mark["shown"]))
    skip = 0 if append else mark["read"]
    seen = ""
    with Interrupts() as interrupts:
        for lines in chunks(interrupts):
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
                mark["read"] += len(events)
                cells = [values if len(values) > 1 else values[0] for _, values in events]
                output.write(stream.extend([person for person, _ in events], cells, mark))
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
    return interrupts.stop


class Output:
    """Releases to standard output, flushed; remembers what was shown."""

    def __init__(self, stream: MeanStream, mark: dict[str, Any]) -> None:
        self.stream = stream
        self.mark = mark

    def write(self, releases: Any) -> None:
        shown = 0
        for release in releases:
            sys.stdout.write(line_of(release))
            shown = release.step
        if shown:
            sys.stdout.flush()
            self.mark["shown"] = max(self.mark["shown"], shown)


def line_of(release: StreamRelease) -> str:
    """One line of JSON."""
    return json.dumps(release.to_dict()) + "\n"


def chunks(interrupts: Interrupts) -> Iterator[list[str]]:
    """Whole lines of standard input as they become available, until its end or a signal."""
    rest = b""
    source = stdin()
    while True:
        if not interrupts.wait_for(source):
            return
        data = os.read(source, CHUNK)
        if not data:
            break
        *whole, rest = (rest + data).split(b"\n")
        if whole:
            yield [line.decode("utf-8", "replace") for line in whole]
    if rest:
        yield [rest.decode("utf-8", "replace")]


def stdin() -> int:
    """The descriptor that events are read from."""
    return sys.stdin.fileno()


def silence() -> None:
    """Send what is still buffered for a closed pipe to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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


def summary(stream: MeanStream, stopped: bool) -> str:
    """What happened, in public facts."""
    guarantee = stream.guarantee
    lines = [
        f"{'stopped' if stopped else 'done'}: {stream.arrivals} events, {stream.steps} steps, "
        f"{stream.records} records in the mean, {stream.waiting} waiting",
        f"promise: {guarantee.describe()} for one {guarantee.unit}, {guarantee.relation}; "
        f"{guarantee.note}",
        f"method: {stream.plan.why}",
    ]
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
