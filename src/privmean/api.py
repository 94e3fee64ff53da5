"""The plain functions: choose, plan, charge, release."""

from __future__ import annotations

from typing import Any

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.people.reductions import People
from privmean.planning import choose, within_budget
from privmean.privacy.budget import ADD_REMOVE, Budget, relation_of
from privmean.privacy.guarantee import Guarantee
from privmean.release import Release


def as_people(people: Any) -> People:
    """People as they are, or an array with one row a person (1-D: one column)."""
    if hasattr(people, "log_counts"):
        result: People = people
        return result
    if isinstance(people, np.ndarray | list | tuple):
        from privmean.people.read import read

        return read(np.asarray(people))
    raise ArgumentError(
        "people",
        type(people).__name__,
        "is neither people nor an array with one row a person",
        "make people with privmean.read(table, person=..., values=[...])",
    )


def mean(
    people: Any,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    neighbors: str = "replace-one",
    concentration: Any = None,
    bounds: Any = None,
    moment: Any = None,
    covariance: Any = None,
    method: Any = "auto",
    target: str | None = None,
    excess: float | None = None,
    beta: float | None = None,
    scale_range: tuple[float, float] | None = None,
    sampled_degrees: int | None = None,
    level: float = 0.95,
    n_design: int | None = None,
    ledger: Any = None,
    noise: Any = None,
) -> Release:
    """A differentially private mean of people.

    people: from `privmean.read`, or an array with one row a person, shape (n,) or (n, d).
    epsilon, delta | rho: the budget of this whole call; there is no default.
    neighbors: "replace-one" (n is public) or "add-remove" (n is private; `n_design` is a public
    guess where a method needs one).
    concentration | bounds | moment | covariance: at most one assumption, on which accuracy (for
    `bounds`: the meaning of the estimate), never privacy, rests. With none given the range is found
    privately. method: an estimator by name, or itself (`Winsorized(...)`, `HeavyTailed(...)`),
    instead of the choice from public facts.
    target, excess: see DefaultMean. beta: failure probability that a plan allows (HeavyTailed,
    Anisotropic). scale_range, sampled_degrees: see Anisotropic. A setting that the method does not
    use is refused.
    level: of the interval that is printed. ledger: charged before any noise is drawn.
    noise: only for tests and studies (`SimulatedNoise`); the release is then marked unsafe.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent. A private failure
    is not an error: the release says so in `status`.

    Guarantees: unit one person with all records; neighbours as named; the composed loss of all
    mechanism calls is at most the budget, for any data; public are the columns, the settings and,
    under replace-one, the roster of persons.
    """
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    relation = relation_of(neighbors)
    confidence = validate.level("level", level)
    data = as_people(people)
    dimension = len(data.columns)
    estimator = choose(
        dimension=dimension,
        concentration=concentration,
        bounds=bounds,
        moment=moment,
        covariance=covariance,
        method=method,
        target=target,
        excess=excess,
        beta=beta,
        scale_range=scale_range,
        sampled_degrees=sampled_degrees,
        by_records=data.cap is not None,
    )
    if getattr(estimator, "weights", None) is not None:
        from privmean.central.heavy_tailed.records import require_counts

        require_counts(data)
    if relation == ADD_REMOVE:
        if n_design is not None:
            n_design = validate.whole("n_design", n_design, least=1)
        plan = estimator.plan(
            budget, persons=None, n_design=n_design, dimension=dimension, relation=relation
        )
    else:
        if n_design is not None:
            raise ArgumentError(
                "n_design",
                n_design,
                "goes with neighbors='add-remove'",
                "leave it out: n is public",
            )
        plan = estimator.plan(budget, persons=data.size(), dimension=dimension, relation=relation)
    if data.cap is not None and getattr(plan, "persons_only", False):
        raise ArgumentError(
            "method",
            plan.estimator,
            "does not serve the mean over records",
            "give a concentration or bounds, release fewer columns, or read estimand='persons'",
        )
    within_budget(plan, budget, relation)
    entry = None
    if ledger is not None:
        entry = ledger.charge(Guarantee.of(budget, relation, plan.losses), label=plan.estimator)
    release: Release = plan.release(data, noise)
    return release.concluded(data, entry, level=confidence)
