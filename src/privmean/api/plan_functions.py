"""Questions before they are asked: their plan, how many people they need, or how much budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from privmean.api.call_options import CallOptions, check_options, require_question, spelled_out
from privmean.api.predict_error import forecast, smallest_n
from privmean.api.run_question import make_plan
from privmean.data.public_shape import PublicShape
from privmean.privacy.budget import ADD_REMOVE

if TYPE_CHECKING:
    from privmean.pipeline import Plan
    from privmean.questions.base import Question


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

    def predicted(n: int) -> float:
        shape = shape_for(question, n, columns, said.budget.neighbors)
        return forecast(make_plan(question, shape, said.budget), guess_sd)["rmse"]

    return smallest_n(predicted, target_error, guess_sd)


@spelled_out
def required_epsilon(
    question: Question,
    *,
    group_sizes: Mapping[str, float] | Sequence[float] | float,
    target_error: float,
    guess_sd: float,
    **terms: Unpack[CallOptions],
) -> float:
    """Return the smallest epsilon that reaches a target error in every group.

    Parameters
    ----------
    question : Mean
        A mean by group with public keys.
    group_sizes : dict, list of float or float
        Public guesses of n of each group, by key or in the order of the keys.
    target_error : float
        Target root mean square error of the smallest group, in the unit of the value.
    guess_sd : float
        Public guess of the standard deviation between people inside a group.
    epsilon, delta, rho, neighbors, n_guess, level, ledger, label, analyst, noise
        Budget and terms of the call; see `ask`.

    Returns
    -------
    float
        The required epsilon, to three digits.

    Raises
    ------
    ArgumentError
        If no epsilon reaches the error.

    Privacy
    -------
    Reads no data and charges nothing.

    Examples
    --------
    sizes = {"north": 2500, "south": 1400, "islands": 100}
    question = pm.Mean("wage", by=("region",), keys=tuple(sizes))
    assert pm.required_epsilon(question, target_error=0.1, guess_sd=0.5, group_sizes=sizes) < 1
    """
    from privmean import validate
    from privmean.central.groups.group_plan import GroupPlan
    from privmean.errors import ArgumentError
    from privmean.privacy.budget import LARGEST_EPSILON

    wanted = validate.positive("target_error", target_error)

    def worst(epsilon: float) -> float:
        known = terms.copy()
        known["epsilon"] = epsilon
        made = plan(question, n=2, **known)
        if not isinstance(made, GroupPlan):
            raise ArgumentError(
                "question", question.kind, "is not a question by group", "give by and keys"
            )
        return max(item.rmse for item in made.forecast(group_sizes, guess_sd))

    low, high = 2.0**-9, LARGEST_EPSILON
    if worst(high) > wanted:
        raise ArgumentError(
            "target_error", target_error, "is not reached at any epsilon", "give a larger error"
        )
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if worst(middle) > wanted else (low, middle)
    return float(f"{high:.3g}") if worst(float(f"{high:.3g}")) <= wanted else high


def shape_for(question: Question, n: int, columns: int | None, relation: str) -> PublicShape:
    """The shape of a plan that is made without people."""
    from privmean import validate

    count = validate.whole("n", n, least=1)
    known = question.summary.names
    if known is None or columns is not None:
        width = 1 if columns is None else validate.whole("columns", columns, least=1)
        known = tuple(f"column {j}" for j in range(width))
    by_records = getattr(question.summary, "max_records", None)
    if relation == ADD_REMOVE:
        return PublicShape(known, None, count, by_records)
    return PublicShape(known, count, None, by_records)
