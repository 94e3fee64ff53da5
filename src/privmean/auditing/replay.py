"""Calls replayed on neighboring tables.

What a replay on a neighbor costs, answer by answer.

Mechanisms that meet people elsewhere than before a curator: each on pairs of exact answers.

Streams keep their own accounting, two servers add noise to shares, fixed designs are about
responses, and some mechanisms are asked by forms as published alone.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from privmean.auditing.findings import Findings, of_answers
from privmean.auditing.fixed_noise import Answer, Endless
from privmean.auditing.measure_loss import ROUNDING, step_of, troubles
from privmean.auditing.transcript import (
    Answered,
    Branch,
    Compared,
    Parted,
    Recording,
    Replaying,
    Transcript,
)
from privmean.data.person_table import ClipInterval
from privmean.mechanisms.choices import HitsAbove
from privmean.mechanisms.curator import Mechanism
from privmean.mechanisms.histograms import LikeliestBin, LocationSearch
from privmean.mechanisms.noisy_counts import NoisyShare
from privmean.mechanisms.private_location import RadiusSearch, sides_of
from privmean.mechanisms.weighted_sums import WeightedSums
from privmean.noise.noise_source import SimulatedNoise

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


VALUES = (0.0, -1.0, 1.0, 8.0, 1e308, -1e308, 5e-324, 2.0**41, -(2.0**41), 3.5)
EPSILON = Fraction(2)


def pairs() -> Iterator[tuple[Any, Any, list[Any]]]:
    """A mechanism, an exact answer, and those of neighbors."""
    rows = np.linspace(-4, 9, 60)
    others: list[Any] = [np.concatenate([[value], rows[1:]]) for value in VALUES]
    lengths = [sides_of(item[:, None]) for item in (rows, *others)]
    yield RadiusSearch(60, EPSILON).mechanism, lengths[0], lengths[1:]
    averages = [1.0] * 40 + [9.0] * 20
    moved = [[value, *averages[1:]] for value in (1.0, 9.0, -3.0, 1e6)]
    yield LocationSearch("place", 2.0, EPSILON, 1e-6), averages, moved
    counts = np.array([1, 7, 3, 9, 2, 8, 5, 4, 6, 0], dtype=np.int64)
    near = [counts + change for change in (-1, 0, 1)]
    near += [counts + np.where(np.arange(10) == k, -1, 1) for k in (0, 3)]
    yield HitsAbove("columns", EPSILON, 2, "each count, by one", 6.0), counts, near
    bins = {3: 40, 5: 1, 9: 12}
    moved_one = [{**bins, 3: 39, 9: 13}, {3: 41, 9: 12}, {**bins, 5: 2, 9: 11}]
    yield LikeliestBin(EPSILON, 1e-6), bins, moved_one
    whole = 2**20 - 1
    shares = [[value, whole - value] for value in (0, whole, whole // 2)]
    yield NoisyShare(whole, 2, EPSILON), [0, 0], shares
    weights = np.array([[2**20, 1], [3, 2**20], [2**19, 2**19]], dtype=np.int64)
    box = ClipInterval(-1.0, 1.0)
    pure = WeightedSums("points", weights, box, epsilon=EPSILON)
    over: Any
    for over in (pure, WeightedSums("points", weights, box, mu=0.5)):
        first = np.array([1.0, math.nan, 0.5])
        near = [np.array([value, math.nan, 0.5]) for value in (-1.0, 0.0, 1e308, math.nan)]
        near += [np.array([1.0, value, 0.5]) for value in (-1.0, 1.0)]
        yield over, over.exact(first), [over.exact(item) for item in near]


def audit_direct(found: Findings) -> None:
    """Every pair, by operands and by what the mechanism says."""
    for mechanism, exact, others in pairs():
        where = f"direct: {type(mechanism).__name__}"
        tried(mechanism, exact, others, where, found)
        found.subjects[where] = len(others)


def tried(
    mechanism: Any, exact: Answer, others: Sequence[Any], where: str, found: Findings
) -> None:
    """One answer, recorded by itself, and those of neighbors."""
    tape = Transcript()
    found.recorded += 1
    try:
        Recording(tape, SimulatedNoise(1)).answer(mechanism, exact)
    except Endless:
        found.violated(where, "a draw comes to no end: noise is drawn again until it suits")
        return
    found.seen |= set(of_answers(tape.answers))
    inspected(tape.answers, where, found)
    for other in others:
        compared = Compared()
        with contextlib.suppress(Parted):
            Replaying(tape, compared).answer(mechanism, other)
        if compared.difference:
            found.violated(where, compared.difference)
        measured(tape.answers, compared, where, found)
        found.runs += 1
