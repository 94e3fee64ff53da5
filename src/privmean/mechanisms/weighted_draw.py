"""One of many items, drawn exactly with probability proportional to weight times exponential.

An item is proposed with a whole number of chances that is at least its own, in steps of a fine
unit, and accepted by the part that it has of them. Doubles only say how many chances are enough;
the law is exact whatever they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.mechanisms.exponential import DOUBT, accept
from privmean.noise.noise_source import Noise

BITS = 60  # of all chances together
FAINT = -600.0  # exponents below add nothing to a double; processors are slow where they underflow
BATCH = 4  # proposals at a time: nearly every one is accepted


def weighted_draw(
    gaps: Integers,
    unit: Fraction,
    weights: Floats,
    exact_weight: Callable[[int], Fraction],
    noise: Noise,
) -> int:
    """Draw item i with probability proportional to exact_weight(i) exp(-unit gaps[i]).

    gaps: at least 0, with a 0 among them. weights: the exact weights as doubles, within a part of
    10^-12. Weights are positive where they are not exactly 0.
    """
    shown = gaps * -float(unit)  # then in place: pairs of limits are many items
    np.maximum(shown, FAINT, out=shown)
    np.exp(shown, out=shown)
    shown *= weights
    scale = BITS - math.frexp(float(shown.sum()))[1]
    np.ldexp(shown, scale, out=shown)
    shown *= 1 + DOUBT
    np.floor(shown, out=shown)
    chances = shown.astype(np.int64)
    chances += weights > 0
    ends = np.cumsum(chances)
    while True:
        proposed = noise.below(BATCH, int(ends[-1]))
        words = noise.bits64(BATCH)
        for place, word in zip(proposed.tolist(), words.tolist(), strict=True):
            i = int(np.searchsorted(ends, place, side="right"))
            part = exact_weight(i) * Fraction(2) ** scale / int(chances[i])
            if accept(word, unit * int(gaps[i]), noise, part):
                return i
