"""The bin that holds most persons: a histogram with noise on its occupied bins and one threshold.

Source: Dagan, Jordan, Yang, Zakynthinou and Zhivotovskiy (2024), Algorithm 6; the threshold is that
of a stable histogram (docs/proofs/anisotropic-unknown.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.mechanisms.sensitivity_share import laplace_share
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Laplace, PrivacyEvent, Threshold


@dataclass(frozen=True)
class LikeliestBin:
    """The occupied bin of the largest noisy count, if that reaches the threshold.

    Exact answers are the people of each occupied bin. The caller owes that replacing one person
    moves one from a bin to another.

    Guarantees: (epsilon, delta)-DP for replace-one neighbors, whatever the bins.
    """

    epsilon: Fraction
    delta: float
    name: str = "bins"

    @property
    def threshold(self) -> int:
        return 1 + math.ceil(2 * math.log(1 / self.delta) / float(self.epsilon))

    @property
    def _laplace(self) -> Laplace:
        return Laplace(
            self.name, Fraction(2), 2 / self.epsilon, cells_changed=2, neighbors=REPLACE_ONE
        )

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        scale, cut = 2 / self.epsilon, float(self.threshold)
        return (
            self._laplace,
            Threshold(self.name, self.delta, cut, scale=scale, neighbors=REPLACE_ONE),
        )

    def sensitivity_share(
        self, exact: Mapping[int, int], other: Mapping[int, int]
    ) -> tuple[Fraction, ...]:
        places = exact.keys() | other.keys()
        changes = [exact.get(item, 0) - other.get(item, 0) for item in places]
        new = max(
            sum(other[item] for item in other.keys() - exact.keys()),
            sum(exact[item] for item in exact.keys() - other.keys()),
        )
        return (laplace_share(changes, self._laplace), Fraction(new))

    def draw(self, exact: Mapping[int, int], noise: Noise) -> int | None:
        """Ties to the smallest; None if no bin is likely enough."""
        bins = sorted(exact)
        noisy = np.array([exact[item] for item in bins], dtype=np.int64)
        noisy = noisy + noise.laplace(len(bins), 2 / self.epsilon)
        best = int(np.argmax(noisy)) if bins else 0
        if not bins or noisy[best] < self.threshold:
            return None
        return bins[best]
