"""Quantiles of persons' values from one noisy histogram around a private median.

The cells are half octaves of the distance from the median, so that a few dozen of them serve
every quantile and the whole distribution function, whatever the unit. docs/proofs/quantiles.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from privmean import validate
from privmean.central.locate import Location
from privmean.central.log_segments import FOUND
from privmean.errors import ArgumentError, Infeasible
from privmean.intervals.interval import FAILED, OK
from privmean.mechanisms.counts import GaussianCounts, NoisyCounts
from privmean.mechanisms.curator import Curator
from privmean.models.column_plans import ColumnPlan
from privmean.models.quantile_cells import FEW, MANY, Layout, cells_between
from privmean.models.quantile_intervals import Distribution
from privmean.models.scores import median_scores
from privmean.models.standard import (
    HIGHEST,
    LOWEST,
    Middle,
    Sizes,
    edge,
    grid_around,
    place_above,
    size_scores,
)
from privmean.outcome import Outcome
from privmean.people.shape import Shape
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.loss import Loss

FINE = 64.0  # steps of the grid of medians up to which a point mass is a number
NOISY = 0.8  # of the noise of the median over its sampling error: above it, few cells
ROUNDED = 2.0**-30  # limits that a look found are at least so far apart, over their size
SHARES = (Fraction(3, 20), Fraction(1, 4), Fraction(7, 20), Fraction(9, 20))  # for looking
ENOUGH, FEWEST = 90.0, 60.0  # persons times epsilon of one choice
SEEN = 8.0  # deviations of the persons in the histogram
UNRESOLVED = "not resolved"
FAR = (
    "a quantile lies beyond the cells, or in one that holds most of the persons: more persons, "
    "more epsilon, or bounds"
)
NOBODY = "too few persons have a value: more persons or more epsilon"
RANGE = "values reach beyond the public range of 2^40 to either side: give them in a larger unit"


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of one column. points: between 0 and 1, increasing. bounds: public limits of the
    values, or None: they are found. design_effect: public factor on the sampling variance. looked:
    a private look at the column says where to search for the median, which then costs nothing.

    Guarantees: the budget given to `plan`, for one person with all records and any data. Pure
    epsilon for an epsilon budget (delta is left unspent), Gaussian counts for rho. Public: settings
    and, under replace-one, the number of persons. Persons without a value are left out.
    """

    points: tuple[float, ...] = (0.5,)
    bounds: tuple[float, float] | None = None
    design_effect: float = 1.0
    looked: bool = False

    @property
    def choices(self) -> int:
        """How many choices are made: limits where they are not known, median, spread."""
        return 2 if self.looked or self.bounds is not None else 3

    def __post_init__(self) -> None:
        points = tuple(validate.number("q", item) for item in self.points)
        if not points or any(not 0 < item < 1 for item in points):
            raise ArgumentError("q", self.points, "are no parts of 1", "give q=(0.25, 0.5, 0.75)")
        if list(points) != sorted(set(points)):
            raise ArgumentError("q", self.points, "do not increase", "give each once, in order")
        object.__setattr__(self, "points", points)
        if self.bounds is not None:
            object.__setattr__(self, "bounds", validate.bounds("bounds", self.bounds))
        validate.positive("design_effect", self.design_effect)

    def plan(self, budget: Budget, shape: Shape) -> QuantilesPlan:
        """Everything decided before data are read; Infeasible if the choices would be noise."""
        if shape.dimension != 1:
            raise ArgumentError("value", shape.dimension, "is not one column", "name one column")
        n = shape.number()
        epsilon = budget.pure_epsilon()
        number = self.choices

        def each(share: Fraction) -> Fraction:
            if budget.rho is None:
                return epsilon * share / number
            spent = 2 * budget.rho * float(share) / number  # epsilon^2/2 zCDP for a choice
            return Fraction(math.floor(math.sqrt(spent) * 2**40), 2**40)

        share = next((x for x in SHARES if n * each(x) >= ENOUGH), SHARES[-1])
        if n * each(share) < FEWEST:
            raise Infeasible(
                f"{n} persons with {budget.describe()} do not show where the values lie",
                f"about {math.ceil(FEWEST / float(each(share)))} persons would do, or a larger "
                "epsilon",
            )
        return QuantilesPlan(self, budget, n, share, each(share))


