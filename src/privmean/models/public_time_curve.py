"""A mean curve at a few public points, from responses at public times: one weighted sum a point.

The whole budget goes to the points asked for, where `FixedDesignPlan` spends it on a curve that can
be read anywhere. Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025),
Definitions 4.7-4.8, in the clipped form of docs/proofs/longitudinal.md, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from privmean.data.collect_rows import collect_rows
from privmean.data.person_table import ClipInterval, Floats, Integers
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.weighted_sums import WeightedSums
from privmean.models.curve_release import SmoothedIntervals
from privmean.models.response_plan import ResponsePlan
from privmean.privacy.budget import Budget
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.outcome import Outcome


@dataclass(frozen=True, eq=False)
class PointsPlan(ResponsePlan):
    """Weights and noise of a curve at a few points. whole: weights of the responses at every
    point, as whole numbers, shape (responses, points)."""

    bounds: tuple[float, float]
    bandwidth: float
    budget: Budget
    whole: Integers
    points: Floats

    estimator = "weighted means of clipped responses"

    rationale = "the whole budget goes to the points asked for, which are public"

    @cached_property
    def sums(self) -> WeightedSums:
        if self.budget.rho is not None:
            mu = self.budget.gaussian_mu() * (1 - 1e-9)
            return WeightedSums("points", self.whole, mu=mu)
        return WeightedSums("points", self.whole, epsilon=self.budget.pure_epsilon())

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.sums.events

    @property
    def weights(self) -> Floats:
        """Of every response at every point, shape (points, responses); rows add up to 1."""
        result: Floats = (self.whole / self.whole.sum(axis=0, keepdims=True)).T
        return result

    @property
    def noise(self) -> Floats:
        """Standard deviation of the privacy noise at every point."""
        scale = self.sums.noise[0] * (1.0 if self.sums.epsilon is None else np.sqrt(2))
        radius = ClipInterval(*self.bounds).radius
        result: Floats = radius * scale / self.whole.sum(axis=0)
        return result

    @property
    def responses(self) -> int:
        return len(self.whole)

    def describe(self) -> dict[str, Any]:
        return {
            "responses": len(self.whole),
            "points": self.points.tolist(),
            "bounds": list(self.bounds),
            "bandwidth": self.bandwidth,
            "budget": self.budget.to_dict(),
            "predicted_noise_sd": self.noise.tolist(),
            "mechanisms": [loss.to_dict() for loss in self.events],
        }

    def run(self, curator: Curator) -> Outcome:
        box = ClipInterval(*self.bounds)
        over = self.sums.over(box)
        values = collect_rows(curator.people, size_is_public=True)[:, 0]
        found = curator.ask(over, over.exact(values))
        z = np.clip([item.value for item in found], -1.0, 1.0)
        # the square has noise of its own; what it says is kept positive
        unit = [item.square + item.square_noise for item in found] - z * z
        spread = box.radius**2 * np.clip(unit, 0.0, 1.0) * (self.weights**2).sum(axis=1)
        estimate = box.middle + box.radius * z
        first = box.radius * np.array([item.value_noise for item in found])
        return self.told(
            estimate,
            SmoothedIntervals(
                estimate, np.eye(len(found)), first, spread, self.sums.epsilon is None,
                self.bounds, smoothed=True,
            ),
            "points",
        )  # fmt: skip
