"""What a replay on a neighbor costs, answer by answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from privmean.auditing.findings import Findings
from privmean.auditing.measure_loss import step_of, troubles
from privmean.auditing.operands import Answered, Branch
from privmean.auditing.sharp_choices import ROUNDING
from privmean.auditing.transcript import Compared
from privmean.mechanisms.curator import Mechanism

FEW = 2  # answers of one name, from either end, whose draws are tried


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
        if not item.mechanism.events and changed:
            words.append(" tells neighbors apart without a loss for it")
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
    if _two_parts(answers, compared.changed):
        found.differences += 1
        found.violated(where, "one person is in two parts that are billed as disjoint")
    return largest


def _two_parts(answers: Sequence[Answered], changed: Sequence[bool]) -> bool:
    """Whether the answers of two disjoint parts changed: a branch is a list of splits, each with
    the number of the part."""
    parts: dict[Branch, int] = {}
    return any(
        parts.setdefault(item.branch[: at + 1], item.branch[at + 1]) != item.branch[at + 1]
        for item, moved in zip(answers, changed, strict=False)
        for at in range(0, len(item.branch), 2)
        if moved
    )


def inspected(answers: Sequence[Answered], where: str, found: Findings) -> None:
    """What is wrong with recorded answers by themselves: with a few of each name."""
    for item in _few(answers):
        name = name_of(item.mechanism)
        for words in troubles(item.mechanism, item.exact):
            found.mechanism(name).violations += 1
            found.violated(where, f"{name}: {words}")


def _few(answers: Sequence[Answered]) -> Iterator[Answered]:
    """The first and the last few answers of each name: what a loop asks again and again is drawn by
    the same code."""
    named: dict[str, list[Answered]] = {}
    for item in answers:
        named.setdefault("/".join(loss.name for loss in item.mechanism.events), []).append(item)
    for items in named.values():
        yield from items if len(items) <= 2 * FEW else (*items[:FEW], *items[-FEW:])


def name_of(mechanism: Mechanism[Any, Any]) -> str:
    """By class and law."""
    step = step_of(mechanism)
    law = getattr(getattr(step, "sums", step), "law", "")
    return f"{type(step).__name__}, {law.lower()}" if law else type(step).__name__
