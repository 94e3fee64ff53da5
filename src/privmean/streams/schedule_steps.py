"""From records to steps and their releases: which rows make which step, and where that stands.

Ids and counts alone decide. Values are carried along and clipped; only the one paid search for a
clipping radius reads them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from privmean.array_types import Floats
from privmean.data.array_kernels import clip_rows_to_ball
from privmean.data.person_table import L2Ball
from privmean.mechanisms.private_location import RadiusSearch
from privmean.noise.noise_source import Noise
from privmean.streams.participation import ParticipationQueue, Step, StoredRelease
from privmean.streams.record_sources import person_name, plain
from privmean.streams.stream_base import CHUNK, Entry, StateFile, packed, packed_releases
from privmean.streams.stream_plan import StreamPlan
from privmean.streams.stream_release import ReleaseBuilder, StreamRelease, View


class Batch:
    """What some arrivals changed: written to the state file in one transaction."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.accepted: dict[int, tuple[str, Floats]] = {}
        self.passed: set[int] = set()
        self.people: set[str] = set()
        self.radius: float | None = None
        self.mark: object = None


class Common:
    """What the groups of a stream have in common: participations of people, and all steps."""

    def __init__(self) -> None:
        self.accepted: dict[str, int] = {}
        self.steps = 0


class StepSchedule:
    """The queue, the clipping region and the public counts of a stream, or of one of its groups."""

    def __init__(self, plan: StreamPlan, noise: Noise, common: Common | None = None) -> None:
        self.plan = plan
        self.noise = noise
        self._common = common
        self.queue = ParticipationQueue(
            plan.lattice.participation, None if common is None else common.accepted
        )
        self.ball: L2Ball | None = None if plan.clip_radius is None else plan.ball()
        self.arrivals = 0
        self.records = 0
        self.steps = 0
        self.period = ""  # the open one, of a stream of periods
        self.late = 0  # arrivals of a period that is over, or without a readable time
        limits = (plan.lattice.most_steps, plan.horizon)
        self._most = min((item for item in limits if item is not None), default=math.inf)

    @property
    def finished(self) -> bool:
        """Whether the horizon is reached."""
        return (self.steps if self._common is None else self._common.steps) >= self._most

    def take_in(
        self,
        persons: Sequence[object],
        rows: Floats,
        periods: Sequence[str | None] | None = None,
        batch: Batch | None = None,
    ) -> Batch:
        """Arrivals in order, until the horizon is reached. rows: shape (m, d), NaN for nulls.

        periods: public labels, one an arrival, of a stream of periods. batch: to add to.
        """
        batch = Batch() if batch is None else batch
        clipped = None if self.ball is None else _clip(rows, self.ball)
        for index, person in enumerate(persons):
            if self.finished:
                break
            if clipped is None and self.ball is not None:  # found within this batch
                clipped = _clip(rows, self.ball)
            name = person_name(person)
            if name is None:
                continue
            row = (rows if clipped is None else clipped)[index]
            if periods is None:
                self._arrive(name, row, batch)
            else:
                self._arrive_in(periods[index], name, row, batch)
        return batch

    def flush(self, batch: Batch | None = None) -> Batch:
        """No more arrivals are expected: all that waits passes, with fillers in between."""
        batch = Batch() if batch is None else batch
        if self.ball is None:
            return batch
        if self.plan.period:
            self._close_period(batch, empty=False)
            return batch
        while not self.finished and (allowed := self.queue.next_step) is not None:
            while self.steps < allowed and not self.finished:
                self._add_step([], batch)
            self._take_steps(batch)
        return batch

    def _arrive_in(self, period: str | None, name: str, row: Floats, batch: Batch) -> None:
        """An arrival of a calendar period: a later one ends the open period and makes its step."""
        self.arrivals += 1
        if period is None or period < self.period:
            self.late += 1
            return
        if period > self.period:
            self._close_period(batch, empty=bool(self.period))
            if self.finished:
                return
            self.period = period
        if self.queue.join(name, row, self.arrivals, self.steps, self.plan.most_a_step):
            batch.accepted[self.arrivals] = (name, row)
            batch.people.add(name)

    def _close_period(self, batch: Batch, *, empty: bool) -> None:
        """The step of a period: one row a person, the mean of what that person gave in it.

        empty: take it also if nobody could take part, so that time goes on.
        """
        rows: list[tuple[str, Floats]] = []
        for name, arrivals, held in self.queue.leave(self.steps):
            # inside the ball, as the rows are; cutting to whole steps only makes it shorter
            rows.append((name, np.trunc(np.mean(np.array(held), axis=0))))
            batch.passed.update(arrivals)
            batch.people.add(name)
        if rows or empty:
            self._add_step(rows, batch)

    def _arrive(self, name: str, row: Floats, batch: Batch) -> None:
        self.arrivals += 1
        if self.queue.arrive(name, row, self.arrivals, self.steps):
            batch.accepted[self.arrivals] = (name, row)
            batch.people.add(name)
        if self.ball is None:
            search = self.plan.search
            assert search is not None
            if len(self.queue.people) < search.n:
                return
            self._find_region(search, batch)
        if self.arrivals % self.plan.every == 0:
            self._take_steps(batch)

    def _find_region(self, search: RadiusSearch, batch: Batch) -> None:
        """The one paid choice of the clipping radius; then all waiting rows are clipped."""
        people = self.queue.people
        first = np.array([person.waiting[0][1] for person in people.values()])
        batch.radius = search.choose(first, self.noise)
        self.ball = self.plan.ball(batch.radius)
        for name, person in people.items():
            for _ in range(len(person.waiting)):
                arrival, row = person.waiting.popleft()
                clipped = _clip(row[None, :], self.ball)[0]
                person.waiting.append((arrival, clipped))
                batch.accepted[arrival] = (name, clipped)

    def _take_steps(self, batch: Batch) -> None:
        before = self.steps
        while not self.finished:
            taken = self.queue.take(self.steps, self.plan.every)
            if not taken:
                break
            for name, arrival, _ in taken:
                batch.people.add(name)
                batch.passed.add(arrival)
            self._add_step([(name, row) for name, _, row in taken], batch)
        if self.steps == before and self.plan.filler and not self.finished:
            self._add_step([], batch)

    def _add_step(self, taken: list[tuple[str, Floats]], batch: Batch) -> None:
        people = tuple([name for name, _ in taken])
        rows = [row for _, row in taken]
        self.steps += 1
        if self._common is not None:
            self._common.steps += 1
        self.records += len(rows)
        total = rows[0] if len(rows) == 1 else sum(rows, np.zeros(self.plan.dimension))
        waiting = self.queue.waiting
        batch.steps.append(Step(total, self.arrivals, self.records, waiting, self.period, people))


