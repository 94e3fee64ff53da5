"""Panels, for regressions pooled over persons: neighbours differ in one person's records, as many
as there are, whatever is in them.

Sums of a person are of own records alone (a query by person), so that hostile persons are read as
one table, and a neighbour has the sums of one of them.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from privmean.auditing.same import same
from privmean.models.design import Units
from privmean.models.formula import Model
from privmean.models.own_means import OwnPanel
from privmean.models.panel import Own, PanelPeople, PanelSums
from privmean.people.products import Pair, Products
from privmean.people.reductions import Floats
from privmean.people.table import Table
from privmean.privacy.budget import REPLACE_ONE

PERSON = "person"
MANY = 20  # records of a hostile person
CROWD = 100  # hostile persons that are read at a time
Record = tuple[Any, ...]  # one entry a column
Records = Sequence[Sequence[Record]]  # of every person
Pairs = Mapping[Pair, Floats]  # products of columns
Asked = PanelSums | OwnPanel  # what reads a table a second time


@dataclass
class Panel:
    """Persons of one table, whose second reading is kept: replays ask for the same units."""

    people: PanelPeople
    _read: list[tuple[Units, Products | None]] = field(default_factory=list)

    @classmethod
    def of(cls, records: Records, asked: Asked) -> Panel:
        model = asked.model
        ids = [k for k, own in enumerate(records) for _ in own]
        listed = [record for own in records for record in own]
        arrays: dict[str, Any] = {PERSON: np.array(ids, dtype=np.int64)}
        for j, name in enumerate(model.columns):
            column = [record[j] for record in listed]
            if name in model.texts:
                arrays[name] = np.array(column, dtype=str)
            else:
                arrays[name] = np.array(column, dtype=float)
        return cls(asked.reduce(Table(arrays, person=PERSON)))

    def again(self, units: Units) -> Products | None:
        for known, products in self._read:
            if same(known, units):
                return products
        assert self.people.again is not None
        self._read.append((units, self.people.again(units)))
        return self._read[-1][1]


@dataclass(frozen=True)
class PanelRows:
    """A panel, in which the person at `place` is gone, or there are the sums of the hostile person
    `other` instead (at the end, where `place` is their number)."""

    panel: Panel
    asked: Asked
    place: int | None = None
    crowd: Panel | None = None
    other: int = 0
    cap: None = None

    @property
    def count(self) -> int:
        return self.panel.people.size()

    @property
    def columns(self) -> tuple[str, ...]:
        return self.asked.names

    @property
    def people(self) -> PanelPeople:
        first, place, crowd = self.panel.people, self.place, self.crowd
        if place is None:
            return replace(first, again=self.panel.again)
        second = first if crowd is None else crowd.people

        def put(one: Floats, two: Floats) -> Floats:
            """Numbers of one entry a person, as they are of these people."""
            if crowd is None:
                return np.delete(one, place, axis=0)
            return np.concatenate([one[:place], two[self.other :][:1], one[place:][1:]])

        def each(one: Pairs, two: Pairs) -> dict[Pair, Floats]:
            return {pair: put(item, two[pair]) for pair, item in one.items()}

        def again(units: Units) -> Products | None:
            ours = self.panel.again(units)
            theirs = ours if crowd is None else crowd.again(units)
            if ours is None or theirs is None:
                return None
            count, sums = put(ours.count, theirs.count), put(ours.sums, theirs.sums)
            return replace(
                ours,
                count=count,
                sums=sums,
                squares=each(ours.squares, theirs.squares),
                ends=each(ours.ends, theirs.ends),
                lags=each(ours.lags, theirs.lags),
            )

        own = {
            key: Own(put(item.mean, second.own[key].mean), put(item.square, second.own[key].square))
            for key, item in first.own.items()
        }
        return replace(first, values=put(first.values, second.values), own=own, again=again)


def panel_table(kind: str, persons: int, asked: Asked, seed: int) -> PanelRows:
    """Persons with one to three records of as many columns as the formula has; texts are few."""
    rng = np.random.default_rng(seed)
    model = asked.model
    width = len(model.columns)
    center = {"far": 1e9}.get(kind, 3.0)
    spread = {"constant": 0.0, "wide": 100.0}.get(kind, 1.0)
    strange = (math.nan, 1e308, -1e308, 0.0, 2.0**40, 5e-324)
    found: list[list[Record]] = []
    for k in range(persons):
        size = int(rng.integers(1, 4))
        values = center + spread * rng.normal(size=(size, width))
        if kind == "heavy":
            values = center + rng.standard_t(1.2, (size, width))
        if kind == "empty":
            values = np.full((size, width), math.nan)
        elif k < len(strange):
            values[:] = strange[k]
        found.append([_with_texts(row, model, rng) for row in values.tolist()])
    return PanelRows(Panel.of(found, asked), asked)


def _with_texts(row: list[float], model: Model, rng: np.random.Generator) -> Record:
    """The record, with levels in the columns of texts: those of the formula, and others."""
    return tuple(
        str(rng.choice([*_levels(model), "", "another"])) if name in model.texts else value
        for name, value in zip(model.columns, row, strict=True)
    )


def _levels(model: Model) -> list[str]:
    """All texts of the formula: levels that it declares."""
    trees = [tree for _, factors in model.terms for tree in factors]
    walked = [node for tree in trees for node in ast.walk(tree)]
    found = {node.value for node in walked if isinstance(node, ast.Constant)}
    return sorted(item for item in found if isinstance(item, str))


def panel_neighbours(
    rows: PanelRows, relation: str, known: Sequence[float], seed: int
) -> Iterator[tuple[PanelRows, int, str]]:
    """Neighbours without end, whose records differ, and what was done."""
    rng = np.random.default_rng(seed)
    n, model = rows.count, rows.asked.model

    def person() -> list[Record]:
        size = int(rng.choice([1, 1, 2, 3, MANY]))
        own = [
            _with_texts([float(x) for x in rng.choice(known, len(model.columns))], model, rng)
            for _ in range(size)
        ]
        return own[:1] * size if rng.random() < 0.3 else own

    while True:
        crowd = Panel.of([person() for _ in range(CROWD)], rows.asked)
        for other in range(CROWD):
            where = int(rng.integers(n))
            if relation == REPLACE_ONE:
                yield replace(rows, place=where, crowd=crowd, other=other), where, "replaced"
            elif rng.random() < 0.5 and n > 1:
                yield replace(rows, place=where), where, "left"
            else:
                yield replace(rows, place=n, crowd=crowd, other=other), n, "joined"
