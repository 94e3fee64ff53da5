"""The queue: gaps and counts always hold, and values never decide."""

import heapq
import itertools
from collections import defaultdict, deque

from hypothesis import given, settings
from hypothesis import strategies as st

from privmean.streams.participation import ParticipationQueue
from privmean.streams.toeplitz_matrices import Participation

STREAMS = st.lists(st.integers(0, 6), max_size=80)


def run(people, most, separation, values=None):
    """(person, arrival, step) of every step, draining after each arrival."""
    queue = ParticipationQueue(Participation(most, separation))
    taken, step = [], 0
    for arrival, person in enumerate(people, start=1):
        row = None if values is None else values[arrival - 1]
        queue.arrive(str(person), row, arrival, step)
        while True:
            items = queue.take(step, 1)
            if not items:
                break
            taken += [(who, number, step) for who, number, _ in items]
            step += 1
    return taken, queue


def reference(people, most, separation):
    """The same rule written out plainly."""
    step, taken = 0, []
    last, used, fifo, heap = {}, defaultdict(int), defaultdict(deque), []
    for arrival, number in enumerate(people, start=1):
        person = str(number)
        if used[person] + len(fifo[person]) >= most:
            continue
        fifo[person].append(arrival)
        if len(fifo[person]) == 1:
            heapq.heappush(
                heap, (max(step, last.get(person, -separation) + separation), arrival, person)
            )
        while heap and heap[0][0] <= step:
            _, _, person = heapq.heappop(heap)
            taken.append((person, fifo[person].popleft(), step))
            last[person] = step
            used[person] += 1
            step += 1
            if fifo[person]:
                allowed = max(step - 1, last[person] + separation)
                heapq.heappush(heap, (allowed, fifo[person][0], person))
    return taken


@settings(max_examples=150)
@given(STREAMS, st.integers(1, 4), st.integers(1, 6))
def test_gaps_counts_and_order(people, most, separation):
    taken, queue = run(people, most, separation)
    assert taken == reference(people, most, separation)
    steps = defaultdict(list)
    for person, arrival, step in taken:
        steps[person].append((step, arrival))
    for used in steps.values():
        assert len(used) <= most
        assert used == sorted(used)  # a person's records keep their order
        assert all(b - a >= separation for (a, _), (b, _) in itertools.pairwise(used))
    assert [step for _, _, step in taken] == list(range(len(taken)))
    accepted = sum(min(most, people.count(person)) for person in set(people))
    assert len(taken) + queue.waiting == accepted


@settings(max_examples=40)
@given(STREAMS, st.lists(st.floats(), min_size=80, max_size=80))
def test_values_never_decide(people, values):
    plain, _ = run(people, 2, 3)
    other, _ = run(people, 2, 3, values)
    assert plain == other
