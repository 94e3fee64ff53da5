"""The functions that ask one question each: make the question, make the table, ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Unpack, cast, overload

from privmean.asking.forecast import forecast, least_persons
from privmean.asking.road import asked, planned, source_of
from privmean.asking.terms import Terms, settled, spelled_out
from privmean.people.shape import Shape
from privmean.privacy.budget import ADD_REMOVE, Neighbors
from privmean.questions.assumptions import one_of

if TYPE_CHECKING:
    from privmean.asking.road import Source
    from privmean.central.radii import Concentration
    from privmean.models.curve_release import CurveRelease
    from privmean.models.person_fits import Working
    from privmean.models.quantile_release import QuantileRelease
    from privmean.models.random_effects import RandomEffects
    from privmean.models.regression_release import RegressionRelease
    from privmean.models.variance import Method
    from privmean.people.read import Estimand
    from privmean.people.sources import Person
    from privmean.questions.assumptions import (
        Assumption,
        Auto,
        Bounds,
        Clipping,
        Covariance,
        CovarianceBound,
        Moment,
    )
    from privmean.questions.base import Estimator, Question
    from privmean.questions.curve import Curve
    from privmean.questions.errors import Errors
    from privmean.questions.mean import Named
    from privmean.questions.quantile import Quantile
    from privmean.questions.regression import Effect, Regression
    from privmean.release import Release
    from privmean.road import Plan

_ESTIMATOR = "set it where the estimator is made: method={}"
MOVED = {
    "target": _ESTIMATOR.format("DefaultMean(target=...)"),
    "excess": _ESTIMATOR.format("DefaultMean(excess=...)"),
    "beta": _ESTIMATOR.format("HeavyTailed(..., beta=...) or Anisotropic(..., beta=...)"),
    "scale_range": _ESTIMATOR.format("Anisotropic(scale_range=...)"),
    "sampled_degrees": _ESTIMATOR.format("Anisotropic(..., sampled_degrees=...)"),
    "design_effect": "say related=",
    "effects": "say related=RandomEffects(...)",
    "roster": "say it of the table: pm.Table(source, person=..., roster=...)",
    "delimiter": "say it of the table: pm.Table(source, person=..., delimiter=...)",
    "memory_limit": "say it of the table: pm.Table(..., machine=pm.Machine(memory=...))",
    "threads": "say it of the table: pm.Table(..., machine=pm.Machine(threads=...))",
    "temp_directory": "say it of the table: pm.Table(..., machine=pm.Machine(spill=...))",
    "progress": "say it of the table: pm.Table(..., machine=pm.Machine(progress=True))",
    "residual_sd": "say assume=Errors(residual_sd=...)",
    "between_sd": "say assume=Errors(residual_sd=..., between_sd=...)",
    "coefficient_range": "say assume=(lower, upper), or Errors(..., range=...)",
    "magnitudes": _ESTIMATOR.format("Magnitudes(smallest, largest)"),
    "range": _ESTIMATOR.format("Winsorized(..., range=...)"),
    "threshold": "ask the question itself: pm.ask(table, pm.Regression(..., threshold=...))",
    "records": "ask the question itself: pm.ask(table, pm.Regression(..., records=...))",
    "resolution": "ask the question itself, such as pm.ask(table, pm.Mean(..., resolution=...))",
    "smallest": "say within=(smallest, largest)",
    "largest": "say within=(smallest, largest)",
}


@overload
def ask(
    source: Source,
    question: Regression,
    *,
    person: Person | None = None,
    **terms: Unpack[Terms],
) -> RegressionRelease: ...
@overload
def ask(
    source: Source,
    question: Curve,
    *,
    person: Person | None = None,
    **terms: Unpack[Terms],
) -> CurveRelease: ...
@overload
def ask(
    source: Source,
    question: Quantile,
    *,
    person: Person | None = None,
    **terms: Unpack[Terms],
) -> QuantileRelease: ...
@overload
def ask(
    source: Source,
    question: Question,
    *,
    person: Person | None = None,
    **terms: Unpack[Terms],
) -> Release: ...
@spelled_out
def ask(
    source: Source,
    question: Question,
    *,
    person: Person | None = None,
    **terms: Unpack[Terms],
) -> Release:
    """Ask one question of people.

    source: a `Table`, a path or a frame with `person`, people from `privmean.read`, or an array
    with one row a person. question: `Mean(...)`, `Regression(...)`, `Curve(...)`, `Variance(...)`.
    terms: see `Terms`.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent. A private failure
    is not an error: the release says so in `status`.

    Example:
        pm.ask(table, pm.Regression("y ~ x", threshold=0.05), epsilon=1.0)

    Guarantees: those of the question, for the budget given.
    """
    said = settled(terms, f"ask({question.kind})", MOVED, question.usual_neighbors)
    return asked(source_of(source, person, {}), question, said)


@spelled_out
def mean(
    source: Source,
    values: str | Sequence[str] | None = None,
    *,
    person: Person | None = None,
    assume: Assumption | None = None,
    method: Named | Estimator = "auto",
    related: float | RandomEffects = 1.0,
    estimand: Estimand = "persons",
    cap: int | None = None,
    bounds: Bounds | None = None,
    concentration: Concentration | None = None,
    moment: Moment | None = None,
    covariance: CovarianceBound | Covariance | None = None,
    by: str | Sequence[str] | None = None,
    keys: object = None,
    max_groups: int = 1,
    contrasts: str | tuple[str, ...] | list[str] | None = None,
    membership: str = "private",
    rule: str | None = None,
    other: bool = False,
    shrink: bool = False,
    simultaneous: bool = False,
    **terms: Unpack[Terms],
) -> Release:
    """A differentially private mean of people, or one for each of their groups.

    source: people from `privmean.read`, an array with one row a person, shape (n,) or (n, d), a
    `Table`, or a path or a frame with `person`. values, assume, method, related, estimand, cap: see
    `Mean`. bounds, concentration, moment, covariance: the same as `assume`, by the word for its
    kind. by and what follows: see `Mean`; the release is a `GroupRelease` then. terms: see `Terms`.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent. A private failure
    is not an error: the release says so in `status`.

    Example:
        pm.mean("panel.parquet", "wage", person="idcode", epsilon=1.0)

    Guarantees: those of `Mean`, for the budget given.
    """
    from privmean.questions.mean import Mean

    words = {
        "bounds": bounds,
        "concentration": concentration,
        "moment": moment,
        "covariance": covariance,
    }
    chosen = (values,) if isinstance(values, str) else values
    said_of = (contrasts,) if isinstance(contrasts, str) else contrasts
    compared = None if said_of is None else tuple(said_of)
    columns = None if by is None else (by,) if isinstance(by, str) else tuple(by)
    usual: Neighbors = "replace-one" if by is None or membership == "public" else "add-remove"
    said = settled(terms, "mean", MOVED, usual)
    question = Mean(
        None if chosen is None else tuple(chosen),
        estimand,
        cap,
        assume=one_of(assume, words),
        method=method,
        related=related,
        by=columns,
        keys=keys,
        max_groups=max_groups,
        contrasts=compared,
        membership=membership,
        rule=rule,
        other=other,
        shrink=shrink,
        simultaneous=simultaneous,
    )
    return asked(source_of(source, person, {}), question, said)


@spelled_out
def regress(
    source: Source,
    formula: str,
    *,
    person: Person | None = None,
    effect: Effect = "pooled",
    only: Sequence[str] | None = None,
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
    weights: Literal["persons"] | int = "persons",
    scales: Mapping[str, tuple[float, float]] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    fixed_effects: bool = False,
    working: Literal["independence"] | Working = "independence",
    time: str | None = None,
    assume: Clipping | Errors | None = None,
    method: Auto | Estimator = "auto",
    related: float = 1.0,
    concentration: Concentration | None = None,
    **terms: Unpack[Terms],
) -> RegressionRelease:
    """A differentially private regression of persons with many records each.

    effect: "pooled" (one regression for all persons), "within" (changes within persons) or "own"
    (the mean of persons' own coefficients). source: a `Table`, or a path, a frame or a mapping of
    names to arrays (one row a record) with `person`. formula and the rest: see `Regression`; rare
    settings are fields of it, asked with `ask`. concentration: the same as `assume`. terms: see
    `Terms`.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent.

    Example:
        pm.regress(table, "ln_wage ~ ttl_exp + tenure", epsilon=3.0, delta=1e-6)

    Guarantees: those of `Regression`, for the budget given.
    """
    from privmean.questions.regression import Regression

    said = settled(terms, "regress", MOVED)
    question = Regression(
        formula,
        fixed_effects,
        working,
        time,
        scales=scales,
        assume=one_of(assume, {"concentration": concentration}),
        method=method,
        related=related,
        effect=effect,
        only=None if only is None else (only,) if isinstance(only, str) else tuple(only),
        contrasts=contrasts,
        weights=weights,
        bounds=bounds,
    )
    return cast("RegressionRelease", asked(source_of(source, person, {}), question, said))


@spelled_out
def curve(
    source: Source,
    value: str,
    *,
    time: str,
    bins: Sequence[float],
    person: Person | None = None,
    assume: Clipping | None = None,
    method: Auto | Estimator = "auto",
    related: float = 1.0,
    bounds: Bounds | None = None,
    concentration: Concentration | None = None,
    **terms: Unpack[Terms],
) -> CurveRelease:
    """A differentially private mean of persons over time, in public bins.

    source: as for `regress`. value, time, bins and the rest: see `Curve`. bounds, concentration:
    the same as `assume`. terms: see `Terms`.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent.

    Example:
        pm.curve(table, "ln_wage", time="year", bins=[1968, 1975, 1982, 1989], epsilon=1.0)

    Guarantees: those of `Curve`, for the budget given.
    """
    from privmean.questions.curve import Curve

    said = settled(terms, "curve", MOVED)
    known = one_of(assume, {"bounds": bounds, "concentration": concentration})
    question = Curve(value, time, bins, assume=known, method=method, related=related)
    return cast("CurveRelease", asked(source_of(source, person, {}), question, said))


@spelled_out
def variance(
    source: Source,
    value: str | None = None,
    *,
    within: tuple[float, float] | None = None,
    person: Person | None = None,
    method: Method = "pair scale",
    center: float | None = None,
    **terms: Unpack[Terms],
) -> Release:
    """A differentially private variance of persons' values in one column.

    source: as for `mean`. value, within, method, center: see `Variance`. terms: see `Terms`.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent.

    Example:
        pm.variance(table, "ln_wage", within=(0.01, 10.0), epsilon=1.0)

    Guarantees: those of `Variance`, for the budget given.
    """
    from privmean.questions.variance import Variance

    said = settled(terms, "variance", MOVED)
    question = Variance(value, within, method, center)
    return asked(source_of(source, person, {}), question, said)


@spelled_out
def compare(
    source: Source,
    value: str,
    *,
    person: Person | None = None,
    arms: str | None = None,
    levels: Sequence[str | int | bool] | None = None,
    before: str | None = None,
    slope: float = 1.0,
    by: str | None = None,
    pair: Sequence[str | int | bool] | None = None,
    membership: str = "private",
    **terms: Unpack[Terms],
) -> Release:
    """Whether two groups differ: two arms, or the same persons in two groups.

    source: a `Table`, or a path or a frame with `person`. value and the rest: see `Compare`. terms:
    see `Terms`. With arms the release is a `CompareRelease` (effect, p_value, and the means of both
    arms); with a pair or public arms an `EffectRelease` (effect, p_value).

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent.

    Example:
        pm.compare(table, "wage", arms="treated", before="wage_before", epsilon=1.0)

    Guarantees: those of `Compare`, for the budget given.
    """
    from privmean.questions.compare import Compare

    question = Compare(value, arms, _listed(levels), before, slope, by, _listed(pair), membership)
    said = settled(terms, "compare", MOVED, question.usual_neighbors)
    return asked(source_of(source, person, {}), question, said)


def _listed(keys: Sequence[str | int | bool] | None) -> tuple[str, ...] | None:
    """Keys as a question takes them, which makes texts of them; a text is refused there."""
    listed = keys if keys is None or isinstance(keys, str) else tuple(keys)
    return cast("tuple[str, ...] | None", listed)


@spelled_out
def quantile(
    source: Source,
    value: str | None = None,
    q: float | Sequence[float] = (0.25, 0.5, 0.75),
    *,
    person: Person | None = None,
    bounds: tuple[float, float] | None = None,
    related: float = 1.0,
    **terms: Unpack[Terms],
) -> QuantileRelease:
    """Differentially private quantiles of persons' values in one column.

    source: as for `mean`. value, q, bounds, related: see `Quantile`. terms: see `Terms`.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent.

    Example:
        pm.quantile(table, "ln_wage", [0.25, 0.5, 0.75], epsilon=1.0)

    Guarantees: those of `Quantile`, for the budget given.
    """
    from privmean.questions.quantile import Quantile

    said = settled(terms, "quantile", MOVED)
    points = (q,) if isinstance(q, int | float) else q
    question = Quantile(value, points, bounds, related)
    return cast("QuantileRelease", asked(source_of(source, person, {}), question, said))


@spelled_out
def plan(
    question: Question, *, persons: int, columns: int | None = None, **terms: Unpack[Terms]
) -> Plan:
    """The plan of a question: pure, from public numbers. Reads no data and spends nothing.

    persons: n, or under add-remove a public guess of it. columns: their number, where the question
    does not name them. The plan says its method, its losses, its predicted error (`predict`) and
    its public facts (`describe`).

    Raises Infeasible when the public numbers cannot work, saying which would have to change.
    """
    said = settled(terms, "plan", MOVED, question.usual_neighbors)
    return planned(
        question, shape_for(question, persons, columns, said.budget.neighbors), said.budget
    )


@spelled_out
def persons_needed(
    question: Question,
    *,
    error: float,
    guess_sd: float,
    columns: int | None = None,
    **terms: Unpack[Terms],
) -> int:
    """The smallest number of persons whose predicted root mean square error is at most `error`.

    guess_sd: public guess of the standard deviation between persons, for planning only. Sizes at
    which the plan is infeasible count as too small.
    """
    said = settled(terms, "persons_needed", MOVED, question.usual_neighbors)

    def predicted(persons: int) -> float:
        shape = shape_for(question, persons, columns, said.budget.neighbors)
        return forecast(planned(question, shape, said.budget), guess_sd)["rmse"]

    return least_persons(predicted, error, guess_sd)


@spelled_out
def least_epsilon(
    question: Question,
    *,
    sizes: Mapping[str, float] | Sequence[float] | float,
    error: float,
    guess_sd: float,
    **terms: Unpack[Terms],
) -> float:
    """The smallest epsilon at which the smallest group of a mean by group has a predicted root mean
    square error of at most `error`.

    sizes: public guesses of the groups' persons: a mapping, or numbers in the order of the keys.
    guess_sd: of persons inside a group. terms: without epsilon and rho. Reads no data.
    """
    from privmean import validate
    from privmean.central.groups.plan import GroupPlan
    from privmean.errors import ArgumentError
    from privmean.privacy.budget import LARGEST_EPSILON

    wanted = validate.positive("error", error)

    def worst(epsilon: float) -> float:
        known = terms.copy()
        known["epsilon"] = epsilon
        made = plan(question, persons=2, **known)
        if not isinstance(made, GroupPlan):
            raise ArgumentError("question", question.kind, "is not by group", "say by= and keys=")
        return max(item.rmse for item in made.forecast(sizes, guess_sd))

    low, high = 2.0**-9, LARGEST_EPSILON
    if worst(high) > wanted:
        raise ArgumentError(
            "error", error, "is not reached with any epsilon", "ask for a larger one"
        )
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if worst(middle) > wanted else (low, middle)
    return float(f"{high:.3g}") if worst(float(f"{high:.3g}")) <= wanted else high


def shape_for(question: Question, persons: int, columns: int | None, relation: str) -> Shape:
    """The shape of a plan that is made without people."""
    from privmean import validate

    count = validate.whole("persons", persons, least=1)
    known = question.summary.names
    if known is None or columns is not None:
        width = 1 if columns is None else validate.whole("columns", columns, least=1)
        known = tuple(f"column {j}" for j in range(width))
    by_records = getattr(question.summary, "cap", None)
    if relation == ADD_REMOVE:
        return Shape(known, None, count, by_records)
    return Shape(known, count, None, by_records)
