"""`privmean.audit`: the package tries its own promises, on its own tables or on yours."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from privmean import validate
from privmean.asking.road import source_of
from privmean.auditing import call_list, cases, direct, local, streams
from privmean.auditing.calls import Called, own_records
from privmean.auditing.calls import Table as Records
from privmean.auditing.findings import Findings
from privmean.auditing.hostile import TABLES, Rows, table
from privmean.auditing.report import AuditReport
from privmean.auditing.subjects import ANY, BOTH, Said, budget_of
from privmean.errors import ArgumentError, Infeasible
from privmean.people.shape import require_persons
from privmean.people.table import RecordMeans, Table
from privmean.privacy.budget import relation_of

if TYPE_CHECKING:
    from privmean.privacy.budget import Relation
    from privmean.questions.base import Estimator, Question

RUNS, OWN_RUNS, THOROUGH = 5_000, 2_000, 100_000
EACH = 25  # neighbours of one recorded run, at least
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
        raise ArgumentError("question", None, "is missing", "say what to ask of the table")
    if question is None:
        if terms:
            name, value = next(iter(terms.items()))
            raise ArgumentError(name, value, "goes with a question", "name what to audit")
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

    case: cases.Case | None = None
    call: call_list.CallCase | None = None
    own: Own | None = None
    part: str = ""
    runs: int = EACH
    seed: int = 0


@dataclass(frozen=True)
class Own:
    """A question or estimator on one table, at one budget."""

    made: Any
    rows: Rows | Records
    said: Said
    relation: Relation
    table: str


def everything(runs: int, seed: int) -> list[Job]:
    """Every subject in turn, on shuffled cases of its own, until there are runs enough."""
    by_subject: dict[int, list[cases.Case]] = {}
    for case in cases.every_case():
        by_subject.setdefault(case.subject, []).append(case)
    shuffled = random.Random(seed)
    for listed in by_subject.values():
        shuffled.shuffle(listed)
    total = sum(len(listed) for listed in by_subject.values())
    each = min(MOST_EACH, max(EACH, runs // total))
    jobs = [Job(part=part, runs=runs) for part in ("local", "streams", "direct")]
    jobs += _calls(runs, seed)
    planned, turn = 0, 0
    while planned < runs:
        added = False
        for listed in by_subject.values():
            if turn < len(listed) and planned < runs:
                own = max(1, int(each * listed[turn].of.weight))
                jobs.append(Job(listed[turn], runs=own, seed=seed))
                planned, added = planned + own, True
        turn += 1
        if not added:  # all cases are there: more neighbours of each, with other seeds
            seed, turn = seed + 1, 0
    return jobs


def _calls(runs: int, seed: int) -> Iterator[Job]:
    """Every whole call at least once, then under other terms and on other tables."""
    left, each = int(OF_CALLS * runs), max(3, int(OF_CALLS * runs) // 2000)
    for number, case in enumerate(call_list.every_call()):
        if left <= 0 and number >= len(call_list.CALLS):
            return
        left -= each
        yield Job(call=case, runs=each, seed=seed)


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
    for _, rows in tables:
        require_persons(rows.count if isinstance(rows, Rows) else len(rows.people))
    owned = [
        Own(question, rows, words, relation, name)
        for name, rows in tables
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
            raise ArgumentError(name, value, "is no word of audit", f"it takes {sorted(known)}")
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
) -> Iterator[tuple[str, Rows | Records]]:
    """The rows to record: of the given table, or of every built-in one."""
    summary = getattr(question, "summary", None)
    plain = summary is None or isinstance(summary, RecordMeans)
    if source is None and not plain:
        for kind in call_list.KINDS:
            yield kind, call_list.table_for(question, kind, seed)
        return
    if source is None:
        names = getattr(summary, "names", None) or ("value",)
        cap = getattr(summary, "cap", None)
        for kind in TABLES:
            yield kind, table(kind, PERSONS, len(names), cap, seed)
        return
    found = source_of(source, person, {})
    if isinstance(found, Table):
        if summary is None:
            raise ArgumentError(
                "question", type(question).__name__, "does not say which columns it is about",
                "give a question, such as Mean('wage', method=...)",
            )  # fmt: skip
        if not plain:
            yield "own", own_records(found, question)
            return
        found = found.people(summary)
    people: Any = found.collect() if hasattr(found, "collect") else found
    counts = getattr(people, "counts", None)
    yield "own", Rows(people.matrix(), tuple(people.columns), counts, people.cap)


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
        elif job.case is not None:
            return cases.run(job.case, job.runs, job.seed)
        elif job.own is not None:
            _own(job.own, job, found)
    return found


def _own(own: Own, job: Job, found: Findings) -> None:
    words = ", ".join(f"{name} {value:g}" for name, value in own.said if value)
    where = f"{own.table} table, {words}, {own.relation}"
    name = getattr(own.made, "kind", type(own.made).__name__)
    budget = budget_of(own.said, own.relation)
    if isinstance(own.rows, Records):
        ask = call_list.Call(name, (own.made,), persons=len(own.rows.people))
        asked = ask.ask(own.said, own.relation)
        made = Called(asked, own.rows, Records.arrays, where, own.relation, job.seed)
        if made.record(found):
            made.follow(job.runs, found)
            found.subjects[name] = found.runs
        else:
            found.refused[where] = "no plan for this budget, these neighbours and this table"
        return
    try:
        plan = cases.plan_of(own.made, budget, cases.shape_of(own.rows, own.relation))
    except (ArgumentError, Infeasible):
        found.refused[where] = "no plan for this budget, these neighbours and this table"
        return
    cases.follow(plan, own.rows, where, job.runs, job.seed, found)
    found.subjects[name] = found.runs


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
