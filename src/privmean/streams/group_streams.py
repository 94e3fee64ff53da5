"""Several means by group in one stream, protected per person under one budget."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Unpack

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError, InfeasibleError
from privmean.noise.noise_source import Noise
from privmean.streams.mean_stream import Journaled, periods_of, require_shown, source_of
from privmean.streams.record_sources import person_name, require_listed
from privmean.streams.schedule_steps import Batch, Common, StepSchedule
from privmean.streams.stream_plan import StreamPlan
from privmean.streams.stream_plan import plan as make_plan
from privmean.streams.stream_release import Opening, ReleaseBuilder, StreamRelease, View, apart
from privmean.streams.toeplitz_matrices import Floats

FLUSH = json.dumps(None)


class _Group:
    """The steps of one group."""

    def __init__(
        self, name: str, plan: StreamPlan, noise: Noise, view: View, common: Common
    ) -> None:
        self.schedule = StepSchedule(plan, noise, common)
        self.making = ReleaseBuilder(plan, noise, view, group=name)
        self.batch = Batch()


class GroupMeanStream(Journaled[StreamPlan]):
    """Private means of several groups of records that arrive one by one.

    Parameters
    ----------
    groups : int
        Public guess of the number of groups, which chooses the strategy.
    state : path, optional
        State file, which keeps every record and draw. Default: in memory, no restart.
    noise, history, moved, clamp, first_release, level, sd, icc
        As for `MeanStream`.
    settings : float, int or str
        The parameters of `streams.plan`; the bounds must be public.

    Raises
    ------
    ArgumentError, InfeasibleError
        Before anything is read.

    Privacy
    -------
    See `StreamPlan`: one privacy accounting for all groups together. The group of each record is
    public, as are ids, order and number of arrivals; only values are protected. A person costs most
    with all participations in one group (docs/proofs/continual.md, section 10).

    Notes
    -----
    `max_participations` bounds a person over all groups together; `min_separation` holds within a
    group. Each group has its own steps and noise. Source: `MeanStream` on a block-diagonal
    strategy.

    Examples
    --------
    stream = pm.GroupMeanStream(
        groups=2, epsilon=1, delta=1e-6, max_participations=4, min_separation=2, bounds=(0, 5)
    )
    for person in range(8):
        for release in stream.update(person, "even" if person % 2 == 0 else "odd", 3.5):
            print(release.group, release.step, float(release))
    stream.close()
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
        icc: float | None = None,
        **settings: Any,
    ) -> None:
        view = View(clamp, first_release, level, sd=sd, icc=icc)
        settings = {"groups": groups, **settings}
        self._begin(lambda: make_plan(**settings), settings, state, view, noise, history, moved)

    @classmethod
    def from_plan(
        cls,
        plan: StreamPlan,
        *,
        state: str | os.PathLike[str] | None = None,
        **how: Unpack[Opening],
    ) -> GroupMeanStream:
        """A stream that runs a finished plan, made with `groups`."""
        if not validate.instance("plan", plan, StreamPlan, "make it with streams.plan").groups:
            raise ArgumentError(
                "plan", plan.rationale, "is a plan for one group", "plan with groups"
            )
        stream, (view, rest) = cls.__new__(cls), apart(how)
        stream._begin(lambda: plan, plan.to_dict(), state, view, **rest)
        return stream

    def _begin(
        self,
        make: Callable[[], StreamPlan],
        settings: object,
        state: str | os.PathLike[str] | None,
        view: View,
        noise: Noise | None = None,
        history: bool = True,
        moved: bool = False,
    ) -> None:
        source: Noise = source_of(noise)

        def planned() -> dict[str, Any]:
            plan = make()
            require_shown(view.first_release, plan.horizon)
            return plan.to_dict()

        self._start(source)
        self._view = view
        self._history = bool(history)
        stored = self._remember(
            state, settings, source, kind="streams by group", moved=moved, more=planned
        )
        self.plan = StreamPlan.from_dict(stored)
        try:
            require_shown(view.first_release, self.plan.horizon)
        except ArgumentError:
            self.close()
            raise
        self._common = Common()
        self._groups: dict[str, _Group] = {}
        self._kept: list[StreamRelease] = []
        self.arrivals = 0
        self._replay()

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups so far, in the order of their first record."""
        return tuple(self._groups)

    @property
    def steps(self) -> int:
        """Steps of all groups so far."""
        return self._common.steps

    @property
    def late(self) -> int:
        """Arrivals of periods that were over in their group, or without a readable time."""
        return sum(group.schedule.late for group in self._groups.values())

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
        people: Sequence[object],
        groups: Sequence[object],
        values: Collection[object],
        times: Sequence[object] | None = None,
        mark: object = None,
    ) -> list[StreamRelease]:
        """Many arrivals in order, durable together. Returns the new releases, group by group.

        people, groups: ids and public groups (None is dropped before it counts). values: shape
        (m,) or (m, d). times: with `period`. mark: a
        public note stored with the batch. Raises `InfeasibleError` when the horizon was reached
        before.
        """
        self._require_open()
        if self.finished:
            raise InfeasibleError(
                f"the horizon of {self.steps} steps is used up", "plan a new stream (and budget)"
            )
        require_listed("groups", groups)
        if len(groups) != len(people):
            raise ArgumentError(
                "groups", len(groups), f"must be {len(people)}", "give one per person"
            )
        rows = self._rows(people, values)
        periods = periods_of(times, self.plan.period, people)
        events = []
        for index, (person, group) in enumerate(zip(people, groups, strict=True)):
            who, key = person_name(person), person_name(group)
            when = None if periods is None else periods[index]
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
