"""What a discrete Gaussian costs beyond the continuous one: its lattice, in three corrections.

Of `answers` coordinates on a lattice of `scale` steps a deviation. Proof:
docs/proofs/discrete-gaussian.md.
"""

from __future__ import annotations

import math

from privmean.privacy.numbers import LARGEST_EXPONENT, LARGEST_LOSS


def lattice_epsilon(mu: float, scale: float, answers: int) -> float:
    """epsilon that adds to the continuous curve of mu."""
    return answers * min((12 + mu) / scale, LARGEST_LOSS) ** 2 / 12


def delta_factor(scale: float, answers: int) -> float:
    """What the continuous curve's delta is multiplied with."""
    return math.exp(min(answers / 12 / scale / scale, LARGEST_EXPONENT))


def tail_delta(scale: float, answers: int) -> float:
    """delta that adds for the far tail; below one step a deviation nothing is claimed."""
    return answers * 5e-32 if scale >= 1 else 1.0
