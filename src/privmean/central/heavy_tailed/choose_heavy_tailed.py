"""From settings and public numbers to the plan of the smallest planned error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from privmean.central.choose_vector_method import WORTH, instead
from privmean.central.heavy_tailed import clipping_rounds as radii
from privmean.central.heavy_tailed import private_radius
from privmean.central.heavy_tailed.allocate_rounds import threaded_plans
from privmean.central.heavy_tailed.clipping_rounds import Round, Schedule
from privmean.central.heavy_tailed.coarse_center import Coarse
from privmean.central.heavy_tailed.heavy_tailed_plan import (
    COARSE_SHARE,
    SEARCH_SHARE,
    HeavyTailedNumbers,
    Settings,
)
from privmean.central.heavy_tailed.high_dimension import ThreadedPlan
from privmean.central.heavy_tailed.one_dimension import OneDimensionPlan, noise_at_one
from privmean.plurals import count_noun
from privmean.privacy.budget import REPLACE_ONE, Budget

Plan = OneDimensionPlan | ThreadedPlan
FILLED = (1.0, 0.5)  # of the bound on the spread, by usual values
MOST = 1.08  # what a private radius may make of the error of values that fill the bound


@lru_cache(maxsize=256)
def plan(settings: Settings, common: HeavyTailedNumbers) -> Plan | None:
    """The plan of the smallest planned error, or None if nothing useful is feasible."""
    found: list[Plan] = []
    if one_sum(settings, common.budget, common.dimension):
        found += column_plans(settings, common)
    else:
        found += threaded_plans(settings, common)
    best = min(found, key=lambda item: item.error, default=None)
    if best is None or best.error >= common.bulk:
        return None
    return replace(best, rationale=_why(best))


def with_search(settings: Settings, found: Plan) -> Plan:
    """The plan with or without a private radius, whichever has the shorter predicted intervals.

    Where the other one has the smaller error for usual values, `why` says what it would bring.
    """
    if not isinstance(found, ThreadedPlan) or found.schedule.law != "gaussian":
        return found
    if found.common.relation != REPLACE_ONE or settings.weights is not None:
        return found
    other = plan(replace(settings, private_radius=True, law="gaussian"), found.common)
    if not isinstance(other, ThreadedPlan) or other.search is None:
        return found
    return shorter(found, other)


def shorter(found: ThreadedPlan, other: ThreadedPlan) -> ThreadedPlan:
    """The plan whose intervals are predicted to be shorter, on geometric average over values that
    fill the bound and values that fill half of it; `found` if they are alike."""
    if _length(other) < _length(found):
        return replace(other, rationale=f"{other.rationale}; {_brought(found, other)}")
    before, after = ([item.usual_at(filled) for filled in FILLED] for item in (found, other))
    gain = math.prod(after) < WORTH ** len(FILLED) * math.prod(before)
    if not gain or after[0] > MOST * before[0]:
        return found
    said = f"private_radius={other.search is not None} is left out: {_brought(found, other)}"
    return replace(found, rationale=f"{found.rationale}; {said}")


def _length(plan: ThreadedPlan) -> float:
    return math.prod(plan.half_length_at(filled) for filled in FILLED)


def _brought(found: ThreadedPlan, other: ThreadedPlan) -> str:
    """What the other plan changes, in words."""
    errors = [f"{found.usual_at(x):.3g} to {other.usual_at(x):.3g}" for x in FILLED]
    halves = [f"{found.half_length_at(x):.3g} to {other.half_length_at(x):.3g}" for x in FILLED]
    return (
        "a radius found privately (15 % of epsilon) is predicted to change the error for values "
        f"without large outliers from {errors[0]}, and the half length of the 95 % intervals from "
        f"{halves[0]} ({errors[1]} and {halves[1]} where values fill half of the bound)"
    )


def compared(found: Plan, nothing: float | None) -> Plan:
    """The plan with what giving nothing is predicted to do, said where that is better."""
    words = instead(nothing, found.usual, " for values without large outliers")
    return replace(found, nothing=nothing, rationale=found.rationale + words)


def one_sum(settings: Settings, budget: Budget, dimension: int) -> bool:
    """Whether one column is released as one clipped sum with Laplace noise."""
    laplace = not budget.is_zcdp and settings.law in ("auto", "laplace")
    return dimension == 1 and laplace and settings.weights is None


def _why(plan: Plan) -> str:
    start = {
        "public": "clips around the middle of the public range",
        "selection": "finds the mean's bucket by a private argmax over the public range",
        "stable": "finds the mean's bucket by a stable histogram over the whole line",
        "gaussian": "finds the mean's buckets by one Gaussian histogram over the public range",
        "gaussian stable": "finds the mean's buckets by one Gaussian histogram over the line",
    }[plan.coarse.form]
    if isinstance(plan, OneDimensionPlan):
        finish = f"releases one clipped sum of radius {plan.choice.radius:.4g}"
    else:
        many = len(plan.schedule.rounds)
        radius = plan.schedule.rounds[-1].choice.radius
        finish = f"refines it in {count_noun(many, 'clipped sum')}, the last of radius {radius:.4g}"
    return f"a bound on a moment was given: {start}, then {finish}, the smallest planned error"


# --- one column -----------------------------------------------------------------------------------
def column_plans(settings: Settings, common: HeavyTailedNumbers) -> Iterator[OneDimensionPlan]:
    """Pure sums for one column, one plan a coarse form."""
    epsilon = common.budget.pure_epsilon()
    share = SEARCH_SHARE * epsilon if settings.private_radius else Fraction(0)
    for coarse in settings.starts("laplace", common, common.n):
        if coarse.pure > Fraction(COARSE_SHARE) * epsilon:
            continue
        rest = epsilon - coarse.pure
        choice = _column_choice(common, coarse, rest - share)
        search = None
        if settings.private_radius:
            search = private_radius.search_one_column(common.spread, choice.radius, common.n, share)
            if search is None:
                choice = _column_choice(common, coarse, rest)
        left = rest if search is None else rest - share
        one = Schedule("laplace", (Round(Fraction(1), common.n, coarse.offset, choice),))
        yield OneDimensionPlan(common, coarse, one, left, search=search)


def _column_choice(common: HeavyTailedNumbers, coarse: Coarse, epsilon: Fraction) -> radii.Choice:
    return radii.one_dimension(
        common.tails,
        persons=common.n,
        noise=noise_at_one(epsilon, common.n, common.relation),
        offset=coarse.offset,
    )
