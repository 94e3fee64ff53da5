"""Questions before they are asked: their plan, how many persons they need, or how much budget."""

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
    """The plan of a question: pure, from public numbers. Reads no data and spends nothing.

    persons: n, or under add-remove a public guess of it. columns: their number, where the question
    does not name them. The plan says its method, its losses, its predicted error (`predict`) and
    its public facts (`describe`).

    Raises Infeasible when the public numbers cannot work, saying which would have to change.

    Example:
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
    """The smallest number of persons whose predicted root mean square error is at most
    `target_error`.

    guess_sd: public guess of the standard deviation between persons, for planning only. Sizes at
    which the plan is infeasible count as too small.

    Example:
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
    """The smallest epsilon at which the smallest group of a mean by group has a predicted root mean
    square error of at most `target_error`.

    sizes: public guesses of the groups' persons: a mapping, or numbers in the order of the keys.
    guess_sd: of persons inside a group. terms: without epsilon and rho. Reads no data.

    Example:
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
