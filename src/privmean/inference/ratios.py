"""The ratio of two means: every number that the two intervals together do not rule out.

For each ratio r the sum first - r second has an interval of its own; r is in the set if that holds
0 (Fieller 1954, with the noise and the allowances of both). The set may be an interval, two rays or
the whole line, which stands for two rays as well. Directions (cos f, -sin f) take the ratio tan f
through infinity without a break.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from privmean.inference.contrasts import Contrast
from privmean.inference.group_table import GroupTable, LinearCombination
from privmean.inference.status import LOW_PRECISION, OK, SUPPRESSED, worst_status

GRID = 180  # directions looked at first
ROUNDS = 30


@dataclass(frozen=True)
class Ratio:
    """estimate; the set: lower to upper, unbounded where it is more than one interval. noise: the
    same for privacy noise only."""

    estimate: float
    lower: float
    upper: float
    noise_lower: float
    noise_upper: float
    status: str


def ratio_line(
    table: GroupTable, contrast: Contrast, level: float, *, independent: bool = False
) -> Ratio:
    """The ratio of two groups' means with its set."""
    (first, _), (second, _) = contrast.terms
    if first not in table.places or second not in table.places:
        return Ratio(*(math.nan,) * 5, SUPPRESSED)
    a, b = table.place(first), table.place(second)
    if not (table.shown[a] and table.shown[b]):
        return Ratio(*(math.nan,) * 5, SUPPRESSED)

    @cache  # both sets walk the same grid
    def at(angle: float) -> LinearCombination:
        weights = np.zeros(len(table.keys))
        weights[a], weights[b] = math.cos(angle), -math.sin(angle)
        return table.line(weights, level, independent=independent)

    def holds(angle: float) -> bool:
        line = at(angle)
        return line.lower <= 0 <= line.upper

    def noise(angle: float) -> bool:
        line = at(angle)
        return line.noise_lower <= 0 <= line.noise_upper

    top, bottom = float(table.estimate[a]), float(table.estimate[b])
    estimate = top / bottom if bottom else math.copysign(math.inf, top)
    best = math.atan2(top, bottom)
    lower, upper = _set(holds, best)
    low, high = _set(noise, best)
    own = OK if math.isfinite(lower) else LOW_PRECISION
    status = worst_status((own, table.worst(np.array([a, b]))))
    return Ratio(estimate, lower, upper, low, high, status)


def _set(holds: Callable[[float], bool], best: float) -> tuple[float, float]:
    """Walk from the direction of the estimate both ways to the first that is ruled out; half a turn
    without one is the whole line."""
    ends = []
    for way in (1.0, -1.0):
        step = way * math.pi / GRID
        inside, outside = best, None
        for k in range(1, GRID + 1):
            if not holds(best + k * step):
                outside = best + k * step
                break
            inside = best + k * step
        if outside is None:
            return -math.inf, math.inf
        for _ in range(ROUNDS):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if holds(middle) else (inside, middle)
        ends.append(inside)
    high, low = ends
    # the tangent runs through infinity where the two ends lie on branches of their own
    if math.floor(low / math.pi + 0.5) != math.floor(high / math.pi + 0.5):
        return -math.inf, math.inf
    return math.tan(low), math.tan(high)
