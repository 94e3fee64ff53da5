"""What the jobs of `pm.audit()` put on tapes, recorded once, and the answers of neighbours."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import count
from typing import Any
from unittest import mock

from privmean.auditing import audit as audits
from privmean.auditing import replay as replaying
from privmean.auditing.audit import RUNS, Job
from privmean.auditing.audit_local import STREAMED, audit_streams
from privmean.auditing.findings import Findings, of_answers
from privmean.auditing.measure_loss import numbers
from privmean.auditing.replay import name_of, tried

CASES = 3  # of an estimator, one a kind of budget; of a call from records there is one
KEPT = 12  # pairs of a mechanism: its own rather than those of what it is a part of, by loss
LEAST, MORE = 12, (4, 40)  # of fewer pairs, more neighbors are tried: of records, of rows
PLACES = ("calls", "replay")  # that measure


@dataclass
class Tapes:
    """found: by all jobs. asking: those that ask a mechanism. pairs: of each mechanism, by its
    name and by its law, the answers of a table and of a neighbour."""

    found: Findings = field(default_factory=Findings)
    asking: dict[str, list[Job]] = field(default_factory=lambda: defaultdict(list))
    pairs: dict[str, dict[str, list[Any]]] = field(default_factory=lambda: defaultdict(dict))

    def keep(self, answers: Any, compared: Any, turn: Iterator[int]) -> None:
        shares = zip(compared.shares, compared.paid, compared.changed, strict=True)
        for item, exact, (said, paid, changed) in zip(
            answers, compared.exact, shares, strict=False
        ):
            if changed:
                share = max(*(said or ()), Fraction(0), paid.share or Fraction(0))
                for _, name in of_answers([item]):
                    own = type(item.mechanism).__name__ == name
                    pair = (own, share, next(turn), item.mechanism, item.exact, exact)
                    listed = self.pairs[name].setdefault(name_of(item.mechanism), [])
                    heapq.heappush(listed, pair)
                    if len(listed) > KEPT:
                        heapq.heappop(listed)


@contextmanager
def kept(tapes: Tapes) -> Iterator[None]:
    """Whatever is measured is kept, too."""
    real, turn = replaying.measured, count()

    def measured(answers: Any, compared: Any, where: str, found: Findings) -> Fraction:
        tapes.keep(answers, compared, turn)
        return real(answers, compared, where, found)

    with ExitStack() as stack:
        for place in PLACES:
            stack.enter_context(mock.patch(f"privmean.auditing.{place}.measured", measured))
        yield


@cache
def tapes() -> Tapes:
    """Each subject and each call under a few of its terms, with one neighbour; and a few more of
    the first that ask a mechanism for which these show little."""
    made = Tapes()
    done: dict[Any, int] = defaultdict(int)
    with kept(made):
        for job in audits.everything(RUNS, 0):
            key = job.part or job.case.call.name
            if job.part == "streams":  # the one of a relation of its own; tests try all of them
                audit_streams(made.found, [one for one in STREAMED if one.name == "zero-out"])
            if done[key] >= (CASES if of_rows(job) else 1) or job.part in ("local", "streams"):
                continue
            done[key] += 1
            for kind, name in worked(made, job, 1).seen:
                if kind == "mechanism":
                    made.asking[name].append(job)
        for name, jobs in made.asking.items():
            for job in sorted(jobs, key=of_rows, reverse=True):  # cases take less time
                if sum(map(len, made.pairs[name].values())) >= LEAST or job.part:
                    break
                worked(made, job, MORE[of_rows(job)])
    return made


def of_rows(job: Job) -> bool:
    """Whether an estimator is asked, of one row per person: these take less time."""
    return job.case is not None and job.case.call.rows is not None


def worked(tapes: Tapes, job: Job, runs: int) -> Findings:
    """One job, with so many neighbours."""
    found = audits.work(Job(job.case, job.part, runs, job.seed), None)
    tapes.found.add(found)
    return found


def violations(name: str) -> int:
    """What the pairs of this mechanism show, drawn and measured anew, up to the first that does:
    small answers first."""
    found = Findings()
    pairs = [pair for law in tapes().pairs[name].values() for pair in law]
    for *_, mechanism, exact, other in sorted(pairs, key=size):
        try:
            tried(mechanism, exact, [other], name, found)
        except (
            ValueError,
            IndexError,
        ):  # what it is a part of takes its lines apart, and one is missing
            found.violated(name, "cannot be asked")
        if found.count:
            break
    return found.count


def size(pair: Any) -> tuple[int, int]:
    *_, turn, _, exact, _ = pair
    return len(list(numbers(exact))), turn
