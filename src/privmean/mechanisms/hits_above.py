"""Several counts above a level, in their order: the sparse vector technique with fresh noise a hit.

Source: Dagan, Jordan, Yang, Zakynthinou and Zhivotovskiy (2024), Algorithm 4, with the noise that
its guarantee needs (docs/proofs/anisotropic-unknown.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.dtypes import Integers
from privmean.mechanisms.moved import differences
from privmean.noise.base import Noise
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.loss import Selection


@dataclass(frozen=True)
class HitsAbove:
    """The first `hits` counts that reach `level`, each found by a run of its own at `epsilon`.

    The caller owes that replacing one person moves every count by at most one. words: what it
    moves, for the bill.

    Guarantees: pure loss `hits` times epsilon, for replace-one neighbours.
    """

    name: str
    level: float
    hits: int
    epsilon: Fraction
    words: str

    @property
    def losses(self) -> tuple[Selection, ...]:
        made = Selection(
            self.name, self.epsilon, choices=self.hits, relation=REPLACE_ONE, moved=self.words
        )
        return (made,)

    def moved(self, exact: Integers, other: Integers) -> tuple[Fraction, ...]:
        return (Fraction(max((abs(item) for item in differences(exact, other)), default=0)),)

    def draw(self, exact: Integers, noise: Noise) -> Integers:
        found: list[int] = []
        start = 0
        while len(found) < self.hits and start < len(exact):
            cut = self.level + int(noise.laplace(1, 2 / self.epsilon)[0])
            noisy = exact[start:] + noise.laplace(len(exact) - start, 4 / self.epsilon)
            above = np.flatnonzero(noisy >= cut)
            if len(above) == 0:
                break
            found.append(start + int(above[0]))
            start = found[-1] + 1
        return np.array(found, dtype=np.int64)
