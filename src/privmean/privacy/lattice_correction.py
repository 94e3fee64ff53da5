"""What a discrete Gaussian costs beyond the continuous one: its lattice, in three corrections.

Of `answers` coordinates on a lattice of `scale` steps a deviation. Proof:
docs/proofs/discrete-gaussian.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from privmean.privacy.event_numbers import LARGEST_EXPONENT, LARGEST_LOSS


class Correction(NamedTuple):
    """What is paid beyond the curve of a Gaussian part: epsilon that adds, what its delta is
    multiplied with, and delta that adds where the curve is used."""

    epsilon: float = 0.0
    factor: float = 1.0
    tail: float = 0.0


def correction(mu: float, scale: float, answers: int) -> Correction:
    """That of discrete Gaussian noise of `mu`. Below one step a deviation no curve is claimed."""
    return Correction(
        answers * min((12 + mu) / scale, LARGEST_LOSS) ** 2 / 12,
        math.exp(min(answers / 12 / scale / scale, LARGEST_EXPONENT)),
        answers * 5e-32 if scale >= 1 else 1.0,
    )
