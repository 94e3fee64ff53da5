"""One road for every question: declare, open, choose, reduce, plan, charge, run, release.

Whatever can be refused from arguments is refused before the table is opened; whatever needs the
schema, before a row is read. An engine that fails while reducing has cost nothing: the charge comes
after it (`privmean.pipeline.execute`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from inspect import isroutine, signature
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np

from privmean import validate
from privmean.api.call_options import DEFAULTS, CallOptions
from privmean.data.schema import PublicShape, shape_of
from privmean.data.table import Table
from privmean.errors import UNCHARGED, ArgumentError, InfeasibleError, PrivmeanError
from privmean.mechanisms.noisy_vector import require_drawn
from privmean.pipeline import Plan, execute
from privmean.privacy.budget import ADD_REMOVE, Budget, Neighbors, relation_of
from privmean.privacy.guarantee import Guarantee, warn_of_delta
from privmean.questions.assumptions import BOUNDS, COVARIANCE, Covariance
from privmean.questions.base import COLUMNS, Question, TypedQuestion
from privmean.validate import unknown_keyword

if TYPE_CHECKING:
    from privmean.data.duckdb_engine import Person, Records, Rows
    from privmean.data.person_table import PersonTable
    from privmean.noise.noise_source import Noise
    from privmean.privacy.ledger import Ledger
    from privmean.release.release import Release

R = TypeVar("R", bound="Release")
Q = TypeVar("Q", bound=Question)
# records, or what a table or people hold already, or one row a person
Source: TypeAlias = "Records | Rows | Table | PersonTable"


@dataclass(frozen=True)
class CheckedOptions:
    """The terms of one call, checked."""

    budget: Budget
    n_guess: int | None
    level: float
    ledger: Ledger | None
    noise: Noise | None
    label: str | None = None
    analyst: str = ""


def require_question(given: Question) -> Question:
    if not hasattr(type(given), "default_neighbors"):
        remedy = "use pm.Mean('wage') or pm.Quantile('wage')"
        raise ArgumentError("question", given, "is not a question", remedy)
    return given


def check_options(
    terms: Mapping[str, Any],
    function: Callable[..., object],
    usual: Neighbors = "replace-one",
) -> CheckedOptions:
    """The terms that a call gave, checked before anything is read.

    function: which was called. usual: the neighbors where none are named.
    """
    for name, value in terms.items():
        if name not in CallOptions.__annotations__:
            raise unknown_keyword(function.__name__, name, value, signature(function).parameters)
    named = terms.get("neighbors")
    relation = relation_of(usual if named is None else named)
    terms = {**DEFAULTS, **terms}
    budget = Budget(
        epsilon=terms.get("epsilon"),
        delta=terms["delta"],
        rho=terms.get("rho"),
        neighbors=relation,
    )
    guess = terms.get("n_guess")
    if guess is not None:
        if relation != ADD_REMOVE:
            raise ArgumentError(
                "n_guess",
                guess,
                "is only for neighbors='add-remove'",
                "remove it; n is public here",
            )
        guess = validate.whole("n_guess", guess, least=1)
    noise = terms.get("noise")
    if not _does(noise, "laplace"):
        raise ArgumentError(
            "noise",
            noise,
            "is not a source of noise",
            "remove it; in tests pass noise=pm.SimulatedNoise(1)",
        )
    return CheckedOptions(
        budget,
        guess,
        validate.level("level", terms["level"]),
        ledger_of(terms.get("ledger")),
        noise,
        in_words("label", terms.get("label")),
        in_words("analyst", terms.get("analyst")) or "",
    )


def one_of(assume: object, words: Mapping[str, object]) -> Any:
    """`assume`, or the one assumption that was given by the word for its kind.

    What kinds a question takes is for the question to say, which reads the result.
    """
    given: dict[str, Any] = {name: value for name, value in words.items() if value is not None}
    if assume is not None:
        given = {"assume": assume, **given}
    if len(given) > 1:
        names = " and ".join(given)
        raise ArgumentError(
            "assume", names, "cannot be combined", "pass one of them", subject=names
        )
    for name, value in given.items():
        if name == COVARIANCE:
            return value if hasattr(value, "plan") else Covariance(value)
        if name == BOUNDS and not isinstance(value, list | tuple | np.ndarray):
            raise ArgumentError("bounds", value, "must be a pair", "use bounds=(lower, upper)")
        return value
    return None


def in_words(name: str, given: object) -> str | None:
    """A word for a ledger's entry: text, or nothing."""
    if given is not None and not isinstance(given, str):
        raise ArgumentError(name, type(given).__name__, "must be text", "give text, or remove it")
    return given


def ledger_of(given: Ledger | str | os.PathLike[str] | None) -> Ledger | None:
    """A ledger as it is, or the one at a path, which must be there."""
    if isinstance(given, str | os.PathLike):
        from privmean.privacy.ledger import Ledger

        return Ledger.open(given)
    if not _does(given, "charge"):
        raise ArgumentError(
            "ledger", given, "is not a ledger", "use pm.Ledger(...) or the path of its file"
        )
    return given


def _does(given: object, verb: str) -> bool:
    """Whether it is nothing, or an object that does this."""
    return given is None or (callable(getattr(given, verb, None)) and not isinstance(given, type))


