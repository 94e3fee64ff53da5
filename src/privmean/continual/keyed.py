"""Several means by group in one stream, protected per person under one budget."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Unpack

import numpy as np

from privmean.continual.charging import Ledger, charge_stream
from privmean.continual.journal import Journal
from privmean.continual.making import Making
from privmean.continual.periods import period_of
from privmean.continual.planning import plan as make_plan
from privmean.continual.release import Showing, StreamRelease, View
from privmean.continual.rows import as_rows, person_name
from privmean.continual.scheduling import Batch, Common, Schedule
from privmean.continual.series import Floats
from privmean.continual.streamplan import StreamPlan
from privmean.disk import require_process
from privmean.errors import ArgumentError, Infeasible, PrivmeanError
from privmean.noise.base import Noise
from privmean.noise.exact import ExactNoise
from privmean.noise.recorded import RecordedNoise
from privmean.privacy.guarantee import Guarantee

FLUSH = json.dumps(None)


class _Group:
    """The steps of one group."""

    def __init__(
        self, name: str, plan: StreamPlan, noise: Noise, view: View, common: Common
    ) -> None:
        self.schedule = Schedule(plan, noise, common)
        self.making = Making(plan, noise, view, group=name)
        self.batch = Batch()


class MeanStreams:
    """The private means of several groups of records that arrive one by one.

    Each group has steps and noise of its own, so that a group of n records is as accurate as a
    stream of n records. `max_participations` bounds a person over all groups together;
    `min_separation` holds within a group. Groups need not be known beforehand: the group of a
    record is public, like its person and its place.

    groups
        A public guess of their number; it only helps to choose the strategy.
    state
        Path of a state file. It keeps every record and every draw, and a restart replays them.
    Everything else: as for `MeanStream` and `continual.plan`; the region has to be public.

    Example:
        stream = pm.MeanStreams(
            groups=2, epsilon=1, delta=1e-6, max_participations=4, min_separation=2, bounds=(0, 5)
        )
        for person in range(8):
            for release in stream.update(person, "even" if person % 2 == 0 else "odd", 3.5):
                print(release.group, release.step, float(release))
        stream.close()

    Guarantees
    ----------
    See `StreamPlan`: one bill for all groups together. Besides ids, order and number of arrivals,
    the group of each is public: values alone are protected. Columns of different groups are
    orthogonal, so that a person costs most with all participations in one group
    (docs/proofs/continual.md, section 10).

    Source: `MeanStream` on a block-diagonal strategy.
    """

    def __init__(
        self,
        *,
        groups: int,
        state: str | os.PathLike[str] | None = None,
        noise: Noise | None = None,
        history: bool = True,
        moved: bool = False,
        clamp: bool = True,
        first_release: int = 1,
        level: float = 0.95,
        sd: float | None = None,
        **settings: Any,
    ) -> None:
        view = View(clamp, first_release, level, sd=sd)
        plan = make_plan(groups=groups, **settings)
        self._begin(plan, {"groups": groups, **settings}, state, noise, view, moved, history)

    @classmethod
    def from_plan(
        cls,
        plan: StreamPlan,
        *,
        state: str | os.PathLike[str] | None = None,
        noise: Noise | None = None,
        history: bool = True,
        moved: bool = False,
        **showing: Unpack[Showing],
    ) -> MeanStreams:
        """A stream that runs a finished plan, made with `groups`."""
        if not plan.groups:
            raise ArgumentError("plan", plan.why, "is for one group", "plan with groups=")
        stream = cls.__new__(cls)
        stream._begin(plan, plan.to_dict(), state, noise, View(**showing), moved, history)
        return stream

    def _begin(
        self,
        plan: StreamPlan,
        settings: object,
        state: str | os.PathLike[str] | None,
        noise: Noise | None,
        view: View,
        moved: bool,
        history: bool,
    ) -> None:
        source: Noise = ExactNoise() if noise is None else noise
        self.plan = plan
        self.secure = source.secure
        self._process = os.getpid()
        self._view = view
        self._history = bool(history)
        self._recorder = RecordedNoise(source)
        self._journal = None
        self._noise: Noise = source
        if state is not None:
            self._noise = self._recorder
            facts = {"secure": source.secure, "moved": moved}
            self._journal = Journal(state, settings, kind="streams by group", **facts)
        self._common = Common()
        self._groups: dict[str, _Group] = {}
        self._kept: list[StreamRelease] = []
        self._broken = False
        self.arrivals = 0
        if self._journal is not None:
            batches, draws = self._journal.take()
            self._recorder.replay(draws)
            for events in batches:
                self._run(events)
            self._recorder.require_replayed()

    @property
    def guarantee(self) -> Guarantee:
        """The promise about all releases of all groups together, past and future."""
        return self.plan.guarantee

    @property
    def mark(self) -> Any:
        """The note stored with the last batch that had one."""
        return None if self._journal is None else self._journal.mark

    def charge(self, ledger: Ledger, *, label: str = "") -> None:
        """Charge a ledger for all releases of this stream together, once however often it stops."""
        run = None if self._journal is None else self._journal.run_id
        charge_stream(ledger, self.plan.guarantee, run, label or self.plan.estimator)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups so far, in the order of their first record."""
        return tuple(self._groups)

    @property
    def steps(self) -> int:
        """Steps of all groups so far."""
        return self._common.steps

    @property
    def finished(self) -> bool:
        """Whether the horizon is reached."""
        most = self.plan.horizon
        return most is not None and self.steps >= most

    def update(self, person: object, group: object, value: object) -> list[StreamRelease]:
        """One arrival; returns the new releases, which name their group."""
        return self.extend([person], [group], [value])

    def extend(
        self,
        persons: Sequence[object],
        groups: Sequence[object],
        values: Collection[object],
        times: Sequence[object] | None = None,
        mark: object = None,
    ) -> list[StreamRelease]:
        """Many arrivals in order, durable together. Returns the new releases, group by group.

        persons, groups: ids and public groups (None is dropped before it counts). values: shape
        (m,) or (m, d). times: with `period`. mark: a
        public note stored with the batch. Raises `Infeasible` when the horizon was reached
        before.
        """
        self._require_open()
        if self.finished:
            raise Infeasible(
                f"the horizon of {self.steps} steps is used up", "plan a new stream (and budget)"
            )
        rows = as_rows(values, self.plan.dimension)
        for name, given in (("groups", groups), ("values", rows)):
            if len(given) != len(persons):
                raise ArgumentError(name, len(given), f"are not {len(persons)}", "one a person")
        if (times is not None) != bool(self.plan.period):
            wants = "is needed" if self.plan.period else "goes with period"
            raise ArgumentError("times", times, wants, "give times with a period, and only then")
        if times is not None and len(times) != len(persons):
            raise ArgumentError("times", len(times), f"are not {len(persons)}", "one a person")
        events = []
        for index, (person, group) in enumerate(zip(persons, groups, strict=True)):
            who, key = person_name(person), person_name(group)
            when = None if times is None else period_of(times[index], self.plan.period)
            if who is not None and key is not None:
                events.append((json.dumps([who, key, when]), rows[index]))
        return self._durably(events, mark)

    def flush(self) -> list[StreamRelease]:
        """Release what waits in each group, as `MeanStream.flush` does."""
        self._require_open()
        return self._durably([(FLUSH, np.zeros(self.plan.dimension))])

    def releases(self, group: object = None) -> Iterator[StreamRelease]:
        """All releases so far, or those of one group."""
        key = person_name(group)
        yield from (item for item in self._kept if key is None or item.group == key)

    def close(self) -> None:
        """Close the state file; the stream can be opened again from it."""
        if self._journal is not None:
            self._journal.close()
            self._broken = True

    def __enter__(self) -> MeanStreams:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_open(self) -> None:
        require_process(self._process)
        if self._broken:
            raise PrivmeanError(
                "this stream was closed or stopped within a batch; open its state file again"
            )

    def _durably(
        self, events: list[tuple[str, Floats]], mark: object = None
    ) -> list[StreamRelease]:
        self._broken = True  # until everything below is on disk
        released = self._run(events)
        if self._journal is not None and (events or mark is not None):
            self._journal.append(events, self._recorder.take_drawn(), mark)
        self._broken = False
        return released

    def _run(self, events: list[tuple[str, Floats]]) -> list[StreamRelease]:
        """Arrivals in their order, then the noise of each group: a replay does the same."""
        touched: dict[str, _Group] = {}
        for name, row in events:
            if name == FLUSH:
                for key, group in self._groups.items():
                    touched[key] = group
                    group.schedule.flush(group.batch)
                continue
            self.arrivals += 1
            person, key, period = json.loads(name)
            if key not in self._groups:
                self._groups[key] = _Group(key, self.plan, self._noise, self._view, self._common)
            group = touched[key] = self._groups[key]
            periods = [period] if self.plan.period else None
            group.schedule.take_in([person], row[None, :], periods, group.batch)
        released: list[StreamRelease] = []
        for group in touched.values():
            stored = group.making.made(group.batch.steps)
            group.batch = Batch()
            released.extend(group.making.shown(stored, group.schedule.ball))
        if self._history:
            self._kept.extend(released)
        return released
