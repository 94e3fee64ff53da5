"""Intervals for the mean itself of columns clipped around zero, tails included.

People beyond the limits add half of the largest mean excess that is assumed of them to the value,
and the other half to a noisy allowance by which the interval is longer (docs/proofs/intervals.md,
sections 2 and 6). Reads no data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from privmean import validate
from privmean.data.person_table import ClipInterval
from privmean.estimators.means.clipped_mean import ClippedMean
from privmean.inference.clipped_intervals import sidak_level
from privmean.inference.interval import Interval, assumed, no_undetected, outliers_within_times
from privmean.inference.mean_interval import (
    ClippingBiasBound,
    ends_of,
    noise_half,
)
from privmean.inference.outlier_check import SEEN
from privmean.inference.ratios import RatioWithMissing
from privmean.inference.status import (
    FAILED,
    MODIFIED_TARGET,
    OK,
    OUTLIERS_CLIPPED,
    POINT_MASS,
    release_status,
)
from privmean.privacy.budget import REPLACE_ONE

TARGETS = ("mean", "clipped")
SEEN_PEOPLE = 5.0  # deviations of its noise that the number of people with a value must reach
FEWEST = 3.0  # noise scales that the number of people with a value must reach
MISSED = 1 / 2  # noisy share of people beyond the limits above which nothing is shown
THICKEST = 0.25  # noisy share of people beyond the limits above which no mean is shown
TOO_FEW = "Too few people have a value for the noise to show where they lie."
CLIPPED = (MODIFIED_TARGET, POINT_MASS)  # whose interval is for the clipped mean


@dataclass(frozen=True)
class TailInterval:
    """One column on [-R, R]. excess: those beyond R exceed it on average by at most excess * R.
    enough: whether as many people have a value as R is chosen by. atom: whether half of them share
    one value, as far as can be told."""

    box: ClipInterval
    joint: RatioWithMissing
    excess: float
    enough: bool = True
    atom: bool = False

    @property
    def empty(self) -> bool:
        """Whether no more people with a value were seen than noise by itself can show, or half of
        them beyond limits that half of them are to stay far below: then noise chose these."""
        least = max(1.0, FEWEST * self.joint.sums.count_scale)
        nobody = self.joint.missing and self.joint.present < least
        return nobody or not self.enough or self.beyond > self.joint.sums.n * MISSED

    @property
    def estimate(self) -> float:
        return math.nan if self.empty else self.box.middle + self.box.radius * self.joint.sums.mean

    @property
    def allowance(self) -> ClippingBiasBound:
        return ClippingBiasBound(
            self.joint.tail, self.joint.tail_scale, self.excess, corrected=True
        )

    @property
    def beyond(self) -> float:
        """Noisy number of people beyond the limits, and (next) its Laplace scale."""
        return 2 * self.joint.tail / self.excess

    @property
    def beyond_scale(self) -> float:
        return 2 * self.joint.tail_scale / self.excess

    @property
    def status(self) -> str:
        """What the noisy number of people beyond the limits says of an interval for the mean."""
        if self.empty:
            return FAILED
        if (self.beyond + self.beyond_scale) / self.joint.sums.n > THICKEST:
            return MODIFIED_TARGET
        if self.atom:
            return POINT_MASS
        return OUTLIERS_CLIPPED if self.beyond > SEEN * self.beyond_scale else OK

    def limits(self, level: float, design_effect: float, *, clipped: bool) -> tuple[float, float]:
        """The ends for the mean, or for the clipped mean, of the population (for the latter too if
        the tail is too thick)."""
        if self.empty:
            return -math.inf, math.inf
        low, high = ends_of(self.joint.sums, level, design_effect, self.allowance)
        low, high = (self.box.middle + self.box.radius * item for item in (low, high))
        if clipped or self.status in CLIPPED:
            low, high = max(low, self.box.lower), min(high, self.box.upper)
        return float(low), float(high)

    def noise_limits(self, level: float) -> tuple[float, float]:
        """The ends for these people's corrected clipped mean: privacy noise only."""
        if self.empty:
            return -math.inf, math.inf
        half = self.box.radius * noise_half(self.joint.sums, level)
        return self.estimate - half, self.estimate + half

    def errors(self, design_effect: float) -> tuple[float, float]:
        """Standard deviations of privacy noise, and of noise and sampling together."""
        if self.empty:
            return math.nan, math.nan
        sums = self.joint.sums
        noise = math.sqrt(2) * math.hypot(*sums.scales(sums.mean))
        spread = design_effect * sums.variance * sums.n
        unit = self.box.radius / sums.n
        return unit * noise, unit * math.hypot(noise, math.sqrt(spread))


