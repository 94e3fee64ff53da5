"""Streams of every kind as the command line feeds them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from privmean.streams.group_streams import GroupMeanStream
from privmean.streams.mean_stream import MeanStream
from privmean.streams.periods import period_of
from privmean.streams.record_lines import InputRecord
from privmean.streams.stream_base import StreamBase
from privmean.streams.stream_release import StreamRelease
from privmean.streams.withhold_release import WithholdRelease

S = TypeVar("S", bound=StreamBase[Any])


class StreamAdapter(ABC, Generic[S]):
    """A stream that events are fed to."""

    def __init__(self, stream: S) -> None:
        self.stream = stream

    @property
    @abstractmethod
    def rationale(self) -> list[tuple[str, str]]:
        """How the stream was planned, for the summary."""

    @property
    def finished(self) -> bool:
        return False

    @property
    @abstractmethod
    def reached(self) -> int:
        """Where the releases stand: what `again` takes."""

    def lacks(self, event: InputRecord) -> str:
        """What makes a line no event, by its name in `events.LACKING`: public. "" for an event."""
        return "nameless" if event.person is None else ""

    @abstractmethod
    def feed(self, events: list[InputRecord], mark: object) -> list[StreamRelease]:
        """The releases of a batch of events that lack nothing, durable."""

    def flush(self) -> list[StreamRelease]:
        """Release what waits."""
        return []

    @abstractmethod
    def again(self, after: int) -> Iterator[StreamRelease]:
        """All releases after a place that was reached."""

    @abstractmethod
    def keep(self, mark: object) -> None:
        """Store a note by itself."""

    @abstractmethod
    def counts(self) -> str:
        """What was taken in so far, in words."""


def _timeless(event: InputRecord, place: int, period: str) -> str:
    """What `lacks` says of the time at a place, in a stream of periods."""
    return "timeless" if period and period_of(event.public[place], period) is None else ""


def _late(count: int) -> str:
    return f", {count:,} of a time that was over" if count else ""


def _cells(events: list[InputRecord]) -> list[Any]:
    return [item.values if len(item.values) > 1 else item.values[0] for item in events]


class MeanAdapter(StreamAdapter[MeanStream]):
    """One mean; with periods the first public text of an event is its time."""

    @property
    def rationale(self) -> list[tuple[str, str]]:
        plan = self.stream.plan
        lines = [("Method", f"{plan.rationale}."), ("Forecast", f"{plan.outlook}.")]
        if self.stream.region is None and plan.search is not None:
            lines.append(
                (
                    "No release yet",
                    f"the clipping radius is found when {plan.search.n:,} people have come; "
                    "give --clip or --bounds to start at once.",
                )
            )
        if self.finished:
            lines.append(
                ("Horizon", f"{self.stream.steps:,} steps are reached; later records are not used.")
            )
        return lines

    @property
    def finished(self) -> bool:
        return self.stream.finished

    @property
    def reached(self) -> int:
        return self.stream.steps

    def lacks(self, event: InputRecord) -> str:
        return super().lacks(event) or _timeless(event, 0, self.stream.plan.period)

    def feed(self, events: list[InputRecord], mark: object) -> list[StreamRelease]:
        times = [item.public[0] for item in events] if self.stream.plan.period else None
        return self.stream.extend([item.person for item in events], _cells(events), mark, times)

    def flush(self) -> list[StreamRelease]:
        return self.stream.flush()

    def again(self, after: int) -> Iterator[StreamRelease]:
        return self.stream.releases(after=after)

    def keep(self, mark: object) -> None:
        self.stream.mark = mark

    def counts(self) -> str:
        stream = self.stream
        return (
            f"{stream.arrivals:,} records, {stream.steps:,} steps, {stream.records:,} records "
            f"in the mean, {stream.waiting:,} waiting{_late(stream.late)}"
        )


class GroupAdapter(StreamAdapter[GroupMeanStream]):
    """Means by group: the first public text of an event is its group, the second its time."""

    @property
    def rationale(self) -> list[tuple[str, str]]:
        plan = self.stream.plan
        return [
            ("Method", f"{plan.rationale}."),
            ("Forecast", f"for each of {plan.groups:,} groups, {plan.outlook}."),
        ]

    @property
    def finished(self) -> bool:
        return self.stream.finished

    @property
    def reached(self) -> int:
        return sum(1 for _ in self.stream.releases())

    def lacks(self, event: InputRecord) -> str:
        lack = super().lacks(event) or ("groupless" if event.public[0] is None else "")
        return lack or _timeless(event, 1, self.stream.plan.period)

    def feed(self, events: list[InputRecord], mark: object) -> list[StreamRelease]:
        times = [item.public[1] for item in events] if self.stream.plan.period else None
        keys = [item.public[0] for item in events]
        return self.stream.extend(
            [item.person for item in events], keys, _cells(events), times, mark
        )

    def flush(self) -> list[StreamRelease]:
        return self.stream.flush()

    def again(self, after: int) -> Iterator[StreamRelease]:
        return (item for k, item in enumerate(self.stream.releases()) if k >= after)

    def keep(self, mark: object) -> None:
        self.stream.extend([], [], [], [] if self.stream.plan.period else None, mark)

    def counts(self) -> str:
        stream = self.stream
        groups = f"{stream.steps:,} steps in {len(stream.groups):,} groups"
        return f"{stream.arrivals:,} records, {groups}{_late(stream.late)}"


class WithholdAdapter(StreamAdapter[WithholdRelease]):
    """A withhold-release stream."""

    @property
    def rationale(self) -> list[tuple[str, str]]:
        stream = self.stream
        lines = [("Method", f"withhold-release, {stream.plan.rationale}.")]
        if stream.awaited:  # all of them need the same number
            widths = ", ".join(str(item.width) for item in stream.awaited)
            lines.append(
                (
                    "No release yet",
                    f"of blocks of {widths} records: a private interval needs "
                    f"{stream.awaited[0].averages:,} averages, at most one per person, and "
                    f"{stream.n:,} people have come. Where fewer can come, give --n, "
                    "or leave out --spread to start at once.",
                )
            )
        return lines

    @property
    def reached(self) -> int:
        return self.stream.arrivals

    def feed(self, events: list[InputRecord], mark: object) -> list[StreamRelease]:
        return self.stream.extend([item.person for item in events], _cells(events), mark)

    def again(self, after: int) -> Iterator[StreamRelease]:
        return (item for item in self.stream.releases() if item.step > after)

    def keep(self, mark: object) -> None:
        self.stream.extend([], [], mark)

    def counts(self) -> str:
        waiting = self.stream.waiting
        return f"{self.stream.arrivals:,} records, {waiting:,} of them withheld"
