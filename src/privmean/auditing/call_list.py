"""What is asked in whole calls: every question, and every field of it away from its default.

A field of a question has a line here, or `coverage` names it as missing. Each is asked under three
budgets and both relations; those that a question does not take are refused from public facts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from privmean.api.parse_question import fields_of, question_class
from privmean.api.run_question import within_budget
from privmean.auditing.calls import Ask, Called, Table, built, columns_of
from privmean.auditing.findings import (
    BOTH,
    GENEROUS,
    MIXED,
    PURE,
    SUBJECTS,
    ZCDP,
    Findings,
    Said,
    budget_of,
    of_answers,
    of_question,
    of_release,
    of_terms,
)
from privmean.auditing.fixed_noise import Asked
from privmean.data.array_table import ArrayPersonTable
from privmean.data.schema import PublicShape, shape_of
from privmean.data.table import Table as Read
from privmean.estimators.heavy_tailed import BoundedMoment, HeavyTailedMean
from privmean.estimators.means.default_mean import DefaultMean
from privmean.estimators.regression.panel import AR1, Exchangeable
from privmean.estimators.regression.private_scale import PrivateScale
from privmean.estimators.winsorized import RandomEffects
from privmean.mechanisms.curator import TrustedCurator
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation, relation_of
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.privacy_events import PrivacyEvent

if TYPE_CHECKING:
    from privmean.pipeline import Plan
    from privmean.questions.base import Estimator, Question

NAMES, TEXTS = ("y", "x", "z", "b", "t", "g", "h", "arm"), ("g", "h", "arm")
PERSONS, RARE = 150, 400
RECORDS = "records of "  # the column with the number of records behind another
Terms = tuple[tuple[Said, Relation], ...]
TERMS: Terms = tuple(product((*GENEROUS, PURE, MIXED, ZCDP), BOTH))
Words = Mapping[str, Any]
GROUPS: Words = {"by": "g", "keys": ["a", "b", "c"]}
SPLIT: Words = {**GROUPS, "max_groups": 2}
CLUSTERED: Words = {"clustering": 2.0}
NEAR = (-9.0, 9.0)
POOLED, OWN = {"formula": "y ~ x"}, {"formula": "y ~ x", "effect": "per_person"}
# of every kind of question: what is said in any case, and for each field what sets it
AWAY: dict[str, tuple[Words, Mapping[str, Words | tuple[Words, ...]]]] = {
    "mean": (
        {"values": "y"},
        {
            "values": ({"values": ["y", "x"]}, {"values": ["y", "x"], "assume": (0, 8)}),
            "estimand": {"estimand": "records", "max_records": 3},
            "max_records": {"estimand": "records", "max_records": 2, "assume": (0, 8)},
            "resolution": {"resolution": 0.25},
            "assume": ({"assume": (0, 8)}, {"assume": NEAR, "values": ["y", "x", "z"]}),
            "method": {"method": DefaultMean(target="mean")},
            "clustering": (CLUSTERED, {"clustering": RandomEffects(0.5, 1.0, 10, group="arm")}),
            "by": ({"by": "g"}, {"by": ["g", "h"]}, {**GROUPS, "values": ["y", "x"]}),
            "keys": (GROUPS, {"by": ["g", "h"], "keys": [("a", "b"), ("b", "c")]}),
            "max_groups": SPLIT,
            "contrasts": {**GROUPS, "contrasts": ("a - b", "each - rest")},
            "membership": ({**GROUPS, "membership": "public"}, {**SPLIT, "membership": "public"}),
            "group_rule": ({**SPLIT, "group_rule": "split"}, {"by": "g", "group_rule": "split"}),
            "other_group": {**GROUPS, "keys": ["a", "b"], "other_group": True},
            "shrink": {**GROUPS, "shrink": True},
            "simultaneous": {**GROUPS, "simultaneous": True},
        },
    ),
    "regression": (
        POOLED,
        {
            "formula": ({"formula": "y ~ x + z"}, {"formula": "y ~ x + C(g, levels=['a', 'b'])"}),
            "fixed_effects": {**OWN, "fixed_effects": True},
            "working": ({**OWN, "working": AR1(0.5), "time": "t"}, {"working": Exchangeable(0.3)}),
            "time": {**OWN, "working": AR1(0.25), "time": "t"},
            "threshold": {**OWN, "threshold": 0.1}, "min_records": {**OWN, "min_records": 3},
            "scales": ({"scales": {"x": (3.0, 1.0)}}, {**OWN, "scales": {"x": 2.0, "y": 2.0}}),
            "resolution": {**OWN, "resolution": 2.0**-10}, "assume": {**OWN, "assume": NEAR},
            "method": {**OWN, "method": PrivateScale(target="clipped")},
            "clustering": (CLUSTERED, {**OWN, **CLUSTERED}),
            "effect": ({"effect": "within"}, OWN),
            "only": {"formula": "y ~ x + z", "only": ("x",)},
            "contrasts": {"formula": "y ~ x + z", "contrasts": {"x - z": {"x": 1, "z": -1}}},
            "weights": {"weights": 2}, "bounds": {"bounds": {"x": (0.0, 6.0), "y": (0.0, 8.0)}},
            "clipping_bias": {"clipping_bias": "single"},
        },
    ),
    "curve": (
        {"value": "y", "time": "t", "bins": (0, 1, 2, 3)},
        {
            "value": {}, "time": {}, "bins": {"bins": (0, 1.5, 3)},
            "resolution": {"resolution": 2.0**-10}, "assume": {"assume": (0, 8)},
            "method": {"method": DefaultMean(target="clipped")}, "clustering": CLUSTERED,
            "smooth": {"smooth": 1.0}, "by": {"by": "g", "levels": ("a", "b")},
            "levels": {"by": "g", "levels": ("a", "b"), "assume": (0, 8), "smooth": 1.0},
            "max_bins": ({"max_bins": 2}, {"bins": (0, 0.5, 1, 1.5, 2, 2.5, 3)}),
        },
    ),
    "variance": (
        {"value": "y"},
        {
            "value": {}, "resolution": {"resolution": 0.25}, "clustering": CLUSTERED,
        },
    ),
    "compare": (
        {"value": "y", "arms": "arm"},
        {
            "value": {}, "arms": {}, "levels": {"arms": "g", "levels": ("a", "b")},
            "baseline": {"baseline": "b"},
            "baseline_slope": {"baseline": "b", "baseline_slope": 0.5},
            "by": {"arms": None, "by": "g", "pair": ("a", "b")},
            "pair": {"arms": None, "by": "h", "pair": ("a", "c")},
            "membership": {"membership": "public"}, "resolution": {"resolution": 0.25},
        },
    ),
    "quantile": (
        {"value": "y"},
        {
            "value": {}, "q": {"q": (0.05, 0.25, 0.5, 0.75)}, "bounds": {"bounds": (0.0, 8.0)},
            "clustering": CLUSTERED, "resolution": {"resolution": 0.25},
        },
    ),
}  # fmt: skip
# questions of a study that share a step: plain ones, one by group, a table, a regression, a curve
SHARED: tuple[tuple[str, Words], ...] = (
    ("mean", {"values": "y"}), ("quantile", {"value": "y"}), ("variance", {"value": "y"}),
    ("mean", {"values": "y", **GROUPS}), ("mean", {"values": ["y", "x"], **GROUPS}),
    ("regression", POOLED), ("curve", {"value": "y", "time": "t", "bins": (0, 1, 2, 3)}),
    ("compare", {"value": "y", "arms": "arm"}),
)  # fmt: skip
STUDIES: dict[str, tuple[tuple[str, Words], ...]] = {
    "means and quantiles": SHARED[:3],
    "tables by group": SHARED[3:5],
    "regression and curve": SHARED[5:7],
    "everything": SHARED,
}
SPENT: Said = (("epsilon", 20.0), ("delta", 1e-6))
COLUMNS = DefaultMean(target="mean")
# what brings out a status that is rare: the question, the table and the budget
SAYING: dict[str, tuple[str, Words, str, Said]] = {
    "hidden key": ("mean", {"values": "y", "by": "g", "contrasts": ("a - z",)}, "constant", SPENT),
    "point mass": ("mean", {"values": "y"}, "constant", SPENT),
    "rare level": (
        "regression", {"formula": "y ~ x + C(g, levels=['a', 'b', 'z'])"}, "normal", SPENT,
    ),
    "collinear": ("regression", {"formula": "y ~ x + z"}, "collinear", SPENT),
    "range": ("regression", POOLED, "beyond", SPENT),
    "unseen column": (
        "mean", {"values": ["y", "x", "z", "b"], "method": COLUMNS}, "no z", SPENT,
    ),
    "failed column": (
        "mean", {"values": ["y", "x", "z"], "method": DefaultMean()}, "no z",
        (("epsilon", 5.0), ("delta", 1e-6)),
    ),
    "contradiction": (
        "mean", {"values": "y", "method": HeavyTailedMean(BoundedMoment(2, 1.0, range=NEAR))},
        "far",
        (("epsilon", 20.0),),
    ),
    "far": ("regression", {"formula": "y ~ x + z", "only": ("x",)}, "far", (("rho", 30.0),)),
    "no variation": ("regression", {**OWN, "threshold": 0.1}, "empty", GENEROUS[1]),
    "bounds": ("quantile", {"value": "y", "q": (0.01, 0.02, 0.99)}, "wide", MIXED),
    "imprecise bins": (
        "curve", {"value": "y", "time": "t", "bins": (0, 1, 2, 3), "assume": (0, 8)}, "normal",
        (("epsilon", 0.5),),
    ),
}  # fmt: skip


def plan_of(made: Estimator | Question, budget: Budget, shape: PublicShape) -> Plan:
    """The plan of an estimator, or of a question's."""
    estimator = getattr(made, "estimator", None)
    if callable(estimator):  # a question says who answers
        made = estimator(shape.dimension, shape.max_records, budget)
    plan: Plan = made.plan(budget, shape)  # type: ignore[union-attr]
    return within_budget(plan, budget)


