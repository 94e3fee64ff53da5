"""Choosing an estimator from public facts, predicting its error, and the persons it needs.

Nothing here reads data: the arguments are assumptions and public numbers, the answers are the same
plans that a release executes.
"""

from __future__ import annotations

from typing import Any

from privmean import validate
from privmean.errors import ArgumentError, Infeasible
from privmean.privacy.budget import ADD_REMOVE, Budget, Relation, relation_of
from privmean.search import least_number

METHODS = ("auto", "default", "winsorized", "bounded", "heavy-tailed", "anisotropic")
ASSUMPTIONS = {
    "bounds": "bounded",
    "concentration": "winsorized",
    "moment": "heavy-tailed",
    "covariance": "anisotropic",
}
USERS = {  # which methods use a setting
    "target": ("default",),
    "excess": ("default",),
    "beta": ("heavy-tailed", "anisotropic"),
    "scale_range": ("anisotropic",),
    "sampled_degrees": ("anisotropic",),
}


def choose(
    *,
    dimension: int,
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
    by_records: bool = False,
) -> Any:
    """The estimator for these assumptions. by_records: for the estimand "records".

    An assumption names its estimator (bounds: clip there; concentration: Winsorized; moment:
    heavy-tailed; covariance: anisotropic); with none, the default that needs no knowledge (for
    several columns: the cheapest of three ways by predicted error). At most
    one assumption may be given; `method` overrides the choice, by name or by an estimator itself.
    A setting that the chosen method does not use is refused.
    """
    assumptions = {
        "bounds": bounds,
        "concentration": concentration,
        "moment": moment,
        "covariance": covariance,
    }
    settings = {
        "target": target,
        "excess": excess,
        "beta": beta,
        "scale_range": scale_range,
        "sampled_degrees": sampled_degrees,
    }
    assumptions = {name: value for name, value in assumptions.items() if value is not None}
    settings = {name: value for name, value in settings.items() if value is not None}
    if not isinstance(method, str):
        return _as_given(method, {**assumptions, **settings}, by_records)
    kind = _kind(validate.choice("method", method, METHODS), assumptions)
    for name, value in settings.items():
        if kind not in USERS[name]:
            users = " or ".join(repr(item) for item in USERS[name])
            raise ArgumentError(
                name, value, f"is not used by method {kind!r}", f"leave it out, or choose {users}"
            )
    chosen = _made(kind, assumptions, settings, by_records)
    if method == "auto" and kind == "default" and dimension > 1 and not by_records:
        from privmean.central.cheapest import Cheapest

        return Cheapest(chosen)
    return chosen


def _as_given(estimator: Any, others: dict[str, Any], by_records: bool) -> Any:
    """An estimator that the caller has made."""
    if isinstance(estimator, type) or not callable(getattr(estimator, "plan", None)):
        raise ArgumentError(
            "method",
            estimator,
            "is neither a name nor an estimator",
            f"choose one of {', '.join(METHODS)}, or give an estimator such as Winsorized(...)",
        )
    for name, value in others.items():
        raise ArgumentError(
            name,
            value,
            f"is not used by the estimator given as method ({type(estimator).__name__})",
            "set it where the estimator is made",
        )
    if by_records and not getattr(estimator, "serves_records", False):
        raise _not_by_records(type(estimator).__name__)
    return estimator


def _kind(method: str, assumptions: dict[str, Any]) -> str:
    """The method's name, where an assumption or nothing may stand for it."""
    named = [ASSUMPTIONS[item] for item in assumptions]
    if len(named) > 1:
        raise ArgumentError(
            "method", method, f"assumptions for {' and '.join(named)} are given", "give one of them"
        )
    kind = method if method != "auto" else (named[0] if named else "default")
    if named and kind != named[0]:
        raise ArgumentError(
            "method",
            method,
            f"does not use the assumption given for {named[0]!r} ({next(iter(assumptions))})",
            f"choose method={named[0]!r} or leave the assumption out",
        )
    return kind


