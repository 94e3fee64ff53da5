"""The first answer above or below a threshold.

Several counts above a level, in their order: the sparse vector technique with fresh noise a hit.

Source: Dagan, Jordan, Yang, Zakynthinou and Zhivotovskiy (2024), Algorithm 4, with the noise that
its guarantee needs (docs/proofs/anisotropic-unknown.md).

The first of several counts that lies below a threshold: the sparse vector technique, one answer.

Source: Dwork and Roth (2014), Algorithm 1, with the noise that monotone counts need (Lyu, Su and
Li 2017); docs/proofs/heavy-tails-radius.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.array_types import Integers
from privmean.mechanisms.curator import differences
from privmean.mechanisms.noisy_argmax import Choices
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import Relation
from privmean.privacy.privacy_events import PrivacyEvent, Selection


@dataclass(frozen=True)
class HitsAbove(Choices):
    """The first `choices` counts that reach `level`, each found by a run of its own at `epsilon`.

    The caller owes that replacing one person moves every count by at most one.

    Guarantees: pure loss `choices` times epsilon, for replace-one neighbors.
    """

    level: float

    def sensitivity_share(self, exact: Integers, other: Integers) -> tuple[Fraction, ...]:
        return (Fraction(max((abs(item) for item in differences(exact, other)), default=0)),)

    def draw(self, exact: Integers, noise: Noise) -> Integers:
        found: list[int] = []
        start = 0
        while len(found) < self.choices and start < len(exact):
            (draw,) = noise.laplace(1, 2 / self.epsilon).tolist()
            cut = draw + self.level
            noisy = exact[start:] + noise.laplace(len(exact) - start, 4 / self.epsilon)
            above = np.flatnonzero(noisy >= cut)
            if len(above) == 0:
                break
            found.append(start + int(above[0]))
            start = found[-1] + 1
        return np.array(found, dtype=np.int64)


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
