"""A loss known by its whole curve delta(epsilon).

Composed with Gaussian parts through the law that dominates the curve (`amplification.dominating`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from privmean.privacy.budget import LARGEST_EXPONENT
from privmean.privacy.privacy_events import EpsilonEvent, bounded

if TYPE_CHECKING:
    from privmean.privacy.amplification import AmplifiedProfile


@dataclass(frozen=True)
class PrivacyProfile(EpsilonEvent, ABC):
    """A part known by its whole curve delta(epsilon), in both directions of neighbors.

    `epsilon` is one point of the curve, for basic composition. With Gaussian parts the composition
    uses `profile`, the law of the privacy loss that dominates the curve, and is much tighter.
    """

    @property
    def added_delta(self) -> float:
        return self.delta_at(min(bounded(self.epsilon), LARGEST_EXPONENT))

    @abstractmethod
    def delta_at(self, epsilon: float) -> float:
        """delta at any epsilon."""

    @abstractmethod
    def points(self) -> list[float]:
        """Increasing epsilons, 0 first, between which the curve is joined by chords."""

    def profile(self) -> AmplifiedProfile:
        """The dominating law of the privacy loss."""
        return _profile(self)


@lru_cache(maxsize=256)
def _profile(curve: PrivacyProfile) -> AmplifiedProfile:
    from privmean.privacy.amplification import dominating

    return dominating(curve.delta_at, curve.points())
