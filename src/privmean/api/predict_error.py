"""Predicted errors of any question, and the people or the epsilon that a wanted error needs.

Predicted errors of one question over a range of epsilon, or of n: a table and a picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from privmean import validate
from privmean.bisection import smallest_int
from privmean.errors import ArgumentError, InfeasibleError
from privmean.output import MISSING, HasOutput, Output, TableRow, count, decimals, number
from privmean.plain_data import plain
from privmean.privacy.budget import LARGEST_EPSILON
from privmean.release.charts import error_lines

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
    from privmean.estimators.groups.group_plan import GroupPlan

    if isinstance(plan, GroupPlan) and question.kind == "compare":
        found = plan.difference(guess_sd, sizes if sizes is not None else plan.shape.number())
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


def error_or_nothing(error: Callable[[T], Mapping[str, float]], place: T) -> Mapping[str, float]:
    """The errors by cause; NaN where nothing can work."""
    try:
        return error(place)
    except InfeasibleError:
        return dict.fromkeys(CAUSES, math.nan)


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


STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10)  # of a range that is not said, over the middle
MORE = 1.1  # error over sampling error where noise hardly matters
NOUNS = {"compare": "comparison"}
CAUSES = {"rmse": "error", "sampling": "sampling", "noise": "noise"}


@dataclass(frozen=True)
class ErrorForecast(HasOutput):
    """Predicted errors of a question at several values of epsilon or n.

    Attributes
    ----------
    question : str
        Kind of the question.
    against : {"epsilon", "n"}
        What is varied.
    values : tuple of float
        Its values.
    errors : dict
        Predicted root mean square errors by cause: "rmse", "sampling" and "noise"; NaN where the
        question cannot be answered.
    enough : float, optional
        The smallest value from which privacy noise adds at most 10% to the sampling error.
    fixed : str
        The numbers that are not varied, in words.

    Examples
    --------
    forecast = pm.predict_errors(pm.Mean("wage"), n=4000, epsilon=1.0, guess_sd=0.5, against="n")
    print(forecast.enough)
    """

    question: str
    against: str
    values: tuple[float, ...]
    errors: Mapping[str, tuple[float, ...]]
    enough: float | None
    fixed: str

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per value: epsilon or n, error, sampling, noise.

        backend: "pandas", "polars" or "pyarrow"; None takes one that is imported or installed.

        Example:
            forecast.to_frame("polars")
        """
        from privmean.data.list_columns import frame_of

        found = {CAUSES[cause]: list(values) for cause, values in self.errors.items()}
        return frame_of({self.against: list(self.values), **found}, backend)

    def plot(self, axes: Any = None) -> Any:
        """Draw the errors (needs privmean[plot]); returns the axes."""
        from privmean.release.charts import new_axes

        axes = new_axes() if axes is None else axes
        for cause, name in CAUSES.items():
            axes.plot(self.values, self.errors[cause], marker=".", label=name)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(self.against)
        axes.legend()
        return axes

    def describe(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        rows = [
            {self.against: place, **{cause: plain(self.errors[cause][j]) for cause in CAUSES}}
            for j, place in enumerate(self.values)
        ]
        return {"against": self.against, "rows": rows, "enough": self.enough}

    def output(self) -> Output:
        """What `print` shows; a notebook adds a picture."""
        known = [x for line in self.errors.values() for x in line if 0 < x < math.inf]
        least = min(known, default=math.nan)
        rows = []
        for j, place in enumerate(self.values):
            shown = count(place) if self.against == "n" else f"{place:g}"
            cells = [number(line[j], decimals(least), least) for line in self.errors.values()]
            rows.append(TableRow(shown, tuple(cells)))
        words = {"epsilon": "At", "n": "With"}[self.against]
        text = MISSING if self.enough is None else f"{self.enough:,g}"
        closing = (
            f"{words} {self.against} = {text} or more, privacy noise adds at most 10% to the error."
            if self.enough is not None
            else f"Privacy noise adds more than 10% to the error at every {self.against}."
        )
        lines = {CAUSES[cause]: line for cause, line in self.errors.items()}
        asked = NOUNS.get(self.question, self.question)
        return Output(
            f"Predicted error of a {asked} against {self.against}",
            f"{self.fixed}; planning charges nothing",
            tuple(CAUSES.values()),
            tuple(rows),
            lines=(closing,),
            picture=lambda: error_lines(self.values, lines, self.against),
        )


def places_of(values: object, middle: float, *, whole: bool) -> list[float]:
    """The values that are said, in order, or a range around the middle."""
    if values is None:
        given: list[Any] = [middle * step for step in STEPS]
        given = [max(2, round(x)) for x in given] if whole else given
    elif isinstance(values, str) or not isinstance(values, Iterable):
        raise ArgumentError("values", values, "must be a list of numbers", "use values=[0.5, 1, 2]")
    else:
        given = list(values)
    check = validate.whole if whole else validate.positive
    found = sorted({float(check("values", value)) for value in given})
    if not found:
        raise ArgumentError("values", values, "is empty", "give at least one number")
    return found
