"""Charges that are settled: random ledgers that crash, all rules of stopping, and what comes back.

Ledgers: runs of random promises are charged, draw some of their lines and are settled, while lines
are lost, torn or committed unseen. Looked for: drawn above counted, counted above the total, in all
three currencies, in files and in databases.

Rules: a run whose early end depends on its first answers, and another that spends what the ledger
has left, are composed exactly (every outcome, every rule). Twins that give too much back must fail.

    PYTHONPATH=src python benchmarks/staged_charges.py [--ledgers 1500]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import os
import random
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import privmean as pm
import report
from privmean.errors import ArgumentError, BudgetExceededError, PrivmeanWarning
from privmean.pipeline import settled
from privmean.privacy import ledger as ledger_module
from privmean.privacy.budget import Budget
from privmean.privacy.ledger_charges import LedgerAmount, LedgerEntry, spent_of
from privmean.privacy.ledger_log import SqlLedger
from privmean.privacy.privacy_events import Gaussian, PrivacyEvent, Pure
from privmean.storage.entry_chain import Chain

TOTALS: dict[str, dict[str, float]] = {
    "epsilon": {"epsilon": 2.0},
    "rho": {"rho": 2.0},
    "epsilon, delta": {"epsilon": 2.0, "delta": 1e-4},
}
HOMES = ("file", "database")
ANALYSTS = ("ann", "bob")
STEPS = 2**30  # of a lattice
CRASHES = 0.15  # of all lines that are written, and of all draws


class Crash(Exception):
    """The process ends here."""


@dataclass
class Run:
    """A run as the world saw it: what it promised, and what it drew."""

    name: str
    promise: Budget
    analyst: str
    reserve: LedgerAmount
    asked: list[PrivacyEvent] = field(default_factory=list)
    sums: LedgerAmount = field(default_factory=LedgerAmount)
    whole: bool = False  # a line with Gaussian noise was drawn: no sum of epsilons covers it
    ended: bool = False

    def drawn(self) -> LedgerAmount:
        """What was drawn, by sums of its own."""
        if not self.asked:
            return self.sums
        if self.whole:
            return self.reserve
        return LedgerAmount(self.sums.epsilon, self.reserve.delta, self.sums.rho)


@dataclass
class Tally:
    """What happened."""

    ledgers: int = 0
    settled: int = 0
    crashes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    largest: float = 0.0  # drawn, of the total


class Book:
    """One random ledger of a kind in a home."""

    def __init__(self, folder: Path, kind: str, home: str, rng: random.Random) -> None:
        self.kind, self.rng = kind, rng
        self.file = folder / "book"
        self.path = str(self.file) if home == "file" else f"sqlite:///{folder}/team.db#book"
        self.runs: list[Run] = []
        limit = {name: 0.75 * value for name, value in TOTALS[kind].items()}
        self.policies = [pm.Policy(**limit, analyst="*")] if rng.random() < 0.5 else []
        self.ledger = pm.Ledger(self.path, **TOTALS[kind], policies=self.policies)

    # --- what runs do --------------------------------------------------------------------------
    def begin(self) -> None:
        share = self.rng.randrange(1, 9) / 10
        if self.kind == "rho":
            promise = Budget(rho=share) if self.rng.random() < 0.7 else Budget(share)
        else:
            delta = self.rng.choice([0.0, 1e-5]) if self.kind != "epsilon" else 0.0
            promise = Budget(share, delta)
        reserve = self.ledger.price_of(promise)
        nothing = LedgerAmount(rho=Fraction(0)) if self.kind == "rho" else LedgerAmount()
        name = f"run {len(self.runs)}"
        run = Run(name, promise, self.rng.choice(ANALYSTS), reserve, sums=nothing)
        self.runs.append(run)
        self.charge(run)

    def charge(self, run: Run, *, replay: bool = False) -> LedgerEntry:
        about = {"run": run.name, "analyst": run.analyst}
        act = self.ledger.charge
        return self.written(lambda: act(run.promise, "replace-one", about=about, replay=replay))

    def draw(self, run: Run) -> None:
        """One line, not above the promise; a crash before it, or after it was drawn."""
        event, price = self.line(run)
        if event is None:
            return
        if self.rng.random() < CRASHES / 2:
            raise Crash("before a draw")
        run.asked.append(event)
        run.sums += price
        run.whole |= self.kind == "epsilon, delta" and not event.pure
        if self.rng.random() < CRASHES / 2:
            raise Crash("after a draw")

    def line(self, run: Run) -> tuple[PrivacyEvent | None, LedgerAmount]:
        part = Fraction(self.rng.randrange(5, 60), 100)
        if self.kind == "rho":
            if self.rng.random() < 0.5:
                return self.fits(run, Pure("line", part), LedgerAmount(rho=part**2 / 2))
            gaussian = Gaussian("line", float(part) * STEPS, STEPS, 1)
            return self.fits(run, gaussian, LedgerAmount(rho=Fraction(gaussian.mu) ** 2 / 2))
        if run.promise.delta and self.rng.random() < 0.2:
            return Gaussian("line", 0.01 * STEPS, STEPS, 1), LedgerAmount()
        return self.fits(run, Pure("line", part / 2), LedgerAmount(part / 2))

    def fits(
        self, run: Run, event: PrivacyEvent, price: LedgerAmount
    ) -> tuple[PrivacyEvent | None, LedgerAmount]:
        return (event if run.reserve.covers(run.sums + price) else None), price

    def end(self, run: Run, tally: Tally) -> None:
        """Settle; sometimes with a bill above the reserve, which must settle nothing."""
        entry, book = self.charge(run), self.ledger
        if self.rng.random() < 0.05:
            big = Pure("too much", 50)
            assert book.settle(entry, [*run.asked, big]).settlement is None
            tally.refused["bill above the reserve"] += 1
        run.ended = True
        made = self.written(lambda: book.settle(entry, run.asked))
        tally.settled += made.settlement is not None
        if made.settlement is not None:
            assert book.settle(made, run.asked) == made  # the same line again
            tally.refused["another sum"] += self.refuses(
                lambda: book.settle(made, [Pure("less", "1/1000")])
            )
            tally.refused["a run that has ended"] += self.refuses(lambda: self.charge(run))
            assert self.charge(run, replay=True).counted == made.counted

    def refuses(self, act: Callable[[], object]) -> bool:
        try:
            act()
        except ArgumentError:
            return True
        raise AssertionError("a run that was settled was gone on with")

    # --- crashes -------------------------------------------------------------------------------
    def written(self, act: Callable[[], LedgerEntry]) -> LedgerEntry:
        """A line, if no crash comes between."""
        if self.rng.random() >= CRASHES:
            return act()
        way = self.rng.choice(["lost", "unseen", "torn"])
        if way == "unseen":
            act()
        elif way == "lost" or "://" in self.path:
            with unwritten(), contextlib.suppress(Crash):
                act()
        else:
            torn(self.file, self.rng, self.ledger, act)
        raise Crash(way)

    def anew(self) -> None:
        """Another process goes on, with what is on the disk."""
        self.ledger.close()
        self.ledger = pm.Ledger.open(self.path)

    # --- what must hold ------------------------------------------------------------------------
    def check(self, tally: Tally) -> None:
        book = self.ledger
        counted, total = book.spent(), book.spent() + book.left()
        nothing = LedgerAmount(rho=Fraction(0)) if self.kind == "rho" else LedgerAmount()
        drawn = sum((run.drawn() for run in self.runs), nothing)
        assert counted.covers(drawn), (drawn, counted)
        assert total.covers(counted), (counted, total)
        for policy, who in itertools.product(book.policies, ANALYSTS):
            left = policy.left(book.entries, who, "2000-01-01")
            own = sum((run.drawn() for run in self.runs if run.analyst == who), nothing)
            assert policy.limit.covers(policy.limit - left), who
            assert (policy.limit - left).covers(own), who
        rho = self.kind == "rho"
        share = float((drawn.rho or 0) / total.rho if rho else drawn.epsilon / total.epsilon)
        tally.largest = max(tally.largest, share)


@contextlib.contextmanager
def unwritten() -> Iterator[None]:
    """A process that ends when a line is written and not committed."""
    add, row = Chain.add, SqlLedger.add

    def broken(call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*given: Any) -> Any:
            call(*given)
            raise Crash("lost")

        return made

    file = mock.patch.object(Chain, "add", broken(add))
    with file, mock.patch.object(SqlLedger, "add", broken(row)):
        yield  # the transaction is never committed


def torn(file: Path, rng: random.Random, book: pm.Ledger, act: Callable[[], object]) -> None:
    """The machine stops amid a line: of what was added to the write-ahead log, a part is there."""
    book.left()  # the file is open
    log, state = Path(f"{file}-wal"), Path(os.environ["XDG_STATE_HOME"]) / "privmean"
    before = {path: path.read_bytes() for path in (file, log, *state.iterdir()) if path.exists()}
    act()
    after = log.read_bytes()
    book.close()
    start = len(before.get(log, b""))
    for path, data in before.items():
        path.write_bytes(data)
    if after.startswith(before.get(log, b"")):
        log.write_bytes(after[: rng.randrange(start, len(after) + 1)])
    Path(f"{file}-shm").unlink(missing_ok=True)


def random_ledgers(count: int, seed: int, folder: Path) -> dict[tuple[str, str], Tally]:
    """So many ledgers, each currency and home in turn."""
    rng = random.Random(seed)
    found = {(kind, home): Tally() for kind in TOTALS for home in HOMES}
    for number, key in zip(range(count), itertools.cycle(found), strict=False):
        place, tally = folder / str(number), found[key]
        place.mkdir()
        with mock.patch.dict(os.environ, {"XDG_STATE_HOME": str(place / "state")}):
            one(Book(place, *key, rng), tally)
        shutil.rmtree(place)
        tally.ledgers += 1
    return found


def one(book: Book, tally: Tally) -> None:
    """A ledger with 5 to 20 things that happen."""
    rng = book.rng
    for _ in range(rng.randint(5, 20)):
        open_runs = [run for run in book.runs if not run.ended]
        try:
            if not open_runs or rng.random() < 0.35:
                book.begin()
            else:
                run = rng.choice(open_runs)
                if rng.random() < 0.6:
                    book.charge(run)  # again: nothing is charged twice
                    book.draw(run)
                else:
                    book.end(run, tally)
        except BudgetExceededError:
            tally.refused["no budget"] += 1
        except Crash as crash:
            tally.crashes[str(crash)] += 1
            book.anew()
        book.check(tally)


# --- rules of stopping, exactly -------------------------------------------------------------------
Law = dict[Any, tuple[float, float]]  # outcome: its chance under each of two neighbors


def response(epsilon: float) -> Law:
    """Randomized response, the worst pure mechanism."""
    more, less = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    return {1: (more, less), 0: (less, more)}


def with_delta(epsilon: float, delta: float) -> Law:
    """The worst (epsilon, delta) mechanism: it says the bit with chance delta."""
    found: Law = {
        key: ((1 - delta) * p, (1 - delta) * q) for key, (p, q) in response(epsilon).items()
    }
    return found | {"one": (delta, 0.0), "zero": (0.0, delta)}


def together(laws: Sequence[Law]) -> Iterator[tuple[tuple[Any, ...], float, float]]:
    for parts in itertools.product(*(law.items() for law in laws)):
        key = tuple(part[0] for part in parts)
        yield key, math.prod(part[1][0] for part in parts), math.prod(part[1][1] for part in parts)


Pairs = list[tuple[float, float]]


def delta_of(pairs: Pairs, epsilon: float) -> float:
    """The least delta at an epsilon, exactly."""
    ways = (pairs, [(q, p) for p, q in pairs])
    return max(math.fsum(max(p - math.exp(epsilon) * q, 0.0) for p, q in way) for way in ways)


def largest_loss(pairs: Pairs) -> float:
    return max(abs(math.log(p / q)) if p and q else math.inf for p, q in pairs if p or q)


def renyi(pairs: Pairs) -> float:
    """The least rho of zCDP, by a grid of orders."""
    found = 0.0
    for order in (1.001, 1.01, 1.1, 1.5, 2.0, 4.0, 8.0, 32.0):
        for way in (pairs, [(q, p) for p, q in pairs]):
            moment = math.fsum(p**order * q ** (1 - order) for p, q in way)
            found = max(found, math.log(moment) / (order - 1) / order)
    return found


def rules(first: int) -> Iterator[dict[tuple[int, ...], bool]]:
    """Every rule that stops or goes on after so many binary answers."""
    answers = list(itertools.product((0, 1), repeat=first))
    for ends in itertools.product((False, True), repeat=len(answers)):
        yield dict(zip(answers, ends, strict=True))


def transcripts(
    total: Budget, promise: Budget, lines: Sequence[float], first: int, stops: Any
) -> Pairs:
    """A run that may stop after its first lines, then a mechanism that takes all that the ledger
    has left: chances of every outcome."""
    found: Pairs = []
    left: dict[bool, LedgerAmount] = {}
    for ends in set(stops.values()):
        book = pm.Ledger(epsilon=total.epsilon, delta=total.delta, rho=total.rho)
        entry = book.charge(promise, "replace-one")
        asked = lines[:first] if ends else lines
        settled(book, entry, [Pure("line", str(e)) for e in asked], follows=True)
        left[ends] = book.left()
    for answers, p, q in together([response(e) for e in lines[:first]]):
        ends = stops[answers]
        rest = [] if ends else [response(e) for e in lines[first:]]
        more = left[ends]
        if more.rho is not None:
            last = response(math.sqrt(2 * more.rho))
        else:
            last = with_delta(float(more.epsilon), float(more.delta))
        found += [(p * a, q * b) for _, a, b in together([*rest, last])]
    return found


def curve_promise(line: float, number: int, delta: float) -> float:
    """Epsilon of so many lines at a delta, exactly: less than their sum."""
    pairs = [(p, q) for _, p, q in together([response(line)] * number)]
    low, high = 0.0, number * line
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(pairs, middle) > delta else (low, middle)
    return high


def delta_back(total: Budget, entry: LedgerEntry, asked: Any, **how: Any) -> LedgerAmount | None:
    """Wrong: what a run that stopped early keeps has no delta."""
    spent = spent_of(total, entry, asked, **how)
    return None if spent is None else LedgerAmount(spent.epsilon, Fraction(0), spent.rho)


def last_forgotten(
    total: Budget, entry: LedgerEntry, asked: Any, **how: Any
) -> LedgerAmount | None:
    """Wrong: the line after which a run stopped is not counted."""
    return spent_of(total, entry, asked[:-1], **how)


@dataclass(frozen=True)
class Rule:
    """worst: over all rules of stopping, in the ledger's own terms."""

    name: str
    claimed: float
    worst: float
    wrong: bool

    @property
    def fails(self) -> bool:
        return self.worst > self.claimed * (1 + 1e-9)


