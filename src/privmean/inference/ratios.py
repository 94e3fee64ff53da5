"""Intervals of ratios.

What the noisy sums of a column are divided by, and what that leaves for its intervals.

Post-processing of released numbers: reads no data.

The ratio of two means: every number that the two intervals together do not rule out.

For each ratio r the sum first - r second has an interval of its own; r is in the set if that holds
0 (Fieller 1954, with the noise and the allowances of both). The set may be an interval, two rays or
the whole line, which stands for two rays as well. Directions (cos f, -sin f) take the ratio tan f
through infinity without a break.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from privmean.inference.group_table import Contrast, GroupTable, LinearCombination
from privmean.inference.mean_interval import NoisySums
from privmean.inference.outlier_check import UNKNOWN, MissingCount
from privmean.inference.status import LOW_PRECISION, OK, SUPPRESSED, worst_status
from privmean.mechanisms.clipped_sum import ColumnSums
from privmean.privacy.budget import REPLACE_ONE

MISSING_SDS = 5  # with Gaussian noise: deviations from which nulls count as seen
# noise scales (deviations) of the number of people with a value that it must reach: of nobody at
# all, noise shows more in one release of a hundred
FEWEST = 4.0
TOO_FEW = "Too few people have a value. Add people or raise epsilon."


def is_undetected(column: ColumnSums) -> bool:
    """Whether no more people with a value are seen than noise by itself can show: what is divided
    by their number would be noise over noise."""
    return column.weight < max(1.0, FEWEST * column.weight_noise)


@dataclass(frozen=True)
class RatioWithMissing:
    """sums: ready for intervals, in units of the radius. present: the noisy number of people with
    a value. missing: whether `sums` divide by it, because the number of people is private or
    enough people have no value to be seen. tail, tail_scale: `extra` of the column. absent: the
    noisy number of people without a value (replace-one)."""

    sums: NoisySums
    present: float
    missing: bool
    tail: float = 0.0
    tail_scale: float = 0.0
    absent: MissingCount = UNKNOWN

    @classmethod
    def of(
        cls,
        column: ColumnSums,
        persons: int | None,
        earlier: Sequence[tuple[float, float]] = (),
        *,
        absent_at: float | None = None,
    ) -> RatioWithMissing:
        """persons: n under replace-one, where the weights count people. earlier: other noisy
        numbers of the people without a value, and their scales (Laplace noise only); given, those
        who may have none are in the intervals too. absent_at: the z of people without one, whose
        square is 1 (None: both are 0)."""
        value_scale, square_scale, count_scale = column.noise
        present = column.weight
        if column.relation != REPLACE_ONE:
            sums = NoisySums(
                column.value,
                column.square,
                max(present, 1.0),
                value_scale,
                2 * value_scale,
                "gaussian" if column.gaussian else "laplace",
                partition=True,
            )
            return cls(sums, present, True, column.extra, column.extra_noise)
        assert persons is not None
        if column.gaussian:
            missing = persons - present > MISSING_SDS * count_scale
            sums = NoisySums(
                column.value,
                column.square,
                max(present, 1.0) if missing else float(persons),
                value_scale,
                square_scale,
                "gaussian",
                count_scale if missing else 0.0,
            )
            return cls(sums, present, missing, column.extra, column.extra_noise)
        absent = MissingCount.pooled([*earlier, (persons - present, count_scale)])
        gone = absent.believed
        sums = NoisySums(
            column.value - (absent_at or 0.0) * gone,
            column.square - (0.0 if absent_at is None else gone),
            max(persons - gone, 1.0),
            value_scale,
            square_scale,
            "laplace",
            absent.scale if gone else 0.0,
            undetected=absent.spared / persons if earlier else 0.0,
            missing=absent_at or 0.0,
        )
        present = persons - absent.number
        return cls(sums, present, gone > 0, column.extra, column.extra_noise, absent)


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
