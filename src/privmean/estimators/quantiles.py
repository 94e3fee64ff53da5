"""Quantiles of people's values from one noisy histogram around a private center.

The cells grow with the distance from the center, in units of a private center of the distances, so
that a few dozen of them serve every quantile and the whole distribution function, whatever the
unit. docs/proofs/quantiles.md. A release has a row per quantile, and the whole distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from privmean import validate
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.column_plan import NOBODY, ColumnPlan, one_column
from privmean.estimators.locate import LAST, center_step, find_spread, spread_step
from privmean.estimators.means.region_mean import SingleRegionPlan, centre_of, spread_of
from privmean.estimators.noise_budget import Counts, ask_counts
from privmean.estimators.quantile_intervals import (
    MANY,
    Band,
    Distribution,
    Layout,
    cells_between,
    layout_for,
    zero_edges,
)
from privmean.inference.interval import dependence
from privmean.inference.status import AT_BOUND, FAILED, OK, release_status
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import GaussianCounts, NoisyCounts, moved_counts
from privmean.pipeline import Step
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.release.release import Release, quantile_labels
from privmean.release.result_numbers import Outcome
from privmean.release.stored_release import Row

NEEDED = 100, 60  # people times epsilon of center and spread: one in 10^4 is wild
FOUND = {REPLACE_ONE: 0.3, ADD_REMOVE: 0.2}  # part of that which must have a value
SIDE = 0.9  # part of the people who may lie to one side of a median, and not next to it
SLACK = Fraction(7, 4)  # times that, up to USUAL of the budget: some have no value
LEAST, USUAL, MOST = Fraction(1, 10), Fraction(2, 5), Fraction(1, 2)  # of the budget, for choices
UNIT = 1.05  # of the layout, in powers of two next above the median distance from the center
FINEST = 2.0**-22, 2.0**-64  # of the spread: over the center, and at least
SHARED_UNIT = 0.8  # of the layout, in spreads that a shared location tells
SEEN = 8.0  # deviations of the people in the histogram
FAR = (
    "A quantile lies beyond the cells, in a cell that holds most of the people, or anywhere in a "
    "range that is too wide. Add people, raise epsilon, or give bounds."
)
RANGE = "Values reach beyond the public range of 2^44 on either side. Give them in a larger unit."
BEYOND = (
    "About {:.0f}% of the people lie beyond the bounds, and quantiles there are not identified. "
    "Give bounds that hold the values, or omit the bounds."
)


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of one column. points: between 0 and 1, increasing. bounds: public limits of the
    values, or None: they are found. design_effect: public factor on the sampling variance. looked:
    a private search of the column says where to search for the median, which then costs nothing.

    Guarantees: the budget given to `plan`, for one person with all records and any data. Pure
    epsilon for an epsilon budget (delta is left unspent), Gaussian counts for rho. Public: settings
    and, under replace-one, the number of people. People without a value are left out.
    """

    points: tuple[float, ...] = (0.5,)
    bounds: tuple[float, float] | None = None
    design_effect: float = 1.0
    looked: bool = False

    @property
    def needed(self) -> tuple[int, ...]:
        """People times epsilon of each choice; none from a shared location."""
        return () if self.looked else NEEDED

    def __post_init__(self) -> None:
        points = tuple(validate.number("q", item) for item in self.points)
        if not points or any(not 0 < item < 1 for item in points):
            raise ArgumentError(
                "q", self.points, "must lie between 0 and 1", "use q=(0.25, 0.5, 0.75)"
            )
        if list(points) != sorted(set(points)):
            raise ArgumentError("q", self.points, "must increase", "sort them, and give each once")
        object.__setattr__(self, "points", points)
        if self.bounds is not None:
            object.__setattr__(self, "bounds", validate.bounds("bounds", self.bounds))
        validate.keep(self, validate.positive, "design_effect")

    def plan(self, budget: Budget, shape: PublicShape) -> QuantilesPlan:
        """Everything decided before data are read; InfeasibleError if the choices would be
        noise."""
        one_column(shape)
        n, needed = shape.number(), self.needed
        if budget.rho is None:
            least = sum(needed) / (n * budget.pure_epsilon())
        else:
            least = Fraction(sum(x * x for x in needed)) / (8 * n * n * Fraction(budget.rho))
        if least > MOST:
            enough = n * (least / MOST if budget.rho is None else math.sqrt(least / MOST))
            raise InfeasibleError(
                f"n={n} is too small to find the values with {budget.describe()}",
                f"provide at least about {math.ceil(enough)} people, or a larger epsilon",
            )
        share = max(least, min(least * SLACK, USUAL))
        found = max(LEAST, Fraction(math.ceil(share * 100), 100)) if needed else Fraction(0)
        return QuantilesPlan(budget, n, self, found)


