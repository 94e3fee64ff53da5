"""A running stream to its state file and back."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import numpy as np

from privmean.errors import ArgumentError
from privmean.streams.coerce_records import plain
from privmean.streams.participation_queue import Person
from privmean.streams.person_weights import PersonWeights
from privmean.streams.power_series import Floats
from privmean.streams.prefix_sums import NoisyPrefixSums
from privmean.streams.schedule_steps import Batch, StepSchedule
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
