"""What a release can say about people beyond its limits: a status, from noisy numbers alone.

An interval for the mean depends on an assumption about the tails. A noisy count of the people
beyond the limits bears on it. Its noise is Laplace, so how often it cries wolf and how large a
group it overlooks are exact numbers (docs/proofs/intervals.md, section 8). Reads no data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privmean.inference.status import (
    MODIFIED_TARGET,
    OK,
    OUTLIERS_CLIPPED,
    OUTLIERS_UNCHECKED,
)
from privmean.plurals import count_noun

THICKEST = 0.05  # noisy share of people beyond the limits above which no mean is shown
SEEN = 3.0  # noise scales from which a count shows people for certain
CERTAIN = 5.0  # noise scales from which the interval that was asked for is given up for them
CONVINCED = 13.0  # nats of surprise from which people within the limits are surely off the center
OVERLOOKED = 0.1  # chance at which a group counts as one that may be overlooked
UNCHECKED_PART = 0.04  # such a group of more than this part of the people: not checked
HIDDEN = SEEN + math.log(0.5 / OVERLOOKED)  # noise scales of the largest such group


@dataclass(frozen=True)
class OutlierCheck:
    """A noisy count of people beyond the limits, and its Laplace scale.

    n: all people, public or a noisy count. unchecked_part: a group of more than this part of the
    people that may be overlooked is not checked. checked: whether an interval for the mean is given
    only where the count can see such a group, so that noise by itself need not say that a tail is
    thick. With normal noise scales are deviations, and false alarms are rarer than said here.
    surprise: of `HiddenPeople`.
    """

    n: float
    beyond: float
    beyond_scale: float
    unchecked_part: float = UNCHECKED_PART
    checked: bool = False
    surprise: float = math.inf

    @property
    def stands(self) -> bool:
        """Whether an interval for the mean can be given."""
        return self.status != MODIFIED_TARGET

    @property
    def beyond_seen(self) -> bool:
        """Whether the count exceeds three noise scales, so that an interval for the mean depends on
        the tail assumption. Noise by itself does this in 2.5 % of releases."""
        return self.beyond > SEEN * self.beyond_scale

    @property
    def hidden(self) -> float:
        """People in the largest group that may be overlooked."""
        return HIDDEN * self.beyond_scale

    @property
    def planned(self) -> str:
        """The status that the noise by itself gives, whatever is counted."""
        if self.hidden <= self.unchecked_part * self.n:
            return OK
        return MODIFIED_TARGET if self.checked else OUTLIERS_UNCHECKED

    @property
    def thick(self) -> bool:
        """Whether too many people are beyond the limits for an interval for the mean."""
        certain = self.beyond > CERTAIN * self.beyond_scale
        thick = (self.beyond + self.beyond_scale) / self.n > THICKEST
        return thick and (certain or not self.checked)

    @property
    def status(self) -> str:
        if self.thick:
            return MODIFIED_TARGET
        if self.beyond_seen and self.planned != MODIFIED_TARGET:
            return OUTLIERS_CLIPPED
        if self.planned == OK and self.surprise < CONVINCED:
            return OUTLIERS_UNCHECKED
        return self.planned

    @property
    def advice(self) -> str:
        """The numbers behind the status; empty where there are none."""
        if self.status == OUTLIERS_UNCHECKED and self.planned == OK:
            return (
                "All people within the clipping bounds may share one value, and others be beyond."
            )
        if self.status != OK and self.status == self.planned and not self.thick:
            hidden = f"Up to about {count_noun(math.ceil(self.hidden), 'person')}"
            part = f"{min(self.hidden / self.n, 1):.1%} of all"
            more = ' DefaultMean(target="mean") gives an interval for the mean.'
            return f"{hidden} ({part}) could go undetected.{more if self.checked else ''}"
        if self.thick and not self.beyond_seen:
            return (
                f"The noise hides whether more than {THICKEST:.0%} of the people lie beyond the "
                "clipping bounds."
            )
        return ""
