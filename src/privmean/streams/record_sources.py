"""Where the records of a stream come from: lines of events, and the sources that give them.

A line that has an id is an event, whatever the text of its values: what is not a number is a
missing value. A line without a readable id, or without the group or the time that a stream asks
for, is no event; such lines are counted. Texts are read by the rules of `privmean.data.text_record`
and become ids and rows of doubles, silently and by fixed rules.

A source gives batches of events and, with each, what it has to know to go on after it. All of that
is public: ids, order and number of events, names of files, offsets.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.data.text_record import (
    LONGEST,
    TextFormat,
    csv_fields,
    ended_line,
    json_fields,
    number,
)
from privmean.errors import ArgumentError, SchemaError


def person_name(person: object) -> str | None:
    """The id as text; None for a missing one (None, NaN, NaT, NA). 5 and 5.0 are one person."""
    if person is None or _missing(person):
        return None
    if isinstance(person, float | np.floating):
        return str(int(person)) if person.is_integer() else repr(float(person))
    return str(person)


def _missing(person: object) -> bool:
    """NaN of any kind and NaT differ from themselves; NA does not say whether it does."""
    try:
        return bool(person != person)  # noqa: PLR0124
    except TypeError:
        return True
    except (ValueError, ArithmeticError):  # an array, a signalling NaN
        return False


def require_listed(name: str, values: object) -> None:
    """Refuse what has no items, without showing it: it may be a private value."""
    if not hasattr(values, "__len__"):
        kind = type(values).__name__
        raise ArgumentError(name, kind, "is not a list", "give a list with one item per record")


def as_rows(values: Collection[object], dimension: int) -> Floats:
    """Rows of doubles, shape (m, d); whatever is not a number becomes NaN, silently."""
    require_listed("values", values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiu":
        rows = values.astype(np.float64)
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or rows.shape[1] != dimension:
            raise ArgumentError(
                "values", values.shape, f"must be rows of {dimension} numbers", "reshape"
            )
        return rows
    if dimension == 1 and len(values) == 1:
        (value,) = values
        if isinstance(value, float):  # of NumPy, too
            return np.array([[value]])
    rows = np.full((len(values), dimension), np.nan)
    for index, value in enumerate(values):
        cells = value if isinstance(value, list | tuple | np.ndarray) else [value]
        if isinstance(cells, np.ndarray):
            if cells.ndim == 0:  # an array that has no length
                cells = cells.reshape(1)
            if cells.ndim == 1 and cells.dtype.kind in "fiu":
                if len(cells) == dimension:
                    rows[index] = cells  # as `as_number` would, cell by cell
                continue
        if len(cells) == dimension:
            rows[index] = [as_number(cell) for cell in cells]
    return rows


def as_number(value: Any) -> float:
    """The value as a double; NaN for anything else. Never raises."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
    except OverflowError:
        return float("-inf") if value < 0 else float("inf")


def plain(values: object) -> Any:
    """As it looks after a round trip through JSON."""
    return json.loads(json.dumps(values, default=repr))


class InputRecord(NamedTuple):
    """One arrival: who, the values, and the texts of further public keys (a group, a time)."""

    person: str | None
    values: list[float | None]
    public: tuple[str | None, ...] = ()