def stopping(wrong: Callable[..., Any] | None = None) -> Iterator[tuple[str, float, float]]:
    """The worst of all rules in each currency, beside what is claimed."""
    real = ledger_module.spent_of
    ledger_module.spent_of = wrong or real  # type: ignore[assignment]
    try:
        lines, first = (0.5,) * 8, 2
        promised = math.ceil(1e6 * curve_promise(0.5, 8, 0.02)) / 1e6
        total = Budget(round(promised + 0.7, 6), 0.03)
        promise = Budget(promised, 0.02)
        worst = max(
            delta_of(transcripts(total, promise, lines, first, rule), float(total.epsilon or 0))
            for rule in rules(first)
        )
        yield "epsilon, delta: delta", 0.03, worst
        worst = max(
            largest_loss(transcripts(Budget(2.0), Budget(1.6), (0.4, 0.8, 0.4), 2, rule))
            for rule in rules(2)
        )
        yield "epsilon: largest loss", 2.0, worst
        worst = max(
            renyi(transcripts(Budget(rho=0.5), Budget(rho=0.4), (0.4, 0.6, 0.5), 2, rule))
            for rule in rules(2)
        )
        yield "rho: largest of 8 orders", 0.5, worst
    finally:
        ledger_module.spent_of = real


def after_an_error(*, refunds: bool) -> float:
    """The loss through the ledger alone, where one of two neighbors makes an engine fail. refunds:
    the twin that gives back then, too."""
    left = []
    for fails in (False, True):
        book = pm.Ledger(epsilon=2.0)
        entry = book.charge(Budget(1.0), "replace-one")
        asked = [Pure("line", "1/4")] if fails else [Pure("line", "1/4"), Pure("last", "3/4")]
        settled(book, entry, asked, follows=refunds or not fails)
        left.append(book.left())
    return 0.0 if left[0] == left[1] else math.inf


