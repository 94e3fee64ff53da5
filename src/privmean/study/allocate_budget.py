"""How the budget of a study is shared among its questions, from public numbers alone.

A part of the budget is a strength: doubling it halves the noise of pure mechanisms. Questions with
a wanted error get the least strength that reaches it; the others share what is left in proportion
to weight^(1/3) for pure and (epsilon, delta) budgets, weight^(1/4) for rho, which minimizes the
weighted sum of squared errors, each relative to what the question would have alone
(docs/proofs/study.md, section 2). Three ways of composing are tried, all of them valid, with looks
that questions share (section 5) and without:

* sums: parts of epsilon (and delta) that add up;
* curves: all parts made larger by the largest factor for which all mechanism calls still compose
  to the budget;
* rho: parts of the largest rho that converts to (epsilon, delta).

The way with the least noise is taken, if it makes no question worse than sums without looks do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.privacy.budget import LARGEST_EPSILON, SMALLEST_EPSILON, Budget
from privmean.study.budget_shares import AllocationTask, BudgetAllocation
from privmean.study.composed_growth import grow_shares
from privmean.study.shared_locations import Looks, can_share_location
from privmean.study.study_question import StudyQuestion

DELTA_APART = (0.5, 0.1)  # parts of delta for questions that need one, where curves use the rest


def allot(
    items: Sequence[StudyQuestion],
    shapes: Mapping[str, PublicShape],
    budget: Budget,
    *,
    looking: bool = True,
) -> BudgetAllocation:
    """The best of the ways. looking: whether columns can be looked at (those of a table). Raises
    InfeasibleError, saying what would do, if there is none."""
    items = tuple(items)
    plain = AllocationTask(items, shapes, budget, remedy=lambda: _remedy(items, shapes, budget))
    every = plain.looks(1) if looking and can_share_location(budget) else {}
    shared = {column: look for column, look in every.items() if column in plain.shared}
    first = _first([plain, *(plain.beside(looks) for looks in (shared, every) if looks)])
    found = [first]
    if shared and not first.looks:
        found += _tried(plain.beside(shared), first, "sums")
    if budget.epsilon is not None and budget.delta > 0:
        for looks in _sets(every):
            work = plain.beside(looks)
            found += _tried(work, first, "rho")
            curves = _curves(work, first)
            if curves is not None:
                found.append(curves)
                break
    best: BudgetAllocation = min(found, key=plain.noise)
    return best


def _first(works: Sequence[AllocationTask]) -> BudgetAllocation:
    """Parts that add up, without looks where that can be had."""
    refused: InfeasibleError | None = None
    for work in works:
        try:
            return work.sums()
        except InfeasibleError as error:
            refused = refused or error
    assert refused is not None
    raise refused


def _sets(every: Looks) -> list[Looks]:
    return [every, {}] if every else [{}]


def _tried(work: AllocationTask, first: BudgetAllocation, way: str) -> list[BudgetAllocation]:
    """One way of composing, where it can be had and makes no question worse."""
    try:
        other = work.sums() if way == "sums" else work.converted()
    except (InfeasibleError, ArgumentError):
        return []
    return [] if work.worse(other, first) else [other]


def _curves(work: AllocationTask, first: BudgetAllocation) -> BudgetAllocation | None:
    for kept in DELTA_APART:
        try:
            other = grow_shares(work, first, kept)
        except (InfeasibleError, ArgumentError):
            continue
        if other is not None and not work.worse(other, first):
            return other
        if not any(part.own.delta for part in first.parts):
            break  # nobody needs a delta: the other part would be the same
    return None


def least_epsilon(
    items: Sequence[StudyQuestion], shapes: Mapping[str, PublicShape], budget: Budget
) -> float | None:
    """The least epsilon (at the same delta) at which everything wanted can be had, to 1 %, rounded
    up; None if no epsilon is enough."""

    def enough(epsilon: float) -> bool:
        try:
            larger = Budget(epsilon, budget.delta, neighbors=budget.neighbors)
            plain = AllocationTask(tuple(items), shapes, larger)
            shared = plain.beside(plain.looks(2)) if can_share_location(larger) else plain
            _first([plain, shared] if shared.taken else [plain])
        except (InfeasibleError, ArgumentError):
            return False
        return True

    low, high = SMALLEST_EPSILON, LARGEST_EPSILON
    if not enough(high):
        return None
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    unit = 10.0 ** (math.floor(math.log10(high)) - 2)
    return math.ceil(high / unit - 1e-9) * unit


def _remedy(
    items: tuple[StudyQuestion, ...], shapes: Mapping[str, PublicShape], budget: Budget
) -> str:
    """What is enough: a larger epsilon, or fewer wishes."""
    needed = least_epsilon(items, shapes, budget)
    ways = [] if needed is None else [f"give epsilon={needed:.3g}"]
    wishes = [item for item in items if item.error is not None]
    for item in wishes if len(items) > 1 else ():
        others = [other for other in items if other is not item]
        found = least_epsilon(others, shapes, budget)
        if found is not None:
            ways.append(f"remove question {item.name!r} and give epsilon={found:.3g}")
    return ", or ".join([*ways, "accept larger errors"])
