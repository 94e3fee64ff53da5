"""Which rows make which step: the part of a stream that looks at ids and counts.

Values are carried along and clipped; only the one paid search for a clipping radius reads them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from privmean.continual.participation import ParticipationQueue
from privmean.continual.rows import person_name
from privmean.continual.series import Floats
from privmean.continual.streamplan import StreamPlan
from privmean.noise.base import Noise
from privmean.people.balls import clip_rows_to_ball
from privmean.people.reductions import Ball


class Step(NamedTuple):
    """The summed row of one step, with the public counts after it."""

    row: Floats
    arrivals: int
    records: int
    waiting: int


class Batch:
    """What some arrivals changed: written to the state file in one transaction."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.accepted: dict[int, tuple[str, Floats]] = {}
        self.passed: set[int] = set()
        self.people: set[str] = set()
        self.radius: float | None = None


class Schedule:
    """The queue, the clipping region and the public counts of a stream."""

    def __init__(self, plan: StreamPlan, noise: Noise) -> None:
        self.plan = plan
        self.noise = noise
        self.queue: ParticipationQueue[Floats] = ParticipationQueue(plan.lattice.participation)
        self.ball: Ball | None = None if plan.clip_radius is None else plan.ball()
        self.arrivals = 0
        self.records = 0
        self.steps = 0
        most = plan.lattice.most_steps
        self._most = math.inf if most is None else most

    @property
    def finished(self) -> bool:
        """Whether the horizon is reached."""
        return self.steps >= self._most

    def take_in(self, persons: Sequence[object], rows: Floats) -> Batch:
        """Arrivals in order, until the horizon is reached. rows: shape (m, d), NaN for nulls."""
        batch = Batch()
        clipped = None if self.ball is None else _clip(rows, self.ball)
        for index, person in enumerate(persons):
            if self.finished:
                break
            if clipped is None and self.ball is not None:  # found within this batch
                clipped = _clip(rows, self.ball)
            name = person_name(person)
            if name is not None:
                self._arrive(name, (rows if clipped is None else clipped)[index], batch)
        return batch

    def _arrive(self, name: str, row: Floats, batch: Batch) -> None:
        self.arrivals += 1
        if self.queue.arrive(name, row, self.arrivals, self.steps):
            batch.accepted[self.arrivals] = (name, row)
            batch.people.add(name)
        if self.ball is None:
            search = self.plan.search
            assert search is not None
            if len(self.queue.people) < search.persons:
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
            self._add_step([row for _, _, row in taken], batch)
        if self.steps == before and self.plan.filler and not self.finished:
            self._add_step([], batch)

    def _add_step(self, rows: list[Floats], batch: Batch) -> None:
        self.steps += 1
        self.records += len(rows)
        total = rows[0] if len(rows) == 1 else np.zeros(self.plan.dimension)
        if len(rows) > 1:
            for row in rows:
                total += row
        batch.steps.append(Step(total, self.arrivals, self.records, self.queue.waiting))


def _clip(rows: Floats, ball: Ball) -> Floats:
    """Rows on the lattice of the ball, as doubles that hold whole numbers."""
    return clip_rows_to_ball(rows, ball)[0].astype(np.float64)
