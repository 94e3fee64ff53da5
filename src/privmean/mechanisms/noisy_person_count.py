"""A noisy number of people, by either law of noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from privmean.mechanisms.gaussian_sums import GaussianSums
from privmean.mechanisms.noisy_counts import NoisyCounts, as_counts
from privmean.mechanisms.weighted_rows import Law
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import Relation
from privmean.privacy.privacy_events import PrivacyEvent


@dataclass(frozen=True)
class PersonsCount:
    """A count that one person moves by one. strength: mu or epsilon.

    Guarantees: mu-GDP or epsilon-DP for the relation.
    """

    law: Law
    strength: float | Fraction
    relation: Relation
    name: str = "count of people"

    @property
    def _gaussian(self) -> GaussianSums:
        mu = float(self.strength)
        return GaussianSums(self.name, (1 / mu * (1 + 1e-15),), mu, relation=self.relation)

    @property
    def _laplace(self) -> NoisyCounts:
        return NoisyCounts.at(self.name, Fraction(self.strength), self.relation)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self._gaussian.events if self.law == "gaussian" else self._laplace.events

    def sensitivity_share(self, exact: int, other: int) -> tuple[Fraction, ...]:
        if self.law == "gaussian":
            return self._gaussian.sensitivity_share((exact,), (other,))
        return self._laplace.sensitivity_share(as_counts(exact), as_counts(other))

    def draw(self, exact: int, noise: Noise) -> float:
        if self.law == "gaussian":
            mechanism = self._gaussian
            return mechanism.draw((exact,), noise)[0] / 2.0 ** mechanism.bits[0]
        return float(self._laplace.draw(as_counts(exact), noise)[0])
