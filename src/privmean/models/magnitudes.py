"""Means of several columns around zero when nothing is known of their size: the size found first.

For coefficients zero is a natural centre. For every column a noisy argmax picks the magnitude that
about four persons in five stay below, and the column is clipped at twice that, around zero. Unlike
a scale from pairs of persons, persons without a value cost nothing but themselves, which matters
where most persons cannot be fitted. docs/proofs/longitudinal.md, section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privmean import validate
from privmean.central.clipped_mean import ClippedMean, ClippedMeans
from privmean.central.winsorized_ways import _gaussian_mu
from privmean.errors import ArgumentError, Infeasible
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.noise.base import Integers, Noise
from privmean.noise.exact import ExactNoise
from privmean.people.reductions import LOG_BINS, LOG_LOW, LOG_ZERO, Box, People
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.loss import Loss, Selection
from privmean.release import OK, Release

ABOVE, OF = 4, 5  # the magnitude that 4 of 5 persons stay below
BEYOND = 2.0  # clipping radius over that magnitude
SHARE = Fraction(1, 4)  # of the budget, for the magnitudes
FEWEST = 40.0  # persons times epsilon of one magnitude
WORDS = "the magnitude is found privately, and few persons lie beyond twice of it"


def quantile_scores(counts: Integers, slope: float) -> Integers:
    """Scores of the candidate magnitudes: the upper edges of half octaves.

    counts: persons in each candidate's half octave, smallest first (persons beyond go to the last).
    Score k is -|5 N_k - 4 N| less a public amount that grows with k, N_k the persons up to edge k.
    One replaced person moves every score by at most 5.
    """
    below = np.cumsum(counts)
    gap = np.abs(OF * below - ABOVE * int(below[-1]))
    public = np.floor(slope * np.arange(len(counts))).astype(np.int64)
    scores: Integers = -gap - public
    return scores


@dataclass(frozen=True)
class Magnitudes:
    """Mean of columns whose values lie around zero, each clipped at a magnitude found privately.

    smallest, largest: public range of the magnitudes (cheap: a wide one costs little), one pair for
    all columns. It is rounded outwards to half octaves.

    Guarantees: the budget given to `plan` under replace-one, for one person with all records and
    any data. Public: columns, number of persons, settings. Persons without a value are not counted
    in the mean (the ratio form).
    """

    smallest: float = 2.0**-10
    largest: float = 2.0**10

    def __post_init__(self) -> None:
        small = validate.positive("smallest", self.smallest)
        large = validate.positive("largest", self.largest)
        if not 2.0**-39 <= small <= large <= 2.0**39:
            raise ArgumentError(
                "smallest", small, "and largest are no range", "give 2^-39 <= smallest <= largest"
            )

    @property
    def octaves(self) -> tuple[int, int]:
        """The first and the last half octave, as indices of upper edges: 2^(k/2)."""
        return math.floor(2 * math.log2(self.smallest)), math.ceil(2 * math.log2(self.largest))

    def plan(
        self,
        budget: Budget,
        *,
        persons: int | None = None,
        dimension: int = 1,
        relation: Relation = REPLACE_ONE,
        n_design: int | None = None,
    ) -> MagnitudesPlan:
        """Everything decided before data are read. Infeasible if a magnitude is mostly noise."""
        if relation != REPLACE_ONE or n_design is not None or persons is None:
            raise ArgumentError(
                "relation", relation, "is not offered for these means", "use replace-one"
            )
        n = validate.whole("persons", persons, least=1)
        d = validate.whole("dimension", dimension, least=1)
        if budget.rho is None:
            epsilon = budget.pure_epsilon()
            each = epsilon * SHARE / d
            left = epsilon * (1 - SHARE)
            final = ClippedSums("clipped sum", REPLACE_ONE, d, epsilon=left / d)
            if budget.delta > 0 and d > 1:
                rest = Budget(epsilon=float(left) * (1 - 1e-12), delta=budget.delta)
                other = ClippedSums("clipped sum", REPLACE_ONE, d, mu=_gaussian_mu(rest, 0.0, d))
                final = min(final, other, key=lambda item: item.value_sd)
        else:
            spent = float(SHARE) * budget.rho / d
            each = Fraction(math.floor(math.sqrt(2 * spent) * 2**40), 2**40)
            rest = Budget(rho=budget.rho * (1 - float(SHARE)) * (1 - 1e-12))
            final = ClippedSums("clipped sum", REPLACE_ONE, d, mu=_gaussian_mu(rest, 0.0, d))
        if n * each < FEWEST:
            raise Infeasible(
                f"{n} persons with {budget.describe()} do not show the size of {d} columns",
                f"about {math.ceil(FEWEST / float(each))} persons would do, or a larger epsilon, "
                "or a public coefficient_range or concentration",
            )
        return MagnitudesPlan(self, budget, n, d, each, final)


@dataclass(frozen=True)
class MagnitudesPlan:
    """Everything public of such a mean decided. each: epsilon of one magnitude."""

    settings: Magnitudes
    budget: Budget
    persons: int
    columns: int
    each: Fraction
    final: ClippedSums

    @property
    def estimator(self) -> str:
        return "mean clipped at private magnitudes"

    @property
    def why(self) -> str:
        law = "Laplace" if self.final.epsilon is not None else "Gaussian"
        return f"a magnitude a column by noisy argmax, then clipped sums with {law} noise"

    @property
    def losses(self) -> tuple[Loss, ...]:
        return (Selection("magnitude", self.each),) * self.columns + self.final.losses

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted errors at a guessed deviation between persons of centre near zero."""
        guess = validate.positive("guess_sd", guess_sd)
        noise = 1.28 * 1.19 * BEYOND * guess * self.final.value_sd / self.persons
        sampling = guess / math.sqrt(self.persons)
        return {"rmse": math.hypot(noise, sampling), "noise": noise, "sampling": sampling}

    def describe(self) -> dict[str, Any]:
        return {
            "persons": self.persons,
            "columns": self.columns,
            "budget": self.budget.to_dict(),
            "epsilon_of_one_magnitude": float(self.each),
            "range_of_magnitudes": [self.settings.smallest, self.settings.largest],
            "mechanisms": [loss.to_dict() for loss in self.losses],
        }

    def magnitude(self, people: People, column: int, noise: Noise) -> float:
        """A magnitude that about four persons in five stay below, by noisy argmax."""
        first, last = self.settings.octaves
        cells = people.log_counts(column, 0.0)
        both = cells[:LOG_BINS] + cells[LOG_ZERO + 1 :]
        # cell j holds 2^((j+LOG_LOW)/2) <= |v| < the next; the zero cell may hold null persons and
        # is left out
        inside = np.zeros(last - first + 1, dtype=np.int64)
        edges = np.clip(np.arange(LOG_BINS) + LOG_LOW + 1 - first, 0, last - first)
        np.add.at(inside, edges, both)
        scale = 2 * OF / self.each
        slope = float(scale) / 2  # one noise scale an octave
        index = noise.argmax(quantile_scores(inside, slope), scale)
        return math.pow(2.0, (first + index) / 2)

    def release(self, people: People, noise: Noise | None = None) -> Release:
        """Execute the plan on `people`."""
        source: Noise = ExactNoise() if noise is None else noise
        if len(people.columns) != self.columns or people.size() != self.persons:
            raise ArgumentError(
                "people",
                (people.size(), len(people.columns)),
                f"is not {self.persons} persons and {self.columns} columns",
                "plan with persons=people.size(), dimension=len(people.columns)",
            )
        radii = [BEYOND * self.magnitude(people, j, source) for j in range(self.columns)]
        boxes = [Box(-radius, radius) for radius in radii]
        exact = people.box_sums(boxes)
        sums = self.final.release(boxes, [item for item in exact if item is not None], source)
        means = tuple(
            ClippedMean(box, item, self.persons) for box, item in zip(boxes, sums, strict=True)
        )
        return Release(
            estimate=np.array([item.estimate for item in means]),
            columns=tuple(people.columns),
            estimator=self.estimator,
            guarantee=Guarantee.of(
                self.budget,
                REPLACE_ONE,
                self.losses,
                public=("columns", "number of persons", "settings"),
            ).require(),
            intervals=ClippedMeans(means, self.persons, 1.0, "clipped mean", ""),
            plan=self,
            persons=self.persons,
            status=OK,
            assumptions=(WORDS, "unrelated persons"),
            shares={"magnitudes": float(SHARE), "mean": 1 - float(SHARE)},
            diagnostics={
                "clip_radius": radii,
                "weight": [item.present for item in means],
            },
            secure=source.secure,
        )
