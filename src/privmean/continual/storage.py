"""A running stream to its state file and back."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from privmean.continual.mechanism import NoisyPrefixSums
from privmean.continual.rows import plain
from privmean.continual.scheduling import Batch, Schedule
from privmean.continual.state import StateFile, StoredRelease
from privmean.continual.streamplan import StreamPlan
from privmean.errors import ArgumentError

ARRAYS = ("forward", "backward", "tracker", "sums")


def open_file(
    path: str | os.PathLike[str] | None, *, settings: Any = None, plan: StreamPlan | None = None
) -> StateFile | None:
    """The state file (None for no path); refused if it belongs to another stream."""
    if path is None:
        return None
    file = StateFile(path)
    stored = file.fact("plan")
    problem = ""
    if stored is not None and settings is not None and file.fact("settings") != plain(settings):
        problem = "belongs to a stream with other settings"
    if stored is not None and plan is not None and stored != plain(plan.to_dict()):
        problem = "belongs to another plan"
    if problem:
        file.close()
        raise ArgumentError("state", str(path), problem, "use the same, or a new state file")
    return file


def begin(file: StateFile, plan: StreamPlan, settings: Any, secure: bool) -> None:
    """Write down what the stream is, before its first record."""
    file.begin()
    file.write_fact("plan", plan.to_dict())
    file.write_fact("settings", plain(settings))
    file.write_fact("secure", secure)
    file.write_fact("progress", [0, 0, 0])
    file.commit()


def save(
    file: StateFile,
    batch: Batch,
    schedule: Schedule,
    sums: NoisyPrefixSums,
    released: list[StoredRelease],
    *,
    mark: Any,
    history: bool,
) -> None:
    """One durable transaction with everything a batch changed."""
    file.begin()
    file.drop_waiting(batch.passed)
    file.add_waiting(
        (arrival, name, row.tobytes())
        for arrival, (name, row) in batch.accepted.items()
        if arrival not in batch.passed
    )
    people = schedule.queue.people
    file.write_people((name, people[name].used, people[name].last) for name in batch.people)
    if history:
        file.add_releases(released)
    elif released:
        file.replace_release(released[-1])
    if batch.radius is not None:
        file.write_fact("radius", batch.radius)
    if mark is not None:
        file.write_fact("mark", mark)
    if released:
        for name, value in sums.arrays().items():
            file.write_array(name, value)
    file.write_fact("progress", [schedule.arrivals, schedule.records, schedule.steps])
    file.commit()


def load(file: StateFile, schedule: Schedule, sums: NoisyPrefixSums) -> None:
    """Bring a fresh schedule and fresh sums to where the file stands."""
    schedule.arrivals, schedule.records, schedule.steps = file.fact("progress")
    radius = file.fact("radius")
    if radius is not None:
        schedule.ball = schedule.plan.ball(radius)
    arrays = {name: file.array(name) for name in ARRAYS}
    held = {name: value for name, value in arrays.items() if value is not None}
    if held:
        sums.restore(held)
    queue = schedule.queue
    for person, used, last in file.people():
        queue.restore(person, used, last)
    for arrival, person, data in file.waiting():
        queue.restore_waiting(person, arrival, np.frombuffer(data, dtype=np.float64))
    queue.announce_all(schedule.steps)
