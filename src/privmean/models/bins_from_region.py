"""Means of bins whose column was located by a private search: clipped sums at limits around it.

The limits are those of people's means over all their records; means over fewer records spread
farther, so that they are moved out by a public factor. docs/proofs/study.md, section 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privmean.central.shared_location import SingleRegionPlan
from privmean.central.winsorized_options import stages_mu
from privmean.data.person_table import ClipInterval
from privmean.data.public_shape import PublicShape
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.curator import Curator
from privmean.models.column_plan import ColumnPlan, clipped_means, told
from privmean.models.private_scale import spread_noise
from privmean.privacy.budget import Budget
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.outcome import Outcome

GRAIN = 1.25  # how much farther means over a part of the records reach, for limits around them
WORDS = "few people have a mean in a bin outside the clipping bounds, which were found privately"


@dataclass(frozen=True)
class RegionBins:
    """The estimator; design_effect: public variance of the mean over that of independent people.

    Guarantees: the budget given to `plan`, besides what the look cost, for one person with all
    records and any data.
    """

    design_effect: float = 1.0

    def plan(self, budget: Budget, shape: PublicShape) -> RegionBinsPlan:
        """One release of all bins, Laplace or Gaussian, whichever is less."""
        relation, d = budget.neighbors, shape.dimension
        if budget.rho is not None:
            final = ClippedSums("clipped sum", relation, d, mu=stages_mu(budget, 0.0, d))
        else:
            final = ClippedSums("clipped sum", relation, d, epsilon=budget.pure_epsilon() / d)
            if budget.delta > 0 and d > 1:
                other = ClippedSums("clipped sum", relation, d, mu=stages_mu(budget, 0.0, d))
                final = min(final, other, key=lambda item: item.value_sd)
        return RegionBinsPlan(budget, shape.counted(), final, self.design_effect, columns=d)


@dataclass(frozen=True)
class RegionBinsPlan(SingleRegionPlan, ColumnPlan):
    """The noise, and the place of the values."""

    final: ClippedSums
    design_effect: float = 1.0
    estimator = "means clipped at located limits"
    about = "columns"

    @property
    def rationale(self) -> str:
        return f"limits from a shared location query, then clipped sums with {self.final.law} noise"

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.final.events

    def errors(self, guess: float) -> tuple[float, float]:
        """Limits as wide as those of a magnitude around zero are assumed."""
        noise = guess * spread_noise(self.final) / self.n
        return noise, guess * math.sqrt(self.design_effect / self.n)

    def describe(self) -> dict[str, Any]:
        return {
            "columns": self.columns,
            "budget": self.budget.to_dict(),
            "limits are moved out by": GRAIN,
            "mechanisms": [loss.to_dict() for loss in self.events],
        }

    @property
    def limits(self) -> tuple[float, float]:
        """Where the means of bins are clipped."""
        place = self.found
        middle, half = (place.lower + place.upper) / 2, (place.upper - place.lower) / 2
        return middle - GRAIN * half, middle + GRAIN * half

    def run(self, curator: Curator) -> Outcome:
        boxes = [ClipInterval(*self.limits)] * self.columns
        made = clipped_means(curator, self.final, boxes, self.known, self.design_effect, WORDS)
        return told(made, {"mean": 1.0}, {"limits": list(self.limits)})
