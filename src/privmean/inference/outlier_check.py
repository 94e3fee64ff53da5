"""What a release can say about people beyond its limits: a status, from noisy numbers alone.

An interval for the mean depends on an assumption about the tails. A noisy count of the people
beyond the limits bears on it. Its noise is Laplace, so how often it cries wolf and how large a
group it overlooks are exact numbers (docs/proofs/intervals.md, section 8). Reads no data.

How unlikely released numbers would be if all people within the limits shared the center.

A column that is mostly one value has two ends: both limits at that value (a point mass), or limits
that hold the others. Rarely the choice of limits does neither: they hold nobody but the center, and
the others lie far beyond. Then only the noisy count of people beyond shows them. If its noise hides
them, the interval is short and wrong. Reads no data. docs/proofs/default-mean.md, section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privmean.inference.mean_interval import NoisySums
from privmean.inference.status import (
    MODIFIED_TARGET,
    OK,
    OUTLIERS_CLIPPED,
    OUTLIERS_UNCHECKED,
)
from privmean.output import count_noun

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

    def short_assumption(self, reach: str, undetected: str) -> tuple[str, ...]:
        """What is printed of the tail assumption. reach: how far outliers lie, which counts where
        some are seen. undetected: how many the count may miss."""
        if self.status == OUTLIERS_CLIPPED:
            return reach, undetected
        return (undetected or reach,)

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


@dataclass(frozen=True)
class HiddenPeople:
    """The case that nobody within the limits is off the center.

    center: its z. beyond, beyond_scale: the noisy count of people beyond, and its Laplace scale.
    demanded: the people whom the choice of these limits then missed (inf: not known), and
    choice_scale: how many people make a choice less likely by a factor e.
    """

    sums: NoisySums
    center: float
    beyond: float
    beyond_scale: float
    demanded: float
    choice_scale: float

    @property
    def surprise(self) -> float:
        """The least of `surprise_of` over all numbers of people beyond: a convex function, linear
        between the numbers at which one of its parts vanishes."""
        if math.isinf(self.demanded):
            return math.inf
        low, high = 1 + self.center, 1 - self.center
        value, square = self._off_center
        ends = [0.0, self.beyond, self.demanded]
        ends += [value / high] if high > 0 else []
        ends += [-value / low] if low > 0 else []
        ends += [square / (low * high)] if low * high > 0 else []
        return min(self.surprise_of(max(end, 0.0)) for end in ends)

    def surprise_of(self, people: float) -> float:
        """Minus the logarithm of the probability, but for a constant, of the choice of limits and
        of the noise of all released numbers, if so many people were beyond the limits.

        People beyond have z = -1 or 1: with k of them, sums of z less the center's lie between
        -(1 + center) k and (1 - center) k, and sums of z^2 less the center's are (1 - center^2) k.
        """
        low, high = 1 + self.center, 1 - self.center
        value, square = self._off_center
        choice = max(self.demanded - people, 0.0) / self.choice_scale
        count = abs(self.beyond - people) / self.beyond_scale
        off_value = max(value - high * people, -value - low * people, 0.0)
        off_square = abs(square - low * high * people)
        scale = max(self.sums.scales(self.center))
        noise = off_value / scale + off_square / self.sums.square_scale
        return choice + count + noise

    @property
    def _off_center(self) -> tuple[float, float]:
        """Sums of z and of z^2 over people, less what they are with all people at the center.

        They are limited to what sums of numbers in [-1, 1] can be: noise beyond that shows nothing.
        """
        at, n = self.center, self.sums.n
        value = min(max(self.sums.value, -n), n)
        square = min(max(self.sums.square, value**2 / n), n)
        return value - at * n, square - at**2 * n
