"""Boxes that ask little: of privacy noise only, of a cover, and of a failed release."""

from __future__ import annotations

import math
from dataclasses import dataclass

from privmean import validate
from privmean.inference.interval import Interval
from privmean.inference.mean_interval import limit, no_interval
from privmean.inference.status import FAILED

MEAN = "mean"


def noise_box(
    estimate: tuple[float, ...], half: float, level: float, target: str, assumption: str = ""
) -> Interval:
    """The same half length on both sides in every column: privacy noise only."""
    return Interval(
        tuple(x - half for x in estimate),
        tuple(x + half for x in estimate),
        level,
        kind="noise_interval",
        target=target,
        assumption=assumption,
        half_widths={"noise": (half,) * len(estimate)},
    )


@dataclass(frozen=True)
class CoverBox:
    """Intervals for a point chosen from a cover (no closed form of its noise: conservative).

    resolution: 2 radius/(n epsilon); reach: 4 alpha, within which the accuracy theorem places the
    mean. The noise interval says how far a choice can be from the best point of this sample.
    """

    estimate: tuple[float, ...]
    resolution: float
    spacing: float
    deviation: float
    reach: float
    assumption: str
    ranges: tuple[tuple[float, float], ...] | None

    def interval(self, level: float, target: str | None) -> Interval:
        validate.choice("target", target or MEAN, [MEAN])
        d = len(self.estimate)
        bounds = self.ranges or ((-math.inf, math.inf),) * d
        ends = [
            limit(x - self.reach, x + self.reach, bounds[j]) for j, x in enumerate(self.estimate)
        ]
        return Interval(
            tuple(low for low, _ in ends),
            tuple(high for _, high in ends),
            level,
            assumption=f"{self.assumption}; within 4 alpha of the mean by the plan",
            half_widths={"reach of the test": (self.reach,) * d},
        )

    def noise_interval(self, level: float) -> Interval:
        d = len(self.estimate)
        half = self.resolution * (d + math.log(1 / (1 - level))) + self.spacing
        return noise_box(
            self.estimate,
            half,
            level,
            "best point of the cover for these people",
            "rule of thumb: scores fall by n/radius a unit of distance",
        )


@dataclass(frozen=True)
class NoInterval:
    """The intervals of a failed release: the public range, or the whole line."""

    ranges: tuple[tuple[float, float], ...] | None
    columns: int

    def _make(self, level: float, kind: str) -> Interval:
        if self.ranges is None:
            return no_interval(level, kind=kind, columns=self.columns)
        return Interval(
            tuple(a for a, _ in self.ranges),
            tuple(c for _, c in self.ranges),
            level,
            kind=kind,
            status=FAILED,
        )

    def interval(self, level: float, target: str | None) -> Interval:
        return self._make(level, "interval")

    def noise_interval(self, level: float) -> Interval:
        return self._make(level, "noise_interval")
