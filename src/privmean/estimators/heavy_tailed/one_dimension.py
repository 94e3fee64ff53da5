"""The one-dimensional estimator: coarse center, then one Laplace release of the clipped sums.

Source: Agarwal et al. (2024), Algorithm 1, Lemma 3.12 and Theorem 3.14; both steps read all
people and their epsilons add, the coarse step gets what it needs and no more
(docs/proofs/heavy-tails.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privmean.data.person_table import ClipInterval
from privmean.estimators.heavy_tailed.clipping_rounds import Choice
from privmean.estimators.heavy_tailed.heavy_tailed_plan import ClippingPlan, assumption_of
from privmean.estimators.heavy_tailed.moment_intervals import OneColumn
from privmean.inference.ratios import TOO_FEW, is_undetected
from privmean.mechanisms.clipped_sum import ClippedSums, ColumnSums
from privmean.mechanisms.curator import Curator
from privmean.pipeline import HasEvents
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.release.outcome import Outcome

AGREE = 2.0  # noise scales by which the noisy number of people may fall short of n


@dataclass(frozen=True)
class OneDimensionPlan(ClippingPlan):
    """Everything decided before data are read, for one column and Laplace noise."""

    epsilon: Fraction
    estimator = "heavy-tailed mean, one column"

    @property
    def choice(self) -> Choice:
        """The radius of the sum, with what it is planned to cost."""
        return self.last.choice

    @property
    def usual(self) -> float:
        return math.hypot(self.choice.noise, self.choice.sampling)

    @property
    def sums(self) -> ClippedSums:
        return ClippedSums("clipped sum", self.common.relation, epsilon=self.epsilon)

    @property
    def asked(self) -> dict[str, HasEvents | None]:
        return {
            "coarse center": self.coarse,
            "private radius": self.search,
            "clipped sum": self.sums,
        }

    def describe(self) -> dict[str, Any]:
        return {
            **self.common.describe(),
            "bucket width": self.coarse.width,
            "planned center error": self.coarse.offset,
            "clip radius": self.choice.radius,
            **self.told(),
        }

    def run(self, curator: Curator) -> Outcome:
        """People without a value are left out of the mean."""
        center = self.coarse.find(curator, curator.people)
        if center is None:
            return self.common.failed(self.shares)
        radius, diagnostics = self.choice.radius, dict[str, Any](center=center[0])
        outside = None
        if self.search is not None:
            found = self.search.find(curator, center)
            radius = min(radius, self._stretched(found))
            outside = self.outside(found)
            diagnostics["private radius"] = radius
        # a radius below the spacing of doubles at the center would leave an empty box
        radius = max(radius, abs(center[0]) * 2.0**-48)
        box = ClipInterval(center[0] - radius, center[0] + radius)
        exact = curator.people.interval_sums([box])[0]
        assert exact is not None
        over = self.sums.over([box])
        (sums,) = curator.ask(over, over.exact([exact]))
        weight = self._divisor(sums)
        if weight != self.common.n and is_undetected(sums):
            return self.common.failed(self.shares, TOO_FEW)
        share = min(max(sums.value / weight, -1.0), 1.0)
        return Outcome(
            self.common.within(np.array([box.middle + box.radius * share])),
            OneColumn(
                sums,
                share,
                weight,
                box,
                self.common.tails,
                assumption_of(self.common),
                self._bounds(),
                outside,
            ),
            n=self.common.released_persons(weight),
            assumptions=(self.common.moment.describe(),),
            shares=self.shares,
            diagnostics=diagnostics,
            follows_from_answers=True,
        )

    def _divisor(self, sums: ColumnSums) -> float:
        """What divides the sum: n where it is public and the noisy number of people agrees.

        The noise of the number would otherwise move the answer by its part of the distance from
        the center; the intervals allow for people without a value that the noise may hide.
        """
        persons = self.common.n
        if self.common.relation == REPLACE_ONE and sums.weight >= persons - AGREE * sums.noise[2]:
            return float(persons)
        return max(sums.weight, 1.0)

    def _stretched(self, found: float | None) -> float:
        """The radius for a search result: extrapolated along a tail of order 4, as planned."""
        if found is None or self.search is None:
            return self.choice.radius
        ratio = self.search.outside * float(self.epsilon) / 4
        return float(found * max(1.0, ratio) ** 0.25)

    def _bounds(self) -> tuple[float, float] | None:
        ranges = self.common.moment.ranges(1)
        return None if ranges is None else ranges[0]


def noise_at_one(epsilon: Fraction, persons: int, relation: Relation) -> float:
    """Root mean square noise of the mean at radius 1."""
    return ClippedSums("planned", relation, epsilon=epsilon).value_sd / persons