def run_question(
    source: Table | PersonTable, question: TypedQuestion[R], said: CheckedOptions
) -> R:
    """The release of one question: what every public function does after reading its words."""
    try:
        question, people, plan = _ready(source, question, said)
    except PrivmeanError as error:
        if said.ledger is not None:
            error.notice = UNCHARGED
        raise
    release = execute(
        plan,
        people,
        noise=said.noise,
        ledger=said.ledger,
        label=said.label or question.kind,
        about=_about(source, question, said),
        level=said.level,
    )
    return question.to_release(release)


def _ready(
    source: Table | PersonTable, question: TypedQuestion[R], said: CheckedOptions
) -> tuple[TypedQuestion[R], PersonTable, Plan]:
    """The question with its public facts, the people and the plan; all refusals are here."""
    if isinstance(source, Table):
        question = awaited_keys(source, question)
    # the columns of the question, where they are known before the table is opened
    names = question.summary.names if isinstance(source, Table) else tuple(source.columns)
    if names is not None and said.budget.neighbors == ADD_REMOVE:
        # nothing of the plan needs the table: it is refused before the table is opened
        make_plan(question, PublicShape(names, None, said.n_guess), said.budget)
    elif names is not None:
        question.estimator(len(names), None, said.budget)
    if isinstance(source, Table):
        people, question = to_person_table(source, question), question.with_public_facts(source)
    else:
        people, question = source, question.with_public_facts(None)
    shape = shape_of(people, said.budget.neighbors, said.n_guess)
    shape = replace(shape, declared=declared_of(question))
    plan = make_plan(question, shape, said.budget)
    if plan.budget.delta:
        warn_of_delta(Guarantee.of(plan.budget, plan.budget.neighbors, plan.events), shape.count)
    return question, people, plan


def to_person_table(table: Table, question: Question) -> PersonTable:
    """One row a person, as the question asks."""
    with _named_columns(question):
        return table.people(question.summary)


def declared_of(question: Question) -> tuple[str, ...]:
    """What a question owes to declared types, in words."""
    found: tuple[str, ...] = getattr(question, "declared", ())
    return found


def awaited_keys(table: Table, question: Q) -> Q:
    """The question with the keys that declared types list, where it names none."""
    if not getattr(question, "awaits_keys", False):
        return question
    with _named_columns(question):
        return cast("Q", question.with_public_facts(table))


@contextmanager
def _named_columns(question: Question) -> Iterator[None]:
    """A column that cannot be had is called by the word of the question that names it."""
    try:
        yield
    except ArgumentError as error:
        name = error.value
        if error.argument == "keys" and question.kind == "compare":
            word = "pair" if getattr(question, "pair", None) else "levels"
            raise ArgumentError(word, name, error.problem, error.remedy) from None
        if error.argument not in ("values", "by") or not isinstance(name, str):
            raise
        said = {item.name: getattr(question, item.name) for item in fields(cast("Any", question))}
        holding = [
            word
            for word, value in said.items()
            if word in COLUMNS and name in (value if isinstance(value, tuple) else (value,))
        ]
        if holding:
            raise ArgumentError(holding[-1], name, error.problem, error.remedy) from None
        if "formula" in said:
            problem = f"has {name!r}, which {error.problem}"
            raise ArgumentError("formula", said["formula"], problem, error.remedy) from None
        raise


def make_plan(question: Question, shape: PublicShape, budget: Budget) -> Plan:
    """The plan of a question, which keeps the budget."""
    plan = question.estimator(shape.dimension, shape.max_records, budget).plan(budget, shape)
    if shape.max_records is not None and getattr(plan, "persons_only", False):
        raise ArgumentError(
            "method",
            plan.estimator,
            "cannot estimate a mean over records",
            "give bounds or a concentration, release fewer columns, or use estimand='people'",
        )
    return within_budget(plan, budget)


def within_budget(plan: Plan, budget: Budget) -> Plan:
    """The plan, if its accounting keeps the budget and its noise can be drawn; InfeasibleError
    otherwise.

    Plans are calibrated to keep it. At the ends of the range of budgets (a delta of 1e-30, say)
    what doubles and noise on a lattice add can be more than is left, and noise for very many
    columns can be wider than the exact samplers draw. Every question passes here before it is
    charged, so that no release fails after its charge.
    """
    if not Guarantee.of(budget, budget.neighbors, plan.events).verify():
        raise InfeasibleError(
            f"no noise of this method keeps {budget.describe()}",
            "give a larger delta, another epsilon, or choose another method",
        )
    for item in plan.events:
        require_drawn(item.name, item.drawn)
    return plan


def _about(source: Table | PersonTable, question: Question, said: CheckedOptions) -> dict[str, str]:
    """What a ledger's entry says of a question: names and settings, never values."""
    table = source.name if isinstance(source, Table) else ""
    told = {"analyst": said.analyst, "questions": question.kind, "table": table}
    return {name: text for name, text in told.items() if text}


def source_of(given: Source, person: Person | None) -> Table | PersonTable:
    """People as they are, a table, or what a table is made of."""
    # a frame may answer every name with a column, or have a column of this name
    if isroutine(getattr(given, "log_counts", None)) or isinstance(given, Table):
        if person is not None:
            raise ArgumentError("person", person, "is already given by the table", "remove it")
        return cast("Table | PersonTable", given)
    if not isinstance(person, str) and not isinstance(given, str | np.ndarray):
        from privmean.data.list_columns import in_arrays

        given, person = in_arrays(given, person)
    if person is None and not isinstance(given, np.ndarray):
        raise ArgumentError(
            "person",
            None,
            "is required",
            "name the column that identifies people, or pass an array with one row per person",
        )
    return Table(cast("Records", given), person=person)
