"""The functions that ask one question each: make the question, make the table, ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar, Unpack

from privmean import validate
from privmean.api.call_options import CallOptions, spelled_out
from privmean.api.run_question import (
    check_options,
    one_of,
    require_question,
    run_question,
    source_of,
)
from privmean.privacy.budget import Neighbors

if TYPE_CHECKING:
    from datetime import date

    from privmean.api.run_question import Source
    from privmean.data.duckdb_engine import Person
    from privmean.data.schema import Estimand
    from privmean.estimators.concentration import Concentration
    from privmean.estimators.curve_release import CurveRelease
    from privmean.estimators.moment_variance import VarianceRelease
    from privmean.estimators.quantiles import QuantileRelease
    from privmean.estimators.regression.panel import Working
    from privmean.estimators.regression.regression_release import RegressionRelease
    from privmean.estimators.winsorized import RandomEffects
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
    from privmean.questions.mean import Named
    from privmean.questions.regression import Effect
    from privmean.questions.regression_options import WorkingErrors
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
    """Ask one question about people.

    Parameters
    ----------
    source : Table, path, DataFrame, mapping of arrays, people or array
        The records, or an array with one row per person.
    question : Mean, Regression, Curve, Variance, Quantile or Compare
        What is asked.
    person : str or array, optional
        Column that identifies people; required unless `source` says it.
    epsilon : float
        Privacy budget; there is no default. Either epsilon or rho is required.
    delta : float, default 0.0
        Failure probability of approximate DP, far below 1/n. 0 is pure DP.
    rho : float, optional
        zCDP budget instead of epsilon and delta.
    neighbors : {"replace-one", "add-remove"}, optional
        replace-one: n is public. add-remove: n is private; the default of means by group.
    n_guess : int, optional
        Public guess of n, for add-remove.
    level : float, default 0.95
        Confidence level of the intervals.
    ledger : Ledger or path, optional
        Ledger that is charged before any noise is drawn.
    label, analyst : str, optional
        Texts of the ledger entry.
    noise : SimulatedNoise, optional
        For tests only; the release is then marked as unsafe.

    Returns
    -------
    Release
        Of the type that belongs to the question.

    Raises
    ------
    ArgumentError, SchemaError, InfeasibleError, BudgetExceededError
        Before anything is charged. A release without an estimate is not an error: see `status`.

    Privacy
    -------
    Person-level differential privacy: the composed loss of all mechanism calls is at most the
    budget, for any data.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    question = pm.Regression("ln_wage ~ tenure", effect="per_person", threshold=0.05)
    print(pm.ask(table, question, epsilon=1.0))
    """
    said = check_options(terms, ask, require_question(question).default_neighbors)
    return run_question(source_of(source, person), question, said)


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
    """Estimate a differentially private mean of people, or one mean per group.

    Parameters
    ----------
    source : Table, path, DataFrame, mapping of arrays, people or array
        The records, or an array with one row per person.
    values : str or list of str, optional
        Columns to average; * and ? are wildcards. Default: all columns of an array.
    person : str or array, optional
        Column that identifies people; required unless `source` says it.
    assume : bounds, concentration, BoundedMoment or Covariance, optional
        What accuracy assumes; privacy assumes nothing. Default: the range is found privately.
    method : str or estimator, default "auto"
        Estimator by name, or itself such as `DefaultMean(target="mean")`.
    clustering : float or RandomEffects, default 1.0
        Design effect of clustered people, or random effects of public groups.
    estimand : {"people", "records"}, default "people"
        People weighted equally, or a record-weighted mean up to `max_records` records.
    max_records : int, optional
        The most records per person that count, for "records".
    bounds : (float, float) or list of pairs, optional
        Public lower and upper limits of the values, in their unit.
    concentration, moment, covariance : optional
        The same as `assume`, by the kind of the assumption.
    by : str or list of str, optional
        Group columns. The release is then a `GroupRelease`.
    keys : list, optional
        Public group keys. Without them keys are private, which requires delta > 0.
    max_groups : int, default 1
        Groups in which one person counts fully.
    contrasts : str or list of str, optional
        Comparisons such as "north - south", "each - rest" or "all pairs".
    membership : {"private", "public"}, default "private"
        Whether the groups of a person are private.
    group_rule : str, optional
        Whether a person counts in the most frequent group, or in all with split weight.
    other_group : bool, default False
        Add one group for all keys that are not listed.
    shrink : bool, default False
        Add means shrunk towards each other.
    simultaneous : bool, default False
        Make the intervals of all groups hold jointly.
    epsilon, delta, rho, neighbors, n_guess, level, ledger, label, analyst, noise
        Budget and terms of the call; see `ask`.

    Returns
    -------
    Release
        Estimates, intervals, guarantee and accounting.

    Raises
    ------
    ArgumentError, SchemaError, InfeasibleError, BudgetExceededError
        Before anything is charged. A release without an estimate is not an error: see `status`.

    Privacy
    -------
    Person-level differential privacy: the composed loss of all mechanism calls is at most the
    budget, for any data.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    print(pm.mean(table, "ln_wage", epsilon=1.0))
    pm.mean(table, "ln_wage", by="union", keys=[0, 1], contrasts=["1 - 0"], epsilon=1.0)
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
    return run_question(source_of(source, person), question, said)


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
    clipping_bias: Literal["shared", "single"] = "shared",
    fixed_effects: bool = False,
    working: Literal["independence"] | Working = "independence",
    time: str | None = None,
    assume: Clipping | WorkingErrors | None = None,
    method: Auto | Estimator = "auto",
    clustering: float = 1.0,
    concentration: Concentration | None = None,
    **terms: Unpack[CallOptions],
) -> RegressionRelease:
    """Fit a differentially private regression of people with many records each.

    Parameters
    ----------
    source : Table, path, DataFrame or mapping of arrays
        The records, one row per record.
    formula : str
        Such as "y ~ a + b", with a:b, a*b, I(a**2) and C(a, levels=[1, 2, 3]).
    person : str or array, optional
        Column that identifies people; required unless `source` says it.
    effect : {"pooled", "within", "per_person"}, default "pooled"
        One regression for all people, within (fixed-effects) regression, or the mean of
        person-specific coefficients.
    only : list of str, optional
        Terms to release; the other terms are fitted only.
    contrasts : dict, optional
        Sums of coefficients to release, such as {"b - a": {"k[b]": 1, "k[a]": -1}}.
    weights : {"people"} or int, default "people"
        People weighted equally, or records up to this number per person.
    scales : dict, optional
        Public center and scale of variables, such as {"age": (30, 8)}.
    bounds : dict, optional
        Public bounds of variables, such as {"age": (14, 50)}.
    clipping_bias : {"shared", "single"}, default "shared"
        Allow for clipped score contributions per coefficient: an equal share, or all.
    fixed_effects : bool, default False
        For "per_person": use deviations from person means.
    working : {"independence"}, Exchangeable or AR1, default "independence"
        Working covariance of the errors of a person.
    time : str, optional
        Column that orders the records, for AR1.
    assume : bounds, concentration or WorkingErrors, optional
        Bounds of person-specific coefficients. Default: found privately.
    method : str or estimator, default "auto"
        Estimator of the coefficients.
    clustering : float, default 1.0
        Design effect of clustered people.
    concentration : optional
        The same as `assume`.
    epsilon, delta, rho, neighbors, n_guess, level, ledger, label, analyst, noise
        Budget and terms of the call; see `ask`.

    Returns
    -------
    RegressionRelease
        Coefficients with standard errors and intervals.

    Raises
    ------
    ArgumentError, SchemaError, InfeasibleError, BudgetExceededError
        Before anything is charged. A release without an estimate is not an error: see `status`.

    Privacy
    -------
    Person-level differential privacy: the composed loss of all mechanism calls is at most the
    budget, for any data.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    print(pm.regress(table, "ln_wage ~ ttl_exp + tenure", epsilon=3.0, delta=1e-6))
    """
    from privmean.questions.regression import Regression

    said = check_options(terms, regress)
    fitted = None if only is None else validate.several("only", only, "name terms in a list")
    question = Regression(
        formula, fixed_effects, working, time, scales=scales,
        assume=one_of(assume, {"concentration": concentration}), method=method,
        clustering=clustering,
        effect=effect, only=fitted, contrasts=contrasts, weights=weights, bounds=bounds,
        clipping_bias=clipping_bias,
    )  # fmt: skip
    return run_question(source_of(source, person), question, said)


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
    max_bins: int | None = None,
    **terms: Unpack[CallOptions],
) -> CurveRelease:
    """Estimate a differentially private mean over time, in public bins.

    Parameters
    ----------
    source : Table, path, DataFrame or mapping of arrays
        The records, one row per record.
    value : str
        Column to average.
    time : str
        Column of times: numbers or dates.
    bins : list of float, date or str
        Increasing public edges; bin j holds edges[j] <= time < edges[j + 1].
    person : str or array, optional
        Column that identifies people; required unless `source` says it.
    assume : bounds, optional
        What accuracy assumes; privacy assumes nothing. Default: the range is found privately.
    method : str or estimator, default "auto"
        `DefaultMean(target="clipped")` for intervals of clipped means.
    clustering : float, default 1.0
        Design effect of clustered people.
    bounds : (float, float), optional
        Public bounds of a person mean in a bin, in the unit of the value.
    concentration : optional
        Not used by a curve.
    smooth : float, default 0.0
        Bandwidth of a local linear smoother, in units of time.
    by : str, optional
        Column of two groups: the difference of their curves is released.
    levels : list, optional
        The two values of `by`; the second minus the first is released.
    max_bins : int, optional
        Bins in which one person counts fully. In m > max_bins bins the weight is max_bins/m.
        Default: all of up to 4 bins, else found privately so that few people count less.
    epsilon, delta, rho, neighbors, n_guess, level, ledger, label, analyst, noise
        Budget and terms of the call; see `ask`.

    Returns
    -------
    CurveRelease
        One mean per bin, with intervals.

    Raises
    ------
    ArgumentError, SchemaError, InfeasibleError, BudgetExceededError
        Before anything is charged. A release without an estimate is not an error: see `status`.

    Privacy
    -------
    Person-level differential privacy: the composed loss of all mechanism calls is at most the
    budget, for any data.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    bins = [1968, 1975, 1982, 1989]
    print(pm.curve(table, "ln_wage", time="year", bins=bins, epsilon=1.0))
    """
    from privmean.questions.curve import Curve

    said = check_options(terms, curve)
    known = one_of(assume, {"bounds": bounds, "concentration": concentration})
    question = Curve(
        value, time, bins, assume=known, method=method, clustering=clustering,
        smooth=smooth, by=by, levels=levels, max_bins=max_bins,  # type: ignore[arg-type]
    )  # fmt: skip
    return run_question(source_of(source, person), question, said)


