"""The default mean of many columns: one Gaussian histogram of all, then one Gaussian release.

For d > 3 (or too few persons to split epsilon over the columns) all coordinates are looked at
together: half of the squared GDP budget for noisy signed logarithmic histograms of every column,
half for the clipped sums of the columns that show anything. docs/proofs/default-mean.md, section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privmean import validate
from privmean.central.log_segments import ATOM_ONLY, BEYOND, FOUND, Evidence, Histogram, read_reach
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


@dataclass(frozen=True)
class DefaultVectorPlan:
    """Noise of both stages: mu of the histograms and of the sums."""

    settings: DefaultMean
    budget: Budget
    persons: int
    dimension: int
    mu: float

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
    def count_sd(self) -> float:
        """Deviation of the noise of every histogram count, in persons."""
        return math.sqrt(2 * self.dimension) / (self.mu * math.sqrt(0.5))

    def sums_sd(self, columns: int) -> float:
        """Deviation of the noise of every sum of z over `columns` released columns."""
        return 2 * math.sqrt(columns) / (self.mu * math.sqrt(0.5))

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The bill when every column is released."""
        return bill(self.dimension, self.dimension, self.mu)

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
        outcomes: list[str] = []
        limits: list[tuple[float, float] | None] = []
        for j in range(self.dimension):
            cells = people.log_counts(j, 0.0) * COUNT_LATTICE
            noisy = (cells + source.gaussian(LOG_CELLS, self.count_sd * COUNT_LATTICE)).astype(
                float
            ) / COUNT_LATTICE
            reach = read_reach(Histogram.of(noisy, self.count_sd), SAFETY, EVIDENCE)
            seen = reach.outcome == FOUND
            outcomes.append(reach.outcome)
            limits.append((reach.lower, reach.upper) if seen else None)
        shown = [j for j, item in enumerate(limits) if item is not None]
        boxes = {j: Box(*item) for j, item in enumerate(limits) if item is not None}
        losses: tuple[Loss, ...] = bill(self.dimension, 0, self.mu)
        estimate = np.array([0.0 if item == ATOM_ONLY else math.nan for item in outcomes])
        makers = [
            ColumnIntervals(None, default=CLIPPED, status="atom" if o == ATOM_ONLY else FAILED)
            for o in outcomes
        ]
        if shown:
            asked = people.box_sums([boxes.get(j) for j in range(self.dimension)])
            sums = [item for item in asked if item is not None]
            last = last_stage(len(shown), self.mu)
            found = last.release([boxes[j] for j in shown], sums, source)
            losses = bill(self.dimension, len(shown), self.mu)
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
                f"columns with fewer than about {few} persons away from zero cannot be seen: "
                f"{', '.join(hidden[:5])}{' ...' if len(hidden) > 5 else ''} answered 0 (atom) or "
                "not at all; more epsilon or more persons show them"
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
            shares={"histograms (of mu^2)": 0.5, "sums (of mu^2)": 0.5},
            diagnostics={"outcomes": dict(zip(people.columns, outcomes, strict=True))},
            secure=source.secure,
        )


def last_stage(columns: int, mu: float) -> ClippedSums:
    """The sums of `columns` columns, at their half of mu^2."""
    return ClippedSums("values and squares", REPLACE_ONE, columns, mu=mu * math.sqrt(0.5))


def bill(dimension: int, columns: int, mu: float) -> tuple[Loss, ...]:
    """Losses of the histograms and, for `columns` > 0, of the sums, at a total of mu."""
    part = mu * math.sqrt(0.5)
    root = math.nextafter(math.sqrt(2 * dimension), math.inf)
    counts = Gaussian(
        "histograms of all columns",
        root * COUNT_LATTICE,
        math.sqrt(2 * dimension) / part * COUNT_LATTICE,
        2 * dimension,
    )
    if not columns:
        return (counts,)
    return counts, *last_stage(columns, mu).losses


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
    mu = calibrate(lambda t: bill(dimension, dimension, t), budget, grid=False)
    if mu <= 0:
        raise Infeasible(
            f"{dimension} columns at pure {budget.describe()} leave too little for each",
            "give delta > 0 (or rho), more persons, or bounds",
        )
    plan = DefaultVectorPlan(settings, budget, persons, dimension, mu)
    needed = (EVIDENCE.main + EVIDENCE.price) * plan.count_sd
    if persons < needed:
        raise Infeasible(
            f"{persons} persons are fewer than the {math.ceil(needed)} that a column must show",
            "more persons, more epsilon, or bounds are needed",
        )
    return plan
