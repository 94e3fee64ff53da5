"""The cases of an audit: every subject with every budget, relation, number of columns and table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from privmean.asking.road import within_budget
from privmean.auditing.coverage import of_question, of_terms
from privmean.auditing.findings import Findings
from privmean.auditing.hostile import TABLES, Rows, neighbours, table
from privmean.auditing.replaying import Recorded
from privmean.auditing.subjects import SUBJECTS, Said, Subject, budget_of
from privmean.errors import Infeasible
from privmean.people.shape import Shape
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation

if TYPE_CHECKING:
    from privmean.questions.base import Estimator, Question
    from privmean.road import Plan


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


def plan_of(made: Estimator | Question, budget: Budget, shape: Shape) -> Plan:
    """The plan of an estimator, or of a question's."""
    estimator = getattr(made, "estimator", None)
    if callable(estimator):  # a question says who answers
        made = estimator(shape.dimension, shape.cap, budget)
    plan: Plan = made.plan(budget, shape)  # type: ignore[union-attr]
    return within_budget(plan, budget)


def table_of(subject: Subject, kind: str, dimension: int, seed: int) -> Rows:
    """The table of a case."""
    return table(kind, subject.persons, dimension, subject.cap, seed)


def shape_of(rows: Rows, relation: Relation) -> Shape:
    """What is public of these rows; under add-remove, a guess of their number."""
    n = rows.count
    public = relation == REPLACE_ONE
    return Shape(rows.columns, n if public else None, None if public else n, rows.cap)


def run(case: Case, runs: int, seed: int) -> Findings:
    """Record the case and replay it on so many neighbours."""
    subject = case.of
    rows = table_of(subject, case.table, case.dimension, seed)
    budget = budget_of(case.said, case.relation)
    found = Findings()
    try:
        plan = plan_of(subject.make(), budget, shape_of(rows, case.relation))
    except Infeasible as problem:
        found.refused[f"{subject.name} ({case.where})"] = str(problem)
        return found
    follow(plan, rows, case.where, runs, seed, found)
    found.seen |= set(of_terms(dict(case.said), case.relation))
    if hasattr(plan_asked := subject.make(), "usual_neighbors"):
        found.seen |= set(of_question(plan_asked))
    found.subjects[subject.name] = found.runs
    return found


def follow(plan: Plan, rows: Rows, where: str, runs: int, seed: int, found: Findings) -> None:
    """Record a plan on a table, try its draws, replay it on neighbours."""
    recorded = Recorded.of(plan, rows, where, seed, found)
    near = neighbours(rows, plan.budget.neighbors, recorded.tape, seed)
    for _, neighbour in zip(range(runs), near, strict=False):
        recorded.replay(neighbour, found)