@dataclass(frozen=True)
class TailIntervals:
    """The intervals of several columns, each released with Laplace noise of its own."""

    columns: tuple[TailInterval, ...]
    design_effect: float = 1.0

    def column(self, index: int) -> TailIntervals:
        """The intervals of one column for itself."""
        return replace(self, columns=self.columns[index : index + 1])

    def errors(self) -> tuple[float, float]:
        """Of one column: deviations by privacy noise, and by noise and sampling together."""
        return self.columns[0].errors(self.design_effect)

    def interval(self, level: float, target: str | None = None) -> Interval:
        """All columns together. target "mean" (default) or "clipped"."""
        clipped = target is not None and validate.choice("target", target, TARGETS) == "clipped"
        one = sidak_level(level, len(self.columns))
        ends = [item.limits(one, self.design_effect, clipped=clipped) for item in self.columns]
        words = assumed(self.design_effect, *([] if clipped else self._words()))
        made = self._made(level, ends)
        extra = tuple(
            item.box.radius * max(item.joint.tail, 0.0) / item.joint.sums.n for item in self.columns
        )
        status = made.status if clipped else release_status(x.status for x in self.columns)
        target = "clipped mean" if clipped else "mean"
        if status in CLIPPED:
            target = f"mean, the clipped mean where the status is {status!r}"
        return replace(
            made,
            assumption=words,
            target=target,
            half_widths={"noise": self._noise(one), "clipping allowance": extra},
            status=status,
        )

    def noise_interval(self, level: float) -> Interval:
        one = sidak_level(level, len(self.columns))
        made = self._made(level, [item.noise_limits(one) for item in self.columns])
        target = "corrected clipped mean of these people"
        return replace(made, kind="noise_interval", target=target)

    def _noise(self, level: float) -> tuple[float, ...]:
        pairs = [item.noise_limits(level) for item in self.columns]
        return tuple((high - low) / 2 for low, high in pairs)

    def _made(self, level: float, ends: Sequence[tuple[float, float]]) -> Interval:
        return Interval(
            tuple(low for low, _ in ends),
            tuple(high for _, high in ends),
            level,
            clip_bounds=tuple((item.box.lower, item.box.upper) for item in self.columns),
            status=release_status(FAILED if item.empty else OK for item in self.columns),
        )

    def _words(self) -> list[str]:
        excess = self.columns[0].excess
        hidden = max(SEEN * item.beyond_scale for item in self.columns)
        return [outliers_within_times(excess), no_undetected(hidden)]


def _counted(column: ClippedMean | TailInterval | None) -> tuple[float, float]:
    """The noisy number of people with a value, and the deviation of its noise."""
    if column is None:
        return math.nan, math.inf
    if isinstance(column, TailInterval):
        return column.joint.present, math.sqrt(2) * column.joint.sums.count_scale
    sums = column.sums
    law = 1.0 if sums.gaussian else math.sqrt(2)
    scales = sums.noise[2:] if sums.relation == REPLACE_ONE else sums.noise
    return sums.weight, law * math.hypot(*scales)


def unseen(column: ClippedMean | TailInterval | None) -> bool:
    """Whether the people with a value are no more than noise."""
    number, sd = _counted(column)
    return not number >= max(SEEN_PEOPLE * sd, 1.0)
