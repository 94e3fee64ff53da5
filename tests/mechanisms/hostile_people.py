"""Small columns of people, and neighbors of them, with values where rounding and grids may fail."""

from __future__ import annotations

import math

import numpy as np

from privmean.data.array_table import ArrayPersonTable

ENDS = [0.0, -0.0, 5e-324, 1e-308, 1e308, math.inf, math.nan, 1.0, 0.1, 3.0, 1 / 3]


def hostile_value(generator) -> float:
    """0, a power of two or next to one, the ends of the doubles, infinite, null or ordinary."""
    kind = int(generator.integers(4))
    if kind == 0:
        value = ENDS[int(generator.integers(len(ENDS)))]
    elif kind == 1:
        value = 2.0 ** int(generator.integers(-70, 70))
    else:
        value = (2.0 ** int(generator.integers(-4, 5))) * (1 + int(generator.integers(9)) / 8)
    if math.isfinite(value) and generator.random() < 0.4:
        value = math.nextafter(value, math.inf if generator.random() < 0.5 else -math.inf)
    return value if generator.random() < 0.5 else -value


def hostile_people(generator, size: int) -> list[float]:
    """About half of them share one of a few values."""
    shared = [hostile_value(generator) for _ in range(1 + int(generator.integers(3)))]
    return [
        shared[int(generator.integers(len(shared)))]
        if generator.random() < 0.5
        else hostile_value(generator)
        for _ in range(size)
    ]


def neighbors(generator, pairs: int):
    """Pairs of columns of 3 to 30 people, with what was done to one of them: "replaced", "added" or
    "removed"."""
    for _ in range(pairs):
        people = hostile_people(generator, int(generator.integers(3, 31)))
        change = ("replaced", "added", "removed")[int(generator.integers(3))]
        at = int(generator.integers(len(people)))
        new = [] if change == "removed" else [hostile_value(generator)]
        if new and generator.random() < 0.3:
            new = [people[int(generator.integers(len(people)))]]
        rest = people if change == "added" else people[:at] + people[at + 1 :]
        yield people, rest + new, change


def column_of(people):
    """The exact counts of one column of these people."""
    values = np.array(people, dtype=float)[:, None]
    return ArrayPersonTable(values, ("x",)).column_counts(0)