@dataclass(frozen=True)
class QuantilesPlan(SingleRegionPlan, ColumnPlan):
    """Prices of all choices and of the histogram. share: of the budget, for the choices."""

    settings: Quantiles
    share: Fraction
    estimator = "histogram quantiles"

    @property
    def rationale(self) -> str:
        law = "Laplace" if self.budget.rho is None else "Gaussian"
        cells = f"{self.layout.cells} cells with {law} noise"
        if self.settings.looked:
            return f"around the shared location, {cells}"
        return f"a private center and the center of the distances from it, then {cells}"

    @property
    def prices(self) -> tuple[Fraction, ...]:
        """Epsilon of each choice, in proportion to what each needs."""
        needed, rho = self.settings.needed, self.budget.rho
        if rho is None:
            each = self.budget.pure_epsilon() * self.share / max(sum(needed), 1)
            return tuple(x * each for x in needed)
        unit = math.sqrt(8 * rho * float(self.share) / max(sum(x * x for x in needed), 1))
        return tuple(Fraction(math.floor(x * unit * 2**40), 2**40) for x in needed)

    @property
    def histogram(self) -> Counts:
        """One person replaced moves two cells by one each, one added or removed one cell."""
        moved = moved_counts(self.relation)
        if self.budget.rho is None:
            left = self.budget.pure_epsilon() * (1 - self.share)
            return NoisyCounts.at("histogram", left, self.relation, moved, moved)
        rest = self.budget.rho - sum(float(x) ** 2 for x in self.prices) / 8
        return GaussianCounts.at(
            "histogram", math.sqrt(2 * rest) * (1 - 1e-12), self.relation, moved
        )

    @property
    def layout(self) -> Layout:
        """Fewer cells where the noise of sums over them would count. Public."""
        noise = math.sqrt(MANY.cells / 4) * self.noise
        sampling = math.sqrt(self.settings.design_effect * self.n) / 2
        return layout_for(noise / sampling, self.settings.points)

    @property
    def steps(self) -> tuple[Step, ...]:
        made = zip((center_step, spread_step), self.prices, strict=False)
        choices = tuple(step(price, self.relation) for step, price in made)
        return (
            Step("location and scale", self.share, choices),
            Step("histogram", 1 - self.share, (self.histogram,)),
        )

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of one cell, in people."""
        return self.histogram.sd

    def errors(self, guess: float) -> tuple[float, float]:
        """Of the median of normal values. What fewer cells save in noise is taken for lost between
        their edges: more budget never predicts more noise."""
        density = math.sqrt(2 * math.pi) * guess
        cells = max(self.layout.cells, MANY.cells)
        noise = density * math.sqrt(cells / 4) * self.noise / self.n
        return noise, density * math.sqrt(self.settings.design_effect / self.n) / 2

    def details(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "quantiles": list(self.settings.points),
            "bounds": self.settings.bounds,
            "cells": self.layout.cells,
            "noise_sd_of_a_cell": self.noise,
        }

    def located(self, curator: Curator) -> tuple[float, float]:
        """A center and the unit of the layout."""
        if self.settings.looked:
            return centre_of(self.found), SHARED_UNIT * spread_of(self.found)
        price, other = self.prices
        step = center_step(price, self.relation)
        center, _ = curator.ask(step, curator.people.column_counts(0))
        spread = find_spread(curator, 0, center, other, self.relation)
        relative, least = FINEST
        return center, UNIT * max(spread, abs(center) * relative, least)

    def run(self, curator: Curator) -> Outcome:
        center, spread = self.located(curator)
        edges = self.layout.edges_around(center, spread)
        cells = cells_between(curator.people, zero_edges(edges))
        noisy = ask_counts(curator, self.histogram, cells)
        law = Distribution(
            edges, tuple(noisy.tolist()), self.noise, self.settings.design_effect,
            self.settings.bounds, self.settings.points, center, self.layout.side,
        )  # fmt: skip
        estimates = law.estimates()
        # beyond 1024 units of a spread that most people are nearer than
        lost = abs(center) >= LAST or noisy[0] + noisy[-1] > law.n / 2
        inside = not lost and not np.any(np.abs(estimates) >= LAST)
        doubt = math.sqrt(self.layout.cells) * self.noise
        # n is enough for the choices, but those with a value may be far fewer
        asked = FOUND[self.relation] * NEEDED[0] / self.prices[0] if self.prices else 0.0
        below, above = law.aside
        aside = max(below, above) > SIDE * law.n + doubt
        few = law.n < max(SEEN * doubt, asked)
        statuses = law.statuses()
        failed = few or aside or not inside or np.isnan(estimates).all()
        status = FAILED if failed else release_status(statuses)
        why = FAR if inside else RANGE
        if not few and law.beyond and (aside or AT_BOUND in statuses):
            why = BEYOND.format(100 * law.beyond)
        elif few or aside:
            why = NOBODY
        return Outcome(
            np.full(len(estimates), math.nan) if failed else estimates,
            # what failed has no interval: that of cells in which nobody is
            replace(law, cells=(0.0,) * len(law.cells)) if failed else law,
            n=self.counted(law.n),
            status=status,
            statuses=() if failed or status == OK else statuses,
            advice="" if status == OK else why,
            assumptions=(dependence(self.settings.design_effect),),
            shares=self.shares,
            diagnostics={"center": center, "spread": spread,
                         "weight": [law.n]},
            estimand="quantiles of person means",
            follows_from_answers=True,
        )  # fmt: skip


@dataclass(frozen=True)
class QuantileRelease(Release):
    """A release whose rows are quantiles.

    Attributes
    ----------
    q : tuple of float
        The probabilities.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    made = pm.quantile(table, "ln_wage", [0.25, 0.5, 0.75], epsilon=1.0)
    made.rows()
    made.distribution()  # at, estimate, lower, upper
    """

    q: tuple[float, ...] = ()

    question_kind = "quantile"

    @property
    def _law(self) -> Distribution:
        made = self.intervals
        assert isinstance(made, Distribution)
        return made

    def _rows(self, level: float) -> tuple[Row, ...]:
        """One row a quantile, with the interval of that quantile alone."""
        one, noise = self._law.alone(level), self.noise_interval(level)
        errors, found = self._law.std_errors(), []
        for j, term in enumerate(self.columns):
            value = float(self.estimate[j])
            status = self.statuses[j] if self.statuses else self.status
            if math.isnan(value) and status != AT_BOUND:
                found.append(Row(term, n=self._law.n, status=status))
                continue
            # of one beyond the bounds: that it is beyond, and no more
            ends = one.lower[j], one.upper[j], noise.lower[j], noise.upper[j]
            error = math.nan if math.isnan(value) else errors[j]
            found.append(Row(term, "", value, error, *ends, n=self._law.n, status=status))
        return tuple(found)

    def labels(self) -> tuple[str, ...]:
        return quantile_labels(self.q)

    def unit_of(self, row: Row, place: int) -> object:
        """All quantiles have the unit of the value."""
        return ""

    def distribution(self, level: float | None = None) -> Band:
        """The distribution function of people's values at some points, with a simultaneous band.

        It costs nothing beside the quantiles.
        """
        return self._law.band(validate.level("level", self.level if level is None else level))

    def facts(self) -> dict[str, Any]:
        result = super().facts()
        result["q"] = list(self.q)
        band = vars(self.distribution())
        result["distribution"] = {name: numbers.tolist() for name, numbers in band.items()}
        return result

    def plot(self, axes: Any = None) -> Any:
        """Draw the distribution function with its band (needs privmean[plot]); returns the axes."""
        from privmean.release.charts import new_axes, shade

        axes = new_axes() if axes is None else axes
        band = self.distribution()
        inside = (band.estimate > 0.005) & (band.estimate < 0.995)
        at = band.at[inside]
        whole = f"{100 * self.level:g} % for the whole function"
        shade(axes.fill_between, at, band.lower[inside], band.upper[inside], 0.25, whole)
        axes.plot(at, band.estimate[inside], color="C0", label="people below")
        axes.legend()
        return axes
