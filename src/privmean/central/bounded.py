"""The mean of values limited to public bounds: no location step, nothing assumed about tails.

Every bit of the budget goes to one joint release of sums and squares, Laplace (pure epsilon) or,
for several columns and delta > 0 or rho, Gaussian where that is less noise. Source of the free
square and the interval: docs/proofs/intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError, Infeasible
from privmean.intervals.default_intervals import BOUNDED, BoxIntervals, ColumnIntervals
from privmean.intervals.gaussian_sums import (
    cheaper_is_gaussian,
    gaussian_loss,
    gaussian_sums,
    largest_strength,
)
from privmean.intervals.joint_sums import joint_sums, partition_sums
from privmean.intervals.mean_interval import NoisySums
from privmean.noise.base import Noise
from privmean.noise.exact import LARGEST_SCALE, ExactNoise
from privmean.people.reductions import Box, BoxSums, People
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget, Relation
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.loss import Laplace, Loss
from privmean.release import FAILED, OK, Release


@dataclass(frozen=True)
class BoundedMean:
    """The mean of values clipped to public bounds.

    bounds: (lower, upper) for every column, or one pair a column. design_effect: public variance of
    the mean over that of unrelated persons.

    **Guarantees.** Unit: one person with all records. Neighbours: replace-one (n public) or
    add-remove (n private: a noisy count comes with the sums). Pure epsilon (delta unspent) with
    Laplace noise; (epsilon, delta) or rho with Gaussian noise. The bounds are public; values beyond
    them are clipped, so privacy needs no assumption. The interval is for the mean of values within
    the bounds and assumes nothing about tails.
    """

    bounds: tuple[float, float] | Sequence[tuple[float, float]]
    design_effect: float = 1.0

    def __post_init__(self) -> None:
        validate.positive("design_effect", self.design_effect)
        self.boxes(1 if self._single() else len(self.bounds))

    def _single(self) -> bool:
        try:
            return len(self.bounds) == 2 and not any(hasattr(x, "__len__") for x in self.bounds)
        except TypeError:
            raise ArgumentError(
                "bounds", self.bounds, "is not a pair", "give (lower, upper)"
            ) from None

    def boxes(self, dimension: int) -> tuple[Box, ...]:
        """One clipping interval a column."""
        if self._single():
            return (Box(*validate.bounds("bounds", self.bounds)),) * dimension
        if len(self.bounds) != dimension:
            raise ArgumentError(
                "bounds",
                self.bounds,
                f"has not one pair for each of {dimension} columns",
                "give one pair for all columns or one for each",
            )
        return tuple(Box(*validate.bounds("bounds", item)) for item in self.bounds)

    def plan(
        self,
        budget: Budget,
        *,
        persons: int | None,
        n_design: int | None = None,
        dimension: int = 1,
        relation: Relation = REPLACE_ONE,
    ) -> BoundedMeanPlan:
        """The noise, before any data. Under add-remove `persons` is not read; `n_design`, a public
        guess of it, is used to predict errors only."""
        dimension = validate.whole("dimension", dimension, least=1)
        boxes = self.boxes(dimension)
        epsilon = budget.pure_epsilon()
        n = None
        sd = 0.0
        if relation == REPLACE_ONE:
            n = validate.whole("persons", persons, least=1)
            if dimension > 1 and not budget.is_pure:
                steps = min(box.steps for box in boxes)
                root = 2 * math.sqrt(dimension)
                mu = largest_strength(lambda t: [gaussian_loss(dimension, root / t, steps)], budget)
                if mu > 0 and cheaper_is_gaussian(dimension, root / mu, epsilon):
                    sd = root / mu
        largest = 4 * max(box.steps for box in boxes) ** 2 * dimension / epsilon
        if sd == 0 and largest > LARGEST_SCALE:
            raise Infeasible(
                f"epsilon={float(epsilon):g} over {dimension} columns is too small for the noise",
                "a larger epsilon is needed",
            )
        design = n
        if n is None and n_design is not None:
            design = validate.whole("n_design", n_design, least=1)
        return BoundedMeanPlan(self, budget, relation, n, design, dimension, boxes, epsilon, sd)


@dataclass(frozen=True)
class BoundedMeanPlan:
    """Noise of a bounded mean. gaussian_sd: noise of each sum of z, 0 for Laplace."""

    settings: BoundedMean
    budget: Budget
    relation: Relation
    persons: int | None
    design: int | None
    dimension: int
    boxes: tuple[Box, ...]
    epsilon: Fraction
    gaussian_sd: float

    @property
    def estimator(self) -> str:
        return "bounded mean"

    @property
    def why(self) -> str:
        law = "Gaussian" if self.gaussian_sd else "Laplace"
        return f"public bounds were given: values are limited to them, one {law} release"

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The bill."""
        if self.gaussian_sd:
            steps = min(box.steps for box in self.boxes)
            return (gaussian_loss(self.dimension, self.gaussian_sd, steps),)
        one = self.epsilon / self.dimension
        return (Laplace("value and square", Fraction(1), 1 / one, joint=True),) * self.dimension

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted error by cause (root of the sum over columns), for a guess of the deviation."""
        sd = validate.positive("guess_sd", guess_sd)
        if self.design is None:
            raise ArgumentError(
                "n_design", None, "the number of persons is private", "give a public guess of it"
            )
        sampling = sd * math.sqrt(self.settings.design_effect * self.dimension / self.design)
        unit = self.gaussian_sd or math.sqrt(2) * 2 * self.dimension / float(self.epsilon)
        noise = unit * math.sqrt(sum(box.radius**2 for box in self.boxes)) / self.design
        return {"rmse": math.hypot(sampling, noise), "sampling": sampling, "privacy_noise": noise}

    def describe(self) -> dict[str, Any]:
        return {
            "bounds": [[box.lower, box.upper] for box in self.boxes],
            "noise": "Gaussian" if self.gaussian_sd else "Laplace",
            "design effect": self.settings.design_effect,
        }

    def release(self, people: People, noise: Noise | None = None) -> Release:
        """Run the plan. Fails privately only if, under add-remove or with nulls, no person is
        seen."""
        source: Noise = noise if noise is not None else ExactNoise()
        if self.relation == REPLACE_ONE and people.size() != self.persons:
            raise ArgumentError(
                "people", people.size(), f"the plan is for {self.persons} persons", "plan again"
            )
        found = [item for item in people.box_sums(self.boxes) if item is not None]
        items, bill, present, missing = self._sums(found, source)
        guarantee = Guarantee.of(
            self.budget, self.relation, tuple(bill), public=self._public()
        ).require()
        failed = any(gone and count < 1 for gone, count in zip(missing, present, strict=True))
        makers = [
            ColumnIntervals(
                None if failed else item,
                middle=box.middle,
                radius=box.radius,
                region=(box.lower, box.upper),
                default=BOUNDED,
                bounds=(box.lower, box.upper),
                design_effect=self.settings.design_effect,
                status=FAILED if failed else OK,
            )
            for item, box in zip(items, self.boxes, strict=True)
        ]
        estimate = [
            math.nan if failed else min(max(box.middle + box.radius * s.mean, box.lower), box.upper)
            for s, box in zip(items, self.boxes, strict=True)
        ]
        notes = ["values lie within the bounds (those beyond count as the bound)"]
        if not all(missing):
            notes.append("persons without a usable value count at the middle of the bounds")
        advice = "too few persons have a value: more persons or more epsilon are needed"
        return Release(
            estimate=np.array(estimate),
            columns=people.columns,
            estimator=self.estimator,
            guarantee=guarantee,
            intervals=makers[0] if self.dimension == 1 else BoxIntervals(makers),
            plan=self,
            persons=self.persons if self.persons is not None else max(round(present[0]), 0),
            status=FAILED if failed else OK,
            advice=advice if failed else "",
            assumptions=tuple(notes),
            shares={"mean and square": 1.0},
            diagnostics={"persons with a value": present},
            secure=source.secure,
        )

    def _sums(
        self, found: list[BoxSums], noise: Noise
    ) -> tuple[list[NoisySums], list[Loss], list[float], list[bool]]:
        if self.gaussian_sd:
            assert self.persons is not None
            items, counts = gaussian_sums(
                found, self.boxes, self.gaussian_sd, noise, persons=self.persons
            )
            return items, list(self.losses), [c.present for c in counts], [c.seen for c in counts]
        one = self.epsilon / self.dimension
        joint = []
        for s, box in zip(found, self.boxes, strict=True):
            if self.relation == ADD_REMOVE:
                joint.append(partition_sums(s, box, one, noise))
            else:
                assert self.persons is not None
                joint.append(joint_sums(s, box, one, noise, persons=self.persons))
        return (
            [item.sums for item in joint],
            [item.loss for item in joint],
            [item.present for item in joint],
            [item.missing for item in joint],
        )

    def _public(self) -> tuple[str, ...]:
        shape = ("number of persons", "roster of persons") if self.persons is not None else ()
        return (*shape, "column names", "bounds")