@dataclass(frozen=True)
class Rows:
    """How records become one row per person: the columns of values, and the cap of records."""

    columns: tuple[str, ...]
    max_records: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        more = () if self.max_records is None else tuple(RECORDS + name for name in self.columns)
        return (*self.columns, *more)

    def built(self, kind: str, persons: int, seed: int) -> Table:
        made = built(self.names, (), kind, persons, seed)
        return Table(made.names, {who: own[:1] for who, own in made.people.items()})

    def of(self, people: Any) -> Table:
        """The rows of people who are given."""
        counts = [] if self.max_records is None else [people.counts]
        cells = np.hstack([people.matrix(), *counts])
        return Table(self.names, {k: (tuple(row),) for k, row in enumerate(cells.tolist())})

    def people(self, table: Table) -> ArrayPersonTable:
        """The first record of everybody."""
        cells = [[math.nan if x is None else x for x in own[0]] for own in table.people.values()]
        d = len(self.columns)
        every = np.array(cells, dtype=float).reshape(-1, len(self.names))
        if self.max_records is None:
            return ArrayPersonTable(every, self.columns)
        counts = np.clip(np.nan_to_num(every[:, d:]), 0, 2.0**40).astype(np.int64)
        values = np.where(counts == 0, math.nan, every[:, :d])
        return ArrayPersonTable(
            values, self.columns, np.where(np.isnan(values), 0, counts), self.max_records
        )


