"""What all plans of the heavy-tailed estimators share: public facts, guarantee, private failure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmean import validate
from privmean.central.heavy_tailed.bounded_moment import BoundedMoment, Tail
from privmean.central.heavy_tailed.noise_boxes import NoInterval
from privmean.data.public_shape import PublicShape
from privmean.inference.interval import Floats
from privmean.inference.status import FAILED
from privmean.pipeline import PlanBase
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.release.outcome import Outcome

NOT_FOUND = (
    "No bin of the coarse histogram held enough people. The moment bound may be far too small, or "
    "a column may have no values. A second try is a second charge."
)


@dataclass(frozen=True)
class HeavyTailedNumbers:
    """Public facts of a plan. persons: n, or under add-remove the design number."""

    budget: Budget
    relation: Relation
    n: int
    dimension: int
    moment: BoundedMoment
    beta: float

    @property
    def tails(self) -> tuple[Tail, ...]:
        return self.moment.tails(self.dimension)

    @property
    def spread(self) -> float:
        """Bound on the standard deviation of a person's value, in any direction."""
        return min(tail.spread for tail in self.tails)

    @property
    def bulk(self) -> float:
        """Bound on the root mean square l2 distance of one person's value from the mean."""
        return min(tail.size for tail in self.tails)

    def predict(self, guess_sd: float, bias: float, noise: float) -> dict[str, float]:
        """Predicted l2 error by cause, for a guess of the deviation of people's values a column."""
        guess = validate.positive("guess_sd", guess_sd)
        sampling = guess * math.sqrt(self.dimension / self.n)
        rmse = math.hypot(bias, noise, sampling)
        return {"rmse": rmse, "sampling": sampling, "privacy_noise": noise, "bias_at_most": bias}

    def describe(self) -> dict[str, Any]:
        number = "n" if self.relation == REPLACE_ONE else "n, a public guess"
        return {
            number: self.n,
            "columns": self.dimension,
            "bias bounds": "calibrated",
            "beta": self.beta,
        }

    def within(self, estimate: Floats) -> Floats:
        """The estimate, moved into the public range."""
        ranges = self.moment.ranges(self.dimension)
        if ranges is None:
            return estimate
        low, high = np.array(ranges).T
        return np.clip(estimate, low, high)

    def released_persons(self, weight: float) -> int:
        """n where it is public, else the noisy number of people."""
        return self.n if self.relation == REPLACE_ONE else round(weight)

    def failed(self, shares: Mapping[str, float], advice: str = NOT_FOUND) -> Outcome:
        """The private outcome that there is no estimate. What was asked so far is spent."""
        return Outcome(
            np.full(self.dimension, np.nan),
            NoInterval(self.moment.ranges(self.dimension), self.dimension),
            n=self.n if self.relation == REPLACE_ONE else None,
            status=FAILED,
            advice=advice,
            assumptions=(self.moment.describe(),),
            shares=shares,
            follows_from_answers=True,
        )


class HeavyTailedPlan(PlanBase):
    """What a plan says of itself through its public facts."""

    common: HeavyTailedNumbers

    @property
    def budget(self) -> Budget:
        return self.common.budget

    @property
    def shape(self) -> PublicShape:
        known = self.common.n if self.common.relation == REPLACE_ONE else None
        return PublicShape.of(self.common.dimension, known, self.common.n)

    @property
    def public(self) -> tuple[str, ...]:
        known = ("n",) if self.common.relation == REPLACE_ONE else ()
        return (*known, "moment assumption and public range")


def assumption_of(common: HeavyTailedNumbers) -> str:
    return f"people are independent; {common.moment.describe()}; calibrated bias bounds"