class Reader:
    """Lines to events. A line whose person cannot be read has person None.

    kind: jsonl, csv, or auto: the first sign of the first line tells. CSV has a header. Nothing is
    raised because of an event, the first one included: only a header can lack a column. public:
    further keys whose texts are read as they are.
    """

    def __init__(
        self,
        person: str,
        values: tuple[str, ...],
        kind: str = "auto",
        form: TextFormat | None = None,
        public: tuple[str, ...] = (),
    ) -> None:
        self.person = person
        self.values = values
        self.public = public
        self.kind = validate.choice("format", kind, ["auto", "jsonl", "csv"])
        self._form = form or TextFormat()
        sign = re.escape(self._form.quote.encode() or b'"')
        # a field in quotes, and what follows up to the delimiter
        self._enclosed = re.compile(b"%b[^%b]*+(?:%b%b[^%b]*+)*+%b[^%b]*+" % ((sign,) * 7))
        self._columns: list[int] | None = None
        self._width = 0

    def read(self, lines: list[bytes]) -> list[InputRecord]:
        """The events of some lines without their ends (blank ones and the header are none)."""
        events: list[InputRecord] = []
        for line in lines:
            if not line.strip():
                continue
            if self.kind == "auto":
                start = line.removeprefix(b"\xef\xbb\xbf").lstrip()
                self.kind = "jsonl" if start.startswith(b"{") else "csv"
            if self.kind == "jsonl":
                texts = self._fields(line.removeprefix(b"\xef\xbb\xbf"))
            elif self._columns is None:
                self._columns = self._header(line)
                continue
            else:
                texts = self._cells(line)
            last = 1 + len(self.values)
            numbers = [number(text, self._form) for text in texts[1:last]]
            events.append(InputRecord(person_name(texts[0]), numbers, tuple(texts[last:])))
        return events

    def _fields(self, line: bytes) -> list[str | None]:
        """The texts of the keys; where a line is no JSON, the public ones are looked for anywhere
        in it: a broken value hides none of them."""
        keys = (self.person, *self.values, *self.public)
        found = json_fields(line, keys, self._form)
        hidden = [name for name in (self.person, *self.public) if found[name] is None]
        if hidden and not _is_json(line):
            for name in hidden:
                found[name] = self._anywhere(line, name)
        return [found[key] for key in keys]

    def _anywhere(self, line: bytes, name: str) -> str | None:
        """The first text of a key in a line that is broken elsewhere."""
        key = json.dumps(name, ensure_ascii=False).encode()
        for place in re.finditer(re.escape(key) + rb"\s*:", line):
            again = json_fields(b"{" + line[place.start() :], [name], self._form)
            if again[name] is not None:
                return again[name]
        return None

    def _header(self, line: bytes) -> list[int]:
        cells = csv_fields(line.removeprefix(b"\xef\xbb\xbf"), self._form)
        names = [(cell or "").strip() for cell in cells]
        self._width = len(names)
        for key in (self.person, *self.values, *self.public):
            if key not in names:
                raise SchemaError(
                    f"the first line, read as a CSV header of {len(names)} columns, does "
                    f"not name {key!r}. Give a header, --format jsonl or other columns."
                )
        places = {key: names.index(key) for key in (self.person, *self.values, *self.public)}
        inner = sorted(places[value] for value in self.values)
        for key in (self.person, *self.public):
            if inner[0] < places[key] < inner[-1]:
                raise SchemaError(
                    f"the CSV column {key!r} stands between two columns of values, where "
                    "a delimiter in a value would move it. Put it before or after them, "
                    "or send JSON lines."
                )
        return list(places.values())

    def _cells(self, line: bytes) -> list[str | None]:
        """The texts of the columns that are read, in their order.

        No text of a value moves another column: those before the first value are found from the
        left, those behind the last value from the right.
        """
        assert self._columns is not None
        values = self._columns[1 : 1 + len(self.values)]
        first, last = min(values), max(values)
        pieces = line.split(self._form.delimiter.encode())
        cells = csv_fields(line, self._form)
        if len(cells) == len(pieces) == self._width:
            return [cells[place] for place in self._columns]
        if len(cells) < self._width <= len(pieces):
            # a quote that would swallow delimiters of its neighbors is a plain sign
            cells = [self._alone(piece) for piece in pieces]
        before = self._outer(pieces, first)
        behind = self._outer(pieces[::-1], self._width - 1 - last, -1)
        if len(pieces) < self._width or len(line) >= LONGEST:
            behind = []  # the end is not there

        def text(place: int) -> str | None:
            if place < first:
                return before[place] if place < len(before) else None
            if place > last:
                back = self._width - 1 - place
                return behind[back] if back < len(behind) else None
            return cells[place] if place < len(cells) else None

        return [text(place) for place in self._columns]

    def _outer(self, pieces: list[bytes], count: int, way: int = 1) -> list[str | None]:
        """The first `count` fields of a line that was split at every delimiter. way: -1 where the
        pieces come from the end. A field in quotes may be of several pieces, but leaves one to each
        of the other columns."""
        quote, comma = self._form.quote.encode(), self._form.delimiter.encode()
        found: list[str | None] = []
        at = 0
        while len(found) < count and at < len(pieces):
            field, size = pieces[at], 1
            if quote and field.count(quote) % 2:
                most = len(pieces) - (self._width - 1 - len(found))
                ends = (k for k in range(at + 1, most) if pieces[k].count(quote) % 2)
                if (end := next(ends, None)) is not None:
                    joined = comma.join(pieces[at : end + 1][::way])
                    if self._enclosed.fullmatch(joined):
                        field, size = joined, end + 1 - at
            found.append(self._alone(field))
            at += size
        return found

    def _alone(self, field: bytes) -> str | None:
        return csv_fields(field, self._form)[0]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


