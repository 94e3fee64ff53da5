"""Who may take the next step: at most K steps a person, any two at least b steps apart.

Only public facts decide (ids, their order, the number of steps so far), never values. Rows that may
not pass yet wait; rows of a person who has used up all participations are dropped.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Generic, TypeVar

from privmean.streams.participation_sensitivity import Participation

Row = TypeVar("Row")


class Person(Generic[Row]):
    """Steps used, the last of them, and the (arrival number, row) pairs that wait.

    allowed: the step from which on the first waiting row may pass; None if none waits.
    """

    __slots__ = ("allowed", "last", "used", "waiting")

    def __init__(self, used: int = 0, last: int | None = None, allowed: int | None = None) -> None:
        self.used = used
        self.last = last
        self.allowed = allowed
        self.waiting: deque[tuple[int, Row]] = deque()


class ParticipationQueue(Generic[Row]):
    """Rows in the order of arrival, let through as the participation pattern allows.

    Among rows that may pass, the one that has been allowed to the longest goes first. accepted:
    participations of each person that are used or spoken for; several queues may share it.
    """

    def __init__(
        self, participation: Participation, accepted: dict[str, int] | None = None
    ) -> None:
        self.participation = participation
        self.accepted: dict[str, int] = {} if accepted is None else accepted
        self.people: dict[str, Person[Row]] = {}
        self.waiting = 0
        self._heap: list[tuple[int, int, str]] = []
        self._collected: dict[str, None] = {}  # people of the period, in the order of arrival

    def arrive(self, person: str, row: Row, arrival: int, step: int) -> bool:
        """Take in a row at a time when `step` steps are done; False if it is dropped."""
        state = self.people.get(person)
        if state is None:
            state = self.people[person] = Person()
        if self.accepted.get(person, 0) >= self.participation.most:
            return False
        self.accepted[person] = self.accepted.get(person, 0) + 1
        state.waiting.append((arrival, row))
        self.waiting += 1
        if len(state.waiting) == 1:
            self._announce(person, state, step)
        return True

    def _announce(self, person: str, state: Person[Row], step: int) -> None:
        allowed = step
        if state.last is not None:
            earliest = state.last + self.participation.separation
            if earliest > step:
                allowed = earliest
        state.allowed = allowed
        heapq.heappush(self._heap, (allowed, state.waiting[0][0], person))

    def take(self, step: int, most: int) -> list[tuple[str, int, Row]]:
        """Up to `most` rows of different people for step number `step` (from 0)."""
        taken: list[tuple[str, int, Row]] = []
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

    def join(self, person: str, row: Row, arrival: int, step: int, most: int) -> bool:
        """Take in a row for the step `step` that is being collected; False if it is dropped.

        Nothing waits for a later step: a person who may not take part in this one is left out, and
        so is everybody beyond `most` people.
        """
        state = self.people.get(person)
        if state is None:
            state = self.people[person] = Person()
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

    def leave(self, step: int) -> list[tuple[str, list[int], list[Row]]]:
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

    def restore(self, person: str, used: int, last: int | None, allowed: int | None = None) -> None:
        """Put back what a stored state says about a person."""
        self.people[person] = Person(used, last, allowed)
        self.accepted[person] = self.accepted.get(person, 0) + used

    def restore_waiting(self, person: str, arrival: int, row: Row) -> None:
        """Put back a waiting row; rows must come in the order of their arrival."""
        self.people.setdefault(person, Person()).waiting.append((arrival, row))
        self.waiting += 1

    def collect_all(self) -> None:
        """After `restore`: what waits belongs to the open period, one participation a person."""
        heads = [
            (state.waiting[0][0], name) for name, state in self.people.items() if state.waiting
        ]
        self._collected = dict.fromkeys(name for _, name in sorted(heads))
        for name in self._collected:
            self.accepted[name] = self.accepted.get(name, 0) + 1

    def announce_all(self, step: int) -> None:
        """Rebuild the order of waiting people after `restore`: the same as before.

        A state without `allowed` is of an older version: rows that may pass then count from `step`.
        """
        self._heap.clear()
        for person, state in self.people.items():
            self.accepted[person] = self.accepted.get(person, 0) + len(state.waiting)
            if state.waiting and state.allowed is not None:
                heapq.heappush(self._heap, (state.allowed, state.waiting[0][0], person))
            elif state.waiting:
                self._announce(person, state, step)

    @property
    def next_step(self) -> int | None:
        """The first step at which a waiting row may pass; None if none waits."""
        return self._heap[0][0] if self._heap else None
