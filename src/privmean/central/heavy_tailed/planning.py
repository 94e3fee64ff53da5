"""From settings and public numbers to the plan of the smallest planned error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from privmean.central.heavy_tailed import private_radius
from privmean.central.heavy_tailed import radius as radii
from privmean.central.heavy_tailed.coarse import Coarse
from privmean.central.heavy_tailed.high_dimension import ThreadedPlan
from privmean.central.heavy_tailed.one_dimension import OneDimensionPlan, noise_at_one
from privmean.central.heavy_tailed.outcome import Common
from privmean.central.heavy_tailed.private_radius import ClippedCount
from privmean.central.heavy_tailed.settings import (
    COARSE_SHARE,
    COUNT_SHARE,
    SEARCH_SHARE,
    Settings,
)
from privmean.central.heavy_tailed.spending import disjoint_plans, threaded_plans

Plan = OneDimensionPlan | ThreadedPlan


@lru_cache(maxsize=256)
def plan(settings: Settings, common: Common) -> Plan | None:
    """The plan of the smallest planned error, or None if nothing useful is feasible."""
    found: list[Plan] = []
    if settings.split == "disjoint":
        found += disjoint_plans(settings, common)
    elif _one_column(settings, common):
        found += column_plans(settings, common)
    else:
        found += threaded_plans(settings, common)
    best = min(found, key=lambda item: item.error, default=None)
    if best is None or best.error >= common.bulk:
        return None
    return replace(best, why=_why(best))


def _one_column(settings: Settings, common: Common) -> bool:
    laplace = not common.budget.is_zcdp and settings.law in ("auto", "laplace")
    return common.dimension == 1 and laplace and settings.weights is None


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
        finish = f"refines it in {many} clipped sum(s), the last of radius {radius:.4g}"
    return f"a bound on a moment was given: {start}, then {finish}, the smallest planned error"


# --- one column -----------------------------------------------------------------------------------
def column_plans(settings: Settings, common: Common) -> Iterator[OneDimensionPlan]:
    """Pure sums for one column, one plan a coarse form."""
    epsilon = common.budget.pure_epsilon()
    share = SEARCH_SHARE * epsilon if settings.private_radius else Fraction(0)
    count = (
        ClippedCount("laplace", COUNT_SHARE * epsilon, common.relation)
        if settings.clipped_count
        else None
    )
    for coarse in settings.starts("laplace", common, common.persons):
        if coarse.pure > Fraction(COARSE_SHARE) * epsilon:
            continue
        rest = epsilon - coarse.pure - (0 if count is None else COUNT_SHARE * epsilon)
        choice = _column_choice(common, coarse, rest - share)
        search = None
        if settings.private_radius:
            search = private_radius.search_one_column(
                common.spread, choice.radius, common.persons, share
            )
            if search is None:
                choice = _column_choice(common, coarse, rest)
        left = rest if search is None else rest - share
        yield OneDimensionPlan(common, coarse, choice, left, search, count)


def _column_choice(common: Common, coarse: Coarse, epsilon: Fraction) -> radii.Choice:
    return radii.one_dimension(
        common.tails,
        persons=common.persons,
        noise=noise_at_one(epsilon, common.persons, common.relation),
        offset=coarse.offset,
        mode=common.mode,
    )