@dataclass(frozen=True)
class Ran:
    """What a plan came to, and what it asked for."""

    outcome: Any
    events: tuple[PrivacyEvent, ...]


def asking(made: Estimator | Question, said: Said, relation: Relation, persons: int) -> Ask:
    """The run of an estimator, of people and noise."""
    budget = budget_of(said, relation)
    plan = cache(partial(plan_of, made, budget))

    def asked(source: Asked, noise: Asked, _: Asked) -> Ran:
        guess = None if relation == REPLACE_ONE else persons
        curator = TrustedCurator(noise.watching(source), noise)
        planned = plan(shape_of(source, relation, guess))
        ran = Ran(planned.run(curator), curator.events)
        for bill in (planned.events, ran.events):
            if not Guarantee.of(budget, relation, bill).verify():
                raise RuntimeError("what was asked costs more than the budget")
        return ran

    return asked


@dataclass(frozen=True)
class Call:
    """One question, or a study of several; public: columns that a neighbor keeps. terms: the
    budgets and relations it is asked under. kind: of the table, where it is asked of one alone.
    rows: of an estimator, which is asked of one row per person. weight: of its neighbors among all
    (those that take long get fewer)."""

    name: str
    questions: tuple[Any, ...]
    public: tuple[str, ...] = ()
    n: int = PERSONS
    terms: Terms = TERMS
    kind: str = ""
    rows: Rows | None = None
    weight: float = 1.0

    def ask(self, said: Said, relation: str) -> Ask:
        """The call, of a source, noise and a ledger."""
        if self.rows is not None:
            return asking(self.questions[0], said, relation_of(relation), self.n)
        terms: dict[str, Any] = {**dict(said), "neighbors": relation}
        if relation == "add-remove":
            terms["n_guess"] = self.n

        def asked(source: Asked, noise: Asked, ledger: Asked) -> Asked:
            from privmean.api.functions import ask
            from privmean.study.study import Study

            table = source if isinstance(source, Read) else Read(source, person="person")
            if len(self.questions) == 1:
                return ask(table, self.questions[0], noise=noise, ledger=ledger, **terms)
            study = Study(table, **terms)
            for k, question in enumerate(self.questions):
                study.add(f"q{k}", question)
            return study.release(noise=noise, ledger=ledger)

        asked.rho = "rho" in terms  # type: ignore[attr-defined]
        return asked