def all_rules() -> list[Rule]:
    found = [Rule(name, claimed, worst, False) for name, claimed, worst in stopping()]
    twins = {"delta given back": delta_back, "last line forgotten": last_forgotten}
    for words, twin in twins.items():
        for name, claimed, worst in stopping(twin):
            if words != "delta given back" or name.startswith("epsilon, delta"):
                found.append(Rule(f"{name}; twin: {words}", claimed, worst, True))
    found.append(Rule("after an error: loss", 0.0, after_an_error(refunds=False), False))
    twin_loss = after_an_error(refunds=True)
    found.append(Rule("after an error: loss; twin: given back", 0.0, twin_loss, True))
    return found


# --- what comes back ------------------------------------------------------------------------------
PERSONS = 3000
Question = Callable[[pm.Table, pm.Ledger], Any]
SAME: dict[str, Any] = {"neighbors": "replace-one", "epsilon": 1.0}
QUESTIONS: dict[str, Question] = {
    "mean": lambda t, book: pm.mean(t, "z", epsilon=1, ledger=book),
    "mean, bounds given": lambda t, book: pm.mean(t, "z", bounds=(0, 9), epsilon=1, ledger=book),
    "mean by group": lambda t, book: pm.mean(t, "z", by="g", keys=(0, 1, 2), ledger=book, **SAME),
    "mean by group, wrong keys": lambda t, book: pm.mean(
        t, "x", by="g", keys=(7, 8), ledger=book, **SAME
    ),
    "regression": lambda t, book: pm.regress(t, "z ~ x", epsilon=1, ledger=book),
    "curve": lambda t, book: pm.curve(t, "z", time="t", bins=[0, 1, 2, 3], ledger=book, **SAME),
    "quantiles": lambda t, book: pm.quantile(t, "z", q=(0.25, 0.5), epsilon=1, ledger=book),
    "variance": lambda t, book: pm.variance(t, "z", epsilon=1, ledger=book),
    "mean, values": lambda t, book: pm.mean(t, "x", epsilon=1, ledger=book),
}


