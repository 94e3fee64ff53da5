"""Who takes part in which step, and how much each person weighs in the mean of a stream.

At most K steps a person, any two at least b steps apart. Only public facts decide (ids, their
order, the number of steps so far, the times of calendar periods), never values. Rows that may not
pass yet wait; rows of a person who has used up all participations are dropped.

The weights are what the sampling error depends on. With a weight w for each row of an estimate and
people independent of each other, whatever the dependence within a person, the sampling variance is
at most sd^2 times the sum over people of (their weights' sum)^2 (docs/proofs/continual.md,
section 8). Ids and steps are public, so this costs no privacy.
"""

from __future__ import annotations

import datetime as dt
import heapq
import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from privmean.array_types import Floats
from privmean.streams.strategy_error import AveragingTarget
from privmean.streams.toeplitz_matrices import Participation


class StoredRelease(NamedTuple):
    """One release as stored: the noisy prefix sums of a step and the public counts.

    size: the weighted number of records in the sums. period: of a stream of calendar periods.
    people, rows: of `PersonWeights` after the step, None in a state of 0.2.
    names: who took part in the step, where a window needs it.
    """

    step: int
    arrivals: int
    records: int
    waiting: int
    square: float
    sums: Floats
    size: float
    period: str = ""
    people: float | None = None
    rows: float | None = None
    names: tuple[str, ...] | None = None


class StoredPerson(NamedTuple):
    """Steps used, the last of them, and from which step on the first waiting row may pass.

    weight: with a half-life, the sum of the person's weights at the last of these steps.
    """

    used: int
    last: int | None
    allowed: int | None = None
    weight: float | None = None


PERIODS = ("hour", "day", "week", "month")


def period_of(time: object, kind: str) -> str | None:
    """The label of the period of a public time; None if the time cannot be read.

    time: a datetime or date, an ISO 8601 text (its first characters decide, whatever the zone), or
    seconds since 1970 in UTC. Labels sort as the periods do: "2026-03-05T14", "2026-03-05",
    "2026-W10", "2026-03".
    """
    moment = _moment(time)
    if moment is None:
        return None
    if kind == "week":
        year, week, _ = moment.isocalendar()
        return f"{year:04d}-W{week:02d}"
    text = moment.isoformat()
    return text[: {"hour": 13, "day": 10, "month": 7}[kind]]


def _moment(time: object) -> dt.datetime | None:
    if isinstance(time, dt.datetime):
        return time.replace(tzinfo=None)
    if isinstance(time, dt.date):
        return dt.datetime(time.year, time.month, time.day)
    try:
        if isinstance(time, str):
            return _of_text(time.strip())
        seconds = float(time)  # type: ignore[arg-type]
        if not math.isfinite(seconds):
            return None
        return dt.datetime.fromtimestamp(seconds, dt.UTC).replace(tzinfo=None)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _of_text(text: str) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return dt.datetime.fromtimestamp(float(text), dt.UTC).replace(tzinfo=None)


class Person:
    """Steps used, the last of them, and the (arrival number, row) pairs that wait.

    allowed: the step from which on the first waiting row may pass; None if none waits.
    """

    __slots__ = ("allowed", "last", "used", "waiting")

    def __init__(self, used: int = 0, last: int | None = None, allowed: int | None = None) -> None:
        self.used = used
        self.last = last
        self.allowed = allowed
        self.waiting: deque[tuple[int, Floats]] = deque()


