"""A running mean over time.

A stream in a ledger: one charge for all its releases, given back when it goes on.

What streams of every kind are: a guarantee, one charge, a process, and an end.

A running mean over a stream of records, protected per person.
"""

from __future__ import annotations

import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar, Unpack

from privmean import validate
from privmean.data.person_table import L2Ball
from privmean.errors import ArgumentError, InfeasibleError, PrivmeanError
from privmean.noise.exact import ExactNoise
from privmean.noise.noise_source import Noise
from privmean.noise.simulated import RecordedNoise
from privmean.privacy.guarantee import Guarantee
from privmean.storage.witness import require_process
from privmean.streams import schedule_steps as storage
from privmean.streams import stream_release as bands
from privmean.streams.participation import period_of
from privmean.streams.record_sources import as_rows, plain, require_listed
from privmean.streams.schedule_steps import Batch, StepSchedule
from privmean.streams.state_file import Event, Journal, StateFile, Stored, StoredRelease
from privmean.streams.stream_plan import StreamPlan
from privmean.streams.stream_plan import plan as make_plan
from privmean.streams.stream_release import Opening, ReleaseBuilder, StreamRelease, View, apart
from privmean.streams.toeplitz_matrices import Floats
from privmean.streams.withhold_plan import WithholdPlan


class Ledger(Protocol):
    """What of `privacy.ledger.Ledger` a stream needs."""

    def charge(
        self, cost: Guarantee, *, label: str = ..., about: dict[str, str] | None = ...
    ) -> object:
        """Spends or raises."""
        ...


def charge_stream(
    ledger: Ledger | str | os.PathLike[str], promise: Guarantee, run: str | None, label: str
) -> None:
    """Charge the guarantee of a stream, once for each `run` (None: a stream without a state).

    ledger: one, or the path of one that is there.

    Call it before the first record. A stream that goes on from its state has the number that was
    written there before anything was charged, and the ledger gives the same charge back.
    """
    if isinstance(ledger, str | os.PathLike):
        from privmean.privacy.ledger import Ledger as Book

        ledger = Book.open(ledger)
    if not hasattr(ledger, "charge"):
        raise ArgumentError("ledger", ledger, "is not a ledger", "give a pm.Ledger or its path")
    ledger.charge(promise, label=label, about={"run": run or uuid.uuid4().hex})


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


