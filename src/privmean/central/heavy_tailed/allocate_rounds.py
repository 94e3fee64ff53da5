"""Plans for several columns: what the budget leaves for the rounds, and how it is shared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from privmean.central.heavy_tailed import private_radius
from privmean.central.heavy_tailed.clipping_rounds import (
    MOST_ROUNDS,
    Problem,
    Schedule,
    strength,
)
from privmean.central.heavy_tailed.coarse_center import Coarse
from privmean.central.heavy_tailed.heavy_tailed_plan import (
    COARSE_SHARE,
    SEARCH_SHARE,
    HeavyTailedNumbers,
    Settings,
)
from privmean.central.heavy_tailed.high_dimension import ThreadedPlan
from privmean.central.heavy_tailed.private_radius import RadiusSearch
from privmean.mechanisms.weighted_sums import EXTRA, Law, WeightSum
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.compose import calibrate
from privmean.privacy.privacy_events import Gaussian, PrivacyEvent

FROM_AFAR = 8  # rounds that a start from a wide public range may take
LATTICE = 2.0**20
HAIR = 1 - 1e-12  # strengths in floating point stay this far below what was calibrated


# --- several columns ------------------------------------------------------------------------------
@dataclass(frozen=True)
class _RoundBudget:
    """What a budget leaves for the rounds of one law. total: mu, or epsilon as a float; exact: the
    same epsilon; weight, search: what was bought besides."""

    total: float
    exact: Fraction
    weight: WeightSum | None
    search: RadiusSearch | None


def threaded_plans(settings: Settings, common: HeavyTailedNumbers) -> Iterator[ThreadedPlan]:
    """Plans that use all people in every round."""
    for law in settings.laws(common.budget, common.dimension):
        for coarse in settings.starts(law, common, common.n):
            purse = _purse(settings, common, law, coarse)
            if purse is None:
                continue
            most = FROM_AFAR if coarse.form == "public" else MOST_ROUNDS
            schedule = _problem(settings, common, law, purse).best(
                coarse.offset, common.n, rounds=settings.rounds, most=most
            )
            if schedule is not None:
                yield ThreadedPlan(
                    common,
                    coarse,
                    schedule,
                    _strengths(schedule, purse),
                    weights=settings.weights,
                    first_weight=purse.weight,
                    search=_aimed(purse.search, schedule, common, purse),
                )


def _problem(
    settings: Settings, common: HeavyTailedNumbers, law: Law, purse: _RoundBudget
) -> Problem:
    change = 2.0 if common.relation == REPLACE_ONE else 1.0
    known = None
    if purse.weight is not None:
        change *= 1 + float(EXTRA)
        known = purse.weight.scale * (1.0 if law == "gaussian" else math.sqrt(2))
    if settings.weights is not None:
        change *= settings.weights.noise_factor(common.moment)
    return Problem(law, common.tails, common.dimension, purse.total, change, known, common.beta)


def _purse(
    settings: Settings, common: HeavyTailedNumbers, law: Law, coarse: Coarse
) -> _RoundBudget | None:
    """What is left for the rounds; None if the coarse step takes too much."""
    budget = common.budget
    search = None
    if settings.private_radius:
        share = SEARCH_SHARE * budget.pure_epsilon()
        search = private_radius.search_ball(common.bulk, math.inf, common.n, share, 0.0)
    paid = settings.weights is not None and settings.weights.critical is not None
    paid = paid or common.relation != REPLACE_ONE
    if law == "gaussian":
        if coarse.mu**2 > COARSE_SHARE * budget.gaussian_mu() ** 2:
            return None
        mu = _calibrated(budget, (*coarse.events, *(search.events if search else ())), common)
        weight = WeightSum(law, mu * math.sqrt(EXTRA) * HAIR, common.relation) if paid else None
        left = mu * math.sqrt(1 - EXTRA * paid) * HAIR
        if left <= 0:
            return None
        return _RoundBudget(left, Fraction(0), weight, search)
    whole = budget.pure_epsilon()
    if coarse.pure > Fraction(COARSE_SHARE) * whole:
        return None
    rest = whole - coarse.pure - (search.epsilon if search else 0)
    weight = WeightSum(law, EXTRA * rest, common.relation) if paid else None
    exact = rest * (1 - EXTRA * paid)
    return _RoundBudget(float(exact), exact, weight, search)


def _calibrated(
    budget: Budget, others: tuple[PrivacyEvent, ...], common: HeavyTailedNumbers
) -> float:
    """The largest mu of all Gaussian sums together that fits beside `others`."""
    answers = (common.dimension + 1) * (FROM_AFAR + 2)

    def bill(mu: float) -> tuple[PrivacyEvent, ...]:
        return (*others, Gaussian("rounds", mu * LATTICE, LATTICE, answers))

    return calibrate(bill, budget, grid=False) * HAIR


def _strengths(schedule: Schedule, purse: _RoundBudget) -> tuple[float | Fraction, ...]:
    shares = [item.share for item in schedule.rounds]
    if schedule.law == "gaussian":
        return tuple(strength("gaussian", purse.total, share) for share in shares)
    return tuple(share * purse.exact for share in shares)


def _aimed(
    search: RadiusSearch | None, schedule: Schedule, common: HeavyTailedNumbers, purse: _RoundBudget
) -> RadiusSearch | None:
    """The search with radii below the planned one and the right number of people outside."""
    if search is None:
        return None
    last = schedule.rounds[-1]
    hidden = 0.0
    if schedule.law == "gaussian":
        hidden = math.sqrt(common.dimension) / strength("gaussian", purse.total, last.share)
    return private_radius.search_ball(
        common.bulk, last.choice.radius, common.n, search.epsilon, hidden
    )
