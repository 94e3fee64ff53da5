"""The first of several counts that lies below a threshold: the sparse vector technique, one answer.

Source: Dwork and Roth (2014), Algorithm 1, with the noise that monotone counts need (Lyu, Su and
Li 2017); docs/proofs/heavy-tails-radius.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from privmean.mechanisms.sensitivity_share import differences
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import Relation
from privmean.privacy.privacy_events import PrivacyEvent, Selection


@dataclass(frozen=True)
class FirstBelow:
    """Counts are compared with a noisy threshold one after the other, until one is not above it.

    The caller owes that one person moves all counts by at most one, in the same direction. words:
    what one person moves, for the accounting.

    Guarantees: epsilon-DP for any number of counts; nothing but the index is released.
    """

    name: str
    threshold: int
    epsilon: Fraction
    relation: Relation
    words: str

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return (
            Selection(
                self.name, self.epsilon, neighbors=self.relation, sensitivity_text=self.words
            ),
        )

    def sensitivity_share(self, exact: Iterable[int], other: Iterable[int]) -> tuple[Fraction, ...]:
        changes = differences(exact, other)
        # counts that move in both directions would need twice the noise
        reach = max([*changes, 0]) - min([*changes, 0])
        return (Fraction(reach),)

    def draw(self, exact: Iterable[int], noise: Noise) -> int | None:
        """The index of the first count found below; None if none is. Later counts are not read."""
        scale = 2 / self.epsilon
        threshold = self.threshold + noise.laplace(1, scale).tolist()[0]
        for index, count in enumerate(exact):
            if count + noise.laplace(1, scale).tolist()[0] <= threshold:
                return index
        return None
