"""Mean curves of persons with records at any times, in public bins.

Times belong to persons and are private, so that cells of time are not disjoint: a person
contributes one mean a bin, a vector, and the means of bins are released together, over many
columns. docs/proofs/longitudinal.md, section 6.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from privmean import validate
from privmean.central.clipped_mean import ClippedMeans
from privmean.errors import ArgumentError
from privmean.models.curve_release import Curve
from privmean.people.matrix import MatrixPeople
from privmean.people.textformat import options
from privmean.planning import within_budget
from privmean.privacy.budget import REPLACE_ONE, Budget, relation_of
from privmean.privacy.guarantee import Guarantee
from privmean.release import Release


def curve(
    source: Any,
    value: str | None = None,
    *,
    time: str,
    bins: Sequence[float],
    person: str,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    neighbors: str = "replace-one",
    n_design: int | None = None,
    bounds: tuple[float, float] | None = None,
    concentration: Any = None,
    range: Any = None,
    resolution: float = 2.0**-20,
    level: float = 0.95,
    design_effect: float = 1.0,
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
) -> Curve:
    """A differentially private mean of persons over time, in public bins.

    source, person, roster, delimiter, quote, decimal, encoding, header, null_words, memory_limit,
    threads, temp_directory, progress: as for `privmean.regress`. value, time: columns. bins: public
    edges, increasing; bin j holds edges[j] <= time < edges[j + 1].
    A person counts in a bin with the mean of own records there; persons without one are left out of
    that bin. One person can be in all bins, so that the bins share the budget.
    neighbors: "replace-one" (the roster is public) or "add-remove" (with n_design, a public guess
    of the number of persons).
    bounds: public limits of a person's mean in a bin; or a concentration (`SubGaussian`, ...) with
    an optional public range of the centres; or neither: the magnitude of values is found privately
    and they are clipped around zero.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent.

    Guarantees: unit one person with all records, times included; neighbours as named; the composed
    loss of all bins is at most the budget, for any data. Public: bins, settings and, under
    replace-one, the roster. Source: the binned form of docs/proofs/longitudinal.md, section 6.
    """
    from privmean.central.concentration import Bounded
    from privmean.central.winsorized import Winsorized
    from privmean.models.magnitudes import Magnitudes

    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    confidence = validate.level("level", level)
    relation = relation_of(neighbors)
    edges = _edges(bins)
    d = len(edges) - 1
    effect = validate.positive("design_effect", design_effect)
    estimator: Any
    if bounds is not None and concentration is not None:
        raise ArgumentError("bounds", bounds, "are given beside a concentration", "give one")
    if bounds is not None:
        estimator = Winsorized(Bounded(*validate.bounds("bounds", bounds)), design_effect=effect)
    elif concentration is not None:
        estimator = Winsorized(concentration, range=range, design_effect=effect)
    else:
        estimator = Magnitudes()
    if not isinstance(value, str):
        raise ArgumentError("value", value, "is no column", "name the column to average")
    people = binned_means(
        source, value, time=time, edges=edges, person=person, resolution=resolution,
        roster=roster, text=options(
        delimiter=delimiter,
        quote=quote,
        decimal=decimal,
        encoding=encoding,
        header=header,
        null_words=null_words,
    ), machine={
            "memory_limit": memory_limit, "threads": threads, "temp_directory": temp_directory,
            "progress": progress,
        },
    )  # fmt: skip
    known = people.size() if relation == REPLACE_ONE else None
    plan = estimator.plan(budget, persons=known, n_design=n_design, dimension=d, relation=relation)
    within_budget(plan, budget, relation)
    entry = None
    if ledger is not None:
        entry = ledger.charge(Guarantee.of(budget, relation, plan.losses), label="curve")
    made: Release = plan.release(people, noise).concluded(people, entry, level=confidence)
    found = made.intervals
    if isinstance(found, ClippedMeans):
        made = replace(made, intervals=replace(found, design_effect=effect))
    middles = tuple((a + b) / 2 for a, b in pairwise(edges))
    kept = {item.name: getattr(made, item.name) for item in fields(Release)}
    return Curve(**kept | {"estimand": f"mean {value} over persons by {time}"}, at=middles)


def _edges(bins: Sequence[float]) -> tuple[float, ...]:
    try:
        edges = tuple(validate.number("bins", item) for item in bins)
    except TypeError:
        edges = ()
    if len(edges) < 2 or any(b <= a for a, b in pairwise(edges)):
        raise ArgumentError("bins", bins, "are no increasing edges", "give bins=[0, 1, 2]")
    return edges


def binned_means(
    source: Any,
    value: str,
    *,
    time: str,
    edges: Sequence[float],
    person: str,
    resolution: float = 2.0**-20,
    roster: Any = None,
    text: Mapping[str, Any] | None = None,
    machine: Mapping[str, Any] | None = None,
) -> MatrixPeople:
    """People with the mean of own records in every bin (null without one); private, spends
    nothing. Sums are exact integers, counted and added inside the engine."""
    from privmean.people.products import person_products

    step = validate.power_of_two("resolution", resolution)
    x, t = ast.Name(value), ast.Name(time)
    # an indicator of a bin is the product of two comparisons
    indicators = [
        (
            ast.Compare(t, [ast.GtE()], [ast.Constant(a)]),
            ast.Compare(t, [ast.Lt()], [ast.Constant(b)]),
        )
        for a, b in pairwise(edges)
    ]
    d = len(indicators)
    made = person_products(
        source,
        person=person,
        columns=tuple(dict.fromkeys((value, time))),
        products=[*indicators, *((*item, x) for item in indicators)],
        steps=[1.0] * d + [step] * d,
        roster=roster,
        text=text,
        machine=machine,
        squares=False,
    )
    count, total = made.sums[:, :d], made.sums[:, d:]
    with np.errstate(all="ignore"):
        rows = np.where(count > 0, total / count, np.nan)
    names = tuple(f"[{a:g}, {b:g})" for a, b in pairwise(edges))
    return MatrixPeople(rows, names, engine=made.engine)
