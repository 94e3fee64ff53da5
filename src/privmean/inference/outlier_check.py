"""What a release can say about people beyond its limits: a status, from noisy numbers alone.

An interval for the mean depends on an assumption about the tails. Two noisy counts bear on it: the
people beyond the first limits, and the people far beyond the last ones, whom the assumption
leaves no room for. Both have Laplace noise, so how often they cry wolf and how large a group they
overlook are exact numbers (docs/proofs/intervals.md, section 8). Reads no data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privmean.inference.status import (
    EXTREME_OUTLIERS,
    MODIFIED_TARGET,
    OK,
    OUTLIERS_CLIPPED,
    OUTLIERS_UNCHECKED,
    POINT_MASS,
)
from privmean.plurals import count_noun, count_phrase

THICKEST = 0.05  # noisy share of people beyond the limits above which no mean is shown
SEEN = 3.0  # noise scales from which a release says that people lie beyond the limits
CERTAIN = 5.0  # noise scales from which the interval that was asked for is given up for them
LEAST_SEEN = 1.3  # and the least for the finest count: a false alarm in 0.5 exp(-1.3) = 14 %
GROUP = 0.002  # part of the people that its threshold is set for
OVERLOOKED = 0.1  # chance at which a group counts as one that may be overlooked
UNCHECKED_PART = 0.01  # such a group of more than this part of the persons: not checked
MANY_PART = 0.05  # and of more than this part, where most people have no value
_SURE = math.log(0.5 / OVERLOOKED)  # noise scales above a threshold that a group must be


def detection_threshold(persons: float, scale: float, least: float = LEAST_SEEN) -> float:
    """Noise scales from which the finest count calls people seen: as many as leave a group of
    `GROUP` of the people a chance of `OVERLOOKED` to be missed, from 1.3 (or `least`) to 3."""
    return min(SEEN, max(least, GROUP * persons / scale - _SURE))


def largest_undetected(threshold: float, scale: float) -> float:
    """People in the largest group that is overlooked with a chance of `OVERLOOKED` or more."""
    return scale * (threshold + _SURE)


@dataclass(frozen=True)
class OutlierCheck:
    """Noisy counts of people beyond the limits, and their Laplace scales.

    beyond: people beyond the first limits; between: about how many of them a thin tail has there,
    because they were counted from nearer by. far: people far beyond the last limits, None if they
    were not counted apart. persons: their number, public or a noisy count. seen: whether an earlier
    count, nearer by, has already shown people beyond. room: how many people beyond the limits a
    far one takes the place of: what he exceeds them by, over what the assumption allows on average.
    one_value: whether nearly all people seem to have one value. least: noise scales needed at
    least to call people seen. checked: whether an interval for the mean is given only where the
    counts can see one person in a hundred, so that noise by itself need not say that a tail is
    thick. With normal noise scales are deviations, and false alarms are rarer than said here.
    """

    n: float
    beyond: float
    beyond_scale: float
    far: float | None = None
    far_scale: float = 0.0
    seen: bool = False
    room: float = 0.0
    one_value: bool = False
    least: float = LEAST_SEEN
    checked: bool = False
    between: float = 0.0

    @property
    def refuted(self) -> bool:
        """Whether the counts contradict the tail assumption: more people far beyond than it has
        room for (by chance in less than 5 %)."""
        if self.far is None:
            return False
        most = max(self.beyond + SEEN * self.beyond_scale, 0.0)
        return (self.far - SEEN * self.far_scale) * self.room > most

    @property
    def stands(self) -> bool:
        """Whether an interval for the mean can be given."""
        return not self.doubted and not (self.checked and self.planned != OK)

    @property
    def doubted(self) -> bool:
        """Whether the counts themselves speak against one."""
        return self.status in (MODIFIED_TARGET, POINT_MASS) or self.refuted

    @property
    def outside(self) -> float:
        """People beyond the first limits of the sum, wherever they were counted from."""
        return self.beyond - self.between

    @property
    def beyond_seen(self) -> bool:
        """Whether the count beyond the limits exceeds three noise scales. Noise by itself does this
        in 2.5 % of releases."""
        return self.outside > SEEN * self.beyond_scale

    @property
    def far_seen(self) -> bool:
        """Whether the count far beyond the limits does."""
        return self.far is not None and self.far > SEEN * self.far_scale

    @property
    def leans(self) -> bool:
        """Whether a count shows people beyond the limits, so that an interval for the mean depends
        on the tail assumption."""
        return self.seen or self.beyond_seen or self.far_seen

    @property
    def finest_scale(self) -> float:
        """Noise of the count that sees the smallest group: of far people, if they were counted."""
        return self.beyond_scale if self.far is None else self.far_scale

    @property
    def threshold(self) -> float:
        """Noise scales from which that count calls a group seen."""
        return detection_threshold(self.n, self.finest_scale, self.least)

    @property
    def hidden(self) -> float:
        """People in the largest group that may be overlooked."""
        return largest_undetected(self.threshold, self.finest_scale)

    @property
    def planned(self) -> str:
        """The status that the noise by itself gives, whatever is counted."""
        return OUTLIERS_UNCHECKED if self.hidden > UNCHECKED_PART * self.n else OK

    @property
    def status(self) -> str:
        thick = (self.outside + self.beyond_scale) / self.n > THICKEST
        certain = self.outside > CERTAIN * self.beyond_scale
        if self.one_value and not (thick and certain):
            return POINT_MASS
        if thick and (certain or self.seen or not self.checked):
            return MODIFIED_TARGET
        if (self.far is not None and self.far > self.threshold * self.far_scale) or self.refuted:
            return EXTREME_OUTLIERS
        needed = self.threshold if self.far is None else SEEN
        if self.seen or self.outside > needed * self.beyond_scale:
            return OUTLIERS_CLIPPED
        return self.planned

    @property
    def advice(self) -> str:
        """The numbers behind the status; empty where there are none."""
        if self.status == OUTLIERS_UNCHECKED:
            hidden = f"Up to about {count_noun(math.ceil(self.hidden), 'person')}"
            part = f"{min(self.hidden / self.n, 1):.1%} of all"
            more = ' DefaultMean(target="mean") gives an interval for the mean.'
            return f"{hidden} ({part}) could go undetected.{more if self.checked else ''}"
        if self.status == MODIFIED_TARGET and not (self.beyond_seen or self.seen):
            return (
                f"The noise hides whether more than {THICKEST:.0%} of the people lie beyond the "
                "clipping bounds."
            )
        if self.status == EXTREME_OUTLIERS and self.far is not None:
            alarm = f"{50 * math.exp(-max(self.far, 0.0) / self.far_scale):.1g}% of releases"
            if self.refuted:
                seen = count_phrase(round(self.far), "person", "lies", "lie")
                return (
                    f"About {seen} far beyond the clipping bounds, more than the assumption "
                    f"allows (by chance alone in {alarm}). No interval for the mean is given."
                )
            return f"Without such values, privacy noise gives this status in {alarm}."
        return ""


def outlier_status(
    check: OutlierCheck | None, scarce: bool = False, clipped: bool = False
) -> tuple[str, str]:
    """Status and advice of a column.

    scarce: whether most people have no value, so that nobody could know beforehand how few are
    left: then noise that hides many of them is said in any case. clipped: whether the clipped mean
    was asked for, whose interval depends on no count of outliers.
    """
    if check is None:
        return OK, ""
    if not (check.doubted or check.leans):
        if scarce and check.hidden > MANY_PART * check.n:
            return check.status, f"Most people have no value. {check.advice}"
        if clipped:
            return OK, ""
    return check.status, check.advice
