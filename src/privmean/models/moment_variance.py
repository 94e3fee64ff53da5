"""The variance between people with nothing given: private units, then one noisy sum of powers.

A magnitude, a median and a spread by private choices, a search for how far people lie from the
median, then the sums of 1, u, u^2 and u^4 of the deviations u clipped at a limit: the last says how
precise the second moment is. docs/proofs/variance.md, section 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from privmean import validate
from privmean.data.collect_rows import collect_rows as rows_of
from privmean.data.person_table import Floats, Integers
from privmean.data.public_shape import PublicShape
from privmean.inference.assumptions import dependence
from privmean.inference.status import FAILED, NOT_IDENTIFIED, release_status
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.moment_sums import exact_sum
from privmean.mechanisms.power_sums import STEPS, PowerSums
from privmean.models.center_scale import (
    FEWEST,
    NOBODY,
    RANGE,
    CenterScaleChoices,
    octaves_of,
    refuse_unseen,
    share_seen,
)
from privmean.models.column_plan import one_column
from privmean.models.moment_variance_intervals import MomentVarianceIntervals, Powers
from privmean.models.noise_budget import NoiseBudget, plans_by_law
from privmean.models.row_clipping import ShorteningPlan, best_radius
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.outcome import Outcome

PARTS = (Fraction(30, 100), Fraction(30, 100), Fraction(40, 100))  # size, median, spread
FALL = 0.35  # of people who may hide in a cell, over the one before: cells of u^2 are octaves
EASY = 0.5  # part of the noise that counts where the limit is chosen: what is cut off is a bias
INSIDE, CELLS = 6, 31  # half octaves of |u| that are looked at: from 2^-3
SURE = 4.0  # deviations of the people within three octaves of the spread
UNRESOLVED = "The variance is no more than its noise, or most people have one value."
FEW_APART = (
    "Few people lie about as far from the median as the spread found: most have one value, or the "
    "noise hid the spread. Add people, raise epsilon, or give within=(smallest, largest)."
)


@dataclass(frozen=True)
class MomentVariance:
    """The variance between people. design_effect: public factor on the sampling variance. excess:
    squared deviations beyond the limit exceed it on average by no more than so many limits.

    Guarantees: the budget given to `plan`, for one person with all records and any data. Public:
    settings and, under replace-one, the number of people. People without a value are left out.
    """

    design_effect: float = 1.0
    excess: float = 0.5

    def __post_init__(self) -> None:
        validate.positive("design_effect", self.design_effect)
        validate.nonnegative("excess", self.excess)

    def plan(self, budget: Budget, shape: PublicShape) -> MomentVariancePlan:
        """Everything decided before data are read; InfeasibleError if the choices would be
        noise."""
        one_column(shape)
        n = shape.number()
        plans = plans_by_law(budget, partial(MomentVariancePlan, budget, n, self))
        refuse_unseen(
            n, budget, max(plan.least for plan in plans), FEWEST,
            "find the values", "a larger epsilon, or within=(smallest, largest)",
        )  # fmt: skip
        fit = [plan for plan in plans if n * plan.least >= FEWEST]
        return min(fit, key=lambda plan: plan.one_noise)


@dataclass(frozen=True)
class MomentVariancePlan(ShorteningPlan):
    """Every mechanism."""

    settings: MomentVariance
    parts: NoiseBudget
    lengths, farther = "deviations", "count outside bounds"
    estimator = "moment variance"

    @property
    def rationale(self) -> str:
        law = self.parts.word
        return f"size, median and spread by private choice, then sums of powers with {law} noise"

    # --- mechanisms -------------------------------------------------------------------------------
    @property
    def share(self) -> Fraction:
        """Of the choices: more where people are few."""
        least = min(PARTS)
        return share_seen(lambda x: self.n * float(self.parts.epsilon(x * least)))

    @property
    def least(self) -> float:
        """The least epsilon of a choice."""
        return float(self.parts.epsilon(self.share * min(PARTS)))

    @property
    def choices(self) -> CenterScaleChoices:
        prices = [self.parts.epsilon(self.share * part) for part in PARTS]
        return CenterScaleChoices.at(prices, self.relation, not self.parts.laplace)

    @property
    def rest(self) -> Fraction:
        return 1 - self.share

    @property
    def powers(self) -> PowerSums:
        return PowerSums("powers", self.relation, **self.parts.sums(self.summed))

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        first = self.choices.events
        return (*first, *self.look.events, *self.beyond.events, *self.powers.events)

    @property
    def one_noise(self) -> float:
        """Deviation of the noise of the sum of u^2, over U^2."""
        return self.powers.sds[2]

    def errors(self, guess: float) -> tuple[float, float]:
        """Of the variance of normal values (a limit of 3.5 deviations)."""
        noise = 3.5**2 * guess**2 * self.one_noise / self.n
        return noise, guess**2 * math.sqrt(2 * self.settings.design_effect / self.n)

    def describe(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "budget": self.budget.to_dict(),
            "law": self.parts.law,
            "mechanisms": [loss.to_dict() for loss in self.events],
        }

    # --- the run ----------------------------------------------------------------------------------
    def run(self, curator: Curator) -> Outcome:
        place = self.choices.ask(curator)
        center, spread, inside = place.center, place.spread, place.inside
        limit, cut, seen = self._limit(curator, center, place.place)
        x = rows_of(curator.people, size_is_public=self.relation == REPLACE_ONE)[:, 0]
        with np.errstate(all="ignore"):
            u = (x - center) / spread
            far = int(np.count_nonzero(np.abs(u) > limit))
        beyond, beyond_sd = self.too_long(curator, far)
        noisy = curator.ask(self.powers, [exact_sum(item) for item in _powers(u / limit)])
        made = MomentVarianceIntervals.of(
            Powers(tuple(noisy), self.powers.scales, not self.parts.laplace, limit),
            cut=cut, beyond=beyond, beyond_sd=beyond_sd, unit=spread,
            design_effect=self.settings.design_effect, excess=self.settings.excess,
        )  # fmt: skip
        failed = made.nobody or not inside or not seen
        status = (
            made.status if not failed else FAILED if made.nobody or not inside else NOT_IDENTIFIED
        )
        why = NOBODY if made.nobody else RANGE if not inside else FEW_APART
        return Outcome(
            np.array([math.nan if failed or not made.resolved else made.variance]),
            made.unknown() if failed else made,
            n=self.counted(made.n),
            status=release_status((status,)),
            statuses=(status,),
            advice=why if failed else "" if made.resolved else UNRESOLVED,
            assumptions=(dependence(self.settings.design_effect),),
            shares={"location and scale": float(self.share), "powers": 1 - float(self.share)},
            diagnostics={"center": center, "spread": spread, "limit": limit * spread,
                         "weight": [made.n]},
            estimand="variance between people",
        )  # fmt: skip

    def _limit(self, curator: Curator, center: float, place: int) -> tuple[float, float, bool]:
        """Where deviations are clipped, in spreads, the sum that the look sees cut off their
        squares, and whether it sees people about a spread away at all."""
        octaves = octaves_of(curator.people.log_counts(0, center))
        ends = np.clip(place - INSIDE + np.arange(CELLS) + 1, 0, len(octaves))
        counts = np.diff(np.concatenate([[0], np.cumsum(octaves)])[[0, *ends, len(octaves)]])
        noisy, sd = self.looked(curator, counts.astype(np.int64))
        edges: Floats = np.exp2(np.arange(CELLS) - float(INSIDE))  # of u^2
        found = best_radius(noisy, sd, edges, self.one_noise * EASY, FALL)
        about = noisy[1 : 2 * INSIDE + 1]
        seen = about.sum() > SURE * math.sqrt(len(about)) * sd
        return math.sqrt(found.limit), found.cut, bool(seen)


def _powers(a: Floats) -> list[Integers]:
    """The entries of a person's row, from the deviation over the limit: 0 without a value."""
    there = ~np.isnan(a)
    clipped = np.where(there, np.clip(a, -1.0, 1.0), 0.0)
    square = clipped * clipped
    entries = (np.where(there, 1.0, 0.0), clipped, square, square * square)
    return [np.trunc(item * STEPS).astype(np.int64) for item in entries]