@spelled_out
def variance(
    source: Source,
    value: str | None = None,
    *,
    person: Person | None = None,
    clustering: float = 1.0,
    **terms: Unpack[CallOptions],
) -> VarianceRelease:
    """Estimate a differentially private variance of person means in one column.

    Parameters
    ----------
    source : Table, path, DataFrame, mapping of arrays, people or array
        The records, or an array with one row per person.
    value : str, optional
        The column. Default: the only column of an array.
    person : str or array, optional
        Column that identifies people; required unless `source` says it.
    clustering : float, default 1.0
        Design effect of clustered people.
    epsilon, delta, rho, neighbors, n_guess, level, ledger, label, analyst, noise
        Budget and terms of the call; see `ask`.

    Returns
    -------
    VarianceRelease
        The variance and the standard deviation, with intervals.

    Raises
    ------
    ArgumentError, SchemaError, InfeasibleError, BudgetExceededError
        Before anything is charged. A release without an estimate is not an error: see `status`.

    Privacy
    -------
    Person-level differential privacy: the composed loss of all mechanism calls is at most the
    budget, for any data.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    print(pm.variance(table, "ln_wage", epsilon=1.0))
    """
    from privmean.questions.variance import Variance

    said = check_options(terms, variance)
    question = Variance(value, clustering=clustering)
    return run_question(source_of(source, person), question, said)


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
    """Compare two groups: two arms, or the same people in two groups.

    Parameters
    ----------
    source : Table, path or DataFrame
        The records, one row per record.
    value : str
        Column to average.
    person : str or array, optional
        Column that identifies people; required unless `source` says it.
    arms : str, optional
        Column of the arm of each person: 1 (treated) or 0 (control). Either `arms` or `by` is
        required.
    levels : list, optional
        The two arms by name, the treated arm first.
    baseline : str, optional
        Column of baseline values; people without a baseline are excluded.
    baseline_slope : float, default 1.0
        Multiple of the baseline mean that is subtracted.
    by : str, optional
        Group column of a pair, for the same people in two groups.
    pair : list, optional
        The two groups; the first minus the second is released.
    membership : {"private", "public"}, default "private"
        Whether the arm of a person is private.
    epsilon, delta, rho, neighbors, n_guess, level, ledger, label, analyst, noise
        Budget and terms of the call; see `ask`.

    Returns
    -------
    CompareRelease or EffectRelease
        Effect, interval and p-value; two arms also give their means.

    Raises
    ------
    ArgumentError, SchemaError, InfeasibleError, BudgetExceededError
        Before anything is charged. A release without an estimate is not an error: see `status`.

    Privacy
    -------
    Person-level differential privacy: the composed loss of all mechanism calls is at most the
    budget, for any data.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    print(pm.compare(table, "ln_wage", by="union", pair=["1", "0"], epsilon=1.0))
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
    return run_question(source_of(source, person), question, said)


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
    """Estimate differentially private quantiles of person means in one column.

    Parameters
    ----------
    source : Table, path, DataFrame, mapping of arrays, people or array
        The records, or an array with one row per person.
    value : str, optional
        The column. Default: the only column of an array.
    q : float or list of float, default (0.25, 0.5, 0.75)
        Increasing probabilities between 0 and 1. More of them cost nothing.
    person : str or array, optional
        Column that identifies people; required unless `source` says it.
    bounds : (float, float), optional
        Public bounds of the values, in their unit. Default: found privately.
    clustering : float, default 1.0
        Design effect of clustered people.
    epsilon, delta, rho, neighbors, n_guess, level, ledger, label, analyst, noise
        Budget and terms of the call; see `ask`.

    Returns
    -------
    QuantileRelease
        One quantile per row, with intervals.

    Raises
    ------
    ArgumentError, SchemaError, InfeasibleError, BudgetExceededError
        Before anything is charged. A release without an estimate is not an error: see `status`.

    Privacy
    -------
    Person-level differential privacy: the composed loss of all mechanism calls is at most the
    budget, for any data.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    print(pm.quantile(table, "ln_wage", [0.25, 0.5, 0.75], epsilon=1.0))
    """
    from privmean.questions.quantile import Quantile

    said = check_options(terms, quantile)
    points = (q,) if isinstance(q, int | float) else q
    question = Quantile(value, points, bounds, clustering)
    return run_question(source_of(source, person), question, said)
