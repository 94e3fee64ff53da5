"""Parts grown by one factor as far as the lines of the whole accounting compose to the budget.

docs/proofs/study.md, section 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from privmean.privacy.budget import Budget
from privmean.privacy.calibrate import within
from privmean.privacy.compose import total_delta
from privmean.study.budget_shares import CURVES, AllocationTask, BudgetAllocation
from privmean.study.question_share import QuestionShare, bill, down, significant
from privmean.study.study_question import StudyQuestion

PRECISE = 1e-4  # relative precision of the common factor
STRIDE, MOST = 1.2, 64.0
STRAIGHT, MOST_TURNS = 12, 40  # tries along a line, before halves


def grow_shares(
    work: AllocationTask, owns: Sequence[Budget], first: float
) -> BudgetAllocation | None:
    """All free parts larger by the factor that the composed lines allow, beginning with `first`;
    None if not even that fits."""
    looks = tuple(work.taken.values())

    def at(factor: float) -> _Tried:
        parts = tuple(
            work.part(item, _grown(item, own, factor))
            for item, own in zip(work.items, owns, strict=True)
        )
        lines = bill(parts, looks)
        assert work.budget.epsilon is not None
        delta = total_delta(lines, work.budget.epsilon)
        return _Tried(factor, parts, delta, within(lines, work.budget, again=False))

    tried = at(first)
    if not tried.fits:
        return None
    if not any(item.error is None for item in work.items):
        return BudgetAllocation(tried.parts, CURVES, work.taken)
    return BudgetAllocation(_largest(at, tried, work.budget.delta).parts, CURVES, work.taken)


def _grown(item: StudyQuestion, own: Budget, factor: float) -> Budget:
    """A part at a factor of strength; a wanted error says its part, which stays."""
    if item.error is not None:
        return own
    if own.rho is not None:
        return Budget(rho=significant(own.rho * factor**2), neighbors=own.neighbors)
    assert own.epsilon is not None
    epsilon = down(Fraction(own.epsilon) * Fraction(factor))
    return Budget(epsilon, own.delta, neighbors=own.neighbors)


@dataclass(frozen=True)
class _Tried:
    """One factor: its parts, the composed delta, and whether the budget holds it."""

    factor: float
    parts: tuple[QuestionShare, ...]
    delta: float
    fits: bool


def _largest(at: Callable[[float], _Tried], first: _Tried, delta: float) -> _Tried:
    """The largest factor that fits, to `PRECISE`: one that was tried itself. The delta is nearly a
    power of the factor: a line through the last two points says where to try next."""
    low, before = first, first
    last = at(min(STRIDE * first.factor, MOST))
    high = None if last.fits else last
    low = last if last.fits else low
    for turn in range(MOST_TURNS):
        if high is not None and high.factor <= low.factor * (1 + PRECISE):
            break
        if low.factor >= MOST:
            break
        guess = _through(before, last, delta)
        step = PRECISE / 3 if turn % 2 else -PRECISE / 3
        guess = min(guess * (1 + step), STRIDE * low.factor, MOST)
        if high is None:
            guess = max(guess, low.factor * (1 + PRECISE / 2))
        elif not low.factor < guess < high.factor or turn > STRAIGHT:
            guess = math.sqrt(low.factor * high.factor)
        before, last = last, at(guess)
        if last.fits:
            low = last
        else:
            high = last
    return low


def _through(one: _Tried, two: _Tried, delta: float) -> float:
    """Where a line through two points of (log factor, log delta) meets the delta."""
    if not (one.delta > 0 and two.delta > 0) or one.delta == two.delta:
        return two.factor * STRIDE
    slope = math.log(two.delta / one.delta) / math.log(two.factor / one.factor)
    if not slope > 0:
        return two.factor * STRIDE
    return two.factor * math.exp(min(math.log(delta / two.delta) / slope, 1.0))
