"""From records to steps, and the state between them.

Which rows make which step: the part of a stream that looks at ids and counts.

Values are carried along and clipped; only the one paid search for a clipping radius reads them.

Grouping people into bins with enough records, and the averages of bins.

A running stream to its state file and back.
"""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from privmean.data.array_kernels import clip_rows_to_ball
from privmean.data.person_table import L2Ball
from privmean.errors import ArgumentError
from privmean.noise.noise_source import Noise
from privmean.streams.integer_strategy import NoisyPrefixSums
from privmean.streams.participation import ParticipationQueue, Person, PersonWeights
from privmean.streams.record_sources import person_name, plain
from privmean.streams.state_file import (
    CHUNK,
    Entry,
    StateFile,
    Stored,
    StoredRelease,
    packed,
    packed_releases,
)
from privmean.streams.stream_plan import StreamPlan
from privmean.streams.toeplitz_matrices import Floats


class Step(NamedTuple):
    """The summed row of one step, with the public counts after it, and who took part."""

    row: Floats
    arrivals: int
    records: int
    waiting: int
    period: str = ""
    people: tuple[str, ...] = ()


class Batch:
    """What some arrivals changed: written to the state file in one transaction."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.accepted: dict[int, tuple[str, Floats]] = {}
        self.passed: set[int] = set()
        self.people: set[str] = set()
        self.radius: float | None = None


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
        self.queue: ParticipationQueue[Floats] = ParticipationQueue(
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
            self._find_region(batch)
        if self.arrivals % self.plan.every == 0:
            self._take_steps(batch)

    def _find_region(self, batch: Batch) -> None:
        """The one paid choice of the clipping radius; then all waiting rows are clipped."""
        search = self.plan.search
        assert search is not None
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
        people = tuple(name for name, _ in taken)
        rows = [row for _, row in taken]
        self.steps += 1
        if self._common is not None:
            self._common.steps += 1
        self.records += len(rows)
        total = rows[0] if len(rows) == 1 else np.zeros(self.plan.dimension)
        if len(rows) > 1:
            for row in rows:
                total += row
        facts = (self.arrivals, self.records, self.queue.waiting, self.period, people)
        batch.steps.append(Step(total, *facts))


def _clip(rows: Floats, ball: L2Ball) -> Floats:
    """Rows on the lattice of the ball, as doubles that hold whole numbers."""
    return clip_rows_to_ball(rows, ball)[0].astype(np.float64)


def cover(counts: Mapping[str, int], capacity: int) -> list[list[tuple[str, int]]]:
    """Disjoint groups of people (in the given order) with at least `capacity` records each.

    A person lends at most `capacity` records, so that a closed bin holds fewer than twice that and
    the number of bins is at least half the best possible (less one half). Uses counts only.
    """
    closed: list[list[tuple[str, int]]] = []
    group: list[tuple[str, int]] = []
    held = 0
    for person, count in counts.items():
        lent = min(count, capacity)
        if not lent:
            continue
        group.append((person, lent))
        held += lent
        if held >= capacity:
            closed.append(group)
            group, held = [], 0
    return closed


def bin_averages(
    groups: Sequence[Sequence[tuple[str, int]]], records: Mapping[str, list[Floats]]
) -> Floats:
    """The average of the first lent records of each group's people, shape (bins, d)."""
    rows = []
    for group in groups:
        taken = [record for person, lent in group for record in records[person][:lent]]
        total = taken[0]
        for record in taken[1:]:
            total = total + record
        rows.append(total / len(taken))
    return np.array(rows)


def open_file(
    path: str | os.PathLike[str],
    *,
    moved: bool,
    settings: object = None,
    plan: StreamPlan | None = None,
) -> tuple[StateFile, Stored]:
    """A state file that exists; refused if it belongs to another stream."""
    file, stored = StateFile.open(path, moved=moved)
    problem = ""
    if settings is not None and stored.facts["settings"] != plain(settings):
        problem = "is the state of a stream with other settings"
    if plan is not None and stored.facts["plan"] != plain(plan.to_dict()):
        problem = "is the state of another plan"
    if problem:
        file.close()
        raise ArgumentError("state", str(path), problem, "use the same, or a new state file")
    return file, stored


