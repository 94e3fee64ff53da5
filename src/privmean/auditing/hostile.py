"""Tables and neighbours made to hurt: where a sensitivity is reached, or a branch is hidden.

Neighbours differ in one person's row, whatever its values: nulls, infinities, the largest and the
smallest doubles, copies of others, edges of logarithmic bins, and the limits that the recorded run
released itself, each with the double below and above it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace

import numpy as np

from privmean.auditing.tape import Answered, Tape
from privmean.auditing.watched import Asking
from privmean.people.grids import log_edges
from privmean.people.matrix import MatrixPeople
from privmean.people.reductions import Floats, Integers
from privmean.privacy.budget import REPLACE_ONE

STRANGE = (
    math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -5e-324, 0.0, -0.0, 2.0**40, -(2.0**40),
    math.nextafter(2.0**40, 0), 2.0**-40, math.nextafter(2.0**-40, 0), 1e18, -1e18, 1.0, -1.0,
)  # fmt: skip
MOST_EDGES = 400
SPECIAL = 8  # persons of a table who are hostile already


@dataclass(frozen=True)
class Rows:
    """One row a person: values (n, d), NaN for nulls, and numbers of records where a cap is set."""

    values: Floats
    columns: tuple[str, ...]
    counts: Integers | None = None
    cap: int | None = None

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def people(self) -> MatrixPeople:
        return MatrixPeople(self.values, self.columns, self.counts, self.cap)

    def put(self, place: int, row: Floats, records: Integers | None) -> Rows:
        values = self.values.copy()
        values[place] = row
        counts = None if self.counts is None else self.counts.copy()
        if counts is not None and records is not None:
            counts[place] = records
        return replace(self, values=values, counts=counts)

    def without(self, place: int) -> Rows:
        counts = None if self.counts is None else np.delete(self.counts, place, axis=0)
        return replace(self, values=np.delete(self.values, place, axis=0), counts=counts)

    def joined(self, place: int, row: Floats, records: Integers | None) -> Rows:
        counts = self.counts
        if counts is not None and records is not None:
            counts = np.insert(counts, place, records, axis=0)
        return replace(self, values=np.insert(self.values, place, row, axis=0), counts=counts)


TABLES = ("normal", "constant", "two atoms", "heavy", "far", "empty", "wide")


def table(kind: str, persons: int, dimension: int, cap: int | None, seed: int) -> Rows:
    """A built-in table: about normal with mean 3 and deviation 1, or much worse; the first eight
    persons are strange (in "normal" the last, too)."""
    rng = np.random.default_rng((seed, TABLES.index(kind)))
    values = rng.normal(3.0, 1.0, (persons, dimension))
    if kind == "constant":
        values = np.full((persons, dimension), 3.0)
    elif kind == "two atoms":
        values = np.where(rng.random((persons, dimension)) < 0.5, 2.0, 4.0)
    elif kind == "heavy":
        values = 3.0 + rng.standard_t(1.2, (persons, dimension))
    elif kind == "far":
        values = values + 1e9
    elif kind == "wide":
        values = values * 2.0 ** rng.integers(-30, 30, (persons, 1))
    if kind == "empty":
        values = np.full((persons, dimension), np.nan)
    else:
        rows = [math.nan, 1e308, -1e308, math.inf, -math.inf, 0.0, 2.0**40, 5e-324]
        for place, value in enumerate(rows[: min(SPECIAL, persons)]):
            values[place] = value
        values[3, :1] = math.nan
    counts = None
    if cap is not None:
        counts = rng.integers(0, 2 * cap, (persons, dimension))
        counts[np.isnan(values)] = 0
        values[counts == 0] = math.nan
    return Rows(values, tuple(f"c{j}" for j in range(dimension)), counts, cap)


def edges(tape: Tape) -> list[float]:
    """Numbers that the recorded run asked with (limits, origins, centres and radii around them),
    and their neighbours among the doubles."""
    found: dict[float, None] = {}
    for item in tape.events:
        numbers = list(_numbers(item.arguments)) if isinstance(item, Asking) else []
        if isinstance(item, Answered):
            numbers = list(_numbers(item.mechanism))
        for number in numbers[:64]:
            found[number] = None
        for first in numbers[:8]:
            for second in numbers[:8]:
                found[first + second] = None
                found[first - second] = None
        if len(found) > MOST_EDGES:
            break
    listed = [item for item in found if math.isfinite(item)][:MOST_EDGES]
    beside = [math.nextafter(item, way) for item in listed for way in (-math.inf, math.inf)]
    return listed + beside


def _numbers(value: object) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            yield from value.ravel()[:64].tolist()
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _numbers(item)
    elif is_dataclass(value):
        for item in fields(value):
            yield from _numbers(getattr(value, item.name))


@dataclass(frozen=True)
class Neighbour:
    """A table that differs in one person. place: whose row; what: what was done with it."""

    rows: Rows
    place: int
    what: str


def neighbours(rows: Rows, relation: str, tape: Tape, seed: int) -> Iterator[Neighbour]:
    """Neighbours of a table without end: every strange value in the place of the first persons, in
    turn with mixtures drawn from a seed; then these alone."""
    rng = np.random.default_rng(seed)
    n, d = rows.values.shape
    known = np.array([*STRANGE, *edges(tape)])
    logs = log_edges()
    octaves = np.concatenate([logs, np.nextafter(logs, 0), -logs, np.nextafter(-logs, 0)])

    def records() -> Integers | None:
        if rows.cap is None:
            return None
        pick = rng.choice([1, 1, 2, rows.cap - 1, rows.cap, rows.cap + 1, 2**40], d)
        return np.where(rng.random(d) < 0.15, 0, np.maximum(pick, 0)).astype(np.int64)

    def row() -> Floats:
        way = rng.random()
        if way < 0.3:
            made = np.full(d, rng.choice(known))
        elif way < 0.6:
            made = rng.choice(known, d)
        elif way < 0.75:
            made = rng.choice(octaves, d)
        else:
            made = rows.values[rng.integers(n)].copy() if n else rng.choice(known, d)
        if d > 1 and rng.random() < 0.25:
            made = np.where(rng.random(d) < 0.5, math.nan, made)
        if d > 1 and rng.random() < 0.15:  # far in one column only
            made = np.zeros(d)
            made[rng.integers(d)] = rng.choice([1e308, -1e308, math.inf, -math.inf])
        return np.asarray(made, dtype=float)

    def fitting(made: Floats, records: Integers | None) -> tuple[Floats, Integers | None]:
        if records is None:
            return made, None
        records = np.where(np.isnan(made), 0, records)
        return np.where(records == 0, math.nan, made), records

    def place() -> int:
        return int(rng.integers(min(SPECIAL, n)) if rng.random() < 0.6 else rng.integers(n))

    def mixed() -> Neighbour:
        made, own = fitting(row(), records())
        if relation == REPLACE_ONE:
            where = place()
            return Neighbour(rows.put(where, made, own), where, "replaced")
        if n and rng.random() < 0.5:
            where = place()
            return Neighbour(rows.without(where), where, "left")
        where = int(rng.choice([0, n // 2, n]))
        return Neighbour(rows.joined(where, made, own), where, "joined")

    def strange(value: float, where: int) -> Neighbour:
        made, own = fitting(np.full(d, value), records())
        if relation == REPLACE_ONE:
            return Neighbour(rows.put(where, made, own), where, "replaced by a strange value")
        return Neighbour(rows.joined(n, made, own), n, "a strange person joined")

    places = range(min(3, n)) if relation == REPLACE_ONE else (n,)
    plain = [(value, where) for value in STRANGE for where in places]
    for k in rng.permutation(len(plain)).tolist():
        yield strange(*plain[k])
        yield mixed()
    while True:
        yield mixed()
