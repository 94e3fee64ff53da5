"""Plans on one row per person, before a curator that keeps questions as well as answers.

`pm.audit` runs whole calls. Tests of a tape, of an engine's boundary and of twins of a curator need
one plan alone: what it asks people, and the mechanisms that it asks for, are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from privmean.auditing.call_list import plan_of
from privmean.auditing.calls import STRANGE, edges
from privmean.auditing.findings import (
    SUBJECTS,
    Findings,
    Said,
    Subject,
    budget_of,
    of_answers,
    of_question,
    of_release,
    of_terms,
)
from privmean.auditing.fixed_noise import Endless
from privmean.auditing.measure_loss import same
from privmean.auditing.replay import (
    Compared,
    Parted,
    Recording,
    Replaying,
    Transcript,
    inspected,
    measured,
)
from privmean.data.array_table import ArrayPersonTable
from privmean.data.grids import LOG_GRID
from privmean.data.person_table import Floats, Integers, PersonTable
from privmean.data.schema import PublicShape
from privmean.errors import InfeasibleError
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.noise_source import Noise, SimulatedNoise
from privmean.pipeline import Plan
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.guarantee import Guarantee

SPECIAL = 8  # people of a table who are hostile already


@dataclass(frozen=True)
class Rows:
    """One row a person: values (n, d), NaN for nulls, and their numbers of records where capped."""

    values: Floats
    columns: tuple[str, ...]
    counts: Integers | None = None
    max_records: int | None = None

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def people(self) -> ArrayPersonTable:
        return ArrayPersonTable(self.values, self.columns, self.counts, self.max_records)

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


@dataclass(frozen=True)
class Neighbour:
    """A table that differs in one person. place: whose row; what: what was done with it."""

    rows: Rows
    place: int
    what: str


def neighbours(rows: Rows, relation: str, tape: Transcript, seed: int) -> Iterator[Neighbour]:
    """Neighbours of a table without end: every strange value in the place of the first persons, in
    turn with mixtures drawn from a seed; then these alone."""
    rng = np.random.default_rng(seed)
    n, d = rows.values.shape
    known = np.array([*STRANGE, *edges(tape)])
    logs = LOG_GRID.edges()
    octaves = np.concatenate([logs, np.nextafter(logs, 0), -logs, np.nextafter(-logs, 0)])

    def records() -> Integers | None:
        if rows.max_records is None:
            return None
        pick = rng.choice(
            [1, 1, 2, rows.max_records - 1, rows.max_records, rows.max_records + 1, 2**40], d
        )
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


class Recorder(TrustedCurator):
    """A curator who draws, and keeps everything."""

    def __init__(self, people: PersonTable, noise: Noise, tape: Transcript) -> None:
        taping = Recording(tape, noise)
        super().__init__(taping.watching(people), taping)


class Replayer(TrustedCurator):
    """A curator who gives the answers of a tape, and measures."""

    def __init__(self, people: PersonTable, tape: Transcript, found: Compared) -> None:
        taping = Replaying(tape, found)
        super().__init__(taping.watching(people), taping)
        self.finish = taping.finish


@dataclass
class Recorded:
    """A plan that ran once before a curator who keeps everything. The noise is simulated, and
    neither the outcome nor anything else of the table leaves an audit."""

    plan: Plan
    where: str
    tape: Transcript = field(default_factory=Transcript)
    outcome: Any = None

    @classmethod
    def of(cls, plan: Plan, rows: Rows, where: str, seed: int, found: Findings) -> Recorded:
        """The recording, with what it shows without any neighbour: bill and draws."""
        made = cls(plan, where)
        curator = Recorder(rows.people, SimulatedNoise(seed), made.tape)
        found.recorded += 1
        try:
            made.outcome = plan.run(curator)
        except Endless:
            found.violated(where, "a draw comes to no end: noise is drawn again until it suits")
            return made
        budget = plan.budget
        found.seen |= {*of_answers(made.tape.answers), *of_release(made.outcome)}
        bill = Guarantee.of(budget, budget.neighbors, curator.events)
        if not bill.verify():
            found.violated(where, "what was asked costs more than the budget")
        if not Guarantee.of(budget, budget.neighbors, plan.events).verify():
            found.violated(where, "the plan's bill is above the budget")
        inspected(made.tape.answers, where, found)
        return made

    def replay(self, neighbour: Neighbour, found: Findings) -> None:
        """The same run on a neighbour with the same noisy answers."""
        found.runs += 1
        compared = Compared()
        curator = Replayer(neighbour.rows.people, self.tape, compared)
        try:
            outcome = self.plan.run(curator)
            curator.finish()
            if not compared.difference and not same(outcome, self.outcome):
                compared.difference = "the outcome is no function of the noisy answers"
        except Parted:
            pass
        if compared.difference:
            found.differences += 1
            found.violated(self.where, f"{neighbour.what}: {compared.difference}")
        measured(self.tape.answers, compared, self.where, found)


@dataclass(frozen=True)
class Case:
    """One plan and one table; `subject` by its number, so that another process finds it."""

    subject: int
    said: Said
    relation: Relation
    dimension: int
    table: str

    @property
    def of(self) -> Subject:
        return SUBJECTS[self.subject]

    @property
    def where(self) -> str:
        words = ", ".join(f"{name} {value:g}" for name, value in self.said if value)
        asked = f"{self.of.name}, {words}, {self.relation}"
        return f"{asked}, {self.dimension} columns, {self.table} table"


def every_case() -> Iterator[Case]:
    """All cases of the list, table by table, so that a few runs try every subject."""
    for kind in TABLES:
        for number, subject in enumerate(SUBJECTS):
            for said in subject.budgets:
                for relation in subject.relations:
                    for dimension in subject.dimensions:
                        yield Case(number, said, relation, dimension, kind)


def table_of(subject: Subject, kind: str, dimension: int, seed: int) -> Rows:
    """The table of a case."""
    return table(kind, subject.n, dimension, subject.max_records, seed)


def shape_of(rows: Rows, relation: Relation) -> PublicShape:
    """What is public of these rows; under add-remove, a guess of their number."""
    n = rows.count
    public = relation == REPLACE_ONE
    return PublicShape(rows.columns, n if public else None, None if public else n, rows.max_records)


def planned(case: Case, seed: int) -> tuple[Plan, Rows]:
    """The plan of a case, and the rows that it runs on."""
    rows = table_of(case.of, case.table, case.dimension, seed)
    budget = budget_of(case.said, case.relation)
    return plan_of(case.of.made, budget, shape_of(rows, case.relation)), rows


def run(case: Case, runs: int, seed: int) -> Findings:
    """Record the case and replay it on so many neighbours."""
    subject = case.of
    found = Findings()
    try:
        plan, rows = planned(case, seed)
    except InfeasibleError as problem:
        found.refused[f"{subject.name} ({case.where})"] = str(problem)
        return found
    recorded = Recorded.of(plan, rows, case.where, seed, found)
    near = neighbours(rows, plan.budget.neighbors, recorded.tape, seed)
    for _, neighbour in zip(range(runs), near, strict=False):
        recorded.replay(neighbour, found)
    found.seen |= set(of_terms(dict(case.said), case.relation))
    if hasattr(subject.made, "default_neighbors"):
        found.seen |= set(of_question(subject.made))
    found.subjects[subject.name] = found.runs
    return found
