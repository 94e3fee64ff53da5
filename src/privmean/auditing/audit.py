"""An audit and its report.

What an audit says: three tables and a verdict.

`privmean.audit`: the package tries its own guarantees, on its own tables or on yours.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from inspect import signature
from itertools import cycle, product
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from privmean import validate
from privmean.api.run_question import source_of
from privmean.auditing.audit_local import audit_local, audit_streams
from privmean.auditing.call_list import (
    CALLS,
    KINDS,
    Call,
    CallCase,
    Rows,
    Terms,
    every_call,
    run_call,
    table_for,
)
from privmean.auditing.calls import Table as Records
from privmean.auditing.calls import own_records
from privmean.auditing.findings import ANY, BOTH, Findings, budget_of, covered
from privmean.auditing.replay import audit_direct
from privmean.data.schema import require_persons
from privmean.data.table import RecordMeans, Table
from privmean.errors import ArgumentError
from privmean.privacy.budget import relation_of
from privmean.validate import unknown_keyword

if TYPE_CHECKING:
    from privmean.questions.base import Estimator, Question

MOST_NAMED = 3  # of plans that were refused
NOT_AUDITED = (
    ("who is kept by a random filter (anisotropic)", "no pair of answers shows its loss: its own "
     "curve, enumerated filters in tests; here its questions and its outcome are compared"),
    ("a stream's private clipping region and intervals", "exact laws of their counts in tests"),
    ("fixed designs (a response, not a person)", "their sums and noise are tested by themselves"),
    ("forms as published (`privmean.published`)", "replays and accounting in tests"),
    ("the law of the noise", "exact laws at small scales, lattices at large ones, in tests"),
    ("from a file to one row a person", "neighbors of records at the engines' boundary, in tests"),
    ("running times, memory, logs of engines", "outside the model of every proof here"),
)  # fmt: skip


@dataclass(frozen=True)
class AuditReport:
    """Result of `audit`; true if something was audited and nothing was violated.

    Attributes
    ----------
    findings : Findings
        Violations by mechanism and subject.
    seconds : float
        Duration.
    about : str
        What was audited.
    seed : int
        Seed of the inputs.

    Examples
    --------
    table = pm.Table(pm.example("ratings"), person="student")
    report = pm.audit(pm.Mean("rating", assume=(1, 5)), table, runs=10)
    assert report  # nothing was violated
    report.runs, report.seconds
    """

    findings: Findings
    seconds: float
    about: str
    seed: int

    def __bool__(self) -> bool:
        return self.audited and self.findings.count == 0

    @property
    def audited(self) -> bool:
        """Whether anything was run at all: plans that public facts refuse are not."""
        return self.findings.runs > 0

    @property
    def runs(self) -> int:
        """Replays on neighbors, and pairs of inputs of what has no curator."""
        return self.findings.runs

    @property
    def violations(self) -> int:
        return self.findings.count

    def to_dict(self) -> dict[str, Any]:
        """Plain data; holds no value of any table."""
        found = self.findings
        return {
            "about": self.about,
            "verdict": self._verdict(),
            "runs": found.runs,
            "recorded": found.recorded,
            "violations": found.count,
            "control_flow_differences": found.differences,
            "mechanisms": {name: item.to_dict() for name, item in sorted(found.mechanisms.items())},
            "subjects": dict(sorted(found.subjects.items())),
            "first_violations": [item._asdict() for item in found.violations],
            "coverage": {
                kind: {"on_tape": have, "missing": left} for kind, have, _, left in self.coverage()
            },
            "refused": dict(sorted(found.refused.items())),
            "not_audited": dict(NOT_AUDITED),
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
        }

    def coverage(self) -> list[tuple[str, str, str, str]]:
        """What was on tapes of what the code has; of an audit of everything."""
        return covered(self.findings.seen) if self.about.startswith("privmean") else []

    def tables(self) -> tuple[str, str]:
        """The mechanisms, and what was not audited, as tables of Markdown."""
        rows = [
            (
                name,
                f"{item.runs:,}",
                _loss(item.largest) if item.runs > item.unmeasured else "not measured",
                f"{item.shifted:,}",
                str(item.violations),
            )
            for name, item in sorted(self.findings.mechanisms.items())
        ]
        head = ("mechanism", "pairs", "largest loss/declared", "by operands", "violations")
        return table(head, rows), table(("not audited", "what stands for it"), NOT_AUDITED)

    def __str__(self) -> str:
        found = self.findings
        more = "; the first of them below" if found.count else ""
        lines = [
            f"audit of {self.about}: {self._verdict()}{more}",
            f"  {found.runs:,} runs on neighbors of {found.recorded:,} recorded runs, "
            f"{len(found.subjects)} subjects, {self.seconds:.0f} s, seed {self.seed}",
            f"  control flow or outcome differed in {found.differences} of them",
            *self._refused(),
        ]
        lines += [f"  {kind}s on tape: {have} {x}".rstrip() for kind, have, _, x in self.coverage()]
        for block in self.tables():
            lines += ["", block]
        lines += [f"\n{item.where}:\n  {item.what}" for item in found.violations]
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.findings.count:
            return f"{self.findings.count} VIOLATIONS"
        return "no violation found" if self.audited else "NOTHING WAS AUDITED"

    def _refused(self) -> list[str]:
        """What was not run, beside the verdict, which does not hold for it."""
        places = sorted(self.findings.refused)
        lines = []
        if places:
            more = len(places) - MOST_NAMED
            named = "; ".join([*places[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])
            lines.append(
                f"  plans refused from public facts, hence not run: {len(places)} ({named})"
            )
        if not self.audited:
            lines.append(
                "  give a larger epsilon, or a table of more people" if places
                else "  the time was up before the first run: give more"
            )  # fmt: skip
        return lines


def _loss(share: Fraction) -> str:
    """1 where the declared loss is reached exactly; what is below is rounded down."""
    if share == 1:
        return "1"
    return f"{math.floor(share * 10**6) / 10**6:.6f}" if share < 1 else f"{float(share):.6g}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown that is also read as plain text: columns of one width."""
    widths = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in lines
    )


