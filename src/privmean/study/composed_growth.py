"""Parts grown by one factor as far as the lines of the whole accounting compose to the budget.

Every question starts from lines with the noise that its part by sums would give it: pure ones, or
Gaussian ones where these cost less zCDP. docs/proofs/study.md, section 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from privmean.errors import ArgumentError, InfeasibleError
from privmean.privacy.budget import Budget
from privmean.privacy.calibrate import within
from privmean.privacy.compose import total_delta
from privmean.study.budget_shares import CURVES, AllocationTask, BudgetAllocation
from privmean.study.question_share import QuestionShare, bill, down, significant
from privmean.study.shared_locations import SharedLocationPlan
from privmean.study.study_question import StudyQuestion

PRECISE = 1e-4  # relative precision of the common factor
TRIED = 1.02  # factor that curves must allow at once to be searched further
STRIDE, MOST = 1.2, 64.0
STRAIGHT, MOST_TURNS = 12, 40  # tries along a line, before halves
PLAINER = 1.001  # a guarantee of epsilon is preferred where a part of rho is not less
LESS, MORE = 0.8, 1.02  # a part less by that factor has more noise by this one, at least
LARGEST_RHO = 1.0  # of one question's lines, over the square of its epsilon


@dataclass(frozen=True)
class _Start:
    """One question at factor 1, with its own budget."""

    item: StudyQuestion
    own: Budget

    def at(self, factor: float) -> Budget:
        """Its own budget at a factor of strength; a wanted error says its part, which stays."""
        if self.item.error is not None:
            return self.own
        if self.own.rho is not None:
            rho = significant(self.own.rho * factor**2)
            return Budget(rho=rho, neighbors=self.own.neighbors)
        assert self.own.epsilon is not None
        epsilon = down(Fraction(self.own.epsilon) * Fraction(factor))
        return Budget(epsilon, self.own.delta, neighbors=self.own.neighbors)


def grow_shares(
    work: AllocationTask, first: BudgetAllocation, kept: float
) -> BudgetAllocation | None:
    """All free parts larger by the factor that the composed lines allow; kept: the part of delta
    for questions that need one. None if curves gain nothing."""
    starts = _starts(work, first, kept)
    looks = tuple(work.taken.values())

    def at(factor: float) -> _Tried:
        parts = tuple(work.part(start.item, start.at(factor)) for start in starts)
        lines = bill(parts, looks)
        assert work.budget.epsilon is not None
        delta = total_delta(lines, work.budget.epsilon)
        return _Tried(factor, parts, delta, within(lines, work.budget, again=False))

    tried = at(TRIED)
    if not tried.fits or not any(item.error is None for item in work.items):
        return None
    found = _largest(at, tried, work.budget.delta)
    return BudgetAllocation(found.parts, CURVES, found.factor, work.taken)


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


def _starts(work: AllocationTask, first: BudgetAllocation, kept: float) -> list[_Start]:
    chosen = [
        _start(work, item, part, aim)
        for item, part, aim in zip(work.items, first.parts, work.noises(first), strict=True)
    ]
    users = frozenset(
        item.name
        for item, own in zip(work.items, chosen, strict=True)
        if own is None
    )  # fmt: skip
    deltas = work.deltas(users, work.budget.delta * kept if users else 0.0)
    found = []
    for item, own, part in zip(work.items, chosen, first.parts, strict=True):
        apart = work.share(part.own.epsilon or 0.0, deltas[item.name])
        found.append(_Start(item, apart if own is None else own))
    return found


def _follows(work: AllocationTask, item: StudyQuestion, less: Budget, aim: float) -> bool:
    """Whether a smaller part would have more noise."""
    return MORE * aim < work.noise_at(item, less) < math.inf


def _start(
    work: AllocationTask, item: StudyQuestion, part: QuestionShare, aim: float
) -> Budget | None:
    """The cheapest lines, by zCDP, with the noise that sums would give; None where only a part of
    delta will do."""
    epsilon = part.own.epsilon
    assert epsilon is not None
    ways: list[tuple[float, Budget]] = []
    looked = isinstance(work.plan(item, part.own), SharedLocationPlan)
    for at, most in ((work.share, epsilon), (work.rho, LARGEST_RHO * epsilon**2)):
        if at == work.share and not looked:
            strength = epsilon  # the very part: not less, also where noise does not tell of it
        else:
            strength = work.as_quiet(item, at, most, aim)
            # where noise does not follow the strength, a smaller one fails more often instead
            if not math.isfinite(strength) or not _follows(work, item, at(LESS * strength), aim):
                continue
        try:
            made = work.part(item, at(strength))
        except (InfeasibleError, ArgumentError):
            continue
        if made.lines[0].name != f"{item.name}: whole" or made.own.rho is None:
            ways.append((made.rho, made.own))
    if not ways:
        return None if part.own.delta else part.own
    return min(ways, key=lambda way: way[0] * (1 if way[1].rho is None else PLAINER))[1]
