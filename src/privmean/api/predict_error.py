"""Predicted errors, and the people that a wanted error needs, from the plans of any question."""

from __future__ import annotations

from collections.abc import Callable

from privmean import validate
from privmean.bisection import smallest_int
from privmean.errors import ArgumentError, InfeasibleError
from privmean.pipeline import Plan


def forecast(plan: Plan, guess_sd: float) -> dict[str, float]:
    """The predicted root mean square error of a plan ("rmse"), by cause where the plan tells.

    guess_sd is used where the assumption says nothing about the spread between people; a moment
    assumption does, and then the guess is not needed.
    """
    return plan.predict(guess_sd)


def smallest_n(predicted: Callable[[int], float], error: float, guess_sd: float) -> int:
    """The smallest number of people whose predicted error is at most `error`."""
    wanted = validate.positive("error", error)
    validate.positive("guess_sd", guess_sd)

    def enough(persons: int) -> bool:
        try:
            return predicted(persons) <= wanted
        except InfeasibleError:
            return False

    found = smallest_int(enough, 2)
    if found is None:
        raise ArgumentError("error", error, "is not reached at any n", "ask for a larger error")
    return found
