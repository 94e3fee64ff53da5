"""Predicted errors of any question, and the people or the epsilon that a wanted error needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from privmean import validate
from privmean.bisection import smallest_int
from privmean.errors import ArgumentError, InfeasibleError
from privmean.privacy.budget import LARGEST_EPSILON

if TYPE_CHECKING:
    from privmean.pipeline import Plan
    from privmean.questions.base import Question

T = TypeVar("T")
LEAST_EPSILON = 2.0**-9
CLOSE = 1.001  # how near an epsilon is to the smallest one


def predicted(
    question: Question, plan: Plan, guess_sd: float, sizes: object = None
) -> dict[str, float]:
    """The predicted error ("rmse") with its parts "sampling" and "noise", where the plan tells.

    Of a comparison of arms that of the difference; by group that of the group where it is largest,
    if their sizes are guessed. guess_sd is used where the assumption says nothing about the spread
    between people; a moment assumption does, and then the guess is not needed.
    """
    from privmean.central.groups.group_plan import GroupPlan

    if isinstance(plan, GroupPlan) and question.kind == "compare":
        found = plan.difference(guess_sd, sizes if sizes is not None else plan.shape.counted())
    elif sizes is None:
        found = plan.predict(guess_sd)
    elif isinstance(plan, GroupPlan):
        worst = max(plan.forecast(sizes, guess_sd), key=lambda item: item.rmse)
        found = {"rmse": worst.rmse, "sampling": worst.sampling, "noise": worst.privacy_noise}
    else:
        raise ArgumentError(
            "group_sizes", question.kind, "is not a question by group", "give n instead"
        )
    noise = found.get("noise", found.get("privacy_noise", math.nan))
    return {"rmse": found["rmse"], "sampling": found.get("sampling", math.nan), "noise": noise}


def enough(error: Callable[[T], float], target_error: float) -> Callable[[T], bool]:
    """Whether a number of people, or an epsilon, reaches the error; one that cannot work does
    not."""

    def reached(value: T) -> bool:
        try:
            return error(value) <= target_error
        except InfeasibleError:
            return False

    return reached


def smallest_n(error: Callable[[int], float], target_error: float) -> int:
    """The smallest number of people whose predicted error is at most `target_error`."""
    wanted = validate.positive("target_error", target_error)
    found = smallest_int(enough(error, wanted), 2)
    if found is None:
        raise ArgumentError(
            "target_error", target_error, "is not reached at any n", "give a larger error"
        )
    return found


def smallest_epsilon(reached: Callable[[float], bool]) -> float | None:
    """The smallest epsilon that is enough, to three digits; None where none is."""
    low, high = LEAST_EPSILON, LARGEST_EPSILON
    if not reached(high):
        return None
    while high / low > CLOSE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if reached(middle) else (middle, high)
    unit = 10.0 ** (math.floor(math.log10(high)) - 2)
    short = float(f"{math.ceil(high / unit) * unit:.3g}")
    return short if reached(short) else high
