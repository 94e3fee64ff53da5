"""`HeavyTailedMean`: the mean under a bounded moment, by the plan of the smallest planned error.

Source: Agarwal, Kamath, Majid, Mouzakis, Silver and Ullman, "Private Mean Estimation with
Person-Level Differential Privacy" (2024); constants, radii and shares are optimised numerically
(docs/proofs/heavy-tails.md and the pages it names).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from privmean import validate
from privmean.bisection import smallest_int
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.heavy_tailed import clipping_rounds as radii
from privmean.estimators.heavy_tailed import coarse_center as private_radius
from privmean.estimators.heavy_tailed.clipping_bias import BoundedMoment
from privmean.estimators.heavy_tailed.clipping_rounds import Round, Schedule
from privmean.estimators.heavy_tailed.coarse_center import Coarse
from privmean.estimators.heavy_tailed.heavy_tailed_plan import (
    COARSE_SHARE,
    SEARCH_SHARE,
    HeavyTailedNumbers,
    OneDimensionPlan,
    RecordWeights,
    Settings,
)
from privmean.estimators.heavy_tailed.high_dimension import ThreadedPlan, threaded_plans
from privmean.estimators.means.choose_vector_method import WORTH, instead, predicted_with_nothing
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.output import count_noun
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.validate import known_keywords

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


def with_search(settings: HeavyTailedMean, found: Plan) -> Plan:
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
    for coarse in settings.starts("laplace", common):
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
    sums = ClippedSums("planned", common.relation, epsilon=epsilon)
    return radii.one_dimension(
        common.tails, persons=common.n, noise=sums.value_sd / common.n, offset=coarse.offset
    )


LARGEST_SEARCH = 2**36
MOST_SAID = 32  # rounds: plans choose 8 at most, and planning takes longer than in proportion
CLOSE = 0.03  # a number of people that would do is this close to the smallest


@known_keywords
@dataclass(frozen=True)
class HeavyTailedMean(Settings):
    """Mean of people's values under `BoundedMoment`.

    Parameters
    ----------
    moment : BoundedMoment
        What accuracy and intervals assume.
    law : {"auto", "gaussian", "laplace", "k-norm"}, default "auto"
        Noise of the sums; "auto" has the smallest predicted error that the budget allows.
    rounds : int, optional
        Number of clipping rounds, at most 32. Default: the smallest predicted error.
    start : {"auto", "histogram", "public"}, default "auto"
        Coarse location: by histogram, or the middle of the public range.
    wide_buckets : bool, default False
        Use buckets of six standard deviations, for which the constants are proved, instead of two.
    private_radius : bool, optional
        Spend 15% of epsilon on a smaller radius: a smaller error and longer intervals. Default:
        only in Gaussian rounds under replace-one, if shorter intervals are predicted.
    beta : float, default 0.01
        Failure probability that the plan allows the coarse step.
    weights : RecordWeights, optional
        Weights for different, private numbers of records; as text
        "max_records:12,critical:3,least:2".

    Raises
    ------
    InfeasibleError
        From `plan`, if the public numbers allow no useful release.

    Privacy
    -------
    Person-level differential privacy for any data, with exact noise. Public are the settings, the
    assumption and, under replace-one, the roster; under add-remove `n_guess` replaces n.

    Notes
    -----
    Source: Agarwal, Kamath, Majid, Mouzakis, Silver and Ullman (2024).

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    heavy = pm.HeavyTailedMean(pm.BoundedMoment(order=3, bound=1.0), law="laplace")
    pm.mean(people, method=heavy, epsilon=1.0, delta=1e-6)
    """

    moment: BoundedMoment
    law: Literal["auto", "gaussian", "laplace", "k-norm"] = "auto"
    rounds: int | None = None
    start: Literal["auto", "histogram", "public"] = "auto"
    wide_buckets: bool = False
    private_radius: bool | None = None
    beta: float = 0.01
    weights: RecordWeights | None = None

    def __post_init__(self) -> None:
        remedy = "give BoundedMoment(order=..., bound=...)"
        validate.instance("moment", self.moment, BoundedMoment, remedy)
        validate.choice("law", self.law, ["auto", "gaussian", "laplace", "k-norm"])
        validate.choice("start", self.start, ["auto", "histogram", "public"])
        validate.keep(self, validate.fraction, "beta")
        validate.flag("wide_buckets", self.wide_buckets)
        if self.private_radius is not None:
            validate.flag("private_radius", self.private_radius)
        if self.weights is not None:
            remedy = "give RecordWeights(max_records=12), in texts weights=max_records:12"
            validate.instance("weights", self.weights, RecordWeights, remedy)
        if self.rounds is not None:
            rounds = validate.whole("rounds", self.rounds, least=1, most=MOST_SAID)
            object.__setattr__(self, "rounds", rounds)
        if self.start == "public" and self.moment.range is None:
            raise ArgumentError(
                "start", self.start, "requires a public range", "give BoundedMoment(..., range=...)"
            )
        if self.private_radius and self.weights is not None:
            raise ArgumentError(
                "private_radius", True, "cannot be combined with weights", "remove one of them"
            )

    @property
    def serves_records(self) -> bool:
        """Whether people with numbers of records are read by them."""
        return self.weights is not None

    def plan(self, budget: Budget, shape: PublicShape) -> Plan:
        """Everything decided before data are read.

        Raises InfeasibleError, naming the number of people that would do.
        """
        relation, n, d = budget.neighbors, shape.number(), shape.dimension
        if relation != REPLACE_ONE and self.private_radius:
            raise ArgumentError(
                "neighbors",
                relation,
                "cannot be combined with a private radius, which requires a public roster",
                'use neighbors="replace-one", or remove private_radius',
            )
        self.moment.ranges(d)
        if self.rounds not in (None, 1) and one_sum(self, budget, d):
            raise ArgumentError(
                "rounds",
                self.rounds,
                "requires Gaussian noise or several columns",
                'remove it, or use law="gaussian" with a delta',
            )
        found = self.attempt(budget, n, d, relation)
        if found is None:
            raise self._infeasible(budget, n, d, relation)
        if self.private_radius is None:
            found = with_search(self, found)
        nothing = predicted_with_nothing(budget, shape, (found.common.spread,) * d)
        return compared(found, nothing)

    def attempt(
        self, budget: Budget, persons: int, dimension: int, relation: Relation
    ) -> Plan | None:
        """The plan without a choice of the radius, or None where it is infeasible."""
        common = HeavyTailedNumbers(
            budget, relation, persons, dimension, self.moment, float(self.beta)
        )
        return plan(self, common)

    def _infeasible(
        self, budget: Budget, persons: int, dimension: int, relation: Relation
    ) -> InfeasibleError:
        if self.moment.range is None and (budget.is_pure or budget.is_zcdp):
            return InfeasibleError(
                f"a search with {budget.describe()} requires delta > 0 or a public range",
                "pass delta=1e-6, or BoundedMoment(..., range=(lower, upper)); on a "
                "command line, range=LOWER,UPPER",
            )
        needed = smallest_int(
            lambda n: self.attempt(budget, n, dimension, relation) is not None,
            persons + 1,
            most=LARGEST_SEARCH,
            within=CLOSE,
        )
        if needed is None:
            return InfeasibleError(
                f"no number of people makes this feasible with {budget.describe()}",
                "choose another law or start, narrow the public range, or give more budget",
            )
        return InfeasibleError(
            f"n={persons} is too small for {count_noun(dimension, 'column')} with "
            f"{budget.describe()}",
            f"provide at least about {needed} people, a larger epsilon, or a narrower public range",
        )
