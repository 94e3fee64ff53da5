"""What may be shown of each bin of a curve: a bin that holds nobody has no estimate.

The noisy number of people with a value in a bin is released with its mean. Where it is not far
above its own noise, the mean would be noise limited to the bounds: such a bin has no estimate and
no interval. Post-processing: reads no data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from privmean.data.person_table import Floats
from privmean.estimators.means.clipped_mean import ClippedMean, ClippedMeans
from privmean.inference.interval import Interval
from privmean.inference.status import (
    AT_BOUND,
    FAILED,
    LOW_PRECISION,
    OK,
    OUTLIERS_UNCHECKED,
    SUPPRESSED,
    find_status,
    release_status,
)
from privmean.models.tail_intervals import TailInterval, TailIntervals
from privmean.privacy.budget import REPLACE_ONE
from privmean.release.result_rows import NAN

SEEN = 5.0  # deviations of its noise that the number of people in a bin must reach
TOO_FEW = "The noisy number of people in every bin is below 5 deviations of its noise."
SHORT = 0.5  # part of the bounds beyond which an interval says little
Means = ClippedMeans | TailIntervals


@dataclass(frozen=True)
class BinnedIntervals:
    """The intervals of the bins that hold people; NaN for the others.

    bounds: public limits of the values, None where there are none. unchecked: whether the limits
    were found and nobody beyond them was counted, though the mean was asked for.
    """

    made: Means
    bounds: tuple[float, float] | None = None
    unchecked: bool = False

    @property
    def n(self) -> tuple[float, ...]:
        """Noisy numbers of people with a value in each bin; NaN where none was released."""
        return tuple(_counted(item)[0] for item in self.made.columns)

    def statuses(self, level: float) -> tuple[str, ...]:
        """Of every bin."""
        found = [
            _status(item, self._ends(j, level), self.bounds, self._at_bound(j))
            for j, item in enumerate(self.made.columns)
        ]
        return tuple(OUTLIERS_UNCHECKED if x == OK and self.unchecked else x for x in found)

    def shown(self, estimate: Floats, level: float) -> Floats:
        """The estimates that are more than noise: none of a mean that had to be limited."""
        kept = [
            float(x)
            if status == AT_BOUND or (find_status(status).has_estimate and not _limited(item))
            else math.nan
            for x, item, status in zip(
                estimate, self.made.columns, self.statuses(level), strict=True
            )
        ]
        return np.array(kept)

    def pointwise(self, level: float) -> Interval:
        """Each bin alone."""
        ends = [self._ends(j, level) for j in range(len(self.made.columns))]
        low, high = zip(*ends, strict=True)
        made = replace(self.made.interval(level), lower=low, upper=high, half_widths={})
        return self._masked(made, level)

    def interval(self, level: float, target: str | None = None) -> Interval:
        """All bins together."""
        return self._masked(self.made.interval(level, target), level)

    def noise_interval(self, level: float) -> Interval:
        return self._masked(self.made.noise_interval(level), level)

    def column(self, index: int) -> BinnedIntervals:
        """The intervals of one bin for itself."""
        return replace(self, made=self.made.column(index))

    def errors(self) -> tuple[float, float]:
        """Of one bin: deviations by privacy noise, and by noise and sampling together."""
        hidden = unseen(self.made.columns[0])
        return (math.nan, math.nan) if hidden else self.made.errors()

    def _at_bound(self, column: int) -> bool:
        """Whether the noise hides everyone in the bin who may be away from a public bound."""
        made = self.made
        return isinstance(made, ClippedMeans) and bool(made.sides[column])

    def _ends(self, column: int, level: float) -> tuple[float, float]:
        found = self.made.column(column).interval(level)
        return found.lower[0], found.upper[0]

    def _masked(self, made: Interval, level: float) -> Interval:
        hidden = [unseen(item) for item in self.made.columns]
        found = self.statuses(level)
        status = release_status(found)
        return replace(
            made,
            lower=tuple(NAN if h else x for h, x in zip(hidden, made.lower, strict=True)),
            upper=tuple(NAN if h else x for h, x in zip(hidden, made.upper, strict=True)),
            half_widths={
                name: tuple(NAN if h else x for h, x in zip(hidden, half, strict=True))
                for name, half in made.half_widths.items()
            },
            status=made.status if status == OK else status,
            advice=made.advice if status == OK else "",
        )


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
    return not number >= max(SEEN * sd, 1.0)


def _limited(column: ClippedMean | TailInterval | None) -> bool:
    """Whether the noisy mean lies beyond its limits, so that only the interval says something."""
    return isinstance(column, ClippedMean) and abs(column.sums.value) > column.weight


def _status(
    column: ClippedMean | TailInterval | None,
    ends: tuple[float, float],
    bounds: tuple[float, float] | None,
    at_bound: bool,
) -> str:
    if column is None:
        return FAILED
    if unseen(column):
        return SUPPRESSED
    if column.empty:
        return FAILED
    if at_bound:
        return AT_BOUND
    length = ends[1] - ends[0]
    if not math.isfinite(length) or _limited(column):
        return LOW_PRECISION
    if bounds is not None and length > SHORT * (bounds[1] - bounds[0]):
        return LOW_PRECISION
    return column.status if isinstance(column, TailInterval) else OK