def _clip(rows: Floats, ball: L2Ball) -> Floats:
    """Rows on the lattice of the ball, as doubles that hold whole numbers."""
    return clip_rows_to_ball(rows, ball)[0].astype(np.float64)


class StepRun:
    """A schedule with the noise of its steps: a stream, or one of its groups."""

    def __init__(
        self,
        plan: StreamPlan,
        noise: Noise,
        view: View,
        *,
        group: str | None = None,
        common: Common | None = None,
    ) -> None:
        self.schedule = StepSchedule(plan, noise, common)
        self.making = ReleaseBuilder(plan, noise, view, group=group)

    def release(self, batch: Batch) -> tuple[list[StoredRelease], list[StreamRelease]]:
        """Noise for the steps of a batch: the releases as they are stored, and as shown."""
        stored = self.making.made(batch.steps)
        return stored, self.making.shown(stored, self.schedule.ball)

    def save(
        self, file: StateFile, batch: Batch, released: list[StoredRelease], *, history: bool
    ) -> None:
        """One durable entry with everything a batch changed."""
        schedule = self.schedule
        facts: Entry = {"progress": [schedule.arrivals, schedule.records, schedule.steps]}
        if schedule.period:
            facts["period"] = schedule.period
        if batch.radius is not None:
            facts["radius"] = batch.radius
        if batch.mark is not None:
            facts["mark"] = plain(batch.mark)
        passed = batch.passed
        waiting = {arrival: it for arrival, it in batch.accepted.items() if arrival not in passed}
        entry = {"facts": facts, **self._people(batch.people, waiting)}
        before = file.facts["progress"][0]
        if known := [arrival for arrival in passed if arrival <= before]:
            entry["passed"] = known
        if released:
            entry["releases"] = packed_releases(released if history else released[-1:])
            entry["only"] = not history
            entry["arrays"] = self._arrays()
        file.add(entry)
        if file.grown:
            file.rewrite(self._all(file))

    def _all(self, file: StateFile) -> Iterator[Entry]:
        """The state without its releases, in parts."""
        yield {"facts": file.facts, "arrays": self._arrays()}
        people = self.schedule.queue.people
        names = list(people)
        for start in range(0, len(names), CHUNK):
            part = names[start : start + CHUNK]
            held = {arrival: (name, row) for name in part for arrival, row in people[name].waiting}
            yield self._people(part, held)

    def _people(self, names: Iterable[str], held: dict[int, tuple[str, Floats]]) -> Entry:
        """People as they are now, and rows that wait, by arrival."""
        entry: Entry = {"people": [self._person(name) for name in names]}
        if held:
            rows = packed(np.array([row for _, row in held.values()]))
            entry["waiting"] = [list(held), [name for name, _ in held.values()], rows]
        return entry

    def _person(self, name: str) -> list[object]:
        person, weight = self.schedule.queue.people[name], self.making.weights.fading(name)
        facts = [name, person.used, person.last, person.allowed]
        return facts if weight is None else [*facts, weight]

    def _arrays(self) -> Entry:
        return {name: packed(value) for name, value in self.making.sums.arrays().items()}

    def restore(self, file: StateFile) -> list[StoredRelease]:
        """Go on where the file stands; its last releases, as many as a window needs."""
        stored, facts, schedule = file.take_stored(), file.facts, self.schedule
        schedule.arrivals, schedule.records, schedule.steps = facts["progress"]
        schedule.period = facts.get("period", "")
        if "radius" in facts:
            schedule.ball = schedule.plan.ball(facts["radius"])
        if held := stored.arrays:
            self.making.sums.restore(held)
        period = bool(schedule.plan.period)
        schedule.queue.restore(stored.people, stored.waiting, collected=period)
        latest, reach = stored.latest, self.making.reach
        if latest is None:
            return []
        kept = list(file.releases(latest.step - reach - 1)) if reach else [latest]
        self.making.restore(schedule.records, kept, stored.people)
        return kept
