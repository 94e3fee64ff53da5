"""A running mean over a stream of records, protected per person."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.continual import bands
from privmean.continual.mechanism import NoisyPrefixSums
from privmean.continual.participation import ParticipationQueue
from privmean.continual.planning import plan as make_plan
from privmean.continual.release import StreamRelease
from privmean.continual.rows import as_rows, person_name, plain
from privmean.continual.state import StateFile, StoredRelease
from privmean.continual.streamplan import StreamPlan
from privmean.errors import ArgumentError, Infeasible, PrivmeanError
from privmean.noise.base import Noise
from privmean.noise.exact import ExactNoise
from privmean.people.matrix import clip_rows_to_ball
from privmean.people.reductions import Ball
from privmean.privacy.guarantee import Guarantee

Floats = npt.NDArray[np.float64]


class MeanStream:
    """The private running mean of records that arrive one by one.

    Give the arguments of `continual.plan`, or a finished plan to `from_plan`. Every record is
    clipped to the public region, waits until its person may take part again, takes one step, and
    the mean of all records that took a step so far is released: `update` and `extend` return the
    new releases. A record without a usable value takes its step as the centre of the region.

    state
        Path of a state file. Without it the stream lives in memory only and must not be restarted.
        With it every batch is on disk before its releases are returned; opening the same path again
        continues exactly, and `releases()` gives back all releases so far, bit for bit.
    clamp
        Project estimates on the clipping region (free; never worsens an estimate of a mean in it).
    first_release
        Show nothing before this step: the first steps carry noise larger than the region.
    level
        Of the noise interval shown with each release (for one step at a time).
    history
        Keep all releases for `releases()`; otherwise only the latest one.
    noise
        None for exact noise from the operating system's entropy.

    Guarantees
    ----------
    See `StreamPlan`. The promise is about values at fixed public times: ids, order and number of
    arrivals are public, and so is everything that decides who waits. The limit of participations,
    the separation, the horizon and clipping are enforced here, nothing is owed by the caller but
    that an old copy of a state file is never used again.

    Source: Kalinin, Najar, Roth and Lampert (2026), Algorithm 1, on integers.
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
        **settings: Any,
    ) -> None:
        file = None if state is None else StateFile(state)
        plan = None
        if file is None or file.new or file.fact("plan") is None:
            plan = make_plan(**settings)
        elif file.fact("settings") != plain(settings):
            file.close()
            raise ArgumentError(
                "state",
                str(state),
                "belongs to a stream with other settings",
                "use the same settings, or a new state file",
            )
        self._view(clamp, first_release, level, history)
        self._open(plan, file, noise, plain(settings))

    @classmethod
    def from_plan(
        cls,
        plan: StreamPlan,
        *,
        state: str | os.PathLike[str] | None = None,
        noise: Noise | None = None,
        clamp: bool = True,
        first_release: int = 1,
        level: float = 0.95,
        history: bool = True,
    ) -> MeanStream:
        """A stream that runs a finished plan."""
        stream = cls.__new__(cls)
        file = None if state is None else StateFile(state)
        stored = None if file is None else file.fact("plan")
        if file is not None and stored is not None and stored != plain(plan.to_dict()):
            file.close()
            raise ArgumentError(
                "state", str(state), "belongs to another plan", "use a new state file"
            )
        stream._view(clamp, first_release, level, history)
        stream._open(plan, file, noise, None)
        return stream

    @classmethod
    def resume(
        cls,
        state: str | os.PathLike[str],
        *,
        noise: Noise | None = None,
        clamp: bool = True,
        first_release: int = 1,
        level: float = 0.95,
        history: bool = True,
    ) -> MeanStream:
        """Go on with the stream of a state file, whatever its settings were."""
        if not os.path.exists(state):
            raise ArgumentError("state", str(state), "does not exist", "start a new stream")
        stream = cls.__new__(cls)
        stream._view(clamp, first_release, level, history)
        file = StateFile(state)
        if file.fact("plan") is None:
            file.close()
            raise ArgumentError("state", str(state), "holds no stream", "start a new stream")
        stream._open(None, file, noise, None)
        return stream

    def _view(self, clamp: bool, first_release: int, level: float, history: bool) -> None:
        self.clamp = bool(clamp)
        self.history = bool(history)
        self.first_release = validate.whole("first_release", first_release, least=1)
        self.level = validate.fraction("level", level)

    def _open(
        self, plan: StreamPlan | None, file: StateFile | None, noise: Noise | None, settings: Any
    ) -> None:
        self._noise: Noise = ExactNoise() if noise is None else noise
        self._secure = self._noise.secure
        self._file = file
        self._broken = False
        resumed = file is not None and file.fact("plan") is not None
        if resumed:
            assert file is not None
            plan = StreamPlan.from_dict(file.fact("plan"))
        assert plan is not None
        self.plan = plan
        self._queue: ParticipationQueue[Floats] = ParticipationQueue(plan.lattice.participation)
        self._sums = NoisyPrefixSums(plan.mechanism, self._noise)
        self._ball: Ball | None = None if plan.clip_radius is None else plan.ball()
        self.arrivals = 0
        self.records = 0
        self._kept: list[StoredRelease] = []
        self._mark: Any = None if file is None else file.fact("mark")
        self.latest: StreamRelease | None = None
        if resumed:
            self._resume()
        elif file is not None:
            file.begin()
            file.write_fact("plan", plan.to_dict())
            file.write_fact("settings", settings)
            file.write_fact("secure", self._secure)
            self._write_progress()
            file.commit()

    # --- what a user asks --------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """The promise about all releases of this stream together, past and future."""
        return self.plan.guarantee

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return self._sums.steps

    @property
    def waiting(self) -> int:
        """Accepted records that wait for their turn."""
        return self._queue.waiting

    @property
    def finished(self) -> bool:
        """Whether the horizon is reached."""
        most = self.plan.lattice.most_steps
        return most is not None and self.steps >= most

    @property
    def secure(self) -> bool:
        """False if any release was made with simulated noise."""
        return self._secure

    @property
    def region(self) -> Ball | None:
        """The clipping region; None until it has been found."""
        return self._ball

    def update(self, person: Any, value: Any) -> list[StreamRelease]:
        """One arrival: value a number (or d numbers, or None). Returns the new releases.

        Usually one; none while the person has to wait (the latest release then stays valid), more
        when waiting records may pass too.
        """
        return self.extend([person], [value])

    def extend(self, persons: Sequence[Any], values: Any, mark: Any = None) -> list[StreamRelease]:
        """Many arrivals in order, durable together. Returns the new releases in order.

        persons: ids (None is dropped before it counts). values: shape (m,) or (m, d), or a sequence
        of numbers, sequences or None. mark: a public note (plain data) stored with the batch, such
        as the position in the input; see `mark`. Raises `Infeasible` when the horizon was reached
        before; arrivals after the step that reaches it are ignored.
        """
        self._require_usable()
        rows = as_rows(values, self.plan.dimension)
        if len(rows) != len(persons):
            raise ArgumentError("values", len(rows), f"are not {len(persons)}", "one a person")
        self._broken = True  # until everything below is on disk
        work = _Batch()
        raw = self._ball is None
        if self._ball is not None:
            rows = clip_rows_to_ball(rows, self._ball)[0].astype(np.float64)
        for index, person in enumerate(persons):
            if self._left(work) == 0:
                break
            if raw and self._ball is not None:  # the region was found within this batch
                rows[index:] = clip_rows_to_ball(rows[index:], self._ball)[0]
                raw = False
            self._arrive(person, rows[index], work)
        stored = self._advance(work)
        self._save(work, stored, mark)
        self._broken = False
        released = [self._release(item) for item in stored if self._is_shown(item)]
        if released:
            self.latest = released[-1]
        return released

    def releases(self, after: int = 0) -> Iterator[StreamRelease]:
        """All releases so far with step > `after`, exactly as they were first returned."""
        kept: Iterable[StoredRelease] = self._kept
        if self._file is not None:
            kept = self._file.releases(after)
        for item in kept:
            if item.step > after and self._is_shown(item):
                yield self._release(item)

    @property
    def mark(self) -> Any:
        """The note stored with the last batch that had one."""
        return self._mark

    @mark.setter
    def mark(self, note: Any) -> None:
        self._mark = note
        if self._file is not None:
            self._file.begin()
            self._file.write_fact("mark", note)
            self._file.commit()

    def band(self, release: StreamRelease, level: float | None = None) -> float:
        """l2 radius that holds at all steps together with probability `level`.

        With a horizon by Sidak's inequality, without one by a union over all steps to come.
        """
        chosen = self.level if level is None else validate.fraction("level", level)
        most = self.plan.lattice.steps
        if most is not None:
            return release.noise_sd * bands.simultaneous(chosen, most, self.plan.dimension)
        return release.noise_sd * bands.open_ended(chosen, release.step, self.plan.dimension)

    def close(self) -> None:
        """Close the state file; the stream can be opened again from it."""
        if self._file is not None:
            self._file.close()
            self._broken = True

    def __enter__(self) -> MeanStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- one batch ---------------------------------------------------------------------------

    def _require_usable(self) -> None:
        if self._broken:
            raise PrivmeanError(
                "this stream was closed or stopped within a batch; open its state file again"
            )
        if self.finished:
            raise Infeasible(
                f"the horizon of {self.steps} steps is used up", "plan a new stream (and budget)"
            )

    def _left(self, work: _Batch) -> int | None:
        most = self.plan.lattice.most_steps
        return None if most is None else most - self.steps - len(work.steps)

    def _arrive(self, person: Any, row: Floats, work: _Batch) -> None:
        name = person_name(person)
        if name is None:
            return
        self.arrivals += 1
        now = self.steps + len(work.steps)
        if self._queue.arrive(name, row, self.arrivals, now):
            work.accepted[self.arrivals] = (name, row)
            work.people.add(name)
        if self._ball is None:
            search = self.plan.search
            assert search is not None
            if len(self._queue.people) < search.persons:
                return
            self._find_region(work)
        if self.arrivals % self.plan.every == 0:
            self._take_steps(work)

    def _find_region(self, work: _Batch) -> None:
        """The one paid choice of the clipping radius; then all waiting rows are clipped."""
        search = self.plan.search
        assert search is not None
        people = self._queue.people
        first = np.array([person.waiting[0][1] for person in people.values()])
        radius = search.choose(first, self._noise)
        self._ball = ball = self.plan.ball(radius)
        for name, person in people.items():
            for _ in range(len(person.waiting)):
                arrival, row = person.waiting.popleft()
                clipped = clip_rows_to_ball(row[None, :], ball)[0][0].astype(np.float64)
                person.waiting.append((arrival, clipped))
                work.accepted[arrival] = (name, clipped)
        work.radius = radius

    def _take_steps(self, work: _Batch) -> None:
        taken_any = False
        while self._left(work) != 0:
            taken = self._queue.take(self.steps + len(work.steps), self.plan.every)
            if not taken:
                break
            taken_any = True
            self._add_step([row for _, _, row in taken], work)
            for name, arrival, _ in taken:
                work.people.add(name)
                work.passed.append(arrival)
        if not taken_any and self.plan.filler and self._left(work) != 0:
            self._add_step([], work)

    def _add_step(self, rows: list[Floats], work: _Batch) -> None:
        self.records += len(rows)
        total = np.zeros(self.plan.dimension)
        for row in rows:
            total += row
        work.steps.append((total, self.arrivals, self.records, self._queue.waiting))

    def _advance(self, work: _Batch) -> list[StoredRelease]:
        if not work.steps:
            return []
        before = self.steps
        rows = np.array([item[0] for item in work.steps]).astype(np.int64)
        block = self._sums.advance(rows)
        return [
            StoredRelease(before + i + 1, arrivals, records, waiting, square, sums)
            for i, ((_, arrivals, records, waiting), square, sums) in enumerate(
                zip(work.steps, block.squares.tolist(), block.sums, strict=True)
            )
        ]

    # --- from stored sums to a release -------------------------------------------------------

    def _is_shown(self, item: StoredRelease) -> bool:
        # before the first record there is no mean; it is not a mean without noise
        return item.records > 0 and item.step >= self.first_release

    def _release(self, item: StoredRelease) -> StreamRelease:
        assert self._ball is not None
        unit = self._ball.step / item.records
        offset = item.sums * unit
        if self.clamp:
            offset = bands.clamp(offset, self._ball.radius)
        noise_sd = self.plan.mechanism.noise_step * float(np.sqrt(item.square)) * unit
        return StreamRelease(
            step=item.step,
            arrivals=item.arrivals,
            records=item.records,
            waiting=item.waiting,
            estimate=np.asarray(self._ball.center) + offset,
            noise_sd=noise_sd,
            half_width=noise_sd * bands.pointwise(self.level, self.plan.dimension),
            level=self.level,
            secure=self._secure,
        )

    # --- the state file ----------------------------------------------------------------------

    def _save(self, work: _Batch, stored: list[StoredRelease], mark: Any) -> None:
        file = self._file
        if mark is not None:
            self._mark = mark
        if not self.history:
            self._kept = stored[-1:] or self._kept
        elif file is None:
            self._kept.extend(stored)
        if file is None:
            return
        file.begin()
        passed = set(work.passed)
        file.drop_waiting(passed)
        file.add_waiting(
            (arrival, name, row.tobytes())
            for arrival, (name, row) in work.accepted.items()
            if arrival not in passed
        )
        people = self._queue.people
        file.write_people((name, people[name].used, people[name].last) for name in work.people)
        if self.history:
            file.add_releases(stored)
        elif stored:
            file.replace_release(stored[-1])
        if work.radius is not None:
            file.write_fact("radius", work.radius)
        if mark is not None:
            file.write_fact("mark", mark)
        if stored:
            for name, value in self._sums.arrays().items():
                file.write_array(name, value)
        self._write_progress()
        file.commit()

    def _write_progress(self) -> None:
        assert self._file is not None
        self._file.write_fact("progress", [self.arrivals, self.records])

    def _resume(self) -> None:
        file = self._file
        assert file is not None
        self.arrivals, self.records = file.fact("progress")
        if self._secure != file.fact("secure"):
            raise ArgumentError(
                "noise", self._noise, "differs from that of the state", "use the same kind"
            )
        radius = file.fact("radius")
        if radius is not None:
            self._ball = self.plan.ball(radius)
        arrays = {name: file.array(name) for name in ("forward", "backward", "tracker", "sums")}
        held = {name: value for name, value in arrays.items() if value is not None}
        if held:
            self._sums.restore(held)
        for person, used, last in file.people():
            self._queue.restore(person, used, last)
        for arrival, person, data in file.waiting():
            self._queue.restore_waiting(person, arrival, np.frombuffer(data, dtype=np.float64))
        self._queue.announce_all(self.steps)
        if self.steps:
            for item in self.releases(after=self.steps - 1):
                self.latest = item


class _Batch:
    """What one batch changed: written to the state file in one transaction."""

    def __init__(self) -> None:
        self.steps: list[tuple[Floats, int, int, int]] = []
        self.accepted: dict[int, tuple[str, Floats]] = {}
        self.passed: list[int] = []
        self.people: set[str] = set()
        self.radius: float | None = None
