"""Intervals and standard errors of single columns of a release of several."""

from __future__ import annotations

import math
from typing import Any

from privmean.central.clipped_mean import ClippedMean, ClippedMeans
from privmean.intervals.interval import FAILED, OK
from privmean.models.tail_means import TailMeans

Pair = tuple[float, float]


def alone(intervals: Any, column: int, level: float) -> Pair:
    """The interval of one column for itself, with its bias bound and public bounds."""
    if isinstance(intervals, TailMeans):
        return intervals.alone(column, level)
    assert isinstance(intervals, ClippedMeans)
    mean = intervals.seen[column]
    if mean is None:
        return -math.inf, math.inf
    low, high = mean.limits(1 - level, intervals.design_effect)
    if intervals.bounds is not None:
        low, high = (
            max(low, intervals.bounds[column][0]),
            min(high, intervals.bounds[column][1]),
        )
    extra = intervals.beyond[column] if intervals.beyond else 0.0
    return low - extra, high + extra


def status_of(intervals: Any, column: int) -> str:
    """What the release says of one column's interval: "ok", "tail seen", "tail too thick"."""
    if isinstance(intervals, TailMeans):
        return intervals.columns[column].status
    return OK if intervals.seen[column] is not None else FAILED


def errors(intervals: Any, column: int) -> Pair:
    """Standard deviations of privacy noise, and of noise and sampling together."""
    if isinstance(intervals, TailMeans):
        return intervals.columns[column].errors(intervals.design_effect)
    assert isinstance(intervals, ClippedMeans)
    mean = intervals.seen[column]
    return (math.nan, math.nan) if mean is None else _errors(mean, intervals.design_effect)


def _errors(column: ClippedMean, design_effect: float) -> Pair:
    sums, z = column.sums, column.z
    theta = 0.0 if column.public_weight else z
    scales = sums.ratio_noise(theta)
    noise = math.hypot(*scales) * (1.0 if sums.gaussian else math.sqrt(2))
    spread = design_effect * max(sums.square / column.weight - z * z, 0.0) * column.weight
    unit = column.box.radius / column.weight
    return unit * noise, unit * math.sqrt(noise**2 + spread)