class ParticipationQueue:
    """Rows in the order of arrival, let through as the participation pattern allows.

    Among rows that may pass, the one that has been allowed to the longest goes first. accepted:
    participations of each person that are used or spoken for; several queues may share it.
    """

    def __init__(
        self, participation: Participation, accepted: dict[str, int] | None = None
    ) -> None:
        self.participation = participation
        self.accepted: dict[str, int] = {} if accepted is None else accepted
        self.people: defaultdict[str, Person] = defaultdict(Person)
        self.waiting = 0
        self._heap: list[tuple[int, int, str]] = []
        self._collected: dict[str, None] = {}  # people of the period, in the order of arrival

    def arrive(self, person: str, row: Floats, arrival: int, step: int) -> bool:
        """Take in a row at a time when `step` steps are done; False if it is dropped."""
        state, taken = self.people[person], self.accepted.get(person, 0)
        if taken >= self.participation.most:
            return False
        self.accepted[person] = taken + 1
        state.waiting.append((arrival, row))
        self.waiting += 1
        if len(state.waiting) == 1:
            self._announce(person, state, step)
        return True

    def _announce(self, person: str, state: Person, step: int) -> None:
        allowed = step
        if state.last is not None:
            earliest = state.last + self.participation.separation
            if earliest > step:
                allowed = earliest
        state.allowed = allowed
        heapq.heappush(self._heap, (allowed, state.waiting[0][0], person))

    def take(self, step: int, most: int) -> list[tuple[str, int, Floats]]:
        """Up to `most` rows of different people for step number `step` (from 0)."""
        taken: list[tuple[str, int, Floats]] = []
        while self._heap and self._heap[0][0] <= step and len(taken) < most:
            person = heapq.heappop(self._heap)[2]
            state = self.people[person]
            arrival, row = state.waiting.popleft()
            self.waiting -= 1
            state.last = step
            state.used += 1
            taken.append((person, arrival, row))
            state.allowed = None
            if state.waiting:
                self._announce(person, state, step)
        return taken

    def join(self, person: str, row: Floats, arrival: int, step: int, most: int) -> bool:
        """Take in a row for the step `step` that is being collected; False if it is dropped.

        Nothing waits for a later step: a person who may not take part in this one is left out, and
        so is everybody beyond `most` people.
        """
        state = self.people[person]
        if not state.waiting:
            early = state.last is not None and step < state.last + self.participation.separation
            taken = self.accepted.get(person, 0)
            if early or taken >= self.participation.most or len(self._collected) >= most:
                return False
            self.accepted[person] = taken + 1
            self._collected[person] = None
        state.waiting.append((arrival, row))
        self.waiting += 1
        return True

    def leave(self, step: int) -> list[tuple[str, list[int], list[Floats]]]:
        """All that was collected for step number `step`: people, arrival numbers, rows."""
        left = []
        for person in self._collected:
            state = self.people[person]
            arrivals, rows = zip(*state.waiting, strict=True)
            self.waiting -= len(rows)
            state.waiting.clear()
            state.last = step
            state.used += 1
            left.append((person, list(arrivals), list(rows)))
        self._collected.clear()
        return left

    def restore(
        self,
        people: Mapping[str, StoredPerson],
        waiting: Mapping[int, tuple[str, Floats]],
        *,
        collected: bool,
    ) -> None:
        """Put back a stored state: people, and the waiting rows by their arrival.

        collected: what waits belongs to the open period, one participation a person.
        """
        for name, person in people.items():
            self.people[name] = Person(person.used, person.last, person.allowed)
            self.accepted[name] = self.accepted.get(name, 0) + person.used
        self.waiting += len(waiting)
        for arrival, (name, row) in sorted(waiting.items()):
            state = self.people[name]
            state.waiting.append((arrival, row))
            if collected:
                self._collected[name] = None
            else:
                self.accepted[name] = self.accepted.get(name, 0) + 1
                if len(state.waiting) == 1 and state.allowed is not None:
                    heapq.heappush(self._heap, (state.allowed, arrival, name))
        for name in self._collected:
            self.accepted[name] = self.accepted.get(name, 0) + 1

    @property
    def next_step(self) -> int | None:
        """The first step at which a waiting row may pass; None if none waits."""
        return self._heap[0][0] if self._heap else None


class Step(NamedTuple):
    """The summed row of one step, with the public counts after it, and who took part."""

    row: Floats
    arrivals: int
    records: int
    waiting: int
    period: str = ""
    people: tuple[str, ...] = ()


