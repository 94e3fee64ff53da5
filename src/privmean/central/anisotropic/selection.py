"""k choices in a row without return, each by the exponential mechanism.

Its loss has bounded range, which permute-and-flip's does not, so k choices cost k epsilon^2/8 zCDP.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from privmean.mechanisms.exponential import choose
from privmean.noise.base import Integers, Noise


def peel(scores: Integers, choices: int, unit: Fraction, noise: Noise) -> list[int]:
    """`choices` different indices, each drawn by `choose` from those left."""
    left = np.arange(len(scores))
    chosen: list[int] = []
    for _ in range(choices):
        position = choose(scores[left], unit, noise)
        chosen.append(int(left[position]))
        left = np.delete(left, position)
    return chosen
