"""The durable logs of streams: what a stream is, then one entry a batch of records.

A batch is on the disk before any of its releases is shown. So a crash at any moment leaves the
state either before the batch, of which nothing was shown, or after it, with the very releases that
are then shown: no step ever has two noises, no participation is forgotten. An old copy put back
would draw noise again for released steps, which would reveal the records:
`privmean.storage.durable_log` says how it is noticed.

A file holds raw records and is as secret as the data. One process at a time may open it. A
`StateFile` says where a stream stands; a `Journal` has all records and draws, to be run again.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from privmean.array_types import Floats, Integers
from privmean.errors import ArgumentError
from privmean.storage.durable_log import DurableLog
from privmean.storage.entry_chain import Entry as LogEntry
from privmean.streams.record_sources import plain

KIND = "stream"
SLACK = 1 << 20  # bytes beyond twice the least size, before the file is written anew
CHUNK = 1000  # releases, people or rows in one entry of a file written anew

Array = npt.NDArray[Any]
Entry = dict[str, Any]


class StoredRelease(NamedTuple):
    """One release as stored: the noisy prefix sums of a step and the public counts.

    size: the weighted number of records in the sums. period: of a stream of calendar periods.
    people, rows: of `PersonWeights` after the step, None in a state of 0.2.
    names: who took part in the step, where a window needs it.
    """

    step: int
    arrivals: int
    records: int
    waiting: int
    square: float
    sums: npt.NDArray[np.float64]
    size: float
    period: str = ""
    people: float | None = None
    rows: float | None = None
    names: tuple[str, ...] | None = None


class StoredPerson(NamedTuple):
    """Steps used, the last of them, and from which step on the first waiting row may pass.

    weight: with a half-life, the sum of the person's weights at the last of these steps.
    """

    used: int
    last: int | None
    allowed: int | None = None
    weight: float | None = None


class StateLog(ABC):
    """A log with the facts of a stream in its first entry, held until `close`."""

    def __init__(self, path: str | os.PathLike[str], kind: str, *, moved: bool = False) -> None:
        self._path = str(path)
        self.facts: dict[str, Any] = {}
        self._log = DurableLog.open(path, kind, self._read, moved=moved)

    @classmethod
    def create(cls, path: str | os.PathLike[str], kind: str, facts: Mapping[str, object]) -> Self:
        """A new file with these facts; refused if there is a file."""
        run = uuid.uuid4().hex  # what a ledger knows this stream by
        DurableLog.create(path, kind, [_bytes(cls._first({**facts, "run": run}))])
        return cls(path, kind)

    @staticmethod
    @abstractmethod
    def _first(facts: Entry) -> Entry:
        """The first entry."""

    def _read(self, logged: LogEntry) -> None:
        self._take(json.loads(logged.payload))

    @abstractmethod
    def _take(self, entry: Entry) -> None:
        """One entry of the file that is opened, the oldest first."""

    def require(self, name: str, value: object, problem: str, remedy: str) -> None:
        """Refuse a file whose fact of this name is not `value`."""
        if self.facts[name] != plain(value):
            self.close()
            raise ArgumentError("state", self._path, problem, remedy)

    @abstractmethod
    def note(self, mark: object) -> None:
        """Keep a public note by itself."""

    def close(self) -> None:
        self._log.close()


class Stored:
    """Where a stream stands, by the entries of its file."""

    def __init__(self) -> None:
        self.people: dict[str, StoredPerson] = {}
        self.waiting: dict[int, tuple[str, npt.NDArray[np.float64]]] = {}
        self._arrays: dict[str, Any] = {}
        self._last: Entry | None = None

    def take(self, entry: Entry) -> None:
        self._arrays = entry.get("arrays", self._arrays)
        for name, *facts in entry.get("people", ()):
            self.people[name] = StoredPerson(*facts)
        for arrival in entry.get("passed", ()):
            self.waiting.pop(arrival, None)
        if "waiting" in entry:
            arrivals, names, rows = entry["waiting"]
            self.waiting.update(zip(arrivals, zip(names, unpacked(rows), strict=True), strict=True))
        self._last = entry.get("releases", self._last)

    @property
    def arrays(self) -> dict[str, Array]:
        return {name: unpacked(item) for name, item in self._arrays.items()}

    @property
    def latest(self) -> StoredRelease | None:
        return None if self._last is None else list(_releases(self._last))[-1]


class StateFile(StateLog):
    """The state of a `MeanStream`: entries say what each batch changed.

    stored: where the stream stands when the file is opened; taken away once it is read.
    """

    stored: Stored | None

    def __init__(
        self, path: str | os.PathLike[str], kind: str = KIND, *, moved: bool = False
    ) -> None:
        self._entries = self._forgotten = 0  # releases of so many entries are not kept
        self.stored = Stored()
        super().__init__(path, kind, moved=moved)
        self._least = self._log.size

    @staticmethod
    def _first(facts: Entry) -> Entry:
        return {"facts": {**facts, "progress": [0, 0, 0]}}

    def _take(self, entry: Entry) -> None:
        if self.stored is not None:
            self.stored.take(entry)
        self.facts.update(entry.get("facts", {}))
        if entry.get("only"):
            self._forgotten = self._entries
        self._entries += 1

    def take_stored(self) -> Stored:
        """Where the stream stands; asked for once."""
        stored, self.stored = self.stored, None
        assert stored is not None
        return stored

    def add(self, entry: Entry) -> None:
        """Make a batch durable. In "only" the releases of the entry replace all before."""
        self._log.append(_bytes(entry))
        self._take(entry)

    def note(self, mark: object) -> None:
        if self.facts.get("mark") != plain(mark):
            self.add({"facts": {"mark": plain(mark)}})

    @property
    def grown(self) -> bool:
        """Whether most of the file may be about what is over."""
        return self._log.size > 2 * self._least + SLACK

    def rewrite(self, entries: Iterable[Entry]) -> None:
        """Put these entries, with the releases kept so far, in place of all."""
        kept = ({"releases": entry} for entry in self._kept(after=0))
        written = [_bytes(entry) for part in (entries, kept) for entry in part]
        if self._log.replace(written):
            self._forgotten, self._entries = 0, len(written)
        self._least = self._log.size  # also if it could not be: try again at twice the size

    def releases(self, after: int = 0) -> Iterator[StoredRelease]:
        """The releases that are kept, in order, of steps > `after`."""
        for entry in self._kept(after):
            for release in _releases(entry):
                if release.step > after:
                    yield release

    def _kept(self, after: int) -> Iterator[Entry]:
        for index, data in enumerate(self._log.entries()):
            if index >= self._forgotten and b'"releases"' in data:
                entry = json.loads(data).get("releases")
                if entry is not None and entry["first"] + len(entry["squares"]) > after:
                    yield entry


Event = tuple[str, Floats]


class Journal(StateLog):
    """All records and draws of a stream."""

    def __init__(self, path: str | os.PathLike[str], kind: str, *, moved: bool = False) -> None:
        self._batches: list[Entry] = []
        super().__init__(path, kind, moved=moved)

    @staticmethod
    def _first(facts: Entry) -> Entry:
        return facts

    def _take(self, entry: Entry) -> None:
        if not self.facts:
            self.facts = entry
            return
        self._batches.append(entry)
        if "mark" in entry:
            self.facts["mark"] = entry["mark"]

    def note(self, mark: object) -> None:
        self.append([], [], mark)

    def append(self, events: list[Event], draws: list[Integers], mark: object = None) -> None:
        """Make a batch durable. mark: a public note, such as the position in the input."""
        entry: Entry = {
            "persons": [person for person, _ in events],
            "rows": packed(np.array([row for _, row in events])),
            "draws": [packed(item) for item in draws],
        }
        if mark is not None:
            entry["mark"] = plain(mark)
        self._log.append(_bytes(entry))

    def take(self) -> tuple[list[list[Event]], list[Integers]]:
        """The batches of events, and the draws, that were found on opening. Gives them away."""
        batches, self._batches = self._batches, []
        events = [
            list(zip(batch["persons"], unpacked(batch["rows"]), strict=True))
            for batch in batches
            if batch["persons"]
        ]
        return events, [unpacked(draw) for batch in batches for draw in batch["draws"]]


def packed_releases(releases: list[StoredRelease]) -> Entry:
    """Releases of consecutive steps as part of an entry."""
    entry = {
        "first": releases[0].step,
        "counts": [item[1:4] for item in releases],
        "squares": [item.square for item in releases],
        "sums": packed(np.array([item.sums for item in releases])),
    }
    if any(item.size != item.records for item in releases):
        entry["sizes"] = [item.size for item in releases]
    if any(item.period for item in releases):
        entry["periods"] = [item.period for item in releases]
    entry["weights"] = [[item.people, item.rows] for item in releases]
    if any(item.names is not None for item in releases):
        entry["names"] = [item.names for item in releases]
    return entry


def _releases(entry: Entry) -> Iterator[StoredRelease]:
    counts = entry["counts"]
    sizes = entry.get("sizes") or [float(item[1]) for item in counts]
    periods = entry.get("periods") or [""] * len(counts)
    weights = entry.get("weights") or [(None, None)] * len(counts)
    names = [None if item is None else tuple(item) for item in entry.get("names", ())]
    columns = zip(
        counts,
        entry["squares"],
        unpacked(entry["sums"]),
        sizes,
        periods,
        weights,
        names or [None] * len(counts),
        strict=True,
    )
    for step, (count, square, sums, size, period, (people, rows), who) in enumerate(
        columns, start=entry["first"]
    ):
        arrivals, records, waiting = count
        yield StoredRelease(
            step, arrivals, records, waiting, square, sums, size, period, people, rows, who
        )


def packed(array: Array) -> list[object]:
    """An array as plain data, bit for bit."""
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return [array.dtype.str, list(array.shape), data]


def unpacked(item: Sequence[Any]) -> Array:
    kind, shape, data = item
    return np.frombuffer(base64.b64decode(data), dtype=kind).reshape(shape).copy()


def _bytes(entry: Entry) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode()
