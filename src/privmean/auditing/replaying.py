"""One plan on one table: record, replay on neighbours, measure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from privmean.auditing.coverage import of_answers, of_release
from privmean.auditing.drawing import Endless
from privmean.auditing.findings import Findings
from privmean.auditing.hostile import Neighbour, Rows
from privmean.auditing.meter import troubles
from privmean.auditing.operands import ROUNDING
from privmean.auditing.same import same
from privmean.auditing.tape import Answered, Compared, Parted, Recorder, Replayer, Split, Tape
from privmean.mechanisms.clipped_sum import SumsOver
from privmean.mechanisms.columns import EachColumn
from privmean.mechanisms.curator import Mechanism
from privmean.mechanisms.pair_scale import PairScale
from privmean.mechanisms.weighted_rows import JointSums, WeightSum
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.guarantee import Guarantee
from privmean.road import Plan

FEW = 2  # answers of one name, from either end, whose draws are tried


@dataclass
class Recorded:
    """A plan that ran once before a curator who keeps everything. The noise is simulated, and
    neither the outcome nor anything else of the table leaves an audit."""

    plan: Plan
    where: str
    tape: Tape = field(default_factory=Tape)
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
        bill = Guarantee.of(budget, budget.neighbors, curator.bill)
        if not bill.verify():
            found.violated(where, "what was asked costs more than the budget")
        if not Guarantee.of(budget, budget.neighbors, plan.losses).verify():
            found.violated(where, "the plan's bill is above the budget")
        for _, item in few(made.tape.answers):
            for words in troubles(item.mechanism, item.exact):
                found.mechanism(name_of(item.mechanism)).violations += 1
                found.violated(where, f"{name_of(item.mechanism)}: {words}")
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
        self._measure(compared, found)

    def _measure(self, compared: Compared, found: Findings) -> None:
        answers = self.tape.answers
        measured(answers, compared, self.where, found)
        splits = [event for event in self.tape.events if isinstance(event, Split)]
        if splits:
            self._one_part(answers, compared, found)

    def _one_part(self, answers: list[Answered], compared: Compared, found: Findings) -> None:
        """One person may be in one of several disjoint parts only."""
        parts: dict[tuple[int, ...], set[int]] = {}
        for item, changed in zip(answers, compared.changed, strict=False):
            for at in range(0, len(item.branch), 2):
                if changed:
                    parts.setdefault(item.branch[: at + 1], set()).add(item.branch[at + 1])
        if any(len(numbers) > 1 for numbers in parts.values()):
            found.differences += 1
            found.violated(self.where, "one person is in two parts that are billed as disjoint")


def measured(
    answers: Sequence[Answered], compared: Compared, where: str, found: Findings
) -> Fraction:
    """What every answer costs: by its operands, and as the mechanism says. The largest share."""
    largest = Fraction(0)
    pairs = zip(answers, compared.shares, compared.paid, compared.changed, strict=False)
    for item, shares, paid, changed in pairs:
        name = name_of(item.mechanism)
        mechanism = found.mechanism(name)
        mechanism.runs += 1
        words = [f": {paid.trouble}"] if paid.trouble else []
        if not item.mechanism.losses and changed:
            words.append(" tells neighbours apart without a loss for it")
        said = max(shares or (), default=Fraction(0))
        most = said
        if paid.share is not None:
            mechanism.shifted += 1
            most = max(said, paid.share)
            limit = Fraction(1) if shares is None else said  # what it says itself, too
            if paid.share > limit + ROUNDING:
                cost = f"{float(paid.share):.6g} of what is declared"
                words.append(f": its operands cost {cost}, it says {float(said):.6g}")
            elif most > 1 >= said:
                most = Fraction(1)  # by no more than doubles tell
        elif shares is None:
            mechanism.unmeasured += 1
        if said > 1:
            words.append(f" costs {float(said):.6g} of what is declared")
        mechanism.largest = max(mechanism.largest, most)
        mechanism.violations += len(words)
        for text in words:
            found.violated(where, f"{name}{text}")
        largest = max(largest, most)
    return largest


def few(answers: list[Answered]) -> Iterator[tuple[int, Answered]]:
    """With their numbers, the first and the last few answers of each name: what a loop asks again
    and again is drawn by the same code."""
    seen: dict[str, list[int]] = {}
    for index, item in enumerate(answers):
        seen.setdefault("/".join(loss.name for loss in item.mechanism.losses), []).append(index)
    for indices in seen.values():
        for index in dict.fromkeys((*indices[:FEW], *indices[-FEW:])):
            yield index, answers[index]


def name_of(mechanism: Mechanism[Any, Any]) -> str:
    """By class and law."""
    if isinstance(mechanism, EachColumn):
        return name_of(mechanism.step)
    name, law = type(mechanism).__name__, ""
    if isinstance(mechanism, SumsOver):
        law = "gaussian" if mechanism.sums.epsilon is None else "laplace"
    elif isinstance(mechanism, PairScale):
        law = "gaussian" if mechanism.scale is None else "laplace"
    elif isinstance(mechanism, JointSums | WeightSum):
        law = mechanism.law
    return f"{name}, {law}" if law else name
