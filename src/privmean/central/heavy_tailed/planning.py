"""From settings and public numbers to the plan of the smallest planned error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from privmean.central.heavy_tailed import private_radius
from privmean.central.heavy_tailed import radius as radii
from privmean.central.heavy_tailed.coarse import Coarse, CoarseNeeds
from privmean.central.heavy_tailed.high_dimension import ThreadedPlan
from privmean.central.heavy_tailed.joint import EXTRA, WeightSum
from privmean.central.heavy_tailed.knorm import LARGEST_DIMENSION
from privmean.central.heavy_tailed.one_dimension import OneDimensionPlan, noise_at_one
from privmean.central.heavy_tailed.outcome import Common
from privmean.central.heavy_tailed.private_radius import RadiusSearch
from privmean.central.heavy_tailed.radius import Law
from privmean.central.heavy_tailed.records import RecordWeights
from privmean.central.heavy_tailed.threaded import (
    MOST_ROUNDS,
    Problem,
    Schedule,
    block_size,
    residues,
    strength,
)
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.calibrate import calibrate
from privmean.privacy.loss import Gaussian, Loss, Threshold

COARSE_SHARE = 0.6  # a coarse step that needs more than this share of the budget is refused
SEARCH_SHARE = Fraction(15, 100)
COUNT_SHARE = Fraction(5, 100)
THRESHOLD_SHARE = 0.25  # of delta, for the thresholds of Gaussian histograms
FROM_AFAR = 8  # rounds that a start from a wide public range may take
LATTICE = 2.0**20
HAIR = 1 - 1e-12  # strengths in floating point stay this far below what was calibrated

Plan = OneDimensionPlan | ThreadedPlan


@dataclass(frozen=True)
class Settings:
    """The settings of `HeavyTailed` that planning reads."""

    split: Literal["together", "disjoint"]
    law: Literal["auto", "gaussian", "laplace", "k-norm"]
    rounds: int | None
    start: Literal["auto", "histogram", "public"]
    wide_buckets: bool
    private_radius: bool
    clipped_count: bool
    weights: RecordWeights | None

    def laws(self, budget: Budget, dimension: int) -> tuple[Law, ...]:
        """The noise laws to plan with."""
        pure: Law = "k-norm" if dimension <= LARGEST_DIMENSION else "laplace"
        if self.law != "auto":
            allowed = self.law != "gaussian" or not budget.is_pure
            allowed = allowed and (self.law != "k-norm" or dimension <= LARGEST_DIMENSION)
            return (self.law,) if allowed else ()
        if budget.is_pure:
            return (pure,)
        if budget.is_zcdp:
            return ("gaussian",)
        return ("gaussian", pure)

    def starts(self, law: Law, common: Common, persons: int) -> Iterator[Coarse]:
        """Coarse steps that fit the law, each with the budget it needs for `persons`."""
        needs = CoarseNeeds(
            common.dimension,
            persons,
            common.spread,
            common.moment.ranges(common.dimension),
            common.relation,
            common.beta,
            self.wide_buckets,
        )
        found: list[Coarse | None] = []
        if self.start != "histogram":
            found.append(needs.public())
        if self.start != "public":
            delta = common.budget.delta
            if law == "gaussian":
                found += [needs.gaussian(), needs.gaussian_stable(delta * THRESHOLD_SHARE)]
            else:
                found += [needs.selection(), needs.stable(delta)]
        return (item for item in found if item is not None)


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
    if best is None or best.error >= bulk(common):
        return None
    return replace(best, why=_why(best))


def _one_column(settings: Settings, common: Common) -> bool:
    laplace = not common.budget.is_zcdp and settings.law in ("auto", "laplace")
    return common.dimension == 1 and laplace and settings.weights is None


def bulk(common: Common) -> float:
    """Root mean square distance of one person's value from the mean, by the assumption."""
    return min(math.sqrt(tail.dimension) * tail.spread for tail in common.tails)


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
    count = COUNT_SHARE * epsilon if settings.clipped_count else None
    for coarse in settings.starts("laplace", common, common.persons):
        if coarse.pure > Fraction(COARSE_SHARE) * epsilon:
            continue
        rest = epsilon - coarse.pure - (count or 0)
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


# --- several columns ------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Purse:
    """What a budget leaves for the rounds of one law. total: mu, or epsilon as a float; exact: the
    same epsilon; weight, search, count: what was bought besides."""

    total: float
    exact: Fraction
    weight: WeightSum | None
    search: RadiusSearch | None
    count: float | Fraction


def threaded_plans(settings: Settings, common: Common) -> Iterator[ThreadedPlan]:
    """Plans that use all persons in every round."""
    for law in settings.laws(common.budget, common.dimension):
        for coarse in settings.starts(law, common, common.persons):
            purse = _purse(settings, common, law, coarse)
            if purse is None:
                continue
            most = FROM_AFAR if coarse.form == "public" else MOST_ROUNDS
            schedule = _problem(settings, common, law, purse).best(
                coarse.offset, common.persons, rounds=settings.rounds, most=most
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
                    count_strength=purse.count,
                )