class PersonWeights:
    """Two sums over the rows of an estimate, kept step by step with O(1) work for each row.

    people: sum over people of (sum of a person's weights)^2. rows: sum over rows of weight^2.
    Weights are those before division by their sum: 1, or fading with a half-life.
    """

    def __init__(self, target: AveragingTarget) -> None:
        self._factor, self._window = target.factor, target.window
        self.keeps_names = target.window is not None  # to go on, those of the last steps are needed
        self.people, self.rows = 0.0, 0.0
        self._step = 0
        self._held: dict[str, tuple[int, float]] = {}  # last step, sum of weights at that step
        self._within: deque[tuple[str, ...]] = deque()  # the people of each step of the window

    def advance(self, names: tuple[str, ...]) -> None:
        """Count a step in which each of `names` has one row."""
        self._step += 1
        if self._factor != 1:
            self.people *= self._factor**2
            self.rows *= self._factor**2
        for name in names:
            weight = self._now(name)
            self.people += 2 * weight + 1
            self.rows += 1
            self._held[name] = (self._step, weight + 1)
        if self._window is not None:
            self._within.append(names)
            if len(self._within) > self._window:
                self._leave(self._within.popleft())

    def _leave(self, names: tuple[str, ...]) -> None:
        for name in names:
            last, weight = self._held.pop(name)
            self.people -= 2 * weight - 1
            self.rows -= 1
            if weight > 1:
                self._held[name] = (last, weight - 1)

    def _now(self, name: str) -> float:
        last, weight = self._held.get(name, (self._step, 0.0))
        return weight if self._factor == 1 else float(weight * self._factor ** (self._step - last))

    def fading(self, name: str) -> float | None:
        """The sum of a person's weights at the person's last step; None where counts tell it."""
        return self._held[name][1] if self._factor < 1 and name in self._held else None

    def restore(
        self,
        people: Mapping[str, StoredPerson],
        kept: Sequence[StoredRelease],
        separation: int,
    ) -> None:
        """Go on after the last of `kept`, the last releases (of a whole window, if there is one).

        people: with their weights, which `fading` gave. A state of before these sums were kept
        tells how often each person took part, and when last: the earlier times are then taken as
        late as the separation allows, where they weigh most. The sums are exact for a running mean,
        and not too small for the others.
        """
        self._step = kept[-1].step
        for name, person in people.items():
            if person.used and person.last is not None:
                last = person.last + 1
                weight = person.weight
                if weight is None:
                    weight = _fading(self._factor, person.used, separation)
                self._held[name] = (last, weight)
        whole = True
        if self._window is not None:
            whole = self._restore_window(people, kept[-self._window :], separation)
        if whole and kept[-1].people is not None and kept[-1].rows is not None:
            self.people, self.rows = kept[-1].people, kept[-1].rows
        else:
            now = [self._now(name) for name in self._held]
            self.people, self.rows = sum(item * item for item in now), sum(now)

    def _restore_window(
        self, people: Mapping[str, StoredPerson], kept: Sequence[StoredRelease], separation: int
    ) -> bool:
        """Whether the people of all these steps were known by name."""
        steps: list[list[str]] = [list(item.names or ()) for item in kept]
        unnamed = sum(item.names is None for item in kept)  # the first ones, of an older state
        if unnamed:
            first: dict[str, int] = {}
            named: dict[str, int] = {}
            for index, names in enumerate(steps):
                for name in names:
                    first.setdefault(name, index)
                    named[name] = named.get(name, 0) + 1
            for name, person in people.items():
                if person.last is None:
                    continue
                last = person.last + 1 - kept[0].step
                place = first[name] - separation if name in first else last
                place = min(place, unnamed - 1)
                for _ in range(person.used - named.get(name, 0)):
                    if place < 0:
                        break
                    steps[place].append(name)
                    place -= separation
        self._within.extend(tuple(names) for names in steps)
        self._held.clear()
        for index, names in enumerate(steps):
            for name in names:
                self._held[name] = (kept[0].step + index, self._now(name) + 1)
        return not unnamed


def heaviest(target: AveragingTarget, participation: Participation) -> float:
    """The largest sum of weights that a person can have in an estimate."""
    most, apart = participation.most, participation.separation
    if target.window is not None:
        return float(min(most, -(-target.window // apart)))
    return _fading(target.factor, most, apart)


def _fading(factor: float, count: int, apart: int) -> float:
    """The sum of weights of `count` rows `apart` steps from each other, at the last of them."""
    if factor == 1:
        return float(count)
    ratio = factor**apart
    return float((1 - ratio**count) / (1 - ratio)) if ratio < 1 else float(count)