class MeanStream(StreamBase[StreamPlan]):
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
        view = View(clamp, first_release, level, sd=sd, icc=icc)
        self._open(state, view, noise, history, moved, settings=settings)

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
        stream, (view, rest) = cls.__new__(cls), apart(how)
        stream._open(state, view, plan=plan, **rest)
        return stream

    @classmethod
    def resume(
        cls,
        state: str | os.PathLike[str],
        **how: Unpack[Opening],
    ) -> MeanStream:
        """Go on with the stream of a state file, whatever its settings were."""
        if not os.path.exists(validate.path("state", state)):
            raise ArgumentError("state", str(state), "does not exist", "start a new stream")
        stream, (view, rest) = cls.__new__(cls), apart(how)
        stream._open(state, view, **rest)
        return stream

    def _open(
        self,
        state: str | os.PathLike[str] | None,
        view: View,
        noise: Noise | None = None,
        history: bool = True,
        moved: bool = False,
        *,
        settings: dict[str, Any] | None = None,
        plan: StreamPlan | None = None,
    ) -> None:
        source: Noise = source_of(noise)
        self._file: StateFile | None = None
        stored = None
        state = None if state is None else validate.path("state", state)
        if state is not None and os.path.exists(state):
            self._file, stored = storage.open_file(state, moved=moved, settings=settings, plan=plan)
            if stored.facts["secure"] != source.secure:
                self._file.close()
                raise ArgumentError(
                    "noise",
                    noise,
                    "must be the kind of noise that the state records",
                    "use the same kind",
                )
            plan = StreamPlan.from_dict(stored.facts["plan"])
        elif plan is None:
            plan = make_plan(**(settings or {}))
        if plan.target.window is not None and not history:
            if self._file is not None:
                self._file.close()
            raise ArgumentError(
                "history", history, "is required for a window", "give history, or use a half-life"
            )
        try:
            require_shown(view.first_release, plan.lattice.steps)
        except ArgumentError:
            if self._file is not None:
                self._file.close()
            raise
        if stored is None and state is not None:  # wrong arguments have left no file behind
            self._file = storage.new_file(state, plan, settings, secure=source.secure)
        self.plan = plan
        self.latest: StreamRelease | None = None
        self._making = ReleaseBuilder(plan, source, view)
        self._level = view.level
        self._start(source)
        self._history = bool(history)
        self._kept: list[StoredRelease] = []
        self._schedule = StepSchedule(plan, source)
        self._mark: Any = None
        if stored is not None:
            self._restore(stored)

    def _restore(self, stored: Stored) -> None:
        storage.load(stored, self._schedule, self._making.sums)
        self._mark = stored.facts.get("mark")
        if stored.latest is not None:
            last, kept = stored.latest.step, [stored.latest]
            if self._making.reach and self._file is not None:
                kept = list(self._file.releases(last - self._making.reach - 1))
            self.latest = next(self._making.again(kept, self.region, last - 1), None)
            self._making.restore(self._schedule.records, kept)
            separation = self.plan.lattice.participation.separation
            self._making.weights.restore(stored.people, kept, separation)

    @property
    def _run_id(self) -> str | None:
        return None if self._file is None else self._file.facts.get("run")

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return self._schedule.steps

    @property
    def arrivals(self) -> int:
        """Arrivals so far that had an id."""
        return self._schedule.arrivals

    @property
    def records(self) -> int:
        """Records in the mean so far."""
        return self._schedule.records

    @property
    def waiting(self) -> int:
        """Accepted records that wait for their turn."""
        return self._schedule.queue.waiting

    @property
    def late(self) -> int:
        """Arrivals of periods that were over, or without a readable time, since the start."""
        return self._schedule.late

    @property
    def finished(self) -> bool:
        """Whether the horizon is reached."""
        return self._schedule.finished

    @property
    def region(self) -> L2Ball | None:
        """The clipping bounds; None until they are found."""
        return self._schedule.ball

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
        self._require_open()
        if self.finished:
            raise InfeasibleError(
                f"the horizon of {self.steps} steps is used up", "plan a new stream (and budget)"
            )
        rows = self._rows(people, values)
        periods = periods_of(times, self.plan.period, people)
        self._broken = True  # until everything below is on disk
        return self._make(self._schedule.take_in(people, rows, periods), mark)

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
        return self._make(self._schedule.flush(), None)

    def _make(self, batch: Batch, mark: object) -> list[StreamRelease]:
        """Noise for the steps of a batch; everything on disk before anything is shown."""
        stored = self._making.made(batch.steps)
        if mark is not None:
            self._mark = mark
        if self._file is not None:
            storage.save(
                self._file,
                batch,
                self._schedule,
                self._making.sums,
                self._making.weights,
                stored,
                mark=None if mark is None else plain(mark),
                history=self._history,
            )
        elif self._history:
            self._kept.extend(stored)
        else:
            self._kept = stored[-1:] or self._kept
        self._broken = False
        released = self._making.shown(stored, self.region)
        if released:
            self.latest = released[-1]
        return released

    def releases(self, after: int = 0) -> Iterator[StreamRelease]:
        """All releases so far with step > `after`, exactly as they were first returned."""
        first = max(0, validate.whole("after", after, least=0) - self._making.reach)
        kept: Iterable[StoredRelease] = self._kept
        if self._file is not None:
            kept = self._file.releases(first)
        chosen = (item for item in kept if item.step > first)
        yield from self._making.again(chosen, self.region, after)

    @property
    def mark(self) -> Any:
        """The note stored with the last batch that had one."""
        return self._mark

    @mark.setter
    def mark(self, note: object) -> None:
        require_process(self._process)
        self._mark = note
        if self._file is not None and self._file.facts.get("mark") != plain(note):
            storage.save_fact(self._file, "mark", plain(note))

    def band(self, release: StreamRelease, level: float | None = None) -> float:
        """l2 radius that holds at all steps together with probability `level`.

        With a horizon by Sidak's inequality, without one by a union over all steps to come.
        """
        validate.instance("release", release, StreamRelease, "give a release of this stream")
        chosen = self._level if level is None else validate.level("level", level)
        most, d = self.plan.lattice.steps, self.plan.dimension
        return release.noise_sd * bands.together(chosen, release.step, most, d)

    def close(self) -> None:
        """Close the state file; the stream can be opened again from it."""
        if self._file is not None:
            self._file.close()
            self._broken = True