def new_file(
    path: str | os.PathLike[str], plan: StreamPlan, settings: object, *, secure: bool
) -> StateFile:
    """Write down what the stream is, before its first record."""
    facts = {"plan": plan.to_dict(), "settings": plain(settings), "secure": secure}
    facts["run"] = uuid.uuid4().hex  # what a ledger knows this stream by
    return StateFile.create(path, {**facts, "progress": [0, 0, 0]})


def save(
    file: StateFile,
    batch: Batch,
    schedule: StepSchedule,
    sums: NoisyPrefixSums,
    weights: PersonWeights,
    released: list[StoredRelease],
    *,
    mark: object,
    history: bool,
) -> None:
    """One durable entry with everything a batch changed."""
    facts: Entry = {"progress": [schedule.arrivals, schedule.records, schedule.steps]}
    if schedule.period:
        facts["period"] = schedule.period
    if batch.radius is not None:
        facts["radius"] = batch.radius
    if mark is not None:
        facts["mark"] = mark
    people = schedule.queue.people
    entry: Entry = {
        "facts": facts,
        "people": [_person(name, people[name], weights) for name in batch.people],
    }
    waiting = {
        arrival: held for arrival, held in batch.accepted.items() if arrival not in batch.passed
    }
    if waiting:
        entry["waiting"] = _waiting(waiting)
    before = file.facts["progress"][0]
    if passed := [arrival for arrival in batch.passed if arrival <= before]:
        entry["passed"] = passed
    if released:
        entry["releases"] = packed_releases(released if history else released[-1:])
        entry["only"] = not history
        entry["arrays"] = _arrays(sums)
    file.add(entry)
    if file.grown:
        file.rewrite(_all(schedule, sums, weights, file))


def save_fact(file: StateFile, name: str, value: object) -> None:
    """One more fact, durable."""
    file.add({"facts": {name: value}})


def _all(
    schedule: StepSchedule, sums: NoisyPrefixSums, weights: PersonWeights, file: StateFile
) -> Iterator[Entry]:
    """The state without its releases, in parts."""
    yield {"facts": file.facts, "arrays": _arrays(sums)}
    people = schedule.queue.people
    names = list(people)
    for start in range(0, len(names), CHUNK):
        part = names[start : start + CHUNK]
        held = {arrival: (name, row) for name in part for arrival, row in people[name].waiting}
        entry = {"people": [_person(name, people[name], weights) for name in part]}
        yield {**entry, "waiting": _waiting(held)} if held else entry


def _person(name: str, person: Person[Floats], weights: PersonWeights) -> list[object]:
    facts = [name, person.used, person.last, person.allowed]
    weight = weights.fading(name)
    return facts if weight is None else [*facts, weight]


def _waiting(held: dict[int, tuple[str, Floats]]) -> list[object]:
    rows = packed(np.array([row for _, row in held.values()]))
    return [list(held), [name for name, _ in held.values()], rows]


def _arrays(sums: NoisyPrefixSums) -> Entry:
    return {name: packed(value) for name, value in sums.arrays().items()}


def load(stored: Stored, schedule: StepSchedule, sums: NoisyPrefixSums) -> None:
    """Bring a fresh schedule and fresh sums to where the file stands."""
    schedule.arrivals, schedule.records, schedule.steps = stored.facts["progress"]
    schedule.period = stored.facts.get("period", "")
    radius = stored.facts.get("radius")
    if radius is not None:
        schedule.ball = schedule.plan.ball(radius)
    if held := stored.arrays:
        sums.restore(held)
    queue = schedule.queue
    for name, person in stored.people.items():
        queue.restore(name, person.used, person.last, person.allowed)
    for arrival, (name, row) in sorted(stored.waiting.items()):
        queue.restore_waiting(name, arrival, row)
    if schedule.plan.period:
        queue.collect_all()
    else:
        queue.announce_all(schedule.steps)
