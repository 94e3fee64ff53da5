"""Limits moved out for people who were counted beyond them, and for a sum that follows.

Everything here is a function of noisy numbers. docs/proofs/groups.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

from privmean.central.find_region import ClippingRegion

TRUST = 1.0  # noise scales taken off a count
WIDEN, WIDEST = 0.9, 6.0  # how far the limits are moved out for the people counted
LEAST = 1.2  # and the least factor that is worth it
HIDDEN = 8.0  # noise scales of the histogram: more people than a thin tail beyond can hold


def first_step(place: ClippingRegion, persons: float, left: Fraction) -> tuple[float, float]:
    """The limits after the first count.

    A tail: the limits are moved out until clipping bias and noise are about equal, for a tail whose
    excess falls like the inverse of the distance. More people than a thin tail can hold, and only
    one side was seen: they are spread thinly on the other side, which is opened as far.
    """
    up, down = place.upper - place.origin, place.origin - place.lower
    if min(persons, place.hidden) > HIDDEN * place.scale:
        return place.origin - max(up, down), place.origin + max(up, down)
    return moved_for(place.origin, (place.lower, place.upper), persons, left)


def moved_for(
    origin: float, limits: tuple[float, float], persons: float, left: Fraction
) -> tuple[float, float]:
    """Limits moved out for so many people beyond them, with `left` to spend on the sum."""
    return moved(origin, limits, _factor(persons, left))


def _factor(persons: float, left: Fraction) -> float:
    return WIDEN * math.sqrt(max(persons, 0.0) * float(left) / math.sqrt(2))


def moved(origin: float, limits: tuple[float, float], factor: float) -> tuple[float, float]:
    """Limits moved out by a factor (at most `WIDEST`), the nearer one at most to where the farther
    one was: nobody knows on which side those beyond are, and up to there it costs little.

    An inner limit (both on one side of the origin) goes back to the origin and nothing else moves.
    """
    if factor <= LEAST:
        return limits
    factor = min(factor, WIDEST)
    up, down = limits[1] - origin, origin - limits[0]
    near, far = min(up, down), max(up, down)
    if near < 0:
        near = 0.0
    else:
        near, far = max(near, min(near * factor, far)), far * factor
    return (origin - near, origin + far) if up >= down else (origin - far, origin + near)
