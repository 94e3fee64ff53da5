"""The strategies of Kalinin, Najar, Roth and Lampert (2026), run by the shared stream."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np

from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.gdp import gaussian_mu
from privmean.published import BandedInverse, Decaying, running_means
from privmean.streams import Banded, Identity, MeanToeplitz, Participation, PrefixRoot

PATTERN = Participation(4, 16)
PEOPLE = [k % 16 for k in range(64)]
SHORT = Participation(3, 3)


@dataclass(frozen=True)
class StreamCase:
    """A strategy as printed: 16 people take part four times, their records lie in [0, 1]."""

    name: str
    build: Callable[[], Any]
    runs: int = 120

    @property
    def reference(self) -> Any:
        return SimpleNamespace(value=1.0, error=0.0, runs=self.runs, slack=0.01)

    def audit(self) -> bool:
        """No pattern of participations and no signs move C X by more than is stated: all of 12
        steps are tried."""
        strategy, steps = self.build(), 12
        column = strategy.column(steps)
        c = np.array([np.concatenate([np.zeros(k), column[: steps - k]]) for k in range(steps)])
        worst = 0.0
        for size in range(1, SHORT.most + 1):
            for places in combinations(range(steps), size):
                if min(np.diff(places), default=SHORT.separation) < SHORT.separation:
                    continue
                for signs in np.ndindex(*[2] * (size - 1)):
                    own = np.array([1, *(2 * np.array(signs) - 1)])
                    worst = max(worst, float(np.linalg.norm(own @ c[list(places)])))
        return worst <= strategy.sensitivity(SHORT, steps) * (1 + 1e-9)

    def run(self, noise: Any, values: Any) -> Any:
        return running_means(
            PEOPLE, values, participation=PATTERN, epsilon=1.0, delta=1e-6, bounds=(0.0, 1.0),
            strategy=self.build(), noise=noise,
        )  # fmt: skip

    def bill(self) -> None:
        found = self.run(SimulatedNoise(1), [0.2] * 64)
        assert len(found.releases) == 64
        assert found.guarantee.verify()
        assert found.guarantee.epsilon <= 1.0
        assert found.guarantee.neighbors == "zero-out"

    def measured(self) -> list[float]:
        """Squared errors of the last step over the variance in closed form, run by run."""
        strategy = self.build()
        unit = 0.5 / gaussian_mu(1.0, 1e-6) * strategy.sensitivity(PATTERN, 64)
        sd = unit * math.sqrt(strategy.variances(64)[-1]) / 64
        found = []
        for k in range(self.runs):
            release = self.run(SimulatedNoise(k), [0.5] * 64).releases[-1]
            found.append((float(release.estimate[0]) - 0.5) ** 2 / sd**2)
        return found


CASES = [
    StreamCase("running mean, I", Identity),
    StreamCase("running mean, E^(1/2)", PrefixRoot),
    StreamCase("running mean, D_toep", MeanToeplitz),
    StreamCase("running mean, nu-DP-FTRL", lambda: Decaying(0.06)),
    StreamCase("running mean, E^(1/2) banded", lambda: Banded(PrefixRoot(), 3)),
    StreamCase("running mean, D_toep banded", lambda: Banded(MeanToeplitz(), 3)),
    StreamCase("running mean, E^(1/2) banded inverse", lambda: BandedInverse(PrefixRoot(), 3)),
    StreamCase("running mean, D_toep banded inverse", lambda: BandedInverse(MeanToeplitz(), 16)),
]