RUNS, OWN_RUNS, THOROUGH = 5_000, 2_000, 100_000
EACH, FEW = 10, 3  # neighbors of one recorded call at least: of rows, of raw records
MOST_EACH = 400
PERSONS = 601
OF_CALLS = 0.2  # of the neighbors, whole calls: they take longer


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
    """Audit the privacy guarantee: record runs, replay them on neighboring tables, and measure.

    Three checks run on every neighbor. The same mechanisms are called with the same parameters.
    The exact answers change by at most the declared sensitivity. The drawn noise costs no more than
    stated.

    Parameters
    ----------
    question : Mean, Regression, ... or estimator, optional
        What to audit. Default: everything that privmean knows of itself.
    table : Table, path, DataFrame or array, optional
        Your own table. Default: built-in adversarial tables.
    person : str, optional
        Column that identifies people in `table`.
    runs : int, optional
        Number of replays.
    seed : int, default 0
        Seed of neighbors and simulated noise.
    processes : int, default 1
        Processes; above 1 only under `if __name__ == "__main__":`.
    seconds : float, optional
        Stop after this time.
    terms : float or str, optional
        epsilon, delta, rho and neighbors. Default: three budgets and both relations.

    Returns
    -------
    AuditReport
        True if something was audited and nothing was violated.

    Raises
    ------
    ArgumentError, SchemaError
        For wrong arguments, and for a table without people.

    Privacy
    -------
    A dry run with simulated noise: nothing is charged or released, and the report holds no value of
    the table. Keep the report to yourself if n is not public.
    Source: Cebere, Erb, Desfontaines, Bellet and Fitzsimons (2026), grey-box auditing.

    Examples
    --------
    table = pm.Table(pm.example("ratings"), person="student")
    report = pm.audit(pm.Mean("rating"), table, runs=10)
    assert report and report.runs > 0
    print(report)
    """
    start = time.monotonic()
    limit = None if seconds is None else start + validate.positive("seconds", seconds)
    workers = validate.whole("processes", processes, least=1)
    seed = validate.whole("seed", seed, least=0)
    if runs is not None:
        runs = validate.whole("runs", runs, least=1)
    if question is None and table is not None:
        raise ArgumentError("question", None, "is required", "give one such as pm.Mean('wage')")
    if question is None:
        for name, value in terms.items():
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
    """What one process does at a time: a call, or a part of what has no curator."""

    case: CallCase | None = None
    part: str = ""
    runs: int = EACH
    seed: int = 0


def everything(runs: int, seed: int) -> list[Job]:
    """Every call at least once, then under other terms and on other tables, until there are runs
    enough; one in five from raw records."""
    jobs = [Job(part=part, runs=runs) for part in ("local", "streams", "direct")]
    cases = list(every_call())
    for share, of_rows in ((OF_CALLS, False), (1 - OF_CALLS, True)):
        own = [case for case in cases if (case.call.rows is not None) == of_rows]
        least = sum((call.rows is not None) == of_rows for call in CALLS)
        left = int(share * runs)
        each = min(MOST_EACH, max(EACH if of_rows else FEW, left // len(own)))
        for turn, case in enumerate(cycle(own)):
            if left <= 0 and turn >= least:
                break
            some = max(1, int(each * case.call.weight))
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
    said, name = _said(terms), getattr(question, "kind", type(question).__name__)
    cases = []
    for kind, people, rows in list(_tables(question, source, person, seed)):
        require_persons(len(people.people))
        for one in said:
            call = Call(name, (question,), n=len(people.people), terms=(one,), rows=rows)
            cases.append(CallCase(call, *one, kind, people))
    each = max(1, -(-runs // len(cases)))
    return [
        Job(case, runs=min(MOST_EACH, each - at), seed=seed + at)
        for at in range(0, each, MOST_EACH)
        for case in cases
    ]


def _said(terms: dict[str, Any]) -> Terms:
    """The budgets and the relations to audit. A budget of 0 is said, too, and refused here."""
    known = ("epsilon", "delta", "rho", "neighbors")
    for name, value in terms.items():
        if name not in known:
            raise unknown_keyword("audit", name, value, signature(audit).parameters)
    given = {name: value for name, value in terms.items() if value is not None}
    named = given.pop("neighbors", None)
    budgets = (tuple(given.items()),) if given else ANY
    found = tuple(product(budgets, BOTH if named is None else (relation_of(named),)))
    for one in found:
        budget_of(*one)
    return found


def _tables(
    question: Estimator | Question, source: Any, person: Any, seed: int
) -> Iterator[tuple[str, Records, Rows | None]]:
    """The tables to record on: the given one, or every built-in one."""
    summary = getattr(question, "summary", None)
    plain = summary is None or isinstance(summary, RecordMeans)
    if source is None:
        names = getattr(summary, "names", None) or ("value",)
        rows = Rows(tuple(names), getattr(summary, "max_records", None)) if plain else None
        for kind in KINDS:
            made = rows.built(kind, PERSONS, seed) if rows else None
            yield kind, made or table_for(question, kind, seed), rows
        return
    found = source_of(source, person)
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
    rows = Rows(tuple(people.columns), people.max_records)
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
    if job.case is not None:
        return run_call(job.case, job.runs, job.seed)
    if job.part == "local":
        audit_local(found, thorough=job.runs >= THOROUGH)
    elif job.part == "streams":
        audit_streams(found)
    else:
        audit_direct(found)
    return found
