"""Questions before they are asked: their plan, how many people they need, or how much budget, and
their predicted errors over a range of epsilon, or of n: a table and a picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from privmean import validate
from privmean.api.call_options import CallOptions, spelled_out
from privmean.api.run_question import check_options, make_plan, require_question
from privmean.bisection import bisect_ratio, smallest_int
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.output import MISSING, HasOutput, Output, TableRow, count, decimals, number
from privmean.plain_data import plain
from privmean.privacy.budget import ADD_REMOVE, LARGEST_EPSILON

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


def smallest_epsilon(reached: Callable[[float], bool]) -> float | None:
    """The smallest epsilon that is enough, to three digits; None where none is."""
    if not reached(LARGEST_EPSILON):
        return None
    _, high = bisect_ratio(lambda x: not reached(x), LEAST_EPSILON, LARGEST_EPSILON, CLOSE)
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
        from privmean.release.charts import error_lines

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


@spelled_out
def plan(
    question: Question, *, n: int, columns: int | None = None, **terms: Unpack[CallOptions]
) -> Plan:
    """Plan a question from public numbers.

    Parameters
    ----------
    question : Mean, Regression, Curve, Variance, Quantile or Compare
        What is to be asked.
    n : int
        Public n, or a public guess of it under add-remove.
    columns : int, optional
        Number of columns, if the question does not name them.
    epsilon, delta, rho, neighbors, n_guess, level, ledger, label, analyst, noise
        Budget and terms of the call; see `ask`.

    Returns
    -------
    Plan
        Its method, mechanism calls, predicted error (`predict`) and public facts (`describe`).

    Raises
    ------
    InfeasibleError
        If the public numbers cannot work; the text says which number to change.

    Privacy
    -------
    Reads no data and charges nothing.

    Examples
    --------
    plan = pm.plan(pm.Mean("wage"), n=4000, epsilon=1.0)
    plan.predict(guess_sd=0.5)["rmse"], plan.rationale
    """
    said = check_options(terms, plan, require_question(question).default_neighbors)
    return make_plan(question, shape_for(question, n, columns, said.budget.neighbors), said.budget)


@spelled_out
def required_n(
    question: Question,
    *,
    target_error: float,
    guess_sd: float,
    columns: int | None = None,
    **terms: Unpack[CallOptions],
) -> int:
    """Return the smallest n whose predicted root mean square error is at most `target_error`.

    Parameters
    ----------
    question : Mean, Regression, Curve, Variance, Quantile or Compare
        What is to be asked.
    target_error : float
        Target root mean square error, in the unit of the value.
    guess_sd : float
        Public guess of the standard deviation between people, in the unit of the value.
    columns : int, optional
        Number of columns, if the question does not name them.
    epsilon, delta, rho, neighbors, n_guess, level, ledger, label, analyst, noise
        Budget and terms of the call; see `ask`.

    Returns
    -------
    int
        The required n. An infeasible n counts as too small.

    Raises
    ------
    ArgumentError
        If no n reaches the error.

    Privacy
    -------
    Reads no data and charges nothing.

    Examples
    --------
    question = pm.Mean("wage")
    assert pm.required_n(question, target_error=0.02, guess_sd=0.5, epsilon=1.0) < 2000
    """
    said = check_options(terms, required_n, require_question(question).default_neighbors)
    guess_sd = validate.positive("guess_sd", guess_sd)

    def error(n: int) -> float:
        shape = shape_for(question, n, columns, said.budget.neighbors)
        return predicted(question, make_plan(question, shape, said.budget), guess_sd)["rmse"]

    wanted = validate.positive("target_error", target_error)
    found = smallest_int(enough(error, wanted), 2)
    if found is None:
        raise ArgumentError(
            "target_error", target_error, "is not reached at any n", "give a larger error"
        )
    return found


@spelled_out
def required_epsilon(
    question: Question,
    *,
    target_error: float,
    guess_sd: float,
    n: int | None = None,
    group_sizes: Mapping[str, float] | Sequence[float] | float | None = None,
    columns: int | None = None,
    **terms: Unpack[CallOptions],
) -> float:
    """Return the smallest epsilon whose predicted root mean square error is at most `target_error`.

    Parameters
    ----------
    question : Mean, Regression, Curve, Variance, Quantile or Compare
        What is to be asked.
    target_error : float
        Target root mean square error, in the unit of the value: of the mean, of the difference of
        two arms, or of the group where it is largest.
    guess_sd : float
        Public guess of the standard deviation between people, in the unit of the value.
    n : int, optional
        Public n, or a public guess of it under add-remove. Required unless `group_sizes` is given.
    group_sizes : dict, list of float or float, optional
        Public guesses of n of each group, by key or in the order of the keys, for a question by
        group with public keys. Without them a group of usual size is planned for.
    columns : int, optional
        Number of columns, if the question does not name them.
    epsilon, delta, rho, neighbors, n_guess, level, ledger, label, analyst, noise
        Budget and terms of the call; see `ask`. The epsilon is searched for.

    Returns
    -------
    float
        The required epsilon, to three digits. An infeasible epsilon counts as too small.

    Raises
    ------
    ArgumentError
        If no epsilon reaches the error.

    Privacy
    -------
    Reads no data and charges nothing.

    Examples
    --------
    assert pm.required_epsilon(pm.Mean("wage"), n=4000, target_error=0.01, guess_sd=0.5) < 1
    sizes = {"north": 2500, "south": 1400, "islands": 100}
    question = pm.Mean("wage", by=("region",), keys=tuple(sizes))
    assert pm.required_epsilon(question, target_error=0.1, guess_sd=0.5, group_sizes=sizes) < 1
    """
    wanted = validate.positive("target_error", target_error)
    if n is None and group_sizes is None:
        raise ArgumentError("n", None, "is required", "give a public n, or a guess of it")
    known = people_of(group_sizes) if n is None else n

    def error(epsilon: float) -> float:
        made = plan(question, n=known, columns=columns, **with_epsilon(terms, epsilon))
        return predicted(question, made, guess_sd, group_sizes)["rmse"]

    found = smallest_epsilon(enough(error, wanted))
    if found is None:
        raise ArgumentError(
            "target_error", target_error, "is not reached at any epsilon", "give a larger error"
        )
    return found


@spelled_out
def predict_errors(
    question: Question,
    *,
    n: int,
    guess_sd: float,
    against: Literal["epsilon", "n"] = "epsilon",
    values: Sequence[float] | None = None,
    group_sizes: Mapping[str, float] | Sequence[float] | float | None = None,
    columns: int | None = None,
    **terms: Unpack[CallOptions],
) -> ErrorForecast:
    """Predict the error of a question at several values of epsilon, or of n.

    Parameters
    ----------
    question : Mean, Regression, Curve, Variance, Quantile or Compare
        What is to be asked.
    n : int
        Public n, or a public guess of it under add-remove.
    guess_sd : float
        Public guess of the standard deviation between people, in the unit of the value.
    against : {"epsilon", "n"}, default "epsilon"
        What is varied.
    values : list of float, optional
        Its values. Default: from a tenth to ten times the epsilon (or n) that is given.
    group_sizes : dict, list of float or float, optional
        Public guesses of n of each group; the largest error of all groups is predicted.
    columns : int, optional
        Number of columns, if the question does not name them.
    epsilon, delta, rho, neighbors, n_guess, level, ledger, label, analyst, noise
        Budget and terms of the call; see `ask`.

    Returns
    -------
    ErrorForecast
        A table that prints; `to_frame` gives a frame and `plot` a figure.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Reads no data and charges nothing.

    Examples
    --------
    forecast = pm.predict_errors(pm.Mean("wage"), n=4000, epsilon=1.0, guess_sd=0.5)
    print(forecast)
    forecast.to_frame()
    """
    said = check_options(terms, predict_errors, require_question(question).default_neighbors)
    validate.choice("against", against, ["epsilon", "n"])
    guess_sd = validate.positive("guess_sd", guess_sd)
    by_epsilon, epsilon = against == "epsilon", said.budget.epsilon
    if by_epsilon and epsilon is None:
        raise ArgumentError(
            "rho", said.budget.rho, "has no epsilon", "give epsilon, or against='n'"
        )
    if not by_epsilon and group_sizes is not None:
        raise ArgumentError(
            "group_sizes", group_sizes, "cannot be combined with against='n'", "remove it"
        )
    places = places_of(values, epsilon if by_epsilon and epsilon else n, whole=not by_epsilon)

    def errors(place: float) -> dict[str, float]:
        chosen = with_epsilon(terms, place) if by_epsilon else terms
        made = plan(question, n=n if by_epsilon else int(place), columns=columns, **chosen)
        return predicted(question, made, guess_sd, group_sizes)

    def ratio(place: float) -> float:
        found = errors(place)
        return found["rmse"] / found["sampling"] if found["sampling"] > 0 else math.inf

    reached = enough(ratio, MORE)
    least = smallest_epsilon(reached) if by_epsilon else smallest_int(reached, 2)
    found = [error_or_nothing(errors, place) for place in places]
    by_cause = {cause: tuple(item[cause] for item in found) for cause in CAUSES}
    fixed = f"n = {n:,}" if by_epsilon else said.budget.describe()
    guess = f"{fixed}; guessed standard deviation {guess_sd:g}"
    return ErrorForecast(question.kind, against, tuple(places), by_cause, least, guess)


def with_epsilon(terms: CallOptions, epsilon: float) -> CallOptions:
    known = terms.copy()
    known["epsilon"] = epsilon
    return known


def people_of(sizes: object) -> int:
    """All people of groups of guessed sizes; what is no size is refused by the forecast."""
    given = sizes.values() if isinstance(sizes, Mapping) else sizes
    listed = list(given) if isinstance(given, Iterable) else [given]
    known = [x for x in listed if isinstance(x, int | float) and 0 < x < math.inf]
    return max(2, round(math.fsum(known)))


def shape_for(question: Question, n: int, columns: int | None, relation: str) -> PublicShape:
    """The shape of a plan that is made without people."""
    count = validate.whole("n", n, least=1)
    known = question.summary.names
    if known is None or columns is not None:
        width = 1 if columns is None else validate.whole("columns", columns, least=1)
        known = tuple(f"column {j}" for j in range(width))
    by_records = getattr(question.summary, "max_records", None)
    if relation == ADD_REMOVE:
        return PublicShape(known, None, count, by_records)
    return PublicShape(known, count, None, by_records)
