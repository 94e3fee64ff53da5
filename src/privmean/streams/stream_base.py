"""What streams of every kind are: a guarantee, one charge, a process, an end, and a durable log.

The first entry of a log says what a stream is; then comes one entry a batch of records. A batch is
on the disk before any of its releases is shown. So a crash at any moment leaves the state either
before the batch, of which nothing was shown, or after it, with the very releases that are then
shown: no step ever has two noises, no participation is forgotten. An old copy put back would draw
noise again for released steps, which would reveal the records: `privmean.storage.durable_log` says
how it is noticed.

A file holds raw records and is as secret as the data. One process at a time may open it. A
`StateFile` says where a stream stands; a `Journal` has all records and draws, to be run again.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.errors import ArgumentError, PrivmeanError
from privmean.noise.noise_source import ExactNoise, Noise, RecordedNoise
from privmean.privacy.guarantee import Guarantee
from privmean.storage.durable_log import DurableLog
from privmean.storage.entry_chain import Entry as LogEntry
from privmean.storage.witness import require_process
from privmean.streams.participation import StoredPerson, StoredRelease
from privmean.streams.record_sources import as_rows, plain, require_listed
from privmean.streams.stream_plan import PlanFacts
from privmean.streams.stream_release import StreamRelease

if TYPE_CHECKING:
    from privmean.privacy.ledger import Ledger


KIND = "stream"
SLACK = 1 << 20  # bytes beyond twice the least size, before the file is written anew
CHUNK = 1000  # releases, people or rows in one entry of a file written anew

Array = npt.NDArray[Any]
Entry = dict[str, Any]


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


P = TypeVar("P", bound=PlanFacts)
L = TypeVar("L", bound=StateLog)


class StreamBase(ABC, Generic[P, L]):
    """A stream of one process; within a batch, and after `close`, it takes no more."""

    plan: P
    _log: L | None = None
    _mark: Any = None

    def _start(self, noise: Noise | None) -> Noise:
        """What noise is drawn from: the operating system's entropy unless said."""
        if noise is not None and not hasattr(noise, "laplace"):
            raise ArgumentError(
                "noise",
                noise,
                "is not a source of noise",
                "remove it; in tests pass noise=pm.SimulatedNoise(1)",
            )
        source = noise or ExactNoise()
        self._secure, self._process, self._broken = source.secure, os.getpid(), False
        return source

    def _open_state(
        self, kind: type[L], of: str, state: str | os.PathLike[str] | None, *, moved: bool
    ) -> L | None:
        """The state file, if it exists; that of another kind of noise is refused."""
        if state is None or not os.path.exists(validate.path("state", state)):
            return None
        self._log = log = kind(state, of, moved=moved)
        if log.facts["secure"] != self._secure:
            log.close()
            raise ArgumentError(
                "noise",
                None,
                "must be the kind of noise that the state records",
                "use the same kind",
            )
        self._mark = log.facts.get("mark")
        return log

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee about all releases of this stream together, past and future."""
        return self.plan.guarantee

    def charge(
        self, ledger: Ledger | str | os.PathLike[str], *, label: str = "", analyst: str = ""
    ) -> None:
        """Charge a ledger, given or by its path, for all releases of this stream together, once
        however often it stops: before the first record. label, analyst: for its entry.

        A stream that goes on from its state has the number that was written there before anything
        was charged, and the ledger gives the same charge back.
        """
        if isinstance(ledger, str | os.PathLike):
            from privmean.privacy.ledger import Ledger as Book

            ledger = Book.open(ledger)
        if not hasattr(ledger, "charge"):
            raise ArgumentError("ledger", ledger, "is not a ledger", "give a pm.Ledger or its path")
        run = None if self._log is None else self._log.facts.get("run")
        about = {"run": run or uuid.uuid4().hex}
        if validate.instance("analyst", analyst, str, "give text"):
            about["analyst"] = analyst
        ledger.charge(self.guarantee, label=label or self.plan.estimator, about=about)

    @property
    def mark(self) -> Any:
        """The note stored with the last batch that had one."""
        return self._mark

    @mark.setter
    def mark(self, note: object) -> None:
        require_process(self._process)
        self._mark = note
        if self._log is not None:
            self._log.note(note)

    @property
    def secure(self) -> bool:
        """Whether the noise is exact and from the system's entropy."""
        return self._secure

    def close(self) -> None:
        """Close the state file; the stream can be opened again from it."""
        if self._log is not None:
            self._log.close()
            self._broken = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_open(self) -> None:
        require_process(self._process)
        if self._broken:
            raise PrivmeanError(
                "this stream was closed or stopped within a batch. Open its state file again."
            )


def rows_of(persons: Sequence[object], values: Collection[object], dimension: int) -> Floats:
    """The values, one row a person."""
    rows = as_rows(values, dimension)
    require_each("values", rows, persons)
    return rows


def require_each(name: str, given: Collection[object] | Floats, persons: Sequence[object]) -> None:
    """Refuse a list that does not have one item per person."""
    require_listed(name, given)
    require_listed("ids", persons)
    if len(given) != len(persons):
        raise ArgumentError(name, len(given), f"must be {len(persons)}", "give one per person")


class Journaled(StreamBase[P, Journal]):
    """A stream whose state is every record and every draw: a restart replays them."""

    def _remember(
        self,
        state: str | os.PathLike[str] | None,
        settings: object,
        noise: Noise | None,
        *,
        kind: str,
        moved: bool,
        more: Callable[[], dict[str, Any]],
    ) -> dict[str, Any]:
        """Open the journal, if there is a state; before anything is drawn. The facts that it has,
        or those of `more`."""
        self._noise = source = self._start(noise)
        if state is None:
            return more()
        self._noise = self._recorder = RecordedNoise(source)
        log = self._open_state(Journal, kind, state, moved=moved)
        if log is not None:
            log.require(
                "settings",
                settings,
                "is the state of a stream with other settings",
                "use the same settings, or a new state file",
            )
        else:
            facts = {"settings": plain(settings), "secure": source.secure, "more": more()}
            self._log = log = Journal.create(state, kind, facts)
        return log.facts.get("more") or more()

    def _replay(self) -> None:
        """Run what the journal holds, with the noise that was drawn for it."""
        if self._log is None:
            return
        batches, draws = self._log.take()
        self._recorder.replay(draws)
        for events in batches:
            self._run(events)
        self._recorder.require_replayed()

    @abstractmethod
    def _run(self, events: list[Event]) -> list[StreamRelease]:
        """The releases of a batch; the same again in a replay."""

    def _durably(self, events: list[Event], mark: object = None) -> list[StreamRelease]:
        self._broken = True  # until everything below is on disk
        released = self._run(events)
        if mark is not None:
            self._mark = mark
        if self._log is not None and (events or mark is not None):
            self._log.append(events, self._recorder.take_drawn(), mark)
        self._broken = False
        return released