def _problem(settings: Settings, common: Common, law: Law, purse: _Purse) -> Problem:
    change = 2.0 if common.relation == REPLACE_ONE else 1.0
    known = None
    if purse.weight is not None:
        change *= 1 + float(EXTRA)
        known = purse.weight.scale * (1.0 if law == "gaussian" else math.sqrt(2))
    if settings.weights is not None:
        change *= settings.weights.noise_factor(common.moment)
    return Problem(
        law, common.tails, common.dimension, common.mode, purse.total, change, known, common.beta
    )


def _purse(settings: Settings, common: Common, law: Law, coarse: Coarse) -> _Purse | None:
    """What is left for the rounds; None if the coarse step takes too much."""
    budget = common.budget
    search = None
    if settings.private_radius:
        share = SEARCH_SHARE * budget.pure_epsilon()
        search = private_radius.search_ball(bulk(common), math.inf, common.persons, share, 0.0)
    paid = settings.weights is not None and settings.weights.critical is not None
    paid = paid or common.relation != REPLACE_ONE
    if law == "gaussian":
        if coarse.mu**2 > COARSE_SHARE * budget.gaussian_mu() ** 2:
            return None
        mu = _calibrated(budget, (*coarse.losses, *(search.losses if search else ())), common)
        weight = WeightSum(law, mu * math.sqrt(EXTRA) * HAIR) if paid else None
        count = mu * math.sqrt(COUNT_SHARE) * HAIR if settings.clipped_count else 0.0
        share = EXTRA * paid + COUNT_SHARE * settings.clipped_count
        left = mu * math.sqrt(1 - share) * HAIR
        return _Purse(left, Fraction(0), weight, search, count) if left > 0 else None
    whole = budget.pure_epsilon()
    if coarse.pure > Fraction(COARSE_SHARE) * whole:
        return None
    rest = whole - coarse.pure - (search.epsilon if search else 0)
    weight = WeightSum(law, EXTRA * rest) if paid else None
    counted = COUNT_SHARE * rest if settings.clipped_count else Fraction(0)
    exact = rest - EXTRA * rest * paid - counted
    return _Purse(float(exact), exact, weight, search, counted)


def _calibrated(budget: Budget, others: tuple[Loss, ...], common: Common) -> float:
    """The largest mu of all Gaussian sums together that fits beside `others`."""
    answers = (common.dimension + 1) * (FROM_AFAR + 2)

    def bill(mu: float) -> tuple[Loss, ...]:
        return (*others, Gaussian("rounds", mu * LATTICE, LATTICE, answers))

    return calibrate(bill, budget, grid=False) * HAIR


def _strengths(schedule: Schedule, purse: _Purse) -> tuple[float | Fraction, ...]:
    shares = [item.share for item in schedule.rounds]
    if schedule.law == "gaussian":
        return tuple(strength("gaussian", purse.total, share) for share in shares)
    return tuple(share * purse.exact for share in shares)


def _aimed(
    search: RadiusSearch | None, schedule: Schedule, common: Common, purse: _Purse
) -> RadiusSearch | None:
    """The search with radii below the planned one and the right number of persons outside."""
    if search is None:
        return None
    last = schedule.rounds[-1]
    hidden = 0.0
    if schedule.law == "gaussian":
        hidden = math.sqrt(common.dimension) / strength("gaussian", purse.total, last.share)
    return private_radius.search_ball(
        bulk(common), last.choice.radius, common.persons, search.epsilon, hidden
    )


# --- disjoint parts -------------------------------------------------------------------------------
BLOCKS = (
    (2, 22), (4, 20), (8, 16),
    (1, 4, 19), (2, 4, 18), (4, 4, 16), (6, 4, 14), (8, 4, 12), (2, 8, 14), (6, 6, 12),
    (1, 1, 4, 18), (2, 2, 5, 15), (4, 2, 5, 13), (6, 2, 4, 12), (8, 2, 4, 10), (6, 6, 6, 6),
)  # fmt: skip


def disjoint_plans(settings: Settings, common: Common) -> Iterator[ThreadedPlan]:
    """Plans whose stages have disjoint persons and the full budget each (replace-one only)."""
    for law in settings.laws(common.budget, common.dimension):
        exact = common.budget.pure_epsilon()
        total = _full(law, common) if law == "gaussian" else float(exact)
        problem = Problem(law, common.tails, common.dimension, common.mode, total, beta=common.beta)
        for weights in BLOCKS:
            if settings.rounds is not None and len(weights) != settings.rounds + 1:
                continue
            modulus, blocks = sum(weights), residues(weights)
            sizes = [block_size(block, modulus, common.persons) for block in blocks]
            for coarse in settings.starts(law, common, sizes[0]):
                cost = coarse.mu if law == "gaussian" else float(coarse.pure)
                schedule = problem.disjoint(coarse.offset, sizes[1:])
                if cost <= total and schedule is not None:
                    each = total if law == "gaussian" else exact
                    yield ThreadedPlan(
                        common,
                        coarse,
                        schedule,
                        (each,) * len(schedule.rounds),
                        parts=tuple((block, modulus) for block in blocks),
                    )


def _full(law: Law, common: Common) -> float:
    """mu of one part, with room for the thresholds' delta."""
    delta = THRESHOLD_SHARE * common.budget.delta
    threshold = (Threshold("thresholds", delta, 1.0),) if delta else ()
    return _calibrated(common.budget, threshold, common)
