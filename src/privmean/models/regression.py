"""Longitudinal regression: every person's own coefficients, averaged over persons privately.

Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025), Definition 5.13
and its estimators, with an enforced threshold on the smallest eigenvalue, the radius without the
condition number, and the ratio form for persons who cannot be fitted (docs/proofs/longitudinal.md).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from privmean import validate
from privmean.central.clipped_mean import ClippedMeans
from privmean.central.concentration import Bounded, SubGaussian, UnknownScale
from privmean.central.winsorized import Winsorized
from privmean.errors import ArgumentError
from privmean.models.formula import INTERCEPT, Model, read_formula
from privmean.models.magnitudes import CLIPPED, MEAN, Magnitudes
from privmean.models.person_fits import AR1, Exchangeable, Independence, Working, fit_persons
from privmean.models.regression_release import Regression
from privmean.models.tail_means import TailMeans
from privmean.people.matrix import MatrixPeople
from privmean.people.textformat import options
from privmean.planning import within_budget
from privmean.privacy.budget import REPLACE_ONE, Budget, relation_of
from privmean.privacy.guarantee import Guarantee
from privmean.release import Release


def regress(
    source: Any,
    formula: str,
    *,
    person: str,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    neighbors: str = "replace-one",
    n_design: int | None = None,
    fixed_effects: bool = False,
    working: Working | str = "independence",
    time: str | None = None,
    threshold: float = 0.01,
    records: int | None = None,
    scales: Mapping[str, float] | None = None,
    resolution: float = 2.0**-20,
    concentration: Any = None,
    residual_sd: float | None = None,
    between_sd: float | Sequence[float] = 0.0,
    coefficient_range: Any = None,
    magnitudes: tuple[float, float] = (2.0**-10, 2.0**10),
    target: str | None = None,
    excess: float | None = None,
    design_effect: float = 1.0,
    level: float = 0.95,
    roster: Any = None,
    delimiter: str | None = None,
    quote: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    null_words: Sequence[str] = (),
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | None = None,
    progress: bool = False,
    ledger: Any = None,
    noise: Any = None,
) -> Regression:
    """A differentially private longitudinal regression: the mean over persons of own coefficients.

    source: a path or a frame as for `privmean.read`, or a mapping of names to arrays, one row a
    record. formula: "y ~ a + b", with a:b, a*b, 0 + a, I(a**2) and C(a, levels=[1, 2, 3])
    or C(a, levels=["u", "v"]); arithmetic on one record only. person: the column of person ids.
    epsilon, delta | rho: the budget of this whole call. neighbors: "replace-one" (the roster is
    public) or "add-remove" (with n_design, a public guess of the number of persons).
    fixed_effects: use deviations from the person's own means (the within form; no intercept).
    working: "independence", `Exchangeable(icc)` or `AR1(phi)`: public covariance of a person's
    errors, up to scale, by which records are weighted; AR1 needs `time`, the column that orders.
    threshold: persons whose smallest eigenvalue of X'X/T (for fixed effects, centred) is less are
    left out, as are persons with fewer than `records` usable records (default: coefficients + 1).
    scales: public sizes of terms and of the response, by name (1 if not named; rounded to powers of
    two): threshold and resolution are for columns divided by them. resolution: columns are read on
    a grid of this step times scale and limited to 2^40 steps.

    What bounds one person's coefficients, at most one of: nothing (a magnitude a coefficient is
    found privately, within the public range `magnitudes`); concentration (`SubGaussian`, ...) or
    residual_sd with between_sd (a bound on the deviation of errors, and of coefficients between
    persons), both with an optional coefficient_range for the centre; or coefficient_range alone,
    one pair or one a term, to which coefficients are limited.
    target: where magnitudes are found privately, "mean" (default under replace-one: the interval is
    for the mean over persons, tails included; persons beyond the limits are counted and assumed to
    exceed them on average by at most `excess` times the limit, 1 unless given) or "clipped" (the
    default under add-remove; shorter; for the mean of coefficients limited to the printed range).
    design_effect: public factor on the sampling variance if persons are related.
    delimiter, quote, decimal, encoding, header, null_words, memory_limit, threads, temp_directory,
    progress: as for `privmean.read`.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent.

    Guarantees: unit one person with all records, neighbours as named; the composed loss is at most
    the budget, for any data: a person's coefficients are computed from that person's records
    alone, and only their clipped mean over persons with a value is released. Public: formula,
    settings and, under replace-one, the roster. The estimate is for persons that can be fitted;
    which those are may depend on regressors, never on the response beyond missing values.
    """
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    confidence = validate.level("level", level)
    relation = relation_of(neighbors)
    model = read_formula(formula, intercept=not fixed_effects)
    errors = _working(working, fixed_effects, time)
    p = len(model.terms)
    sizes = _sizes(scales, model)
    limit = validate.positive("threshold", threshold)
    least = (
        p + 1 + fixed_effects if records is None else validate.whole("records", records, least=p)
    )
    if target is not None and any(
        item is not None for item in (concentration, residual_sd, coefficient_range)
    ):
        raise ArgumentError(
            "target", target, "goes with magnitudes that are found privately", "leave it out"
        )
    estimator = _estimator(
        concentration,
        residual_sd,
        between_sd,
        coefficient_range,
        magnitudes,
        target or (MEAN if relation == REPLACE_ONE else CLIPPED),
        excess,
        spread=tuple(1 / (s * math.sqrt(least * limit)) for s in sizes[:-1]),
        design_effect=design_effect,
        has_delta=budget.rho is None and budget.delta > 0,
    )
    people = person_coefficients(
        source,
        model,
        person=person,
        working=errors,
        fixed_effects=fixed_effects,
        time=time,
        threshold=limit,
        records=least,
        sizes=sizes,
        resolution=resolution,
        roster=roster,
        text=options(
            delimiter=delimiter,
            quote=quote,
            decimal=decimal,
            encoding=encoding,
            header=header,
            null_words=null_words,
        ),
        machine={
            "memory_limit": memory_limit,
            "threads": threads,
            "temp_directory": temp_directory,
            "progress": progress,
        },
    )
    known = people.size() if relation == REPLACE_ONE else None
    plan = estimator.plan(budget, persons=known, n_design=n_design, dimension=p, relation=relation)
    within_budget(plan, budget, relation)
    entry = None
    if ledger is not None:
        entry = ledger.charge(Guarantee.of(budget, relation, plan.losses), label="regression")
    made: Release = plan.release(people, noise).concluded(people, entry, level=confidence)
    found = made.intervals
    if isinstance(found, ClippedMeans | TailMeans) and design_effect != found.design_effect:
        made = replace(made, intervals=replace(found, design_effect=design_effect))
    within = "within-person " if fixed_effects else ""
    return Regression(
        **{item.name: getattr(made, item.name) for item in fields(Release)}
        | {"estimand": "mean over persons of own coefficients", "estimator": made.estimator},
        formula=formula,
        method=f"{within}{errors.words} a person",
        fixed_effects=fixed_effects,
    )


def person_coefficients(
    source: Any,
    model: Model,
    *,
    person: str,
    working: Working,
    fixed_effects: bool,
    time: str | None,
    threshold: float,
    records: int,
    sizes: tuple[float, ...],
    resolution: float = 2.0**-20,
    roster: Any = None,
    text: Mapping[str, Any] | None = None,
    machine: Mapping[str, Any] | None = None,
) -> MatrixPeople:
    """People whose values are own regression coefficients; private, spends nothing."""
    from privmean.people.products import person_products

    step = validate.power_of_two("resolution", resolution)
    products = person_products(
        source,
        person=person,
        columns=model.columns,
        texts=model.texts,
        products=[*(trees for _, trees in model.terms), (model.response,)],
        steps=[step * size for size in sizes],
        time=time if isinstance(working, AR1) else None,
        roster=roster,
        text=text,
        machine=machine,
    )
    rows = fit_persons(
        products,
        working=working,
        within=fixed_effects,
        threshold=threshold,
        least=records,
        scales=sizes,
    )
    return MatrixPeople(rows, model.names, engine=products.engine)


def _working(working: Any, fixed_effects: bool, time: str | None) -> Working:
    if working == "independence":
        working = Independence()
    if not isinstance(working, Independence | Exchangeable | AR1):
        raise ArgumentError(
            "working", working, "is no working covariance", "give Exchangeable(icc) or AR1(phi)"
        )
    if fixed_effects and not isinstance(working, Independence):
        raise ArgumentError(
            "working", working, "does not go with fixed_effects", "choose one of them"
        )
    if isinstance(working, AR1) and time is None:
        raise ArgumentError("time", None, "is needed by AR1", "name the column that orders records")
    return working


def _sizes(scales: Mapping[str, float] | None, model: Model) -> tuple[float, ...]:
    """Public scales of the terms and then the response, rounded to powers of two."""
    given = dict(scales or {})
    names = [*model.names, ast.unparse(model.response)]
    for item in given:
        if item not in names or item == INTERCEPT:
            raise ArgumentError(
                "scales", item, "is no term of the formula", f"the terms are {', '.join(names)}"
            )
    result = []
    for item in names:
        size = validate.positive("scales", given.get(item, 1.0))
        result.append(2.0 ** round(math.log2(min(max(size, 2.0**-60), 2.0**60))))
    return tuple(result)


def _estimator(
    concentration: Any,
    residual_sd: float | None,
    between_sd: Any,
    coefficient_range: Any,
    magnitudes: tuple[float, float],
    target: str,
    excess: float | None,
    *,
    spread: tuple[float, ...],
    design_effect: float,
    has_delta: bool,
) -> Any:
    """What bounds the coefficients. spread: their deviation for errors of deviation 1."""
    validate.positive("design_effect", design_effect)
    if concentration is not None and residual_sd is not None:
        raise ArgumentError(
            "residual_sd", residual_sd, "is given beside a concentration", "give one of them"
        )
    limits = _ranges(coefficient_range, len(spread))
    known = limits is not None or concentration is not None or residual_sd is not None
    if excess is not None and known:
        raise ArgumentError(
            "excess", excess, "goes with magnitudes that are found privately", "leave it out"
        )
    if residual_sd is not None:
        sd = validate.positive("residual_sd", residual_sd)
        several = hasattr(between_sd, "__len__") and not isinstance(between_sd, str)
        between = between_sd if several else [between_sd] * len(spread)
        if len(between) != len(spread):
            raise ArgumentError(
                "between_sd", between_sd, "is not one number a term", f"give {len(spread)}"
            )
        concentration = SubGaussian(
            tuple(
                math.hypot(validate.nonnegative("between_sd", b), sd * s)
                for b, s in zip(between, spread, strict=True)
            )
        )
    if concentration is not None:
        if isinstance(concentration, UnknownScale):
            raise ArgumentError(
                "concentration",
                concentration,
                "pairs persons, and persons that cannot be fitted hide the scale of the others",
                "leave it out: magnitudes are found privately then",
            )
        if limits is None and not has_delta:
            raise ArgumentError(
                "coefficient_range",
                None,
                "or a delta is needed beside an assumption, to find the centre",
                "give coefficient_range=(-1, 1), or a delta such as 1e-6",
            )
        return Winsorized(concentration, range=limits, design_effect=design_effect)
    if limits is not None:
        low, high = tuple(a for a, _ in limits), tuple(b for _, b in limits)
        return Winsorized(Bounded(low, high), design_effect=design_effect)
    try:
        smallest, largest = magnitudes
    except (TypeError, ValueError):
        raise ArgumentError(
            "magnitudes", magnitudes, "is not a pair", "give (smallest, largest)"
        ) from None
    if target == CLIPPED and excess is not None:
        raise ArgumentError("excess", excess, "goes with target='mean'", "leave it out")
    return Magnitudes(smallest, largest, target, 1.0 if excess is None else excess)


def _ranges(given: Any, p: int) -> tuple[tuple[float, float], ...] | None:
    if given is None:
        return None
    pairs = list(given)
    if pairs and not hasattr(pairs[0], "__len__"):
        pairs = [given] * p
    if len(pairs) != p:
        raise ArgumentError(
            "coefficient_range", given, f"has {len(pairs)} pairs for {p} terms", "give one a term"
        )
    return tuple(validate.bounds("coefficient_range", pair) for pair in pairs)
