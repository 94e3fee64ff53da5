"""Intervals for the mean itself of columns clipped around zero, tails included.

People beyond the limits add half of the largest mean excess that is assumed of them to the value,
and the other half to a noisy allowance by which the interval is longer (docs/proofs/intervals.md,
sections 2 and 6). Reads no data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privmean.data.person_table import ClipInterval
from privmean.estimators.means.clipped_mean import ClippedMean
from privmean.inference.clipped_intervals import SEEN
from privmean.inference.interval import (
    CLIPPED,
    EVERYWHERE,
    NOISE,
    THESE_PEOPLE,
    Ends,
    IntervalText,
    RowIntervals,
    Rows,
    assumed,
    no_undetected,
    outliers_within_times,
)
from privmean.inference.mean_interval import (
    ClippingBiasBound,
    RatioWithMissing,
    ends_of,
    noise_half,
)
from privmean.inference.status import (
    FAILED,
    MODIFIED_TARGET,
    OK,
    OUTLIERS_CLIPPED,
    POINT_MASS,
    release_status,
)
from privmean.privacy.budget import REPLACE_ONE

SEEN_PEOPLE = 5.0  # deviations of its noise that the number of people with a value must reach
FEWEST = 3.0  # noise scales that the number of people with a value must reach
MISSED = 1 / 2  # noisy share of people beyond the limits above which nothing is shown
THICKEST = 0.25  # noisy share of people beyond the limits above which no mean is shown
TOO_FEW = "Too few people have a value for the noise to show where they lie."
MOVED = (MODIFIED_TARGET, POINT_MASS)  # whose interval is for the clipped mean


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
        if clipped or self.status in MOVED:
            low, high = max(low, self.box.lower), min(high, self.box.upper)
        return float(low), float(high)

    def noise_half(self, level: float) -> float:
        """Half length for these people's corrected clipped mean: privacy noise only."""
        return math.inf if self.empty else self.box.radius * noise_half(self.joint.sums, level)

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
class TailIntervals(RowIntervals):
    """The intervals of several columns, each released with Laplace noise of its own."""

    columns: tuple[TailInterval, ...]
    design_effect: float = 1.0

    @property
    def number(self) -> int:
        return len(self.columns)

    def row_errors(self, row: int) -> tuple[float, float]:
        return self.columns[row].errors(self.design_effect)

    def ends(self, level: float, wanted: str, rows: Rows) -> list[Ends]:
        clipped, used = wanted == CLIPPED, [self.columns[row] for row in rows]
        if wanted != NOISE:
            return [item.limits(level, self.design_effect, clipped=clipped) for item in used]
        halves = [(item.estimate, item.noise_half(level)) for item in used]
        return [EVERYWHERE if half == math.inf else (x - half, x + half) for x, half in halves]

    def words(self, wanted: str, rows: Rows) -> IntervalText:
        used = [self.columns[row] for row in rows]
        status = release_status(FAILED if item.empty else OK for item in used)
        if wanted == NOISE:
            return {"target": f"corrected {THESE_PEOPLE}", "status": status}
        words = assumed(self.design_effect)
        if wanted != CLIPPED:
            status = release_status(item.status for item in used)
            hidden = no_undetected(max(SEEN * item.beyond_scale for item in used))
            words = assumed(self.design_effect, outliers_within_times(used[0].excess), hidden)
        moved = f"mean, the clipped mean where the status is {status!r}"
        target = moved if status in MOVED else wanted
        return {"target": target, "assumption": words, "status": status}

    def regions(self, wanted: str, rows: Rows) -> list[Ends]:
        return [(self.columns[row].box.lower, self.columns[row].box.upper) for row in rows]

    def parts(self, level: float, wanted: str, rows: Rows) -> dict[str, list[float]]:
        if wanted == NOISE:
            return {}
        used = [self.columns[row] for row in rows]
        extra = [x.box.radius * max(x.joint.tail, 0.0) / x.joint.sums.n for x in used]
        return {"noise": [x.noise_half(level) for x in used], "clipping allowance": extra}


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
