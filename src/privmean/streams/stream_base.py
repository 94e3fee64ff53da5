"""What streams of every kind are: a guarantee, one charge, a process, and an end."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, Self, TypeVar

from privmean.errors import ArgumentError, PrivmeanError
from privmean.noise.exact import ExactNoise
from privmean.noise.noise_source import Noise
from privmean.noise.recorded import RecordedNoise
from privmean.privacy.guarantee import Guarantee
from privmean.storage.file_io import require_process
from privmean.streams.charge_stream import Ledger, charge_stream
from privmean.streams.coerce_records import as_rows, require_listed
from privmean.streams.periods import period_of
from privmean.streams.power_series import Floats
from privmean.streams.replay_log import Event, Journal
from privmean.streams.stream_plan import StreamPlan
from privmean.streams.stream_release import StreamRelease
from privmean.streams.withhold_plan import WithholdPlan

P = TypeVar("P", bound=StreamPlan | WithholdPlan)


class StreamBase(ABC, Generic[P]):
    """A stream of one process; within a batch, and after `close`, it takes no more."""

    plan: P

    def _start(self, source: Noise) -> None:
        self._secure = source.secure
        self._process = os.getpid()
        self._broken = False

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee about all releases of this stream together, past and future."""
        return self.plan.guarantee

    def charge(self, ledger: Ledger | str | os.PathLike[str], *, label: str = "") -> None:
        """Charge a ledger, given or by its path, for all releases of this stream together, once
        however often it stops."""
        charge_stream(ledger, self.guarantee, self._run_id, label or self.plan.estimator)

    @property
    @abstractmethod
    def _run_id(self) -> str | None:
        """The number in the state; None without one."""

    @property
    @abstractmethod
    def mark(self) -> object:
        """The note stored with the last batch that had one."""

    @property
    def secure(self) -> bool:
        """Whether the noise is exact and from the system's entropy."""
        return self._secure

    @abstractmethod
    def close(self) -> None:
        """Close the state file; the stream can be opened again from it."""

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

    def _rows(self, persons: Sequence[object], values: Collection[object]) -> Floats:
        """The values, one row a person."""
        rows = as_rows(values, self.plan.dimension)
        _require_each("values", rows, persons)
        return rows


def periods_of(
    times: Sequence[object] | None, period: str, persons: Sequence[object]
) -> list[str | None] | None:
    """The period of each time; None in a stream without periods, where none may be given."""
    if (times is not None) != bool(period):
        wants = "is required" if period else "requires period"
        raise ArgumentError("times", times, wants, "give times exactly where there is a period")
    if times is None:
        return None
    _require_each("times", times, persons)
    return [period_of(item, period) for item in times]


def source_of(noise: Noise | None) -> Noise:
    """What noise is drawn from: the operating system's entropy unless said."""
    if noise is None:
        return ExactNoise()
    if not hasattr(noise, "laplace"):
        raise ArgumentError(
            "noise",
            noise,
            "is not a source of noise",
            "remove it; in tests pass noise=pm.SimulatedNoise(1)",
        )
    return noise


def require_shown(first: int, steps: int | None) -> None:
    """Refuse a stream that would end before the first release that is shown."""
    if steps is not None and first > steps:
        raise ArgumentError(
            "first_release", first, f"must lie within the {steps} steps", "show an earlier release"
        )


def _require_each(name: str, given: Collection[object] | Floats, persons: Sequence[object]) -> None:
    require_listed(name, given)
    require_listed("ids", persons)
    if len(given) != len(persons):
        raise ArgumentError(name, len(given), f"must be {len(persons)}", "give one per person")


class Journaled(StreamBase[P]):
    """A stream whose state is every record and every draw: a restart replays them."""

    _journal: Journal | None = None
    _noise: Noise  # of the draws: recorded where there is a state

    def _remember(
        self,
        state: str | os.PathLike[str] | None,
        settings: object,
        source: Noise,
        *,
        kind: str,
        moved: bool,
        more: Callable[[], dict[str, Any]] = dict,
    ) -> dict[str, Any]:
        """Open the journal, if there is a state; before anything is drawn. The facts that it has,
        or those of `more`."""
        self._recorder = RecordedNoise(source)
        self._noise = source
        if state is not None:
            self._noise = self._recorder
            self._journal = Journal(
                state, settings, kind=kind, secure=source.secure, moved=moved, more=more
            )
        return (self._journal and self._journal.more) or more()

    def _replay(self) -> None:
        """Run what the journal holds, with the noise that was drawn for it."""
        if self._journal is None:
            return
        batches, draws = self._journal.take()
        self._recorder.replay(draws)
        for events in batches:
            self._run(events)
        self._recorder.require_replayed()

    @property
    def mark(self) -> object:
        """The note stored with the last batch that had one."""
        return None if self._journal is None else self._journal.mark

    @property
    def _run_id(self) -> str | None:
        return None if self._journal is None else self._journal.run_id

    @abstractmethod
    def _run(self, events: list[Event]) -> list[StreamRelease]:
        """The releases of a batch; the same again in a replay."""

    def _durably(self, events: list[Event], mark: object = None) -> list[StreamRelease]:
        self._broken = True  # until everything below is on disk
        released = self._run(events)
        if self._journal is not None and (events or mark is not None):
            self._journal.append(events, self._recorder.take_drawn(), mark)
        self._broken = False
        return released

    def close(self) -> None:
        """Close the state file; the stream can be opened again from it."""
        if self._journal is not None:
            self._journal.close()
            self._broken = True