class Lines:
    """Bytes as they come to lines without their ends; of a very long line, its beginning."""

    def __init__(self) -> None:
        self._held = bytearray()

    def take(self, data: bytes) -> list[bytes]:
        """The lines that are finished by these bytes."""
        *whole, rest = data.split(b"\n")
        lines = []
        for part in whole:
            self._hold(part)
            lines.append(ended_line(bytes(self._held)))
            self._held.clear()
        self._hold(rest)
        return lines

    def _hold(self, part: bytes) -> None:
        self._held += part[: LONGEST - len(self._held)]

    def rest(self) -> bytes:
        """What came after the last line feed."""
        return bytes(self._held)


CHUNK = 1 << 16
POLL = 0.2  # seconds

Batch = tuple[list[InputRecord], dict[str, Any]]


class Source(ABC):
    """Gives events in order, until its end, a signal, or a rest of `idle` seconds (None: never).

    resumes: whether it gives what was not read yet, else all from the beginning. unfinished:
    whether a last line was left for the next run.
    """

    resumes = False
    unfinished = False

    def __init__(self, idle: float | None = None) -> None:
        self._idle = idle

    @abstractmethod
    def batches(self, interrupts: Interrupts, note: dict[str, Any]) -> Iterator[Batch]:
        """Events, and the note after them. note: that of the last batch of an earlier run."""

    def _rest(self, interrupts: Interrupts, since: float) -> bool:
        """Wait a moment for what may have grown; whether the run is over."""
        if self._idle is not None and time.monotonic() - since >= self._idle:
            return True
        return not interrupts.pause(POLL)


def stdin() -> int:
    """The descriptor that events are read from."""
    return sys.stdin.fileno()


class StandardInput(Source):
    """Whole lines of standard input as they become available, until its end or a signal.

    complete: a last line without a line feed counts; if not, it is left, and read when it is whole.
    """

    def __init__(self, reader: Reader, *, complete: bool) -> None:
        super().__init__()
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


class GrowingFile(Source):
    """A file that others append lines to."""

    def __init__(self, path: str | os.PathLike[str], reader: Reader, idle: float | None) -> None:
        super().__init__(idle)
        self._path, self._reader = Path(path), reader
        if self._path.is_dir():
            raise ArgumentError("follow", str(path), "is a folder", "name a file, or use --parts")

    def batches(self, interrupts: Interrupts, note: dict[str, Any]) -> Iterator[Batch]:
        del note
        lines, rested = Lines(), time.monotonic()
        while not self._path.exists():
            if self._rest(interrupts, rested):
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
                if self._rest(interrupts, rested):
                    break
        self.unfinished = bool(lines.rest())


class Parts(Source):
    """Parquet files of a folder in the order of their arrival (time of change, then name).

    A part is read once, when it is whole: write it elsewhere or under a name that begins with a dot
    or an underscore, and rename it. Names of parts are noted, so that a run that goes on reads them
    in the same order; parts that were read to their end by then are not missed when they are gone.
    """

    resumes = True

    def __init__(
        self,
        folder: str | os.PathLike[str],
        columns: tuple[str, list[str], list[str]],
        idle: float | None,
    ) -> None:
        super().__init__(idle)
        self._folder, self._columns = Path(folder), columns
        if not self._folder.is_dir():
            raise ArgumentError("parts", str(folder), "is not a folder", "name a folder")

    def batches(self, interrupts: Interrupts, note: dict[str, Any]) -> Iterator[Batch]:
        from privmean.data.parquet_files import rows_of

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
            if self._rest(interrupts, rested):
                return

    def _arrived(self, done: list[str]) -> list[str]:
        known, found = set(done), []
        for item in os.scandir(self._folder):
            named = item.name.endswith(".parquet") and item.name[0] not in "._"
            if named and item.name not in known:
                with suppress(FileNotFoundError):  # gone since it was listed
                    found.append((item.stat().st_mtime_ns, item.name))
        return [name for _, name in sorted(found)]


class KafkaTopic(Source):
    """Messages of a Kafka topic, one event each; needs the extra `kafka`.

    Offsets are noted with the events, not committed: a stream that goes on reads each message once.
    Order is that in which the partitions deliver, and public.
    """

    resumes = True

    def __init__(self, place: str, reader: Reader, idle: float | None) -> None:
        super().__init__(idle)
        self._servers, _, self._topic = place.rpartition("/")
        self._reader = reader
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
                elif self._rest(interrupts, rested):
                    return
        except KafkaException as problem:
            raise ArgumentError(
                "kafka", self._servers, f"cannot be read: {problem}", "check servers and topic"
            ) from None
        finally:
            consumer.close()


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
        for signum in (signal.SIGINT, signal.SIGTERM):
            self._before[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
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
