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
import numpy.typing as npt

from privmean.errors import ArgumentError
from privmean.mechanisms.weighted_sums import WeightedSums
from privmean.models.curve_release import CurveRelease, SmoothedIntervals
from privmean.noise.base import Noise
from privmean.noise.exact import ExactNoise
from privmean.people.reductions import Box, Floats, Integers
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.loss import Loss


@dataclass(frozen=True, eq=False)
class PointsPlan:
    """Weights and noise of a curve at a few points. whole: weights of the responses at every
    point, as whole numbers, shape (responses, points)."""

    bounds: tuple[float, float]
    bandwidth: float
    budget: Budget
    whole: Integers
    points: Floats

    @property
    def estimator(self) -> str:
        return "weighted means of clipped responses"

    @property
    def why(self) -> str:
        return "the whole budget goes to the points asked for, which are public"

    @cached_property
    def sums(self) -> WeightedSums:
        if self.budget.rho is not None:
            mu = self.budget.gaussian_mu() * (1 - 1e-9)
            return WeightedSums("points", self.whole, mu=mu)
        return WeightedSums("points", self.whole, epsilon=self.budget.pure_epsilon())

    @property
    def losses(self) -> tuple[Loss, ...]:
        return self.sums.losses

    @property
    def weights(self) -> Floats:
        """Of every response at every point, shape (points, responses); rows add up to 1."""
        result: Floats = (self.whole / self.whole.sum(axis=0, keepdims=True)).T
        return result

    @property
    def noise(self) -> Floats:
        """Standard deviation of the privacy noise at every point."""
        scale = self.sums.noise[0] * (1.0 if self.sums.epsilon is None else np.sqrt(2))
        radius = Box(*self.bounds).radius
        result: Floats = radius * scale / self.whole.sum(axis=0)
        return result

    def describe(self) -> dict[str, Any]:
        return {
            "responses": len(self.whole),
            "points": self.points.tolist(),
            "bounds": list(self.bounds),
            "bandwidth": self.bandwidth,
            "budget": self.budget.to_dict(),
            "predicted_noise_sd": self.noise.tolist(),
            "mechanisms": [loss.to_dict() for loss in self.losses],
        }

    def release(self, responses: npt.ArrayLike, noise: Noise | None = None) -> CurveRelease:
        """responses: shape (n,), in the order of the times; NaN (missing) counts as the middle of
        the bounds, since times and numbers are public."""
        source: Noise = ExactNoise() if noise is None else noise
        values = np.asarray(responses, dtype=float)
        if values.shape != (len(self.whole),):
            raise ArgumentError(
                "responses",
                values.shape,
                f"are not {len(self.whole)} numbers",
                "give one response a time",
            )
        box = Box(*self.bounds)
        found = self.sums.release(values, box, source)
        z = np.clip([item.value for item in found], -1.0, 1.0)
        # the square has noise of its own; what it says is kept positive
        unit = [item.square + item.square_noise for item in found] - z * z
        spread = box.radius**2 * np.clip(unit, 0.0, 1.0) * (self.weights**2).sum(axis=1)
        estimate = box.middle + box.radius * z
        first = box.radius * np.array([item.value_noise for item in found])
        return CurveRelease(
            estimate=estimate,
            columns=tuple(f"{x:.6g}" for x in self.points),
            estimator=self.estimator,
            guarantee=Guarantee.of(
                self.budget,
                REPLACE_ONE,
                self.losses,
                unit="response",
                public=("times", "number of responses", "settings"),
            ).require(),
            intervals=SmoothedIntervals(
                estimate, np.eye(len(found)), first, spread, self.sums.epsilon is None,
                self.bounds, smoothed=True,
            ),
            plan=self,
            persons=len(self.whole),
            estimand="mean response over time",
            assumptions=("unrelated responses", "times are public and fixed"),
            shares={"points": 1.0},
            secure=source.secure,
            at=tuple(self.points.tolist()),
        )  # fmt: skip
