"""Intervals of clipped sums of columns: for the mean, and for the clipped mean.

With them: what a release can say about people beyond its clipping bounds. Reads noisy numbers only.

Estimates at a public bound: values that lie beyond a bound count as the bound. If all of them do
(bounds in other units, say), the released sums are those of a column whose values all equal the
bound: nothing released tells the two apart, and the interval is open on that side.

An interval for the mean depends on an assumption about the tails. A noisy count of the people
beyond the limits bears on it. Its noise is Laplace, so how often it cries wolf and how large a
group it overlooks are exact numbers (`OutlierCheck`; docs/proofs/intervals.md, section 8).

A column that is mostly one value has two ends: both limits at that value (a point mass), or limits
that hold the others. Rarely the choice of limits does neither: they hold nobody but the center, and
the others lie far beyond. Then only the noisy count of people beyond shows them. If its noise hides
them, the interval is short and wrong. `HiddenPeople` tells how unlikely released numbers would be
if all people within the limits shared the center (docs/proofs/default-mean.md, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from privmean.errors import ArgumentError
from privmean.inference.interval import (
    BOUNDED,
    CLIPPED,
    EVERYWHERE,
    MEAN,
    NOISE,
    THESE_PEOPLE,
    UNDETECTED,
    Ends,
    Interval,
    IntervalText,
    RowIntervals,
    Rows,
    SeparateRows,
    assumed,
    limit,
    no_undetected,
    outliers_within,
)
from privmean.inference.laplace_normal import normal_quantile
from privmean.inference.mean_interval import (
    PLAIN,
    Asked,
    ClippingBiasBound,
    ClipUnits,
    NoisySums,
    all_ends,
    deviations,
    noise_half,
    undetected_half,
)
from privmean.inference.status import MODIFIED_TARGET, OK, OUTLIERS_CLIPPED, OUTLIERS_UNCHECKED
from privmean.output import count_noun

AWAY = 5.0  # noise scales: people away from a bound who do not show


def bound_reached(
    value: float, square: float, n: float, scales: Sequence[float], square_scale: float
) -> int:
    """-1 (lower) or 1 (upper) if nobody is seen away from that bound, else 0.

    value, square: noisy sums over people of z in [-1, 1] and of z^2; n: the number of people;
    scales, square_scale: of the noise of the sum at a bound, and of the squares. At a bound both
    sums are those of all people. The squares tell values between the bounds from it, the sum tells
    those at the other bound.
    """
    noise = math.hypot(*scales)
    away = n - abs(value) > AWAY * noise
    between = n - square > AWAY * math.hypot(noise, square_scale)
    if away or between:
        return 0
    return 1 if value > 0 else -1


def opened(ends: tuple[float, float], side: int) -> tuple[float, float]:
    """The interval without its end on that side."""
    lower, upper = ends
    return (-math.inf if side < 0 else lower), (math.inf if side > 0 else upper)


def at_bound_advice(side: int, bounds: tuple[float, float], column: str = "") -> str:
    """What a release says of an estimate at a bound."""
    name, bound = ("upper", bounds[1]) if side > 0 else ("lower", bounds[0])
    whose = f"{column}: " if column else ""
    return f"{whose}The noise hides everyone who may be away from the {name} bound {bound:g}."


@dataclass(frozen=True)
class ColumnIntervals(RowIntervals):
    """Intervals of one column from its released sums; reads no data.

    sums None: nothing was released (status says why); the intervals are the public bounds or the
    whole line. allowance: the noisy clipping allowance, None if it was not bought or not needed.
    check: the noisy counts behind the status, None if nobody beyond the limits was counted.
    rows: whether the release also shortened rows, so that the assumption is about all that was cut.
    open_side: -1 or 1 where nobody is seen away from that public bound (`advice` says so).
    reach: those beyond the limits exceed them on average by no more, by assumption (`nearer` beyond
    the nearer limit, if that is said): a mean excess over any limit of at most so many times its
    distance from the center.
    """

    sums: NoisySums | None
    units: ClipUnits = PLAIN
    default: str = MEAN
    allowance: ClippingBiasBound | None = None
    check: OutlierCheck | None = None
    reach: float = 0.0
    nearer: float | None = None
    rows: bool = False
    bounds: tuple[float, float] | None = None
    design_effect: float = 1.0
    status: str = OK
    open_side: int = 0
    advice: str = ""

    number = 1

    @property
    def targets(self) -> tuple[str, ...]:  # type: ignore[override]
        if self.default == BOUNDED:
            return (BOUNDED,)
        return (CLIPPED, MEAN) if self.default == CLIPPED else (MEAN, CLIPPED)

    def asked(self, wanted: str) -> Asked | None:
        """Return what the ends of the interval are found from; None if nothing was released."""
        if self.sums is None:
            return None
        if wanted == MEAN and self.allowance is None:
            raise ArgumentError(
                "target",
                wanted,
                "is not available: outliers were not counted in this release",
                f"use target={CLIPPED!r}, or make the release with target={MEAN!r}",
            )
        allowance = self.allowance if self._holds_mean(wanted) else None
        return Asked(self.sums, self.design_effect, allowance)

    def ends(self, level: float, wanted: str, rows: Rows = (0,)) -> list[Ends]:
        if self.sums is None:
            return [EVERYWHERE if self.bounds is None else self.bounds]
        if wanted != NOISE:
            one = self.asked(wanted)
            assert one is not None
            return [self.ends_of(wanted, *all_ends([one], level))]
        half, (below, above) = noise_half(self.sums, level), self.sums.farther
        ends = self.sums.mean - half - below, self.sums.mean + half + above
        return [self._limited(ends)]

    def ends_of(self, wanted: str, ends: Ends) -> Ends:
        """The ends in the units of the data, from those of z."""
        return opened(self._limited(ends), self.open_side)

    def _limited(self, ends: Ends) -> Ends:
        return limit(self.units.of(ends[0]), self.units.of(ends[1]), self.bounds)

    def _holds_mean(self, wanted: str) -> bool:
        """Whether the interval is one for the mean itself, with what outliers may add."""
        return wanted == MEAN and (self.check is None or self.check.stands)

    def words(self, wanted: str, rows: Rows = (0,)) -> IntervalText:
        if self.sums is None:
            target = self.default if wanted == NOISE else wanted
            return {"target": target, "status": self.status}
        if wanted == NOISE:
            return {"target": THESE_PEOPLE}
        status, advice = self.standing(wanted)
        found: IntervalText = {"status": status, "advice": advice}
        if not self._holds_mean(wanted):
            target = CLIPPED if wanted == MEAN else wanted
            return {**found, "target": target, "assumption": assumed(self.design_effect)}
        words = outliers_within(self.reach, self.nearer)
        if self.rows:
            words = f"outliers and clipped rows lose at most {self.reach:.4g} on average"
        said: tuple[str, ...] = (words,)
        missed = said
        if self.check is not None:
            hidden = no_undetected(self.check.hidden, self.units.region)
            said, missed = (words, hidden), self.check.short_assumption(words, hidden)
        return {
            **found,
            "target": MEAN,
            "assumption": assumed(self.design_effect, *said),
            "short_assumption": assumed(self.design_effect, *missed),
        }

    def standing(self, asked: str | None = None) -> tuple[str, str]:
        if self.sums is None or self.check is None:
            return self.status, self.advice
        return (self.check.status, self.check.advice) if self.target(asked) == MEAN else (OK, "")

    def regions(self, wanted: str, rows: Rows = (0,)) -> tuple[Ends, ...]:
        return () if self.sums is None else (self.units.region,)

    def parts(self, level: float, wanted: str, rows: Rows = (0,)) -> dict[str, tuple[float]]:
        if self.sums is None:
            return {}
        radius, n = self.units.radius, self.sums.n
        found = {"noise": (radius * noise_half(self.sums, level),)}
        if wanted == NOISE:
            return found
        sampling = math.sqrt(self.design_effect * self.sums.variance / n)
        found["sampling"] = (radius * (-normal_quantile((1 - level) / 2) * sampling),)
        if self._holds_mean(wanted) and self.allowance is not None:
            found["clipping allowance"] = (max(self.allowance.total, 0.0) / n * radius,)
            found[UNDETECTED] = (radius * undetected_half(self.sums, self.allowance, level),)
        return found

    def row_errors(self, row: int) -> tuple[float, float]:
        if self.sums is None:
            return math.nan, math.nan
        noise, total = deviations(self.sums, self.design_effect)
        return self.units.radius * noise, self.units.radius * total


class BoxIntervals(SeparateRows):
    """Columns of which the ends of those with sums are searched together."""

    def each(self, level: float, target: str | None = None) -> list[Interval]:
        wanted = [item.target(target) for item in self.columns]
        asked = [
            item.asked(one) if isinstance(item, ColumnIntervals) else None
            for item, one in zip(self.columns, wanted, strict=True)
        ]
        found = iter(all_ends([one for one in asked if one is not None], level))
        return [
            item.made(level, one, ends=[item.ends_of(one, next(found))])
            if isinstance(item, ColumnIntervals) and sums is not None
            else item.made(level, one)
            for item, one, sums in zip(self.columns, wanted, asked, strict=True)
        ]


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

    @cached_property
    def hidden(self) -> float:
        """People in the largest group that may be overlooked."""
        return HIDDEN * self.beyond_scale

    @cached_property
    def planned(self) -> str:
        """The status that the noise by itself gives, whatever is counted."""
        if self.hidden <= self.unchecked_part * self.n:
            return OK
        return MODIFIED_TARGET if self.checked else OUTLIERS_UNCHECKED

    @cached_property
    def thick(self) -> bool:
        """Whether too many people are beyond the limits for an interval for the mean."""
        certain = self.beyond > CERTAIN * self.beyond_scale
        thick = (self.beyond + self.beyond_scale) / self.n > THICKEST
        return thick and (certain or not self.checked)

    @cached_property
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
        noise = off_value / self._value_scale + off_square / self.sums.square_scale
        return choice + count + noise

    @cached_property
    def _value_scale(self) -> float:
        return max(self.sums.scales(self.center))

    @cached_property
    def _off_center(self) -> tuple[float, float]:
        """Sums of z and of z^2 over people, less what they are with all people at the center.

        They are limited to what sums of numbers in [-1, 1] can be: noise beyond that shows nothing.
        """
        at, n = self.center, self.sums.n
        value = min(max(self.sums.value, -n), n)
        square = min(max(self.sums.square, value**2 / n), n)
        return value - at * n, square - at**2 * n
