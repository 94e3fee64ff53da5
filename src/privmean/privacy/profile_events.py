"""Losses known by their whole curve delta(epsilon): amplified filters, and parts in parallel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privmean.privacy.budget import ADD_REMOVE, RELATIONS, Relation
from privmean.privacy.compose import total_delta
from privmean.privacy.event_numbers import LARGEST_EXPONENT, LARGEST_LOSS, refused
from privmean.privacy.privacy_events import Gaussian, PrivacyEvent, bounded
from privmean.privacy.privacy_profile import PrivacyProfile


@dataclass(frozen=True)
class FilteredMean(PrivacyProfile, kind="filtered mean"):
    """The mean of the people kept by a random filter, with its noisy count, as one part.

    `epsilon` is chosen; delta follows from the rest (see `privacy.amplification`; slip: the chance
    that the filter keeps people who are not friends). The count moves
    by `count_sensitivity` lattice steps a person, has discrete Gaussian noise of `count_scale` and
    loses `threshold` steps; the mean's noise is at least `mean_scale` steps on `answers` numbers,
    its sensitivity (rounding inside) over its scale at most `mean_mu`.
    """

    count_sensitivity: int
    count_scale: float
    threshold: int
    mean_mu: float
    mean_scale: float
    answers: int
    influence: float = 2.0
    slip: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbors not in RELATIONS:
            raise refused("neighbors", self.neighbors, "is not a neighboring relation of filters")

    @property
    def count_mu(self) -> float:
        return min(self.count_sensitivity, int(LARGEST_LOSS)) / self.count_scale

    def counted(self) -> str:
        return (
            f"who is kept (influence {self.influence:g}), the count by {self.count_sensitivity} "
            f"steps and the mean by {self.mean_mu!r} deviations, given who is kept"
        )

    def _law(self) -> Relation:
        assert self.neighbors is not None  # refused when made
        return self.neighbors

    def delta_at(self, epsilon: float) -> float:
        """delta of a noisy count, then of a mean with noise set by it, both behind the filter."""
        from privmean.privacy import amplification as behind
        from privmean.privacy.gdp import gaussian_delta

        if epsilon <= 0:
            return 1.0
        # a bound at a smaller epsilon holds at a larger one
        epsilon = min(epsilon, behind.LARGEST_EPSILON)
        slip = self.slip or 0.0
        inner = behind.inner_epsilon(epsilon, self._law(), self.influence + slip)
        lattices = (
            Gaussian("count", self.count_mu * self.count_scale, self.count_scale, 1).lattice,
            Gaussian("mean", self.mean_mu * self.mean_scale, self.mean_scale, self.answers).lattice,
        )
        left = inner - sum(item.epsilon for item in lattices) * (1 + 1e-15)
        if left <= 0:
            return 1.0
        factor = math.prod(item.factor for item in lattices) * (1 + 1e-15)
        gauss = gaussian_delta(math.hypot(self.count_mu, self.mean_mu) * (1 + 1e-15), left) * factor
        threshold = min(self.threshold, int(LARGEST_LOSS))
        delta = behind.gaussian_tail(threshold, self.count_scale) + gauss
        total = (delta + sum(item.tail for item in lattices)) * behind.delta_ratio(epsilon, inner)
        if slip:
            total += (1 + math.exp(epsilon)) * slip
        return min(1.0, total * (1 + 1e-14))

    @property
    def drawn(self) -> float:
        return self.count_scale

    def points(self) -> list[float]:
        from privmean.privacy.amplification import outer_epsilon

        mu = math.hypot(self.count_mu, self.mean_mu)
        most = min(mu * (mu / 2 + 8), LARGEST_EXPONENT)
        inner = [most * k / 160 for k in range(1, 161)]
        outer = [outer_epsilon(x, self._law(), self.influence + (self.slip or 0.0)) for x in inner]
        return [0.0, *(x for x in outer if x < LARGEST_EXPONENT)]


@dataclass(frozen=True)
class ParallelCurve(PrivacyProfile, kind="parallel curve"):
    """Mechanisms on disjoint parts of the people, fixed before any data are seen.

    Replacing a person changes one part only, and what later parts learn from earlier ones is
    post-processing, so the curve is the highest of the parts' curves. Valid for replace-one
    neighbors with parts by roster position.
    """

    parts: tuple[tuple[PrivacyEvent, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.parts:
            raise refused("parts", self.parts, "must hold the mechanisms of each part")
        if self.neighbors == ADD_REMOVE:
            raise refused("neighbors", self.neighbors, "has no fixed parts of the people")

    def delta_at(self, epsilon: float) -> float:
        return max(total_delta(part, epsilon, grid=False) for part in self.parts)

    def points(self) -> list[float]:
        most = min(4 * bounded(self.epsilon), LARGEST_EXPONENT)
        return [most * k / 160 for k in range(161)]

    @property
    def drawn(self) -> float:
        return max((x.drawn for part in self.parts for x in part), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        values = super().to_dict()
        values["parts"] = [[loss.to_dict() for loss in part] for part in self.parts]
        return values

    def counted(self) -> str:
        return f"one of {len(self.parts)} parts of the people"