def panel() -> pm.Table:
    """z has no readable value."""
    rng = np.random.default_rng(0)
    who = np.arange(PERSONS).repeat(2)
    return pm.Table(
        {
            "who": who,
            "z": np.full(who.size, np.nan),
            "g": rng.integers(0, 3, who.size),
            "t": rng.uniform(0, 3, who.size),
            "x": rng.normal(5.0, 1.0, who.size),
        },
        person="who",
    )


def comes_back() -> list[tuple[str, str, float, float]]:
    """Question, status, and the share of the charge that counts in the end, with epsilon and with
    rho."""
    table, found = panel(), []
    for name, ask in QUESTIONS.items():
        shares, status = [], ""
        for total in ({"epsilon": 1.0}, {"rho": 0.5}):
            book = pm.Ledger(**total)
            status = ask(table, book).status
            (entry,) = book.entries
            parts = entry.counted, entry.amount
            sizes = [float(item.epsilon if item.rho is None else item.rho) for item in parts]
            shares.append(sizes[0] / sizes[1])
        found.append((name, status, *shares))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ledgers", type=int, default=report.few(1500, 12))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    warnings.simplefilter("ignore", PrivmeanWarning)
    with tempfile.TemporaryDirectory() as name:
        tallies = random_ledgers(given.ledgers, given.seed, Path(name))
    rows: list[list[object]] = [
        [kind, home, tally.ledgers, tally.settled, sum(tally.crashes.values()),
         tally.crashes["torn"], sum(tally.refused.values()), f"{tally.largest:.3f}"]
        for (kind, home), tally in tallies.items()
    ]  # fmt: skip
    heads = ["ledger of", "home", "ledgers", "settled", "crashes", "amid a line", "refused",
             "largest drawn, of the total"]  # fmt: skip
    text = "Drawn <= counted <= total after each of them, by analyst too.\n\n"
    text += report.table(heads, rows)
    found = all_rules()
    text += "\n\n" + report.table(
        ["worst of all rules of stopping", "claimed", "found", "holds"],
        [[item.name, f"{item.claimed:g}", f"{item.worst:.4f}", "no" if item.fails else "yes"]
         for item in found],
    )  # fmt: skip
    text += "\n\n" + report.table(
        ["question, 3,000 people, epsilon 1", "status", "counted of epsilon", "counted of rho"],
        [[name, status, f"{a:.3f}", f"{b:.3f}"] for name, status, a, b in comes_back()],
    )
    command = f"python benchmarks/staged_charges.py --ledgers {given.ledgers}"
    report.publish("staged-charges", "Charges that are settled", text, command=command)
    if any(item.fails != item.wrong for item in found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