def _made(kind: str, said: Words) -> Asked:
    """A question with these words."""
    words = {name: value for name, value in said.items() if value is not None}
    return question_class(kind)(
        **{k: tuple(v) if isinstance(v, list) else v for k, v in words.items()}
    )


def kept(question: Asked) -> tuple[str, ...]:
    """Columns that are public, by what the question says."""
    if getattr(question, "membership", "private") == "public":
        return tuple(question.by or ()) if question.kind == "mean" else (question.arms,)
    effects = getattr(question, "clustering", None)
    return (effects.group,) if isinstance(effects, RandomEffects) and effects.group else ()


def _calls() -> Iterator[Call]:
    for kind, (base, away) in AWAY.items():
        for item in fields_of(question_class(kind)):
            listed = away.get(item.name, ())
            for number, words in enumerate(listed if isinstance(listed, tuple) else (listed,)):
                question = _made(kind, {**base, **words})
                name = f"{kind}, {item.name}{f' {number + 1}' if number else ''}"
                yield Call(name, (question,), public=kept(question))
    for name, (kind, words, table, said) in SAYING.items():
        question = _made(kind, words)
        terms = tuple(product((said,), BOTH))
        yield Call(f"saying {name}", (question,), kept(question), RARE, terms, table)
    for name, questions in STUDIES.items():
        yield Call(f"study, {name}", tuple(_made(*item) for item in questions))
    for one in SUBJECTS:
        for columns in one.dimensions:
            rows = Rows(tuple(f"c{k}" for k in range(columns)), one.max_records)
            # first every budget once, so that a few show every kind
            terms = tuple((said, relation) for relation in one.relations for said in one.budgets)
            yield Call(
                f"{one.name}, columns: {columns}", (one.made,), n=one.n, terms=terms,
                rows=rows, weight=one.weight,
            )  # fmt: skip


CALLS: tuple[Call, ...] = tuple(_calls())
KINDS = ("normal", "heavy", "constant", "empty", "far", "wide")


@dataclass(frozen=True)
class CallCase:
    """A call at a budget, for one relation, on a built-in table of this kind, or on one's own."""

    call: Call
    said: Said
    relation: str
    table: str
    own: Table | None = None

    @property
    def where(self) -> str:
        words = ", ".join(f"{name} {value:g}" for name, value in self.said if value)
        return f"{self.call.name}, {words}, {self.relation}, {self.table} table"


def every_call() -> Iterator[CallCase]:
    """All cases, table by table: first every call once, under terms that go round."""
    for kind in KINDS:
        for shift in range(len(TERMS)):
            for number, call in enumerate(CALLS):
                if shift < len(call.terms):
                    turn = shift if call.kind else shift + number
                    terms = call.terms[turn % len(call.terms)]
                    yield CallCase(call, *terms, call.kind or kind)


def called(
    case: CallCase, seed: int, source: Callable[[Table], Any] = Table.quickest, persons: int = 0
) -> Called:
    """The case, to be recorded; persons: another number of them."""
    call = replace(case.call, n=persons or case.call.n)
    table = case.own
    if call.rows is not None:
        table, source = table or call.rows.built(case.table, call.n, seed), call.rows.people
    elif table is None:
        table = built(NAMES, TEXTS, case.table, call.n, seed, call.public)
    ask = call.ask(case.said, case.relation)
    return Called(ask, table, source, case.where, case.relation, seed)


def table_for(question: object, kind: str, seed: int) -> Table:
    """A built-in table with the columns of a question."""
    numbers, texts = columns_of(question)
    return built((*numbers, *texts), texts, kind, PERSONS, seed, kept(question))


def run_call(case: CallCase, runs: int, seed: int) -> Findings:
    """Record the case, or the next one of its call that is not refused, and replay it."""
    found, call = Findings(), case.call
    first = call.terms.index((case.said, relation_of(case.relation)))
    for said, relation in (*call.terms[first:], *call.terms[:first]):
        made = called(replace(case, said=said, relation=relation), seed)
        if made.record(found):
            found.seen |= {*of_terms(dict(said), relation), *of_release(made.made)}
            found.seen |= set(of_answers(made.tape.answers))
            for question in call.questions:
                # an estimator has no fields of a question
                if hasattr(question, "default_neighbors"):
                    found.seen |= set(of_question(question))
            made.follow(runs, found)
            found.subjects[call.name] = found.runs
            break
    return found
