"""What streams of every kind are: a guarantee, one charge, a process, a state, and an end."""

from __future__ import annotations

import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from privmean import validate
from privmean.array_types import Floats
from privmean.errors import ArgumentError, PrivmeanError
from privmean.noise.noise_source import ExactNoise, Noise, RecordedNoise
from privmean.privacy.guarantee import Guarantee
from privmean.storage.witness import require_process
from privmean.streams.record_sources import as_rows, plain, require_listed
from privmean.streams.state_file import Event, Journal, StateLog
from privmean.streams.stream_plan import PlanFacts
from privmean.streams.stream_release import StreamRelease

if TYPE_CHECKING:
    from privmean.privacy.ledger import Ledger


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
