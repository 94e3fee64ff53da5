"""The heavy-tailed mean of several columns: a coarse center, then rounds of clip-and-noise.

All people take part in every round, and the losses compose. The plans say what the budget leaves
for the rounds, and how it is shared.

Source: Agarwal et al. (2024), Algorithms 2-4 and Theorem 4.3; docs/proofs/heavy-tails-threaded.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.data.person_table import PersonTable
from privmean.estimators.heavy_tailed import clipping_bias as bias
from privmean.estimators.heavy_tailed import coarse_center as private_radius
from privmean.estimators.heavy_tailed.clipping_bias import Tail
from privmean.estimators.heavy_tailed.clipping_rounds import (
    MOST_ROUNDS,
    Problem,
    Schedule,
    strength,
)
from privmean.estimators.heavy_tailed.coarse_center import Coarse, Outside, RadiusSearch
from privmean.estimators.heavy_tailed.heavy_tailed_plan import (
    COARSE_SHARE,
    SEARCH_SHARE,
    ClippingPlan,
    HeavyTailedNumbers,
    RecordWeights,
    Settings,
    assumption_of,
    counted,
    records_of,
    require_counts,
    totals,
)
from privmean.estimators.heavy_tailed.moment_intervals import Coordinates
from privmean.inference.mean_interval import FEWEST, TOO_FEW
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.weighted_sums import EXTRA, UNIT, JointSums, Law, WeightSum
from privmean.pipeline import HasEvents
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.compose import calibrate
from privmean.privacy.privacy_events import Gaussian, PrivacyEvent
from privmean.release.result_numbers import PERSONS, Outcome

LAW_WORDS = {"gaussian": "Gaussian", "laplace": "Laplace", "k-norm": "l2 K-norm"}


@dataclass(frozen=True)
class ThreadedPlan(ClippingPlan):
    """Everything decided before data are read: start, rounds, radii, noise, and the accounting.

    strengths: mu (Gaussian law) or epsilon of each round. weights: by number of records,
    or None for people weighted equally. first_weight: bought where the rounds' own sums of weights
    are not free.
    """

    strengths: tuple[float | Fraction, ...]
    weights: RecordWeights | None = None
    first_weight: WeightSum | None = None

    @property
    def estimator(self) -> str:
        weighted = "" if self.weights is None else ", weighted by records"
        return f"heavy-tailed mean, {LAW_WORDS[self.schedule.law]} rounds{weighted}"

    @property
    def usual(self) -> float:
        return self.usual_at(1.0)

    def usual_at(self, filled: float) -> float:
        """The same where they fill only this part of it: the noise at the radius that a search is
        expected to find, the pull of the ball, and sampling."""
        last, tail, radius = self.last.choice, self._filled(filled), self._expected(filled)
        noise = last.noise * radius / last.radius
        return math.hypot(noise, bias.usual(tail, radius, self.last.offset), filled * last.sampling)

    def half_length_at(self, filled: float) -> float:
        """Predicted half length of the 95% intervals, where values fill this part of the bound."""
        radius, still = self._expected(filled), (0.0,) * self.common.dimension
        bought = self.search is not None and radius < self.last.choice.radius
        return self._intervals(
            self.step(len(self.strengths) - 1, radius),
            still,
            still,
            np.zeros(len(still)),
            float(self.common.n),
            0.0,
            self.outside(radius) if bought else None,
        ).half_length(0.95)

    def _filled(self, filled: float) -> Tail:
        tail = min(self.common.tails, key=lambda item: item.size)
        return replace(tail, size=filled * tail.size)

    def _expected(self, filled: float) -> float:
        """The radius of the last round where values fill this part of the bound."""
        radius = self.last.choice.radius
        if self.search is None:
            return radius
        found = self.search.expected(self._filled(filled), self.common.n, self.last.offset)
        return min(radius, found)

    @cached_property
    def _planned(self) -> tuple[JointSums, ...]:
        return tuple(
            self._sums(i, item.choice.radius) for i, item in enumerate(self.schedule.rounds)
        )

    def step(self, index: int, radius: float | None = None) -> JointSums:
        """One round as a mechanism; `radius` replaces the planned one."""
        return self._planned[index] if radius is None else self._sums(index, radius)

    def _sums(self, index: int, rho: float) -> JointSums:
        common = self.common
        weights: tuple[int, ...] = (0, UNIT)
        radii: tuple[float, ...] = (rho, rho)
        if self.weights is not None:
            weights = self.weights.weights(common.moment)
            unit = rho / common.moment.spread(self.weights.typical(common.moment))
            radii = tuple(unit * common.moment.spread(m) for m in range(len(weights)))
        return JointSums(
            f"clipped sum, round {index + 1} of {len(self.strengths)}",
            self.schedule.law,
            common.dimension,
            weights,
            radii,
            self.strengths[index],
            common.relation,
        )

    @property
    def asked(self) -> dict[str, HasEvents | None]:
        rounds = {f"round {i + 1}": self.step(i) for i in range(len(self.strengths))}
        return {
            "coarse center": self.coarse,
            "sum of weights": self.first_weight,
            "private radius": self.search,
            **rounds,
        }

    def describe(self) -> dict[str, Any]:
        return {
            **self.common.describe(),
            "planned center errors": self.schedule.centers,
            "clip radii": tuple(item.choice.radius for item in self.schedule.rounds),
            "people per round": tuple(item.n for item in self.schedule.rounds),
            "noise law": self.schedule.law,
            **self.told(),
            "record cap": None if self.weights is None else self.weights.max_records,
        }

    def check_table(self, people: PersonTable) -> None:
        if self.weights is not None:
            require_counts(people)

    # --- release ----------------------------------------------------------------------------------
    def run(self, curator: Curator) -> Outcome:
        """People without any value have no weight; a null in some columns only contributes the
        center there."""
        people, records = curator.people, None
        if self.weights is not None:
            people = counted(people, size_is_public=self.common.relation == REPLACE_ONE)
            records = records_of(people, self.weights.max_records)
        center = self.coarse.find(curator, people)
        if center is None:
            return self.common.failed(self.shares)
        pooled, precision = 0.0, 0.0
        if self.first_weight is not None:
            _, exact = self._totals(people, records, self.step(0), center)
            precision = self.first_weight.scale**-2
            pooled = precision * curator.ask(self.first_weight, exact)
        diagnostics: dict[str, Any] = {}
        outside: Outside | None = None
        for index in range(len(self.strengths)):
            radius = None
            if self.search is not None and index == len(self.strengths) - 1:
                found = self.search.find(curator, center)
                planned = self.last.choice.radius
                radius = planned if found is None else min(planned, found)
                outside = self.outside(found)
                diagnostics["private radius"] = radius
            step, around = self.step(index, radius), center
            moved, persons = curator.ask(step, self._totals(people, records, step, around))
            pooled += step.scales[1] ** -2 * persons
            precision += step.scales[1] ** -2
            weight = max(pooled / precision, 1.0)
            center = tuple((np.array(around) + moved / weight).tolist())
        if pooled / precision < max(1.0, FEWEST * precision**-0.5):
            return self.common.failed(self.shares, TOO_FEW)
        return Outcome(
            self.common.within(np.array(center)),
            self._intervals(step, around, center, moved, weight, precision**-0.5, outside),
            n=self.common.released_persons(weight) if self.weights is None else None,
            assumptions=(self.common.moment.describe(),),
            shares=self.shares,
            diagnostics=diagnostics,
            estimand=PERSONS
            if self.weights is None
            else "mean, people weighted by a public function of their records",
            follows_from_answers=True,
        )

    def _totals(
        self,
        people: PersonTable,
        records: Integers | None,
        step: JointSums,
        center: tuple[float, ...],
    ) -> tuple[Sequence[int], int]:
        """Exact weighted sum and exact sum of weights."""
        if records is not None:
            return totals(people, records, step, center)
        sums = people.ball_sums(step.ball(center, 1))
        return sums.z, sums.present * UNIT

    def _intervals(
        self,
        step: JointSums,
        around: tuple[float, ...],
        center: tuple[float, ...],
        moved: Floats,
        weight: float,
        weight_scale: float,
        outside: Outside | None,
    ) -> Coordinates:
        common = self.common
        # the ratio's noise: the sum's, and the weights' times the way from the last center
        far = float(np.abs(moved).max()) / weight
        join = math.hypot if self.schedule.law == "gaussian" else lambda a, b: a + b
        scale = join(step.scales[0], weight_scale * far) / weight
        variance, allowance = common.spread**2, 0.0
        tails = {1: common.tails}
        if self.weights is not None:
            numbers = np.geomspace(self.weights.least, self.weights.max_records, 12).round()
            tails = {
                int(m): replace(common.moment, records=m).tails(common.dimension) for m in numbers
            }
            variance = max(
                w / UNIT * common.moment.spread(m) ** 2 for m, w in enumerate(step.weights) if w
            )
        for m, tail in tails.items():
            bound = bias.ball(tail, [step.radii[m]], self.last.offset)
            allowance = max(allowance, float(bound[0]))
        return Coordinates(
            center,
            self.schedule.law,
            scale,
            math.sqrt(variance / weight),
            allowance,
            max(step.radii),
            around,
            f"{assumption_of(common)}; last center within {self.last.offset:.4g} of the mean",
            common.moment.ranges(common.dimension),
            outside,
        )


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
        for coarse in settings.starts(law, common):
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
