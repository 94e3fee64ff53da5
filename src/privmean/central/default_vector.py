"""The default mean of many columns: one Gaussian histogram of all, then one Gaussian release.

For d > 3 (or too few persons to split epsilon over the columns) all coordinates are looked at
together: a few cheap rounds that carry every column's origin into its values, then half of the rest
of the squared GDP budget for noisy signed logarithmic histograms of every column, half for the
clipped sums of the columns that show anything. docs/proofs/default-mean.md, section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privmean import validate
from privmean.central.locate import PART, WINDOW
from privmean.central.log_segments import (
    ATOM_ONLY,
    BEYOND,
    FOUND,
    Evidence,
    Histogram,
    concentrated,
    read_reach,
)
from privmean.errors import ArgumentError, Infeasible
from privmean.intervals.default_intervals import CLIPPED, BoxIntervals, ColumnIntervals
from privmean.intervals.divided import Divided
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.noise.base import Noise
from privmean.noise.exact import ExactNoise
from privmean.people.reductions import LOG_CELLS, Box, People
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.privacy.calibrate import calibrate
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.loss import Gaussian, Loss
from privmean.release import FAILED, OK, Release

if TYPE_CHECKING:
    from privmean.central.default_mean import DefaultMean

COUNT_LATTICE = 2**20  # counts are scaled up: their own unit is too coarse for Gaussian noise
EVIDENCE = Evidence(price=1.3, main=7.0, other=5.0, atom=4.0)
SAFETY = 2**0.25
PARTLY = "some columns not seen"
MOST_ROUNDS, ROUNDS_PART, LEAST_PART = 6, 0.15, 0.01  # of mu^2: for all rounds, for each
CLEAR = 4.0  # deviations of a full window's noisy count above the part that moves an origin


@dataclass(frozen=True)
class DefaultVectorPlan:
    """Noise of all stages: mu of the whole, and what the rounds take of mu^2, each."""

    persons_only: ClassVar[bool] = True

    settings: DefaultMean
    budget: Budget
    persons: int
    dimension: int
    mu: float
    rounds: int = 0
    round_part: float = 0.0

    @property
    def estimator(self) -> str:
        return "default mean of many columns"

    @property
    def why(self) -> str:
        return (
            "nothing is assumed: one Gaussian histogram of all columns shows their limits, one "
            "Gaussian release gives the clipped means"
        )

    @property
    def half(self) -> float:
        """Part of mu^2 of the histograms, and again of the sums."""
        return half_of_rest(self.rounds, self.round_part)

    @property
    def count_sd(self) -> float:
        """Deviation of the noise of every histogram count, in persons."""
        return self._count_sd(self.half)

    def _count_sd(self, part: float) -> float:
        return math.sqrt(2 * self.dimension) / (self.mu * math.sqrt(part))

    def sums_sd(self, columns: int) -> float:
        """Deviation of the noise of every sum of z over `columns` released columns."""
        return 2 * math.sqrt(columns) / (self.mu * math.sqrt(self.half))

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The bill when every round runs and every column is released."""
        return self._bill(self.rounds, self.dimension)

    def _bill(self, ran: int, columns: int) -> tuple[Loss, ...]:
        rounds = (self.rounds, self.round_part)
        return bill(self.dimension, columns, self.mu, rounds, ran)

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted error by cause, if every column is seen and has this deviation."""
        sd = validate.positive("guess_sd", guess_sd)
        sampling = sd * math.sqrt(self.settings.design_effect * self.dimension / self.persons)
        noise = 3.5 * sd * self.sums_sd(self.dimension) * math.sqrt(self.dimension) / self.persons
        return {
            "rmse": math.hypot(sampling, noise),
            "sampling": sampling,
            "privacy_noise": noise,
        }

    def describe(self) -> dict[str, Any]:
        return {
            "target": "clipped",
            "mu": self.mu,
            "histogram cells": LOG_CELLS * self.dimension,
            "rounds at most": self.rounds,
            "part of mu^2 a round": self.round_part,
            "noise of a count": self.count_sd,
            "persons a column must show": (EVIDENCE.main + EVIDENCE.price) * self.count_sd,
        }

    def release(self, people: People, noise: Noise | None = None) -> Release:
        """Run the plan. Columns that show nothing are answered 0 (atom) or NaN (not found)."""
        source: Noise = noise if noise is not None else ExactNoise()
        if people.size() != self.persons:
            raise ArgumentError(
                "people", people.size(), f"the plan is for {self.persons} persons", "plan again"
            )
        origins, ran = self._origins(people, source)
        outcomes: list[str] = []
        limits: list[tuple[float, float] | None] = []
        for j, origin in enumerate(origins):
            seen = _histogram(people, j, origin, self.count_sd, source)
            reach = read_reach(seen, SAFETY, EVIDENCE)
            lower, upper = origin + reach.lower, origin + reach.upper
            lost = reach.outcome == FOUND and not lower < upper  # in the rounding of the origin
            outcomes.append(ATOM_ONLY if lost else reach.outcome)
            limits.append((lower, upper) if outcomes[-1] == FOUND else None)
        shown = [j for j, item in enumerate(limits) if item is not None]
        boxes = {j: Box(*item) for j, item in enumerate(limits) if item is not None}
        losses: tuple[Loss, ...] = self._bill(ran, 0)
        estimate = np.array(
            [m if o == ATOM_ONLY else math.nan for o, m in zip(outcomes, origins, strict=True)]
        )
        makers = [
            ColumnIntervals(None, default=CLIPPED, status="atom" if o == ATOM_ONLY else FAILED)
            for o in outcomes
        ]
        if shown:
            asked = people.box_sums([boxes.get(j) for j in range(self.dimension)])
            sums = [item for item in asked if item is not None]
            last = last_stage(len(shown), self.mu * math.sqrt(self.half))
            found = last.release([boxes[j] for j in shown], sums, source)
            losses = self._bill(ran, len(shown))
            for j, column in zip(shown, found, strict=True):
                box = boxes[j]
                item = Divided.of(column, self.persons).sums
                value = box.middle + box.radius * item.mean
                estimate[j] = min(max(value, box.lower), box.upper)
                makers[j] = ColumnIntervals(
                    item,
                    middle=box.middle,
                    radius=box.radius,
                    region=(box.lower, box.upper),
                    default=CLIPPED,
                    design_effect=self.settings.design_effect,
                )
        guarantee = Guarantee.of(
            self.budget,
            REPLACE_ONE,
            losses,
            public=("number of persons", "roster of persons", "column names"),
        ).require()
        status = OK if len(shown) == self.dimension else PARTLY if shown else FAILED
        hidden = [people.columns[j] for j, item in enumerate(outcomes) if item != FOUND]
        advice = ""
        if hidden:
            few = math.ceil((EVIDENCE.main + EVIDENCE.price) * self.count_sd)
            advice = (
                f"columns with fewer than about {few} persons away from one value cannot be seen: "
                f"{', '.join(hidden[:5])}{' ...' if len(hidden) > 5 else ''} answered that value "
                "(atom) or not at all; more epsilon or more persons show them"
            )
            if BEYOND in outcomes:
                advice += "; values beyond 2^39 need a larger unit"
        return Release(
            estimate=estimate,
            columns=people.columns,
            estimator=self.estimator,
            guarantee=guarantee,
            intervals=BoxIntervals(makers),
            plan=self,
            persons=self.persons,
            status=status,
            advice=advice,
            assumptions=("persons without a usable value count at the middle of the limits",),
            shares={
                "rounds (of mu^2)": ran * self.round_part,
                "histograms (of mu^2)": self.half,
                "sums (of mu^2)": self.half,
            },
            diagnostics={
                "outcomes": dict(zip(people.columns, outcomes, strict=True)),
                "origins": dict(zip(people.columns, origins, strict=True)),
                "rounds": ran,
            },
            secure=source.secure,
        )

    def _origins(self, people: People, noise: Noise) -> tuple[list[float], int]:
        """An origin for every column, carried into its values, and the rounds that it took.

        Every round looks at all columns together, at a price fixed in advance; a column whose
        values are not close together compared with their distance stays. No column moves: stop.
        """
        origins, moving = [0.0] * self.dimension, set(range(self.dimension))
        ran = 0
        while moving and ran < self.rounds:
            ran += 1
            sd = self._count_sd(self.round_part)
            for j in range(self.dimension):
                if j not in moving:
                    continue
                seen = _histogram(people, j, origins[j], sd, noise)
                window = concentrated(seen, WINDOW)
                if window.held < PART * self.persons:
                    moving.discard(j)
                else:
                    origins[j] += window.middle
        return origins, ran


def _histogram(people: People, column: int, origin: float, sd: float, noise: Noise) -> Histogram:
    cells = people.log_counts(column, origin) * COUNT_LATTICE
    noisy = cells + noise.gaussian(LOG_CELLS, sd * COUNT_LATTICE)
    return Histogram.of(noisy.astype(float) / COUNT_LATTICE, sd)


def half_of_rest(rounds: int, part: float) -> float:
    return (1 - rounds * part) / 2


def last_stage(columns: int, mu: float) -> ClippedSums:
    """The sums of the columns that are shown."""
    return ClippedSums("values and squares", REPLACE_ONE, columns, mu=mu)


def bill(
    dimension: int,
    columns: int,
    mu: float,
    rounds: tuple[int, float] = (0, 0.0),
    ran: int | None = None,
) -> tuple[Loss, ...]:
    """Losses of the rounds, the histograms and, for `columns` > 0, the sums, at a total of mu.

    rounds: how many are planned, and the part of mu^2 of each; ran: how many were run.
    """
    part = mu * math.sqrt(half_of_rest(*rounds))
    root = math.nextafter(math.sqrt(2 * dimension), math.inf)

    def counts(name: str, strength: float) -> Gaussian:
        sd = math.sqrt(2 * dimension) / strength
        return Gaussian(name, root * COUNT_LATTICE, sd * COUNT_LATTICE, 2 * dimension)

    looks = rounds[0] if ran is None else ran
    losses: list[Loss] = []
    if looks:
        losses += [counts("origins of all columns", mu * math.sqrt(rounds[1]))] * looks
    losses.append(counts("histograms of all columns", part))
    if columns:
        losses += last_stage(columns, part).losses
    return tuple(losses)


def rounds_of(dimension: int, persons: int, mu: float) -> tuple[int, float]:
    """How many rounds, and the part of mu^2 of each: such that a window that holds everybody is
    told from one that holds 70 % by `CLEAR` deviations of its noisy count."""
    gap = (1 - PART) * persons
    part = max(LEAST_PART, 2 * dimension * WINDOW * (CLEAR / (gap * mu)) ** 2)
    rounds = min(MOST_ROUNDS, int(ROUNDS_PART / part))
    return (rounds, part) if rounds else (0, 0.0)


def vector_plan(
    settings: DefaultMean,
    budget: Budget,
    *,
    persons: int,
    dimension: int,
    relation: Relation = REPLACE_ONE,
) -> DefaultVectorPlan:
    """The plan for many columns; needs delta > 0 or rho, and replace-one."""
    if relation != REPLACE_ONE:
        raise ArgumentError(
            "neighbors",
            relation,
            "is not offered for this many columns",
            "use replace-one, or release the columns one by one",
        )
    rounds = (0, 0.0)
    mu = calibrate(lambda t: bill(dimension, dimension, t), budget, grid=False)
    if mu > 0:
        rounds = rounds_of(dimension, persons, mu)
        mu = calibrate(lambda t: bill(dimension, dimension, t, rounds), budget, grid=False)
    if mu <= 0:
        raise Infeasible(
            f"{dimension} columns at pure {budget.describe()} leave too little for each",
            "give delta > 0 (or rho), more persons, or bounds",
        )
    plan = DefaultVectorPlan(settings, budget, persons, dimension, mu, *rounds)
    needed = (EVIDENCE.main + EVIDENCE.price) * plan.count_sd
    if persons < needed:
        raise Infeasible(
            f"{persons} persons are fewer than the {math.ceil(needed)} that a column must show",
            "more persons, more epsilon, or bounds are needed",
        )
    return plan
