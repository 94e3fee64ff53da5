"""One plan on one table: record, replay on neighbours, measure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

from privmean.auditing.drawing import Endless
from privmean.auditing.findings import Findings
from privmean.auditing.hostile import Audited, Neighbour
from privmean.auditing.meter import ROUNDING, shift, troubles
from privmean.auditing.same import same
from privmean.auditing.tape import Answered, Compared, Parted, Recorder, Replayer, Split, Tape
from privmean.mechanisms.clipped_sum import SumsOver
from privmean.mechanisms.columns import EachColumn
from privmean.mechanisms.curator import Mechanism
from privmean.mechanisms.pair_scale import PairScale
from privmean.mechanisms.weighted_rows import JointSums, WeightSum
from privmean.noise.simulated import SimulatedNoise
from privmean.people.reductions import People
from privmean.privacy.guarantee import Guarantee
from privmean.road import Plan

FEW = 2  # answers of one name, from either end, whose draws are tried
KEPT = 3  # neighbours of one answer that are measured by shifts too


@dataclass
class Recorded:
    """A plan that ran once before a curator who keeps everything. The noise is simulated, and
    neither the outcome nor anything else of the table leaves an audit."""

    plan: Plan
    where: str
    tape: Tape = field(default_factory=Tape)
    outcome: Any = None
    _kept: dict[int, list[tuple[Fraction, Any]]] = field(default_factory=dict)
    _most: dict[int, Fraction] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, rows: Audited, where: str, seed: int, found: Findings) -> Recorded:
        """The recording, with what it shows without any neighbour: bill and draws."""
        made = cls(plan, where)
        curator = Recorder(seen(rows), SimulatedNoise(seed), made.tape)
        found.recorded += 1
        try:
            made.outcome = plan.run(curator)
        except Endless:
            found.violated(where, "a draw comes to no end: noise is drawn again until it suits")
            return made
        budget = plan.budget
        bill = Guarantee.of(budget, budget.neighbors, curator.bill)
        if not bill.verify():
            found.violated(where, "what was asked costs more than the budget")
        if not Guarantee.of(budget, budget.neighbors, plan.losses).verify():
            found.violated(where, "the plan's bill is above the budget")
        for _, item in _few(made.tape.answers):
            for words in troubles(item.mechanism, item.exact):
                found.mechanism(name_of(item.mechanism)).violations += 1
                found.violated(where, f"{name_of(item.mechanism)}: {words}")
        return made

    def replay(self, neighbour: Neighbour, found: Findings) -> None:
        """The same run on a neighbour with the same noisy answers."""
        found.runs += 1
        compared = Compared()
        curator = Replayer(seen(neighbour.rows), self.tape, compared)
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
        measured = zip(answers, compared.shares, compared.exact, strict=False)
        for index, (item, shares, exact) in enumerate(measured):
            mechanism = found.mechanism(name_of(item.mechanism))
            mechanism.runs += 1
            if not item.mechanism.losses and compared.changed[index]:
                mechanism.violations += 1
                words = "tells neighbours apart without a loss for it"
                found.violated(self.where, f"{name_of(item.mechanism)} {words}")
            if shares is None:
                mechanism.unmeasured += 1
                continue
            most = max(shares, default=Fraction(0))
            mechanism.largest = max(mechanism.largest, most)
            if compared.changed[index]:
                self._keep(index, most, exact)
            if most > 1:
                mechanism.violations += 1
                what = f"costs {float(most):.6g} of what is declared"
                found.violated(self.where, f"{name_of(item.mechanism)} {what}")
        splits = [event for event in self.tape.events if isinstance(event, Split)]
        if splits:
            self._one_part(answers, compared, found)

    def _keep(self, index: int, share: Fraction, exact: object) -> None:
        """The answers of a few neighbours: the first, and the one that costs most; with the cost
        that the mechanism itself says."""
        kept = self._kept.setdefault(index, [])
        if share > self._most.get(index, Fraction(-1)):
            self._most[index] = share
            kept.insert(0, (share, exact))
        elif len(kept) < KEPT:
            kept.append((share, exact))
        del kept[KEPT:]

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

    def by_shifts(self, found: Findings) -> None:
        """What the kept neighbours cost by the draws alone (`meter.shift`), answer by answer: no
        more than the bill, nor than the mechanism says that this pair costs."""
        for index, item in _few(self.tape.answers):
            costs = [
                (cost, share)
                for share, exact in self._kept.get(index, [])
                if (cost := shift(item.mechanism, item.exact, exact)) is not None
            ]
            if not costs:
                continue
            mechanism = found.mechanism(name_of(item.mechanism))
            mechanism.shifted += len(costs)
            for cost, share in costs:
                if cost > min(Fraction(1), share) + ROUNDING:
                    mechanism.violations += 1
                    words = f"its draws cost {cost:.6g} of the bill, it says {float(share):.6g}"
                    found.violated(self.where, f"{name_of(item.mechanism)}: {words}")


def seen(rows: Audited) -> People:
    """The people of a table, of whatever kind: who asks for pairs finds them."""
    return cast("People", rows.people)


def _few(answers: list[Answered]) -> Iterator[tuple[int, Answered]]:
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