def _made(
    kind: str, assumptions: dict[str, Any], settings: dict[str, Any], by_records: bool
) -> Any:
    given = next(iter(assumptions.values()), None)
    if kind == "bounded":
        if given is None:
            raise ArgumentError("bounds", None, "are needed for method 'bounded'", "give bounds")
        if by_records:
            from privmean.central.concentration import Bounded
            from privmean.central.winsorized import Winsorized

            return Winsorized(Bounded(*_limits(given)))
        from privmean.central.bounded import BoundedMean

        return BoundedMean(given)
    if kind == "winsorized":
        from privmean.central.concentration import UnknownScale
        from privmean.central.winsorized import Winsorized

        return Winsorized(given if given is not None else UnknownScale())
    if kind == "default":
        from privmean.central.default_mean import DefaultMean

        return _as_given(DefaultMean(**settings), {}, by_records)
    if by_records and not getattr(given, "serves_records", False):
        raise _not_by_records(kind)
    if kind == "heavy-tailed":
        from privmean.central.heavy_tailed import HeavyTailed, PureCover

        if given is None:
            raise ArgumentError(
                "moment",
                None,
                "is needed for method 'heavy-tailed'",
                "give moment=BoundedMoment(order=..., bound=...)",
            )
        if isinstance(given, HeavyTailed | PureCover):
            return _as_given(given, settings, by_records)
        return HeavyTailed(given, **settings)
    from privmean.central.anisotropic.estimator import Anisotropic

    if isinstance(given, Anisotropic):
        return _as_given(given, settings, by_records)
    return Anisotropic(given, **settings)


def _not_by_records(kind: str) -> ArgumentError:
    return ArgumentError(
        "method",
        kind,
        "does not serve the mean over records",
        "give bounds, a concentration, HeavyTailed(..., weights=...) or nothing, or read with "
        "estimand='persons'",
    )


def _limits(bounds: Any) -> tuple[Any, Any]:
    """(lower, upper) as numbers, or one number a column each, from one pair or a pair a column."""
    pairs = list(bounds)
    if hasattr(pairs[0], "__len__"):
        return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    return validate.bounds("bounds", bounds)


def plan_mean(
    *,
    persons: int,
    dimension: int = 1,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    neighbors: str = "replace-one",
    **assumptions: Any,
) -> Any:
    """The plan of a mean: pure, from public numbers (persons is n, or n_design under add-remove).

    Raises Infeasible when the public numbers cannot work, saying which would have to change.
    """
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    relation = relation_of(neighbors)
    count = validate.whole("persons", persons, least=1)
    columns = validate.whole("dimension", dimension, least=1)
    estimator = choose(dimension=columns, **assumptions)
    return within_budget(_plan(estimator, budget, count, columns, relation), budget, relation)


def within_budget(plan: Any, budget: Budget, relation: Relation) -> Any:
    """The plan, if its bill keeps the budget and its noise can be drawn; Infeasible otherwise.

    Plans are calibrated to keep it. At the ends of the range of budgets (a delta of 1e-30, say)
    what doubles and noise on a lattice add can be more than is left, and noise for very many
    columns can be wider than the exact samplers draw. Every public function asks here before it
    charges, so that no release fails after its charge.
    """
    from privmean.mechanisms.limits import require_drawn
    from privmean.privacy.guarantee import Guarantee

    for item in plan.losses:
        require_drawn(item.name, item.drawn)
    if not Guarantee.of(budget, relation, plan.losses).verify():
        raise Infeasible(
            f"no noise of this method keeps {budget.describe()}",
            "give a larger delta, another epsilon, or choose another method",
        )
    return plan


def _plan(estimator: Any, budget: Budget, persons: int, dimension: int, relation: Relation) -> Any:
    if relation == ADD_REMOVE:
        return estimator.plan(
            budget, persons=None, n_design=persons, dimension=dimension, relation=relation
        )
    return estimator.plan(budget, persons=persons, dimension=dimension, relation=relation)


def forecast(plan: Any, guess_sd: float) -> dict[str, float]:
    """The predicted root mean square error of a plan ("rmse"), by cause where the plan tells.

    guess_sd is used where the assumption says nothing about the spread between persons; a moment
    assumption does, and then the guess is not needed.
    """
    if hasattr(plan, "predict"):
        result: dict[str, float] = plan.predict(guess_sd)
        return result
    return {"rmse": float(plan.error)}


def persons_needed(error: float, *, guess_sd: float, dimension: int = 1, **arguments: Any) -> int:
    """The smallest number of persons whose predicted root mean square error is at most `error`.

    guess_sd: public guess of the standard deviation between persons, for planning only. Found by
    doubling and bisection over plans; sizes at which the plan is infeasible count as too small.
    """
    wanted = validate.positive("error", error)
    guess = validate.positive("guess_sd", guess_sd)

    def enough(persons: int) -> bool:
        try:
            chosen = plan_mean(persons=persons, dimension=dimension, **arguments)
        except Infeasible:
            return False
        return bool(forecast(chosen, guess)["rmse"] <= wanted)

    found = least_number(enough, 2)
    if found is None:
        raise ArgumentError(
            "error", error, "is not reached with any number of persons", "ask for a larger error"
        )
    return found
