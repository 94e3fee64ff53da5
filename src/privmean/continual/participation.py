"""Who may take the next step: at most K steps a person, any two at least b steps apart.

Only public facts decide (ids, their order, the number of steps so far), never values. Rows that may
not pass yet wait; rows of a person who has used up all participations are dropped.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Generic, TypeVar

from privmean.continual.sensitivity import Participation

Row = TypeVar("Row")


class Person(Generic[Row]):
    """Steps used, the last of them, and the (arrival number, row) pairs that wait."""

    __slots__ = ("last", "used", "waiting")

    def __init__(self, used: int = 0, last: int | None = None) -> None:
        self.used = used
        self.last = last
        self.waiting: deque[tuple[int, Row]] = deque()


class ParticipationQueue(Generic[Row]):
    """Rows in the order of arrival, let through as the participation pattern allows.

    Among rows that may pass, the one that has been allowed to the longest goes first.
    """

    def __init__(self, participation: Participation) -> None:
        self.participation = participation
        self.people: dict[str, Person[Row]] = {}
        self.waiting = 0
        self._heap: list[tuple[int, int, str]] = []

    def arrive(self, person: str, row: Row, arrival: int, step: int) -> bool:
        """Take in a row at a time when `step` steps are done; False if it is dropped."""
        state = self.people.get(person)
        if state is None:
            state = self.people[person] = Person()
        if state.used + len(state.waiting) >= self.participation.most:
            return False
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
        heapq.heappush(self._heap, (allowed, state.waiting[0][0], person))

    def take(self, step: int, most: int) -> list[tuple[str, int, Row]]:
        """Up to `most` rows of different persons for step number `step` (from 0)."""
        taken: list[tuple[str, int, Row]] = []
        while self._heap and self._heap[0][0] <= step and len(taken) < most:
            person = heapq.heappop(self._heap)[2]
            state = self.people[person]
            arrival, row = state.waiting.popleft()
            self.waiting -= 1
            state.last = step
            state.used += 1
            taken.append((person, arrival, row))
            if state.waiting:
                self._announce(person, state, step)
        return taken

    def restore(self, person: str, used: int, last: int | None) -> None:
        """Put back what a stored state says about a person."""
        self.people[person] = Person(used, last)

    def restore_waiting(self, person: str, arrival: int, row: Row) -> None:
        """Put back a waiting row; rows must come in the order of their arrival."""
        self.people.setdefault(person, Person()).waiting.append((arrival, row))
        self.waiting += 1

    def announce_all(self, step: int) -> None:
        """Rebuild the order of waiting persons after `restore`.

        The same order as before: steps are taken until no row may pass, so that every waiting row
        became the first of its person at this very step or may pass later only.
        """
        self._heap.clear()
        for person, state in self.people.items():
            if state.waiting:
                self._announce(person, state, step)
