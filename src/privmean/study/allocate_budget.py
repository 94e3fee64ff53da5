"""How the budget of a study is shared among its questions, from public numbers alone.

Questions with a wanted error get the least part that reaches it. The others share what is left so
that the weighted geometric mean of their errors, each over its sampling error, is least
(docs/proofs/study.md, section 2). Ways of composing are tried, all of them valid, with looks that
questions share (section 5) and without:

* sums: parts of epsilon (and delta), or of rho, that add up;
* curves, where a delta is given: those parts, and parts that are of epsilon or of rho by question,
  all made larger by the largest factor for which all mechanism calls still compose to the budget.

The way with the least errors is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from privmean.bisection import bisect_ratio
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.privacy.budget import LARGEST_EPSILON, SMALLEST_EPSILON, Budget
from privmean.study.budget_shares import AllocationTask, BudgetAllocation, grow_shares
from privmean.study.shared_locations import Looks, StudyQuestion, can_share_location

DELTA_APART = (0.5, 0.1)  # parts of delta for questions that need one, where curves use the rest
# factors at which curves begin: parts by sums must gain as much; parts of rho never fit less
GAIN, START = 1.02, 0.999


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
    sets: list[Looks] = [{}, *(looks for looks in (shared, every) if looks)]
    if shared == every:
        sets = sets[:2]
    found = _by_sums([plain.beside(looks) for looks in sets])
    first = min(found, key=plain.value)
    if budget.epsilon is not None and budget.delta > 0:
        for looks in sets:
            found += _by_curves(plain.beside(looks), found, first)
    best: BudgetAllocation = min(found, key=plain.value)
    return best


def _by_sums(works: Sequence[AllocationTask]) -> list[BudgetAllocation]:
    """Parts that add up, with each set of looks where that can be had."""
    refused: InfeasibleError | None = None
    found = []
    for work in works:
        try:
            found.append(work.sums())
        except InfeasibleError as error:
            refused = refused or error
    if not found:
        assert refused is not None
        raise refused
    return found


def _by_curves(
    work: AllocationTask, sums: Sequence[BudgetAllocation], first: BudgetAllocation
) -> list[BudgetAllocation]:
    """Parts by sums with these looks, and parts of either kind, grown."""
    found: list[BudgetAllocation | None] = []
    for by_sums in sums:
        if by_sums.looks == work.taken:
            for kept in DELTA_APART if any(part.own.delta for part in by_sums.parts) else (1.0,):
                owns = [replace(part.own, delta=part.own.delta * kept) for part in by_sums.parts]
                found.append(_grown(work, owns, GAIN))
    for kept in DELTA_APART:
        try:
            owns = work.mixed(first, kept)
        except (InfeasibleError, ArgumentError):
            continue
        found.append(_grown(work, owns, START))
        if not any(own.delta for own in owns):
            break  # nobody needs a delta: the other part would be the same
    return [item for item in found if item is not None]


def _grown(work: AllocationTask, owns: Sequence[Budget], start: float) -> BudgetAllocation | None:
    try:
        return grow_shares(work, owns, start)
    except (InfeasibleError, ArgumentError):
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
            _by_sums([plain, shared] if shared.taken else [plain])
        except (InfeasibleError, ArgumentError):
            return False
        return True

    if not enough(LARGEST_EPSILON):
        return None
    _, high = bisect_ratio(lambda x: not enough(x), SMALLEST_EPSILON, LARGEST_EPSILON, 1.01)
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
