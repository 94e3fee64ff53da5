"""The variance between persons with nothing given: private units, then one noisy sum of powers.

A magnitude, a median and a spread by private choices, a look at how far persons lie from the
median, then the sums of 1, u, u^2 and u^4 of the deviations u clipped at a limit: the last says how
precise the second moment is. docs/proofs/variance.md, section 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError, Infeasible
from privmean.intervals.interval import FAILED
from privmean.mechanisms.counts import GaussianCounts, NoisyCounts
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.power_sums import STEPS, PowerSums
from privmean.models.column_plans import ColumnPlan
from privmean.models.moment_rows import exact_sum
from privmean.models.pooled_steps import Law, Parts
from privmean.models.radius import best_radius
from privmean.models.scores import median_scores
from privmean.models.spread_intervals import Powers, SpreadIntervals
from privmean.models.standard import (
    HIGHEST,
    LOWEST,
    Middle,
    Sizes,
    edge,
    grid_around,
    octaves_of,
    place_above,
    size_scores,
)
from privmean.outcome import Outcome
from privmean.people.collecting import rows as rows_of
from privmean.people.reductions import Floats, Integers
from privmean.people.shape import Shape
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.calibrate import calibrate
from privmean.privacy.loss import Loss

SHARES = (Fraction(3, 20), Fraction(1, 4), Fraction(7, 20), Fraction(9, 20))  # for the choices
PARTS = (Fraction(30, 100), Fraction(30, 100), Fraction(40, 100))  # size, median, spread
LOOK, COUNT = Fraction(12, 100), Fraction(8, 100)  # of the rest
ENOUGH, FEWEST = 90.0, 60.0  # persons times epsilon of one choice
FALL = 0.35  # of persons who may hide in a cell, over the one before: cells of u^2 are octaves
EASY = 0.5  # part of the noise that counts where the limit is chosen: what is cut off is a bias
INSIDE, CELLS = 6, 31  # half octaves of |u| that are looked at: from 2^-3
SURE = 4.0  # deviations of the persons within three octaves of the spread
UNSEEN = "scale not seen"
FEW_APART = (
    "few persons lie about as far from the median as the spread found: most have one value, or "
    "noise hid the spread: more persons, more epsilon, or within=(smallest, largest)"
)
NOBODY = "too few persons have a value: more persons or more epsilon"
RANGE = "values reach beyond the public range of 2^40 to either side: give them in a larger unit"


@dataclass(frozen=True)
class Spread:
    """The variance between persons. design_effect: public factor on the sampling variance. excess:
    squared deviations beyond the limit exceed it on average by no more than so many limits.

    Guarantees: the budget given to `plan`, for one person with all records and any data. Public:
    settings and, under replace-one, the number of persons. Persons without a value are left out.
    """

    design_effect: float = 1.0
    excess: float = 0.5

    def __post_init__(self) -> None:
        validate.positive("design_effect", self.design_effect)
        validate.nonnegative("excess", self.excess)

    def plan(self, budget: Budget, shape: Shape) -> SpreadPlan:
        """Everything decided before data are read; Infeasible if the choices would be noise."""
        if shape.dimension != 1:
            raise ArgumentError("value", shape.dimension, "is not one column", "name one column")
        n = shape.number()
        laws: tuple[Law, ...] = ("gaussian",) if budget.is_zcdp else ("laplace",)
        if not budget.is_zcdp and not budget.is_pure:
            laws = ("laplace", "gaussian")
        plans = [self._of(law, budget, n) for law in laws]
        fit = [plan for plan in plans if n * plan.least >= FEWEST]
        if not fit:
            best = max(plan.least for plan in plans)
            raise Infeasible(
                f"{n} persons with {budget.describe()} do not show where the values lie",
                f"about {math.ceil(FEWEST / best)} persons would do, a larger epsilon, or "
                "within=(smallest, largest)",
            )
        return min(fit, key=lambda plan: plan.one_noise)

    def _of(self, law: Law, budget: Budget, n: int) -> SpreadPlan:
        def made(strength: float | Fraction) -> SpreadPlan:
            return SpreadPlan(self, budget, n, Parts(law, strength))

        if law == "laplace":
            return made(budget.pure_epsilon())
        if budget.rho is not None:
            return made(math.sqrt(2 * budget.rho) * (1 - 1e-9))
        return made(calibrate(lambda t: made(t).losses, budget, grid=False, tolerance=1e-6))


@dataclass(frozen=True)
class SpreadPlan(ColumnPlan):
    """Every mechanism. persons: n, or a public guess of it."""

    settings: Spread
    budget: Budget
    persons: int
    parts: Parts
    estimator = "second moment about a private median"

    @property
    def why(self) -> str:
        law = "Laplace" if self._laplace else "Gaussian"
        return f"size, median and spread by private choice, then sums of powers with {law} noise"

    @property
    def _laplace(self) -> bool:
        return self.parts.law == "laplace"

    # --- mechanisms -------------------------------------------------------------------------------
    @property
    def share(self) -> Fraction:
        """Of the choices: more where persons are few."""
        return next(
            (
                x
                for x in SHARES
                if self.persons * float(self.parts.epsilon(x * min(PARTS))) >= ENOUGH
            ),
            SHARES[-1],
        )

    @property
    def least(self) -> float:
        """The least epsilon of a choice."""
        return float(self.parts.epsilon(self.share * min(PARTS)))

    @property
    def size(self) -> Sizes:
        epsilon = self.parts.epsilon(self.share * PARTS[0])
        return Sizes("size", epsilon, self.relation, not self._laplace)

    @property
    def middle(self) -> Middle:
        epsilon = self.parts.epsilon(self.share * PARTS[1])
        return Middle("median", epsilon, self.relation, not self._laplace)

    @property
    def spread(self) -> Sizes:
        epsilon = self.parts.epsilon(self.share * PARTS[2])
        return Sizes("spread", epsilon, self.relation, not self._laplace)

    @property
    def look(self) -> NoisyCounts | GaussianCounts:
        return self._counts("deviations", LOOK, 2 if self.relation == REPLACE_ONE else 1)

    @property
    def beyond(self) -> NoisyCounts | GaussianCounts:
        return self._counts("persons beyond the limit", COUNT, 1)

    def _counts(self, name: str, part: Fraction, moved: int) -> NoisyCounts | GaussianCounts:
        found = self.parts.sums((1 - self.share) * part)
        if "mu" in found:
            return GaussianCounts.at(name, found["mu"], self.relation, moved)
        return NoisyCounts.at(name, found["epsilon"], self.relation, moved, moved)

    @property
    def powers(self) -> PowerSums:
        part = (1 - self.share) * (1 - LOOK - COUNT)
        return PowerSums("powers", self.relation, **self.parts.sums(part))

    @property
    def fixed(self) -> bool:
        """Whether every run bills these very lines, whatever it finds."""
        return True

    @property
    def losses(self) -> tuple[Loss, ...]:
        choices = (self.size.choice, self.middle.choice, self.spread.choice)
        first = [loss for choice in choices for loss in choice.losses]
        return (*first, *self.look.losses, *self.beyond.losses, *self.powers.losses)

    @property
    def one_noise(self) -> float:
        """Deviation of the noise of the sum of u^2, over U^2."""
        return self.powers.sds[2]

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted errors of the variance of normal values (a limit of 3.5 deviations)."""
        guess = validate.positive("guess_sd", guess_sd)
        noise = 3.5**2 * guess**2 * self.one_noise / self.persons
        sampling = guess**2 * math.sqrt(2 * self.settings.design_effect / self.persons)
        return {"rmse": math.hypot(noise, sampling), "noise": noise, "sampling": sampling}

    def describe(self) -> dict[str, Any]:
        return {
            "persons": self.persons,
            "budget": self.budget.to_dict(),
            "law": self.parts.law,
            "mechanisms": [loss.to_dict() for loss in self.losses],
        }

    # --- the run ----------------------------------------------------------------------------------
    def run(self, curator: Curator) -> Outcome:
        center, place, inside = self._located(curator)
        spread = edge(place)
        limit, cut, seen = self._limit(curator, center, place)
        x = rows_of(curator.people, size_is_public=self.relation == REPLACE_ONE)[:, 0]
        with np.errstate(all="ignore"):
            u = (x - center) / spread
            far = int(np.count_nonzero(np.abs(u) > limit))
        beyond, beyond_sd = self._counted(curator, self.beyond, np.array([far], dtype=np.int64))
        noisy = curator.ask(self.powers, [exact_sum(item) for item in _powers(u / limit)])
        made = SpreadIntervals.of(
            Powers(tuple(noisy), self.powers.scales, not self._laplace, limit),
            cut=cut, beyond=float(beyond[0]), beyond_sd=beyond_sd, unit=spread,
            design_effect=self.settings.design_effect, excess=self.settings.excess,
        )  # fmt: skip
        failed = made.nobody or not inside or not seen
        status = made.status if not failed else FAILED if made.nobody or not inside else UNSEEN
        why = NOBODY if made.nobody else RANGE if not inside else FEW_APART
        known = self.persons if self.relation == REPLACE_ONE else None
        return Outcome(
            np.array([math.nan if failed or not made.resolved else made.variance]),
            made.unknown() if failed else made,
            persons=known if known is not None else max(0, round(made.persons)),
            status=status,
            advice=why if failed else made.advice,
            assumptions=("unrelated persons",) if self.settings.design_effect == 1 else (),
            shares={"looking": float(self.share), "powers": 1 - float(self.share)},
            diagnostics={"center": center, "spread": spread, "limit": limit * spread,
                         "weight": [made.persons]},
            estimand="variance between persons",
        )  # fmt: skip

    def _located(self, curator: Curator) -> tuple[float, int, bool]:
        """A point next to the median, the place of the half octave of the spread about it, and
        whether both are within the public range."""
        people = curator.people
        place = curator.ask(
            self.size.choice, size_scores(people.log_counts(0, 0.0), self.size.slope)
        )
        inside = place < HIGHEST - LOWEST
        bins = grid_around(-2 * edge(place), 2 * edge(place))
        counts = bins.all_counts(people.uniform_counts(0, bins.half, bins.origin))
        center = bins.center(curator.ask(self.middle.choice, median_scores(counts)))
        # who is within two steps of the median counts nowhere: a point mass is not the spread
        first = place_above(4 * bins.half) + 1
        scores = size_scores(people.log_counts(0, center), self.spread.slope, first)
        place = first + curator.ask(self.spread.choice, scores)
        return center, place, inside and place < HIGHEST - LOWEST

    def _limit(self, curator: Curator, center: float, place: int) -> tuple[float, float, bool]:
        """Where deviations are clipped, in spreads, the sum that the look sees cut off their
        squares, and whether it sees persons about a spread away at all."""
        octaves = octaves_of(curator.people.log_counts(0, center))
        ends = np.clip(place - INSIDE + np.arange(CELLS) + 1, 0, len(octaves))
        counts = np.diff(np.concatenate([[0], np.cumsum(octaves)])[[0, *ends, len(octaves)]])
        noisy, sd = self._counted(curator, self.look, counts.astype(np.int64))
        edges: Floats = np.exp2(np.arange(CELLS) - float(INSIDE))  # of u^2
        found = best_radius(noisy, sd, edges, self.one_noise * EASY, FALL)
        about = noisy[1 : 2 * INSIDE + 1]
        seen = about.sum() > SURE * math.sqrt(len(about)) * sd
        return math.sqrt(found.limit), found.cut, bool(seen)

    def _counted(
        self, curator: Curator, mechanism: NoisyCounts | GaussianCounts, exact: Integers
    ) -> tuple[Floats, float]:
        if isinstance(mechanism, GaussianCounts):
            return curator.ask(mechanism, [exact])[0], mechanism.sd
        noisy = curator.ask(mechanism, exact).astype(float)
        return noisy, math.sqrt(2) * float(mechanism.scale)


def _powers(a: Floats) -> list[Integers]:
    """The entries of a person's row, from the deviation over the limit: 0 without a value."""
    there = ~np.isnan(a)
    clipped = np.where(there, np.clip(a, -1.0, 1.0), 0.0)
    square = clipped * clipped
    entries = (np.where(there, 1.0, 0.0), clipped, square, square * square)
    return [np.trunc(item * STEPS).astype(np.int64) for item in entries]
