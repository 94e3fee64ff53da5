"""The functions that ask one question each: make the question, make the table, ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar, Unpack

from privmean import validate
from privmean.api.call_options import CallOptions, check_options, require_question, spelled_out
from privmean.api.run_question import run_question, source_of
from privmean.privacy.budget import Neighbors
from privmean.questions.assumptions import one_of

if TYPE_CHECKING:
    from datetime import date

    from privmean.api.run_question import Source
    from privmean.central.clipping_radii import Concentration
    from privmean.data.read import Estimand
    from privmean.data.source_types import Person
    from privmean.models.curve_release import CurveRelease
    from privmean.models.fit_person import Working
    from privmean.models.quantile_release import QuantileRelease
    from privmean.models.random_effects import RandomEffects
    from privmean.models.regression_release import RegressionRelease
    from privmean.models.variance_release import VarianceRelease
    from privmean.questions.assumptions import (
        Assumption,
        Auto,
        Bounds,
        Clipping,
        Covariance,
        CovarianceBound,
        Moment,
    )
    from privmean.questions.base import Estimator, TypedQuestion
    from privmean.questions.choose_estimator import Named
    from privmean.questions.regression import Effect
    from privmean.questions.variance import Method
    from privmean.questions.working_errors import WorkingErrors
    from privmean.release.release import Release

R = TypeVar("R", bound="Release")


@spelled_out
def ask(
    source: Source,
    question: TypedQuestion[R],
    *,
    person: Person | None = None,
    **terms: Unpack[CallOptions],
) -> R:
    """Ask one question of people.

    source: a `Table`, a path or a frame with `person`, people from `privmean.read`, or an array
    with one row a person. question: `Mean(...)`, `Regression(...)`, `Curve(...)`, `Variance(...)`.
    terms: see `Terms`.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent. A private failure
    is not an error: the release says so in `status`.

    Example:
        table = pm.Table(pm.example("nlswork"), person="person_id")
        question = pm.Regression("ln_wage ~ tenure", effect="per_person", threshold=0.05)
        print(pm.ask(table, question, epsilon=1.0))

    Guarantees: those of the question, for the budget given.
    """
    said = check_options(terms, ask, require_question(question).default_neighbors)
    return run_question(source_of(source, person, {}), question, said)


@spelled_out
def mean(
    source: Source,
    values: str | Sequence[str] | None = None,
    *,
    person: Person | None = None,
    assume: Assumption | None = None,
    method: Named | Estimator = "auto",
    clustering: float | RandomEffects = 1.0,
    estimand: Estimand = "people",
    max_records: int | None = None,
    bounds: Bounds | None = None,
    concentration: Concentration | None = None,
    moment: Moment | None = None,
    covariance: CovarianceBound | Covariance | None = None,
    by: str | Sequence[str] | None = None,
    keys: object = None,
    max_groups: int = 1,
    contrasts: str | tuple[str, ...] | list[str] | None = None,
    membership: str = "private",
    group_rule: str | None = None,
    other_group: bool = False,
    shrink: bool = False,
    simultaneous: bool = False,
    **terms: Unpack[CallOptions],
) -> Release:
    """A differentially private mean of people, or one for each of their groups.

    source: people from `privmean.read`, an array with one row a person, shape (n,) or (n, d), a
    `Table`, or a path or a frame with `person`. values, assume, method, related, estimand, cap: see
    `Mean`. bounds, concentration, moment, covariance: the same as `assume`, by the word for its
    kind. by and what follows: see `Mean`; the release is a `GroupRelease` then. terms: see `Terms`.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent. A private failure
    is not an error: the release says so in `status`.

    Example:
        table = pm.Table(pm.example("nlswork"), person="person_id")
        print(pm.mean(table, "ln_wage", epsilon=1.0))
        pm.mean(table, "ln_wage", by="union", keys=[0, 1], contrasts=["1 - 0"], epsilon=1.0)

    Guarantees: those of `Mean`, for the budget given.
    """
    from privmean.questions.mean import Mean

    words = {
        "bounds": bounds,
        "concentration": concentration,
        "moment": moment,
        "covariance": covariance,
    }
    chosen = None if values is None else validate.columns("values", values)
    pairs = "say 'a - b', or several in a list"
    compared = None if contrasts is None else validate.several("contrasts", contrasts, pairs)
    columns = None if by is None else validate.columns("by", by)
    usual: Neighbors = "replace-one" if by is None or membership == "public" else "add-remove"
    said = check_options(terms, mean, usual)
    question = Mean(
        chosen, estimand, max_records, assume=one_of(assume, words),
        method=method, clustering=clustering, by=columns, keys=keys, max_groups=max_groups,
        contrasts=compared, membership=membership, group_rule=group_rule, other_group=other_group,
        shrink=shrink,
        simultaneous=simultaneous,
    )  # fmt: skip
    return run_question(source_of(source, person, {}), question, said)


@spelled_out
def regress(
    source: Source,
    formula: str,
    *,
    person: Person | None = None,
    effect: Effect = "pooled",
    only: Sequence[str] | None = None,
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
    weights: Literal["people"] | int = "people",
    scales: Mapping[str, tuple[float, float]] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    fixed_effects: bool = False,
    working: Literal["independence"] | Working = "independence",
    time: str | None = None,
    assume: Clipping | WorkingErrors | None = None,
    method: Auto | Estimator = "auto",
    clustering: float = 1.0,
    concentration: Concentration | None = None,
    **terms: Unpack[CallOptions],
) -> RegressionRelease:
    """A differentially private regression of persons with many records each.

    effect: "pooled" (one regression for all persons), "within" (changes within persons) or
    "per_person" (the mean of persons' own coefficients). source: a `Table`, or a path,
    a frame or a mapping of
    names to arrays (one row a record) with `person`. formula and the rest: see `Regression`; rare
    settings are fields of it, asked with `ask`. concentration: the same as `assume`. terms: see
    `Terms`.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent.

    Example:
        table = pm.Table(pm.example("nlswork"), person="person_id")
        print(pm.regress(table, "ln_wage ~ ttl_exp + tenure", epsilon=3.0, delta=1e-6))

    Guarantees: those of `Regression`, for the budget given.
    """
    from privmean.questions.regression import Regression

    said = check_options(terms, regress)
    fitted = None if only is None else validate.several("only", only, "name terms in a list")
    question = Regression(
        formula, fixed_effects, working, time, scales=scales,
        assume=one_of(assume, {"concentration": concentration}), method=method,
        clustering=clustering,
        effect=effect, only=fitted, contrasts=contrasts, weights=weights, bounds=bounds,
    )  # fmt: skip
    return run_question(source_of(source, person, {}), question, said)


@spelled_out
def curve(
    source: Source,
    value: str,
    *,
    time: str,
    bins: Sequence[float] | Sequence[date] | list[str],
    person: Person | None = None,
    assume: Clipping | None = None,
    method: Auto | Estimator = "auto",
    clustering: float = 1.0,
    bounds: Bounds | None = None,
    concentration: Concentration | None = None,
    smooth: float = 0.0,
    by: str | None = None,
    levels: Sequence[str | int | bool] | None = None,
    **terms: Unpack[CallOptions],
) -> CurveRelease:
    """A differentially private mean of persons over time, in public bins.

    source: as for `regress`. value, time, bins and the rest: see `Curve`. bounds, concentration:
    the same as `assume`. terms: see `Terms`.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent.

    Example:
        table = pm.Table(pm.example("nlswork"), person="person_id")
        bins = [1968, 1975, 1982, 1989]
        print(pm.curve(table, "ln_wage", time="year", bins=bins, bounds=(0, 4), epsilon=1.0))

    Guarantees: those of `Curve`, for the budget given.
    """
    from privmean.questions.curve import Curve

    said = check_options(terms, curve)
    known = one_of(assume, {"bounds": bounds, "concentration": concentration})
    question = Curve(
        value, time, bins, assume=known, method=method, clustering=clustering,
        smooth=smooth, by=by, levels=levels,  # type: ignore[arg-type]
    )  # fmt: skip
    return run_question(source_of(source, person, {}), question, said)


@spelled_out
def variance(
    source: Source,
    value: str | None = None,
    *,
    within: tuple[float, float] | None = None,
    person: Person | None = None,
    method: Method = "auto",
    center: float | None = None,
    clustering: float = 1.0,
    **terms: Unpack[CallOptions],
) -> VarianceRelease:
    """A differentially private variance and standard deviation of persons' values in one column.

    source: as for `mean`. value, within, method, center, related: see `Variance`. terms: see
    `Terms`.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent.

    Example:
        table = pm.Table(pm.example("nlswork"), person="person_id")
        print(pm.variance(table, "ln_wage", epsilon=1.0))

    Guarantees: those of `Variance`, for the budget given.
    """
    from privmean.questions.variance import Variance

    said = check_options(terms, variance)
    question = Variance(value, within, method, center, clustering=clustering)
    return run_question(source_of(source, person, {}), question, said)


@spelled_out
def compare(
    source: Source,
    value: str,
    *,
    person: Person | None = None,
    arms: str | None = None,
    levels: Sequence[str | int | bool] | None = None,
    baseline: str | None = None,
    baseline_slope: float = 1.0,
    by: str | None = None,
    pair: Sequence[str | int | bool] | None = None,
    membership: str = "private",
    **terms: Unpack[CallOptions],
) -> Release:
    """Whether two groups differ: two arms, or the same persons in two groups.

    source: a `Table`, or a path or a frame with `person`. value and the rest: see `Compare`. terms:
    see `Terms`. With arms the release is a `CompareRelease` (effect, p_value, and the means of both
    arms); with a pair or public arms an `EffectRelease` (effect, p_value).

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent.

    Example:
        table = pm.Table(pm.example("nlswork"), person="person_id")
        print(pm.compare(table, "ln_wage", by="union", pair=["1", "0"], epsilon=1.0))

    Guarantees: those of `Compare`, for the budget given.
    """
    from privmean.questions.compare import Compare

    question = Compare(
        value,
        arms,
        _listed("levels", levels),
        baseline,
        baseline_slope,
        by,
        _listed("pair", pair),
        membership,
    )
    said = check_options(terms, compare, question.default_neighbors)
    return run_question(source_of(source, person, {}), question, said)


def _listed(name: str, keys: Sequence[str | int | bool] | None) -> tuple[str, ...] | None:
    """Keys as a question takes them, which makes texts of them."""
    return None if keys is None else validate.several(name, keys, "name two groups")


@spelled_out
def quantile(
    source: Source,
    value: str | None = None,
    q: float | Sequence[float] = (0.25, 0.5, 0.75),
    *,
    person: Person | None = None,
    bounds: tuple[float, float] | None = None,
    clustering: float = 1.0,
    **terms: Unpack[CallOptions],
) -> QuantileRelease:
    """Differentially private quantiles of persons' values in one column.

    source: as for `mean`. value, q, bounds, related: see `Quantile`. terms: see `Terms`.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent.

    Example:
        table = pm.Table(pm.example("nlswork"), person="person_id")
        print(pm.quantile(table, "ln_wage", [0.25, 0.5, 0.75], epsilon=1.0))

    Guarantees: those of `Quantile`, for the budget given.
    """
    from privmean.questions.quantile import Quantile

    said = check_options(terms, quantile)
    points = (q,) if isinstance(q, int | float) else q
    question = Quantile(value, points, bounds, clustering)
    return run_question(source_of(source, person, {}), question, said)
