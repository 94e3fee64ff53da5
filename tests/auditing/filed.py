"""From a file to a number: releases of tables in files and engines, seen at the engines' boundary.

One person's records become hostile records, the table is written and read anew, and the same plan
runs before a tape of the first table. What leaves an engine is written down: counts and integer
sums, a few rows of them. What it moves by is measured against the bill.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl

import privmean as pm
from auditing.rows import Recorder, Replayer
from auditing.sources import csv, database, parquet
from privmean.auditing.call_list import plan_of
from privmean.auditing.findings import Findings
from privmean.auditing.measure_loss import same
from privmean.auditing.replay import Compared, Parted, Transcript, name_of
from privmean.data import engines
from privmean.data.person_table import ColumnCounts
from privmean.data.schema import shape_of
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget

PERSONS = 41
MOST_ROWS = 514  # half octaves of both signs, about zero, and nulls
STRANGE: tuple[Any, ...] = (
    None, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, -0.0, 8.0, 0.0, 3.0, 2.0**40,
    math.nextafter(8.0, 9.0), math.nextafter(0.0, -1.0), 1e18, -7.25,
)  # fmt: skip
WORDS = ("", "abc", "1,5", "1e400", "0x10", '"', "NULL", "１")  # in text files only

Records = list[tuple[str, Any]]


def base(rng: np.random.Generator) -> Records:
    """Persons p000, p001, ... with one to four records each; some have none that counts."""
    rows: Records = []
    for person in range(PERSONS):
        for _ in range(int(rng.integers(1, 5))):
            rows.append((f"p{person:03d}", float(np.round(rng.normal(3, 1), 3))))
    rows += [("p001", 1e308), ("p002", -1e308), ("p003", None), ("p000", 0.0)]
    return rows


def hostile(rows: Records, relation: str, rng: np.random.Generator, text: bool) -> Records:
    """The table with other records of one person; where people may differ, with or without her."""
    who = f"p{int(rng.integers(0, 6)):03d}"
    others = [row for row in rows if row[0] != who]
    if relation == ADD_REMOVE and rng.random() < 0.5:
        return others
    known = STRANGE + (WORDS if text else ())
    size = int(rng.choice([1, 1, 2, 5, 40]))
    own = [(who, known[int(rng.integers(len(known)))]) for _ in range(size)]
    if rng.random() < 0.3:
        own = [(who, own[0][1])] * size
    if relation == ADD_REMOVE:
        own = [("zz", value) for _, value in own]
        others = rows
    where = int(rng.integers(len(others) + 1))
    return others[:where] + own + others[where:]


def polars(rows: Records, folder: Path) -> Any:
    schema = {"id": pl.String, "x": pl.Float64}
    return pl.DataFrame([list(item) for item in zip(*rows, strict=True)], schema=schema)


def columns(rows: Records) -> dict[str, list[Any]]:
    return {"id": [who for who, _ in rows], "x": [value for _, value in rows]}


HOMES: dict[str, Callable[[Records, Path], Any]] = {
    "CSV": lambda rows, folder: csv(columns(rows), folder),
    "Parquet": lambda rows, folder: parquet(polars(rows, folder), folder),
    "DuckDB table": lambda rows, folder: database(polars(rows, folder)),
    "Polars frame": polars,
}


@dataclass
class Boundary:
    """What left engines: how many answers, the most rows of one, and what was no whole number. What
    an audit collects to measure a choice of a center is no answer."""

    answers: int = 0
    rows: int = 0
    others: list[str] = field(default_factory=list)
    collects: bool = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        def watching(real: Callable[..., Any]) -> Callable[..., Any]:
            def fetch(*asked: Any) -> Any:
                found = real(*asked)
                if self.collects:
                    return found
                self.answers += 1
                self.rows = max(self.rows, len(found))
                rows = found.values() if isinstance(found, dict) else found
                for row in rows:
                    for value in row:
                        whole = value is None or float(value).is_integer()
                        if not whole:
                            self.others.append(type(value).__name__)
                return found

            return fetch

        def distribution(counts: ColumnCounts) -> Any:
            self.collects = True
            try:
                return collected(counts)
            finally:
                self.collects = False

        collected = ColumnCounts.distribution
        known = {name: watching(getattr(engines, name)) for name in ("fetch", "fetch_columns")}
        with ExitStack() as stack:  # wherever a room has taken its own name of them
            stack.enter_context(mock.patch.object(ColumnCounts, "distribution", distribution))
            for module in [m for n, m in sys.modules.items() if n.startswith("privmean.data.")]:
                for name, fetch in known.items():
                    if hasattr(module, name):
                        stack.enter_context(mock.patch.object(module, name, fetch))
            yield


ASKED: tuple[tuple[Any, Budget], ...] = tuple(
    (question, budget)
    for relation in (REPLACE_ONE, ADD_REMOVE)
    for question, budget in (
        (pm.Mean("x", assume=(0, 8)), Budget(epsilon=1.0, neighbors=relation)),
        (pm.Mean("x"), Budget(epsilon=30.0, neighbors=relation)),
        (
            pm.Mean("x", assume=(0, 8), estimand="records", max_records=3),
            Budget(epsilon=1.0, delta=1e-6, neighbors=relation),
        ),
    )
)


SHARES = (0.3, 0.04, 0.16)  # of the cases: the second asks an engine some twenty questions


def audited(home: str, cases: int, folder: Path, seed: int = 0) -> tuple[Findings, Boundary]:
    """So many neighbours of one table in this home, over all questions in turn."""
    rng = np.random.default_rng((seed, list(HOMES).index(home)))
    found, boundary = Findings(), Boundary()
    for (question, budget), share in zip(ASKED, SHARES * 2, strict=True):
        rows = base(rng)
        people = _people(home, rows, question, folder)
        guess = None if budget.neighbors == REPLACE_ONE else PERSONS
        plan = plan_of(question, budget, shape_of(people, budget.neighbors, guess))
        tape = Transcript()
        with boundary.watched():
            outcome = plan.run(Recorder(people, SimulatedNoise(seed), tape))
        found.recorded += 1
        for _ in range(math.ceil(share * cases)):
            other = hostile(rows, budget.neighbors, rng, home == "CSV")
            compared(plan, tape, outcome, _people(home, other, question, folder), found, boundary)
    return found, boundary


def _people(home: str, rows: Records, question: Any, folder: Path) -> Any:
    # an engine of our own, a part of this process, would hand over few rows
    with mock.patch.object(engines, "IN_MEMORY", -1):
        return pm.Table(HOMES[home](rows, folder), person="id").people(question.summary)


def compared(
    plan: Any,
    tape: Transcript,
    outcome: Any,
    people: Any,
    found: Findings,
    boundary: Boundary | None = None,
) -> None:
    """Replay a recorded plan on other people, and write down what it shows."""
    found.runs += 1
    shown = Compared()
    replayer = Replayer(people, tape, shown)
    with (boundary or Boundary()).watched():
        if plan.shape.n is not None and people.size() != plan.shape.n:
            found.violated("reading", "the roster follows values")
            return
        try:
            if not same(plan.run(replayer), outcome):
                shown.difference = "outcome"
            replayer.finish()
        except Parted:
            pass
    if shown.difference:
        found.violated("reading", shown.difference)
    for item, shares in zip(tape.answers, shown.shares, strict=False):
        mechanism = found.mechanism(name_of(item.mechanism))
        mechanism.runs += 1
        mechanism.largest = max(mechanism.largest, *(shares or ()))
        if shares is None or max(shares) > 1:
            found.violated("reading", f"{name_of(item.mechanism)} moves by more than the bill says")
