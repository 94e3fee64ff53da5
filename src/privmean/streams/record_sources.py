"""Where events come from: standard input, a file that grows, a folder of parts, a Kafka topic.

A source gives batches of events and, with each, what it has to know to go on after it. All of that
is public: ids, order and number of events, names of files, offsets.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from privmean.errors import ArgumentError
from privmean.streams.coerce_records import person_name
from privmean.streams.record_lines import InputRecord, Lines, Reader

CHUNK = 1 << 16
POLL = 0.2  # seconds between two looks at what may have grown

Batch = tuple[list[InputRecord], dict[str, Any]]


class Source(Protocol):
    """Gives events in order."""

    resumes: bool  # whether it gives what was not read yet, else all from the beginning
    unfinished: bool  # whether a last line was left for the next run

    def batches(self, interrupts: Interrupts, note: dict[str, Any]) -> Iterator[Batch]:
        """Events, and the note after them. note: that of the last batch of an earlier run."""
        ...


def stdin() -> int:
    """The descriptor that events are read from."""
    return sys.stdin.fileno()


class StandardInput:
    """Whole lines of standard input as they become available, until its end or a signal.

    complete: a last line without a line feed counts; if not, it is left, and read when it is whole.
    """

    resumes = False

    def __init__(self, reader: Reader, *, complete: bool) -> None:
        self.unfinished = False
        self._reader, self._complete = reader, complete

    def batches(self, interrupts: Interrupts, note: dict[str, Any]) -> Iterator[Batch]:
        del note
        lines = Lines()
        source = stdin()
        while True:
            if not interrupts.wait_for(source):
                return
            data = os.read(source, CHUNK)
            if not data:
                break
            if whole := lines.take(data):
                yield self._reader.read(whole), {}
        if rest := lines.rest():
            self.unfinished = not self._complete
            if self._complete:
                yield self._reader.read([rest]), {}


class GrowingFile:
    """A file that others append lines to, followed until a signal, or until it rests for a while.

    idle: seconds without a new line after which the run ends; None: never.
    """

    resumes = False

    def __init__(self, path: str | os.PathLike[str], reader: Reader, idle: float | None) -> None:
        self.unfinished = False
        self._path, self._reader, self._idle = Path(path), reader, idle
        if self._path.is_dir():
            raise ArgumentError("follow", str(path), "is a folder", "name a file, or use --parts")

    def batches(self, interrupts: Interrupts, note: dict[str, Any]) -> Iterator[Batch]:
        del note
        lines, rested = Lines(), time.monotonic()
        while not self._path.exists():
            if _rest(interrupts, rested, self._idle):
                return
        with open(self._path, "rb") as file:
            while not interrupts.stop:
                data = file.read(CHUNK)
                if data:
                    rested = time.monotonic()
                    if whole := lines.take(data):
                        yield self._reader.read(whole), {}
                    continue
                if os.fstat(file.fileno()).st_size < file.tell():
                    raise ArgumentError(
                        "follow",
                        str(self._path),
                        "became shorter while it was read",
                        "follow only files that grow",
                    )
                if _rest(interrupts, rested, self._idle):
                    break
        self.unfinished = bool(lines.rest())


class Parts:
    """Parquet files of a folder in the order of their arrival (time of change, then name).

    A part is read once, when it is whole: write it elsewhere or under a name that begins with a dot
    or an underscore, and rename it. Names of parts are noted, so that a run that goes on reads them
    in the same order; parts that were read to their end by then are not missed when they are gone.
    """

    resumes = True
    unfinished = False

    def __init__(
        self,
        folder: str | os.PathLike[str],
        columns: tuple[str, list[str], list[str]],
        idle: float | None,
    ) -> None:
        self._folder, self._columns, self._idle = Path(folder), columns, idle
        if not self._folder.is_dir():
            raise ArgumentError("parts", str(folder), "is not a folder", "name a folder")

    def batches(self, interrupts: Interrupts, note: dict[str, Any]) -> Iterator[Batch]:
        from privmean.data.parquet_rows import rows_of

        person, values, public = self._columns
        done: list[str] = list(note.get("parts", ()))
        open_at = int(note.get("rows", 0))  # rows read of the last one; 0: all
        rested = time.monotonic()
        while not interrupts.stop:
            waiting = done[-1:] if open_at else []
            for name in [*waiting, *self._arrived(done)]:
                if not open_at:
                    done.append(name)
                path = self._folder / name
                for rows, more in rows_of(path, person, values, public, skip=open_at):
                    open_at = open_at + len(rows) if more else 0
                    events = [InputRecord(person_name(who), *rest) for who, rest in rows]
                    yield events, {"parts": list(done), "rows": open_at}
                    if not interrupts.pause(0):
                        return
                open_at = 0
                rested = time.monotonic()
            if _rest(interrupts, rested, self._idle):
                return

    def _arrived(self, done: list[str]) -> list[str]:
        known, found = set(done), []
        for item in os.scandir(self._folder):
            named = item.name.endswith(".parquet") and item.name[0] not in "._"
            if named and item.name not in known:
                with suppress(FileNotFoundError):  # gone since it was listed
                    found.append((item.stat().st_mtime_ns, item.name))
        return [name for _, name in sorted(found)]


class KafkaTopic:
    """Messages of a Kafka topic, one event each; needs the extra `kafka`.

    Offsets are noted with the events, not committed: a stream that goes on reads each message once.
    Order is that in which the partitions deliver, and public.
    """

    resumes = True
    unfinished = False

    def __init__(self, place: str, reader: Reader, idle: float | None) -> None:
        self._servers, _, self._topic = place.rpartition("/")
        self._reader, self._idle = reader, idle
        if not self._servers or not self._topic:
            raise ArgumentError("kafka", place, "is not HOST:PORT/TOPIC", "give both")

    def batches(self, interrupts: Interrupts, note: dict[str, Any]) -> Iterator[Batch]:
        try:
            from confluent_kafka import Consumer, KafkaException, TopicPartition
        except ImportError:
            raise ArgumentError(
                "kafka", self._topic, "requires confluent-kafka", "install privmean[kafka]"
            ) from None
        offsets: dict[str, int] = dict(note.get("offsets", {}))
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "privmean",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            known = consumer.list_topics(self._topic, timeout=30).topics[self._topic]
            if known.error is not None:
                raise ArgumentError("kafka", self._topic, str(known.error), "name a topic")
            begin = {int(item): offsets.get(str(item), 0) for item in known.partitions}
            consumer.assign([TopicPartition(self._topic, *pair) for pair in begin.items()])
            rested = time.monotonic()
            while not interrupts.stop:
                messages = [
                    item for item in consumer.consume(1000, timeout=POLL) if item.error() is None
                ]
                if messages:
                    rested = time.monotonic()
                    events = []
                    for item in messages:
                        offsets[str(item.partition())] = item.offset() + 1
                        line = (item.value() or b"").replace(b"\n", b" ")
                        events += self._reader.read([line])
                    yield events, {"offsets": dict(offsets)}
                elif _rest(interrupts, rested, self._idle):
                    return
        except KafkaException as problem:
            raise ArgumentError(
                "kafka", self._servers, f"cannot be read: {problem}", "check servers and topic"
            ) from None
        finally:
            consumer.close()


def _rest(interrupts: Interrupts, since: float, idle: float | None) -> bool:
    """Wait a moment; whether the run is over."""
    if idle is not None and time.monotonic() - since >= idle:
        return True
    return not interrupts.pause(POLL)


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

    def pause(self, seconds: float) -> bool:
        """Wait; False if a signal came."""
        if not self.stop:
            select.select([self._wake[0]], [], [], seconds)
        return not self.stop
