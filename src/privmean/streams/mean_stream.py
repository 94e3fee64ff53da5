"""A running mean of a stream of records, or one for each group, protected per person."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from inspect import signature
from typing import Any, Unpack

import numpy as np

from privmean import validate
from privmean.data.person_table import L2Ball
from privmean.errors import ArgumentError, InfeasibleError
from privmean.noise.noise_source import Noise
from privmean.streams import stream_release as bands
from privmean.streams.participation import StoredRelease, period_of
from privmean.streams.record_sources import person_name, plain
from privmean.streams.schedule_steps import Batch, Common, StepRun
from privmean.streams.stream_base import (
    KIND,
    Event,
    Journal,
    Journaled,
    L,
    StateFile,
    StreamBase,
    require_each,
    rows_of,
)
from privmean.streams.stream_plan import StreamPlan
from privmean.streams.stream_plan import plan as make_plan
from privmean.streams.stream_release import Opening, StreamRelease, View

FLUSH = json.dumps(None)
PLANNED = frozenset(signature(make_plan).parameters)


class StepStream(StreamBase[StreamPlan, L]):
    """A stream whose records make steps."""

    _view: View

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the horizon is reached."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """Steps taken so far."""

    def _require_going(self) -> None:
        self._require_open()
        if self.finished:
            raise InfeasibleError(
                f"the horizon of {self.steps} steps is used up", "plan a new stream (and budget)"
            )

    def _require_shown(self, steps: int | None) -> None:
        """Refuse a stream that would end before the first release that is shown."""
        first = self._view.first_release
        if steps is not None and first > steps:
            self.close()
            raise ArgumentError(
                "first_release",
                first,
                f"must lie within the {steps} steps",
                "show an earlier release",
            )

    def _periods(
        self, times: Sequence[object] | None, people: Sequence[object]
    ) -> list[str | None] | None:
        """The period of each time; None in a stream without periods, where none may be given."""
        period = self.plan.period
        if (times is not None) != bool(period):
            wants = "is required" if period else "requires period"
            raise ArgumentError("times", times, wants, "give times exactly where there is a period")
        if times is None:
            return None
        require_each("times", times, people)
        return [period_of(item, period) for item in times]


class MeanStream(StepStream[StateFile]):
    """Private mean of records that arrive one by one: running, of a window, or of periods.

    Parameters
    ----------
    state : path, optional
        State file, which keeps every record and draw. Batches are on disk before their releases are
        returned, and opening the file again continues exactly. Default: in memory, no restart.
    noise : SimulatedNoise, optional
        For tests only. Default: exact noise from system entropy.
    clamp : bool, default True
        Project estimates on the clipping bounds, at no further charge.
    first_release : int, default 1
        First step that is shown. The noise of the first steps can exceed the bounds.
    level : float, default 0.95
        Confidence level of the intervals, per step.
    history : bool, default True
        Keep all releases for `releases()`; otherwise only the latest.
    moved : bool, default False
        You state that a state file, which this machine does not know, is the newest, and that no
        other copy is used again.
    sd : float, optional
        Public upper bound of the standard deviation of one row, for a normal population interval.
        Default: that interval uses the clipping bounds only.
    icc : float, optional
        With `sd`: public upper bound of the correlation of two rows of one person, from 0 to 1.
        Default: any dependence.
    settings : float, int or str
        The parameters of `streams.plan`. For a finished plan use `from_plan`.

    Raises
    ------
    ArgumentError, InfeasibleError
        Before anything is read.

    Privacy
    -------
    See `StreamPlan`: values at fixed public times. Ids, order and number of arrivals are public.
    The stream enforces participations, separation, horizon and clipping. Never use an old copy of a
    state file: the stream detects most copies, but not one restored with its notes beside it.

    Notes
    -----
    A record waits until its person may take part again, then takes one step. A record without a
    usable value counts as the center. A stream belongs to its process and refuses to run in a fork.
    Source: Kalinin, Najar, Roth and Lampert (2026), Algorithm 1, on integers.

    Examples
    --------
    stream = pm.MeanStream(
        epsilon=1, delta=1e-6, max_participations=4, min_separation=8, bounds=(0, 5), steps=64
    )
    for i in range(16):
        for release in stream.update(f"person {i % 8}", 3.5):
            print(release.step, float(release), release.noise_sd)
    stream.close()
    """

    def __init__(
        self,
        *,
        state: str | os.PathLike[str] | None = None,
        noise: Noise | None = None,
        clamp: bool = True,
        first_release: int = 1,
        level: float = 0.95,
        history: bool = True,
        moved: bool = False,
        sd: float | None = None,
        icc: float | None = None,
        **settings: Any,
    ) -> None:
        validate.only_keywords("streams.MeanStream", settings, PLANNED)
        self._open(
            state,
            settings=settings,
            noise=noise,
            history=history,
            moved=moved,
            clamp=clamp,
            first_release=first_release,
            level=level,
            sd=sd,
            icc=icc,
        )

    @classmethod
    def from_plan(
        cls,
        plan: StreamPlan,
        *,
        state: str | os.PathLike[str] | None = None,
        **how: Unpack[Opening],
    ) -> MeanStream:
        """A stream that runs a finished plan."""
        validate.instance("plan", plan, StreamPlan, "make it with streams.plan")
        validate.only_keywords("streams.MeanStream.from_plan", how, Opening.__annotations__)
        stream = cls.__new__(cls)
        stream._open(state, plan=plan, **how)
        return stream

    @classmethod
    def resume(
        cls,
        state: str | os.PathLike[str],
        **how: Unpack[Opening],
    ) -> MeanStream:
        """Go on with the stream of a state file, whatever its settings were."""
        validate.only_keywords("streams.MeanStream.resume", how, Opening.__annotations__)
        if not os.path.exists(validate.path("state", state)):
            raise ArgumentError("state", str(state), "does not exist", "start a new stream")
        stream = cls.__new__(cls)
        stream._open(state, **how)
        return stream

    def _open(
        self,
        state: str | os.PathLike[str] | None,
        *,
        settings: dict[str, Any] | None = None,
        plan: StreamPlan | None = None,
        noise: Noise | None = None,
        history: bool = True,
        moved: bool = False,
        **showing: Any,
    ) -> None:
        self._view, self._history = View(**showing), bool(history)
        source = self._start(noise)
        log = self._open_state(StateFile, KIND, state, moved=moved)
        if log is not None:
            remedy = "use the same, or a new state file"
            if settings is not None:
                problem = "is the state of a stream with other settings"
                log.require("settings", settings, problem, remedy)
            if plan is not None:
                log.require("plan", plan.to_dict(), "is the state of another plan", remedy)
            plan = StreamPlan.from_dict(log.facts["plan"])
        elif plan is None:
            plan = make_plan(**(settings or {}))
        if plan.target.window is not None and not history:
            self.close()
            raise ArgumentError(
                "history", history, "is required for a window", "give history, or use a half-life"
            )
        self._require_shown(plan.lattice.steps)
        self.plan = plan
        self.latest: StreamRelease | None = None
        self._kept: list[StoredRelease] = []
        self._core = StepRun(plan, source, self._view)
        if log is not None:
            kept = self._core.restore(log)
            if kept:
                self.latest = next(self._again(kept, kept[-1].step - 1), None)
        elif state is not None:  # wrong arguments have left no file behind
            facts = {"plan": plan.to_dict(), "settings": plain(settings), "secure": source.secure}
            self._log = StateFile.create(state, KIND, facts)

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return self._core.schedule.steps

    @property
    def arrivals(self) -> int:
        """Arrivals so far that had an id."""
        return self._core.schedule.arrivals

    @property
    def records(self) -> int:
        """Records in the mean so far."""
        return self._core.schedule.records

    @property
    def waiting(self) -> int:
        """Accepted records that wait for their turn."""
        return self._core.schedule.queue.waiting

    @property
    def late(self) -> int:
        """Arrivals of periods that were over, or without a readable time, since the start."""
        return self._core.schedule.late

    @property
    def finished(self) -> bool:
        """Whether the horizon is reached."""
        return self._core.schedule.finished

    @property
    def region(self) -> L2Ball | None:
        """The clipping bounds; None until they are found."""
        return self._core.schedule.ball

    def update(self, person: object, value: object) -> list[StreamRelease]:
        """One arrival: a number (or d numbers, or None). None, one or several new releases."""
        return self.extend([person], [value])

    def extend(
        self,
        people: Sequence[object],
        values: Collection[object],
        mark: object = None,
        times: Sequence[object] | None = None,
    ) -> list[StreamRelease]:
        """Many arrivals in order, durable together. Returns the new releases in order.

        people: ids (None is dropped before it counts). values: shape (m,) or (m, d), or a sequence
        of numbers, sequences or None. mark: a public note (plain data) stored with the batch, such
        as the position in the input; see `mark`. times: with `period`, the public time of each
        arrival (a datetime, a date, an ISO text, or seconds since 1970). Raises `InfeasibleError`
        when the horizon was reached before; arrivals after the step that reaches it are ignored.
        """
        self._require_going()
        rows = rows_of(people, values, self.plan.dimension)
        periods = self._periods(times, people)
        self._broken = True  # until everything below is on disk
        return self._make(self._core.schedule.take_in(people, rows, periods), mark)

    def flush(self) -> list[StreamRelease]:
        """Release what waits, at the end of the input: returns the new releases.

        Rows that wait for their turn take their steps, with empty steps between them as far as the
        separation asks for; the open period is closed. More may arrive afterwards. Ids and counts
        alone decide; the budget is that of the plan.
        """
        self._require_open()
        if self.finished:
            return []
        self._broken = True
        return self._make(self._core.schedule.flush(), None)

    def _make(self, batch: Batch, mark: object) -> list[StreamRelease]:
        """Noise for the steps of a batch; everything on disk before anything is shown."""
        stored, released = self._core.release(batch)
        if mark is not None:
            self._mark = batch.mark = mark
        if self._log is not None:
            self._core.save(self._log, batch, stored, history=self._history)
        elif self._history:
            self._kept.extend(stored)
        else:
            self._kept = stored[-1:] or self._kept
        self._broken = False
        if released:
            self.latest = released[-1]
        return released

    def releases(self, after: int = 0) -> Iterator[StreamRelease]:
        """All releases so far with step > `after`, exactly as they were first returned."""
        after = validate.whole("after", after, least=0)
        first = max(0, after - self._core.making.reach)
        kept: Iterable[StoredRelease] = self._kept
        if self._log is not None:
            kept = self._log.releases(first)
        yield from self._again((item for item in kept if item.step > first), after)

    def _again(self, kept: Iterable[StoredRelease], after: int) -> Iterator[StreamRelease]:
        return self._core.making.again(kept, self.region, after)

    def band(self, release: StreamRelease, level: float | None = None) -> float:
        """l2 radius that holds at all steps together with probability `level`.

        With a horizon by Sidak's inequality, without one by a union over all steps to come.
        """
        validate.instance("release", release, StreamRelease, "give a release of this stream")
        chosen = self._view.level if level is None else validate.level("level", level)
        most, d = self.plan.lattice.steps, self.plan.dimension
        return release.noise_sd * bands.together(chosen, release.step, most, d)


class GroupMeanStream(StepStream[Journal], Journaled[StreamPlan]):
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
        validate.only_keywords("streams.GroupMeanStream", settings, PLANNED)
        self._begin(
            {"groups": groups, **settings},
            state,
            noise=noise,
            history=history,
            moved=moved,
            clamp=clamp,
            first_release=first_release,
            level=level,
            sd=sd,
            icc=icc,
        )

    @classmethod
    def from_plan(
        cls,
        plan: StreamPlan,
        *,
        state: str | os.PathLike[str] | None = None,
        **how: Unpack[Opening],
    ) -> GroupMeanStream:
        """A stream that runs a finished plan, made with `groups`."""
        validate.only_keywords("streams.GroupMeanStream.from_plan", how, Opening.__annotations__)
        if not validate.instance("plan", plan, StreamPlan, "make it with streams.plan").groups:
            raise ArgumentError(
                "plan", plan.rationale, "is a plan for one group", "plan with groups"
            )
        stream = cls.__new__(cls)
        stream._begin(plan.to_dict(), state, plan=plan, **how)
        return stream

    def _begin(
        self,
        settings: dict[str, Any],
        state: str | os.PathLike[str] | None,
        *,
        plan: StreamPlan | None = None,
        noise: Noise | None = None,
        history: bool = True,
        moved: bool = False,
        **showing: Any,
    ) -> None:
        self._view, self._history = View(**showing), bool(history)

        def planned() -> dict[str, Any]:
            made = make_plan(**settings) if plan is None else plan
            self._require_shown(made.horizon)
            return made.to_dict()

        stored = self._remember(
            state, settings, noise, kind="streams by group", moved=moved, more=planned
        )
        self.plan = StreamPlan.from_dict(stored)
        self._require_shown(self.plan.horizon)
        self._common = Common()
        self._groups: dict[str, StepRun] = {}
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
        """Many arrivals in order, durable together. Returns the new releases in order.

        people, groups: ids and public groups (None is dropped before it counts). values: shape
        (m,) or (m, d). times: with `period`. mark: a
        public note stored with the batch. Raises `InfeasibleError` when the horizon was reached
        before.
        """
        self._require_going()
        require_each("groups", groups, people)
        rows = rows_of(people, values, self.plan.dimension)
        periods = self._periods(times, people)
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

    def _run(self, events: list[Event]) -> list[StreamRelease]:
        """Arrivals in their order, then the noise of each group: a replay does the same.

        Releases come in the order of their steps, and nothing is counted after the horizon, so that
        no release shows where a batch ended: a reader of text ends it after so many bytes, which
        depend on values.
        """
        batches: dict[str, Batch] = {}
        taken: list[tuple[str, int]] = []  # group and number of each step, in their order
        for name, row in events:
            if name == FLUSH:
                for key, group in self._groups.items():
                    before = group.schedule.steps
                    batches[key] = group.schedule.flush(batches.get(key))
                    taken += _since(key, before, group)
                continue
            if self.finished:
                continue
            self.arrivals += 1
            person, key, period = json.loads(name)
            if key not in self._groups:
                self._groups[key] = StepRun(
                    self.plan, self._noise, self._view, group=key, common=self._common
                )
            group = self._groups[key]
            before = group.schedule.steps
            periods = [period] if self.plan.period else None
            batches[key] = group.schedule.take_in([person], row[None, :], periods, batches.get(key))
            taken += _since(key, before, group)
        shown = {
            (key, item.step): item
            for key, batch in batches.items()
            for item in self._groups[key].release(batch)[1]
        }
        released = [shown[step] for step in taken if step in shown]
        if self._history:
            self._kept.extend(released)
        return released


def _since(key: str, before: int, group: StepRun) -> list[tuple[str, int]]:
    """The steps that a group took after so many."""
    return [(key, step) for step in range(before + 1, group.schedule.steps + 1)]
