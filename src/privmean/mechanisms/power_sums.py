"""Sums over people of 1, a, a^2 and a^4 for values a in [-1, 1], released together.

Each entry is bounded by itself, so that no relation between the entries is relied upon after they
were made whole numbers. docs/proofs/variance.md, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from privmean.mechanisms.gaussian_sums import GaussianSums
from privmean.mechanisms.laplace_sums import JointLaplace
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import Relation
from privmean.privacy.privacy_events import PrivacyEvent

STEPS = 1 << 30  # whole numbers that stand for 1
MULTIPLES = (Fraction(8), Fraction(8), Fraction(8, 5), Fraction(8))  # Laplace scales over 1/epsilon
PARTS = (0.10, 0.05, 0.70, 0.10)  # of mu^2: what a change of 1 in each entry costs


@dataclass(frozen=True)
class PowerSums:
    """Noisy sums of rows (one, a, a^2, a^4) of whole numbers over `STEPS`; a person without a value
    has the row 0. mu or epsilon: the price, and with it the law of the noise.

    Guarantees: mu-GDP or epsilon-DP for one person replaced, added or removed, for any rows whose
    entries lie in [0, 1], [-1, 1], [0, 1], [0, 1]. Two people with values differ by 0 in the
    first, 2 in the second and 1 in the other two; one with and one without by 1 in each: under
    Laplace noise 2/8 + 5/8 + 1/8 = 1 and 1/8 + 1/8 + 5/8 + 1/8 = 1, under Gaussian noise
    4(.05) + .7 + .1 = 1 and .95.
    """

    name: str
    relation: Relation
    mu: float | None = None
    epsilon: Fraction | None = None

    @cached_property
    def mechanism(self) -> GaussianSums | JointLaplace:
        if self.mu is not None:
            sds = tuple(STEPS / (self.mu * math.sqrt(part)) * (1 + 1e-12) for part in PARTS)
            return GaussianSums(self.name, sds, self.mu, relation=self.relation)
        assert self.epsilon is not None
        return JointLaplace(
            (STEPS,) * len(MULTIPLES), MULTIPLES, self.epsilon, self.relation, self.name
        )

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.mechanism.events

    @property
    def scales(self) -> tuple[float, ...]:
        """Of the noise of each sum, over `STEPS`: deviations, or Laplace scales."""
        if isinstance(self.mechanism, GaussianSums):
            return tuple(sd / STEPS for sd in self.mechanism.sds)
        assert self.epsilon is not None
        return tuple(float(multiple / self.epsilon) for multiple in MULTIPLES)

    @property
    def sds(self) -> tuple[float, ...]:
        """Deviations of the noise of each sum, over `STEPS`."""
        law = 1.0 if isinstance(self.mechanism, GaussianSums) else math.sqrt(2)
        return tuple(law * scale for scale in self.scales)

    def sensitivity_share(self, exact: Sequence[int], other: Sequence[int]) -> tuple[Fraction, ...]:
        return self.mechanism.sensitivity_share(exact, other)

    def draw(self, exact: Sequence[int], noise: Noise) -> list[float]:
        """The noisy sums over `STEPS`."""
        made = self.mechanism
        drawn = made.draw(exact, noise)
        if isinstance(made, JointLaplace):
            return list(drawn)
        return [x / (STEPS << bits) for x, bits in zip(drawn, made.bits, strict=True)]
