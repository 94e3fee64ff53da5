"""Plans on one row per person, as calls: the estimators of `subjects`, and those that are given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from privmean.api.run_question import within_budget
from privmean.auditing.calls import Ask, Table, built
from privmean.auditing.fixed_noise import Asked
from privmean.auditing.subjects import Said, budget_of
from privmean.data.array_table import ArrayPersonTable
from privmean.data.public_shape import PublicShape, shape_of
from privmean.mechanisms.curator import TrustedCurator
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.privacy_events import PrivacyEvent

if TYPE_CHECKING:
    from privmean.pipeline import Plan
    from privmean.questions.base import Estimator, Question

RECORDS = "records of "  # the column with the number of records behind another


def plan_of(made: Estimator | Question, budget: Budget, shape: PublicShape) -> Plan:
    """The plan of an estimator, or of a question's."""
    estimator = getattr(made, "estimator", None)
    if callable(estimator):  # a question says who answers
        made = estimator(shape.dimension, shape.cap, budget)
    plan: Plan = made.plan(budget, shape)  # type: ignore[union-attr]
    return within_budget(plan, budget)


@dataclass(frozen=True)
class Rows:
    """How records become one row per person: the columns of values, and the cap of records."""

    columns: tuple[str, ...]
    cap: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        more = () if self.cap is None else tuple(RECORDS + name for name in self.columns)
        return (*self.columns, *more)

    def built(self, kind: str, persons: int, seed: int) -> Table:
        made = built(self.names, (), kind, persons, seed)
        return Table(made.names, {who: own[:1] for who, own in made.people.items()})

    def of(self, people: Any) -> Table:
        """The rows of people who are given."""
        cells = np.hstack([people.matrix(), *([people.counts] if self.cap is not None else ())])
        return Table(self.names, {k: (tuple(row),) for k, row in enumerate(cells.tolist())})

    def people(self, table: Table) -> ArrayPersonTable:
        """The first record of everybody."""
        cells = [[math.nan if x is None else x for x in own[0]] for own in table.people.values()]
        d = len(self.columns)
        every = np.array(cells, dtype=float).reshape(-1, len(self.names))
        if self.cap is None:
            return ArrayPersonTable(every, self.columns)
        counts = np.clip(np.nan_to_num(every[:, d:]), 0, 2.0**40).astype(np.int64)
        values = np.where(counts == 0, math.nan, every[:, :d])
        return ArrayPersonTable(
            values, self.columns, np.where(np.isnan(values), 0, counts), self.cap
        )


@dataclass(frozen=True)
class Ran:
    """What a plan came to, and what it asked for."""

    outcome: Any
    bill: tuple[PrivacyEvent, ...]

    def __str__(self) -> str:
        return repr(self)


def asking(made: Estimator | Question, said: Said, relation: Relation, persons: int) -> Ask:
    """The run of an estimator, of people and noise."""
    budget = budget_of(said, relation)
    plan = cache(partial(plan_of, made, budget))

    def asked(source: Asked, noise: Asked, _: Asked) -> Ran:
        guess = None if relation == REPLACE_ONE else persons
        curator = TrustedCurator(noise.watching(source), noise)
        planned = plan(shape_of(source, relation, guess))
        ran = Ran(planned.run(curator), curator.bill)
        for bill in (planned.losses, ran.bill):
            if not Guarantee.of(budget, relation, bill).verify():
                raise RuntimeError("what was asked costs more than the budget")
        return ran

    return asked
