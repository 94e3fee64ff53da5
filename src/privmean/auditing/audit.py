"""`privmean.audit`: the package tries its own promises, on its own tables or on yours."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import signature
from itertools import cycle
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from privmean import validate
from privmean.api.run_question import source_of
from privmean.auditing import audit_local as local
from privmean.auditing import audit_streams as streams
from privmean.auditing import call_list, direct
from privmean.auditing.audit_report import AuditReport
from privmean.auditing.calls import Called, own_records
from privmean.auditing.calls import Table as Records
from privmean.auditing.cases import Rows
from privmean.auditing.findings import Findings
from privmean.auditing.subjects import ANY, BOTH, Said, budget_of
from privmean.data.public_shape import require_persons
from privmean.data.table import RecordMeans, Table
from privmean.errors import ArgumentError
from privmean.privacy.budget import relation_of
from privmean.signatures import unknown_keyword

if TYPE_CHECKING:
    from privmean.privacy.budget import Relation
    from privmean.questions.base import Estimator, Question

RUNS, OWN_RUNS, THOROUGH = 5_000, 2_000, 100_000
EACH, FEW = 10, 3  # neighbors of one recorded call at least: of rows, of raw records
MOST_EACH = 400
PERSONS = 601
OF_CALLS = 0.2  # of the neighbours, whole calls: they take longer


def audit(
    question: Estimator | Question | None = None,
    table: object = None,
    *,
    person: object = None,
    runs: int | None = None,
    seed: int = 0,
    processes: int = 1,
    seconds: float | None = None,
    **terms: Any,
) -> AuditReport:
    """Record runs, replay them on hostile neighbours with the same noisy answers, and measure.

    question: a question (`Mean(...)`) or an estimator (`Winsorized(...)`); None: everything that
    privmean knows of itself, with streams and local randomizers. table: your own table or people
    (`privmean.Table`, a file with person=..., a frame, an array), else built-in hostile ones. runs:
    replays in all. processes: how many work on it (from a script, only under `if __name__ ==
    "__main__":`). seconds: stop after so long. epsilon, delta | rho, neighbors: the terms, else
    three budgets and both relations.

    Three things are tried on every neighbour: the same questions and mechanisms are asked in the
    same order with the same parameters, and the outcome is the same function of the noisy answers;
    the exact answers move by no more than every mechanism's losses declare, in exact fractions; and
    the draws by themselves, without any formula of ours, cost no more. The report is true if
    something was audited and nothing violated. Raises ArgumentError for wrong arguments and
    SchemaError for a table without persons.

    Example:
        table = pm.Table(pm.example("ratings"), person="student")
        report = pm.audit(pm.Mean("rating"), table, runs=10)
        assert report and report.runs > 0
        print(report)

    Guarantees: none are given or spent. A dry run: the noise is simulated, no release is made, and
    nothing that is returned or printed holds a value of the table; where its number of persons is
    not public, keep the report to yourself all the same.

    Source: Cebere, Erb, Desfontaines, Bellet and Fitzsimons (2026), grey-box auditing.
    """
    start = time.monotonic()
    limit = None if seconds is None else start + validate.positive("seconds", seconds)
    workers = validate.whole("processes", processes, least=1)
    seed = validate.whole("seed", seed, least=0)
    if runs is not None:
        runs = validate.whole("runs", runs, least=1)
    if question is None and table is not None:
        raise ArgumentError(
            "question", None, "is required", "give a question such as pm.Mean('wage')"
        )
    if question is None:
        if terms:
            name, value = next(iter(terms.items()))
            raise ArgumentError(name, value, "requires a question", "name what to audit")
        jobs = everything(runs or RUNS, seed)
        about = "privmean, built-in tables"
    else:
        jobs = _one(question, table, person, runs or OWN_RUNS, seed, terms)
        name = getattr(question, "kind", type(question).__name__)
        about = f"{name}, {'built-in tables' if table is None else 'your table (dry)'}"
    found = Findings.of(_done(jobs, workers, limit))
    return AuditReport(found, time.monotonic() - start, about, seed)


@dataclass(frozen=True)
class Job:
    """What one process does at a time."""

    call: call_list.CallCase | None = None
    own: UserCase | None = None
    part: str = ""
    runs: int = EACH
    seed: int = 0


@dataclass(frozen=True)
class UserCase:
    """A question or estimator on one table, at one budget; rows: where it is one row per person."""

    made: Any
    people: Records
    rows: Rows | None
    said: Said
    relation: Relation
    table: str


def everything(runs: int, seed: int) -> list[Job]:
    """Every call at least once, then under other terms and on other tables, until there are runs
    enough; one in five from raw records."""
    jobs = [Job(part=part, runs=runs) for part in ("local", "streams", "direct")]
    cases = list(call_list.every_call())
    for share, of_rows in ((OF_CALLS, False), (1 - OF_CALLS, True)):
        own = [case for case in cases if (call_list.CALLS[case.call].rows is not None) == of_rows]
        least = sum((call.rows is not None) == of_rows for call in call_list.CALLS)
        left = int(share * runs)
        each = min(MOST_EACH, max(EACH if of_rows else FEW, left // len(own)))
        for turn, case in enumerate(cycle(own)):
            if left <= 0 and turn >= least:
                break
            some = max(1, int(each * call_list.CALLS[case.call].weight))
            left -= some
            jobs.append(Job(case, runs=some, seed=seed + turn // len(own)))
    return jobs


def _one(
    question: Estimator | Question,
    source: object,
    person: object,
    runs: int,
    seed: int,
    terms: dict[str, Any],
) -> list[Job]:
    said, relations = _said(terms)
    tables = list(_tables(question, source, person, seed))
    for _, people, _ in tables:
        require_persons(len(people.people))
    owned = [
        UserCase(question, people, rows, words, relation, name)
        for name, people, rows in tables
        for words in said
        for relation in relations
    ]
    each = max(1, -(-runs // len(owned)))
    return [
        Job(own=item, runs=min(MOST_EACH, each - at), seed=seed + at)
        for at in range(0, each, MOST_EACH)
        for item in owned
    ]


def _said(terms: dict[str, Any]) -> tuple[tuple[Said, ...], tuple[Relation, ...]]:
    """The budgets and the relations to audit."""
    known = {"epsilon", "delta", "rho", "neighbors"}
    for name, value in terms.items():
        if name not in known:
            raise unknown_keyword("audit", name, value, signature(audit).parameters)

    given = {name: value for name, value in terms.items() if value is not None}
    named = given.pop("neighbors", None)
    relations: tuple[Relation, ...] = BOTH if named is None else (relation_of(named),)
    if not given:
        return ANY, relations
    # a budget of 0 is said, too, and refused here
    words = tuple((name, given[name]) for name in ("epsilon", "delta", "rho") if name in given)
    budget_of(words, relations[0])
    return (words,), relations


def _tables(
    question: Estimator | Question, source: Any, person: Any, seed: int
) -> Iterator[tuple[str, Records, Rows | None]]:
    """The tables to record on: the given one, or every built-in one."""
    summary = getattr(question, "summary", None)
    plain = summary is None or isinstance(summary, RecordMeans)
    if source is None:
        names = getattr(summary, "names", None) or ("value",)
        rows = Rows(tuple(names), getattr(summary, "cap", None)) if plain else None
        for kind in call_list.KINDS:
            made = rows.built(kind, PERSONS, seed) if rows else None
            yield kind, made or call_list.table_for(question, kind, seed), rows
        return
    found = source_of(source, person, {})
    if isinstance(found, Table):
        if summary is None:
            raise ArgumentError(
                "question", type(question).__name__, "must name the columns to average",
                "give a question, such as Mean('wage', method=...)",
            )  # fmt: skip
        if not plain:
            yield "own", own_records(found, question), None
            return
        found = found.people(summary)
    people: Any = found.collect() if hasattr(found, "collect") else found
    rows = Rows(tuple(people.columns), people.cap)
    yield "own", rows.of(people), rows


def _done(jobs: Sequence[Job], workers: int, limit: float | None) -> Iterator[Findings]:
    do = partial(work, limit=limit)
    if workers == 1 or len(jobs) < 2:
        yield from map(do, jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(do, jobs, chunksize=max(1, min(8, len(jobs) // (4 * workers))))


def work(job: Job, limit: float | None) -> Findings:
    """One job, unless time is up (the clock is the machine's, the same in all processes)."""
    found = Findings()
    if limit is not None and time.monotonic() > limit:
        return found
    with _silent():
        if job.part == "local":
            local.audit_local(found, thorough=job.runs >= THOROUGH)
        elif job.part == "streams":
            streams.audit_streams(found)
        elif job.part == "direct":
            direct.audit_direct(found)
        elif job.call is not None:
            return call_list.run_call(job.call, job.runs, job.seed)
        elif job.own is not None:
            _own(job.own, job, found)
    return found


def _own(own: UserCase, job: Job, found: Findings) -> None:
    words = ", ".join(f"{name} {value:g}" for name, value in own.said if value)
    where = f"{own.table} table, {words}, {own.relation}"
    name = getattr(own.made, "kind", type(own.made).__name__)
    ask = call_list.Call(name, (own.made,), persons=len(own.people.people), rows=own.rows)
    source = Records.quickest if own.rows is None else own.rows.people
    asked = ask.ask(own.said, own.relation)
    made = Called(asked, own.people, source, where, own.relation, job.seed)
    if made.record(found):
        made.follow(job.runs, found)
        found.subjects[name] = found.runs
    elif not found.count:
        found.refused[where] = "no plan for this budget, these neighbours and this table"


@contextmanager
def _silent() -> Iterator[None]:
    """Without the warnings of rows that leave an engine: none do."""
    log = logging.getLogger("privmean")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before