@dataclass(frozen=True)
class QuantilesPlan(ColumnPlan):
    """Prices of all choices and of the histogram. each: epsilon of a choice. near: limits of the
    median that a look at the column found."""

    settings: Quantiles
    budget: Budget
    persons: int
    share: Fraction
    each: Fraction
    near: tuple[float, float] | None = None
    estimator = "quantiles from a histogram around a private median"

    def after(self, places: tuple[Location, ...]) -> QuantilesPlan | None:
        """The plan that runs from where a look found the values: the median is inside."""
        if any(place.outcome != FOUND for place in places):
            return None
        (place,) = places
        reach = max(place.upper - place.lower, abs(place.origin) * ROUNDED)
        return replace(self, near=(place.lower - reach, place.upper + reach))

    @property
    def why(self) -> str:
        found = "limits, " if self.settings.choices > 2 else ""
        law = "Laplace" if self.budget.rho is None else "Gaussian"
        cells = f"{self.layout.cells} cells with {law} noise"
        return f"{found}median and spread by noisy argmax, then {cells}"

    @property
    def _size(self) -> Sizes:
        return Sizes("size", self.each, self.relation)

    @property
    def _middle(self) -> Middle:
        return Middle("median", self.each, self.relation)

    @property
    def _spread(self) -> Sizes:
        return Sizes("spread", self.each, self.relation)

    @property
    def histogram(self) -> NoisyCounts | GaussianCounts:
        """One person replaced moves two cells by one each, one added or removed one cell."""
        moved = 2 if self.relation == REPLACE_ONE else 1
        if self.budget.rho is None:
            left = self.budget.pure_epsilon() * (1 - self.share)
            return NoisyCounts.at("histogram", left, self.relation, moved, moved)
        number = self.settings.choices
        rest = self.budget.rho - number * float(self.each) ** 2 / 2
        return GaussianCounts.at(
            "histogram", math.sqrt(2 * rest) * (1 - 1e-12), self.relation, moved
        )

    @property
    def layout(self) -> Layout:
        """Many cells, or few of them where the noise of sums over cells would count. Public."""
        noise = math.sqrt(MANY.cells / 4) * self.noise
        sampling = math.sqrt(self.settings.design_effect * self.persons) / 2
        return FEW if noise > NOISY * sampling else MANY

    @property
    def fixed(self) -> bool:
        """Whether every run bills these very lines, whatever it finds."""
        return True

    @property
    def losses(self) -> tuple[Loss, ...]:
        first = self._size.choice.losses if self.settings.choices > 2 else ()
        rest = (*self._middle.choice.losses, *self._spread.choice.losses)
        return (*first, *rest, *self.histogram.losses)

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of one cell, in persons."""
        made = self.histogram
        return made.sd if isinstance(made, GaussianCounts) else math.sqrt(2) * float(made.scale)

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted errors of the median of normal values."""
        guess = validate.positive("guess_sd", guess_sd)
        density = math.sqrt(2 * math.pi) * guess
        noise = density * math.sqrt(self.layout.cells / 4) * self.noise / self.persons
        sampling = density * math.sqrt(self.settings.design_effect / self.persons) / 2
        return {"rmse": math.hypot(noise, sampling), "noise": noise, "sampling": sampling}

    def describe(self) -> dict[str, Any]:
        return {
            "persons": self.persons,
            "budget": self.budget.to_dict(),
            "quantiles": list(self.settings.points),
            "bounds": self.settings.bounds,
            "cells": self.layout.cells,
            "noise_sd_of_a_cell": self.noise,
            "mechanisms": [loss.to_dict() for loss in self.losses],
        }

    def run(self, curator: Curator) -> Outcome:
        people = curator.people
        limits, inside = self.near if self.settings.looked else self.settings.bounds, True
        if limits is None:
            scores = size_scores(people.log_counts(0, 0.0), self._size.slope)
            place = curator.ask(self._size.choice, scores)
            inside = place < HIGHEST - LOWEST
            size = edge(place)
            limits = -2 * size, 2 * size
        bins = grid_around(*limits)
        counts = bins.all_counts(people.uniform_counts(0, bins.half, bins.origin))
        center = bins.center(curator.ask(self._middle.choice, median_scores(counts)))
        # who is within two steps of the median counts nowhere: a point mass is not the spread
        step = 2 * bins.half
        first = place_above(2 * step) + 1
        scores = size_scores(people.log_counts(0, center), self._spread.slope, first)
        place = first + curator.ask(self._spread.choice, scores)
        inside &= place < HIGHEST - LOWEST
        spread = edge(place)
        edges = self.layout.edges_around(center, spread, bins.half)
        exact = cells_between(people, edges)
        made = self.histogram
        if isinstance(made, GaussianCounts):
            (noisy,) = curator.ask(made, [exact])
        else:
            noisy = curator.ask(made, exact).astype(float)
        law = Distribution(
            edges, tuple(noisy.tolist()), self.noise, self.settings.design_effect,
            self.settings.bounds, self.settings.points, FINE * step, self.layout.side,
        )  # fmt: skip
        estimates = law.estimates()
        nobody = law.persons < SEEN * math.sqrt(self.layout.cells) * self.noise
        missed = np.isnan(estimates)
        failed = nobody or not inside or missed.all()
        status = FAILED if failed else UNRESOLVED if missed.any() else OK
        why = NOBODY if nobody else FAR if inside else RANGE
        return Outcome(
            np.full(len(estimates), math.nan) if failed else estimates,
            # what failed has no interval: that of cells in which nobody is
            replace(law, cells=(0.0,) * len(law.cells)) if failed else law,
            persons=self.persons if self.relation == REPLACE_ONE else max(0, round(law.persons)),
            status=status,
            advice="" if status == OK else why,
            assumptions=("unrelated persons",) if self.settings.design_effect == 1 else (),
            shares={"looking": float(self.share), "histogram": 1 - float(self.share)},
            diagnostics={"center": center, "spread": spread,
                         "weight": [law.persons]},
            estimand="quantiles of persons' values",
        )  # fmt: skip
