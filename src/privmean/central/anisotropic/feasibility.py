"""What would do where people are too few: the least n, the least epsilon, and other ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from privmean.bisection import smallest_int, smallest_real
from privmean.central.anisotropic.calibrate_filter import TooFewPeople
from privmean.privacy.budget import Budget

CLOSE = 0.03
MOST_PERSONS = 10**9
MOST_EPSILON = 100.0
Attempt = Callable[[Budget, int], bool]


def too_few(
    attempt: Attempt, budget: Budget, persons: int, problem: str, others: str
) -> TooFewPeople:
    """The refusal, with numbers. attempt: whether a plan is worth its while at public numbers."""
    assert budget.epsilon is not None
    n = smallest_int(lambda n: attempt(budget, n), persons + 1, most=MOST_PERSONS, within=CLOSE)
    epsilon = smallest_real(
        lambda e: attempt(replace(budget, epsilon=e), persons),
        budget.epsilon,
        most=MOST_EPSILON,
        within=0.05,
    )
    more = "no number of people would do" if n is None else f"about {n} people would do"
    if epsilon is not None:
        more += f", or epsilon={epsilon:.3g}"
    return TooFewPeople(problem, f"{more}; {others}")
