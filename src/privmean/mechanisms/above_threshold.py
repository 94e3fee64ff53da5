"""Several counts above a level, in their order: the sparse vector technique with fresh noise a hit.

Source: Dagan, Jordan, Yang, Zakynthinou and Zhivotovskiy (2024), Algorithm 4, with the noise that
its guarantee needs (docs/proofs/anisotropic-unknown.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.array_types import Integers
from privmean.mechanisms.noisy_argmax import Choices
from privmean.mechanisms.sensitivity_share import differences
from privmean.noise.noise_source import Noise


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
