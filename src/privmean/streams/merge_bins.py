"""Grouping people into bins with enough records, and the averages of bins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from privmean.streams.power_series import Floats


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
