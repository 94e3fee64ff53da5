"""Intervals of clipped sums of columns: for the mean, and for the clipped mean.

Estimates at a public bound: values that lie beyond a bound count as the bound. If all of them do
(bounds in other units, say), the released sums are those of a column whose values all equal the
bound: nothing released tells the two apart, and the interval is open on that side. Reads noisy
numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from privmean.errors import ArgumentError
from privmean.inference.interval import (
    UNDETECTED,
    Interval,
    IntervalText,
    assumed,
    no_undetected,
    outliers_within,
)
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
from privmean.inference.outlier_check import OutlierCheck
from privmean.inference.row_intervals import (
    BOUNDED,
    CLIPPED,
    EVERYWHERE,
    MEAN,
    NOISE,
    THESE_PEOPLE,
    Ends,
    RowIntervals,
    Rows,
    SeparateRows,
    limit,
)
from privmean.inference.status import OK

SEEN = 5.0  # noise scales: people away from a bound who do not show


class TypeBounds(tuple[float, float]):
    """A pair of bounds that the declared type of a column implies, as close as bounds of values can
    be: values are clipped to them, and no value lies beyond."""

    __slots__ = ()


BOOLEAN = TypeBounds((0.0, 1.0))


@dataclass(frozen=True)
class Reached:
    """Noisy sums over people of z in [-1, 1] and of z^2, the number of people, and scales of noise:
    of the sum at a bound (`scales`) and of the squares."""

    value: float
    square: float
    n: float
    scales: Sequence[float]
    square_scale: float

    @property
    def side(self) -> int:
        """-1 (lower) or 1 (upper) if nobody is seen away from that bound, else 0.

        At a bound both the sum and the sum of squares are those of all people. The squares tell
        values between the bounds from it, the sum tells those at the other bound.
        """
        noise = math.hypot(*self.scales)
        away = self.n - abs(self.value) > SEEN * noise
        between = self.n - self.square > SEEN * math.hypot(noise, self.square_scale)
        if away or between:
            return 0
        return 1 if self.value > 0 else -1


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
    excess: the stated assumption: those beyond `counted_at` exceed the limits on average by no more
    than `reach` (`nearer` beyond the nearer limit, if that is said), which follows from a mean
    excess over any limit of at most `excess` times its distance from the center.
    """

    sums: NoisySums | None
    units: ClipUnits = PLAIN
    default: str = MEAN
    allowance: ClippingBiasBound | None = None
    check: OutlierCheck | None = None
    excess: float = 1.0
    reach: float = 0.0
    nearer: float | None = None
    counted_at: tuple[float, float] | None = None
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
        # the value of a corrected release is off the clipped mean by at most the allowance
        allowance = self.allowance if self._holds_mean(wanted) else self._moved
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
        return [self._limited(ends, self.bounds)]

    def ends_of(self, wanted: str, ends: Ends) -> Ends:
        """The ends in the units of the data, from those of z."""
        clipped_here = self._moved is not None and not self._holds_mean(wanted)
        found = self._limited(ends, self.units.region if clipped_here else self.bounds)
        return opened(found, self.open_side)

    def _limited(self, ends: Ends, bounds: Ends | None) -> Ends:
        return limit(self.units.of(ends[0]), self.units.of(ends[1]), bounds)

    def _holds_mean(self, wanted: str) -> bool:
        """Whether the interval is one for the mean itself, with what outliers may add."""
        return wanted == MEAN and (self.check is None or self.check.stands)

    @property
    def _moved(self) -> ClippingBiasBound | None:
        return self.allowance if self.allowance and self.allowance.corrected else None

    def words(self, wanted: str, rows: Rows = (0,)) -> IntervalText:
        if self.sums is None:
            target = self.default if wanted == NOISE else wanted
            return {"target": target, "status": self.status}
        if wanted == NOISE:
            return {"target": f"{'' if self._moved is None else 'corrected '}{THESE_PEOPLE}"}
        found: IntervalText = {"status": self.status, "advice": self.advice}
        if self.check is not None:
            found = {"status": OK}
            if wanted == MEAN:
                found = {"status": self.check.status, "advice": self.check.advice}
        if not self._holds_mean(wanted):
            target = CLIPPED if wanted == MEAN else wanted
            return {**found, "target": target, "assumption": assumed(self.design_effect)}
        words = outliers_within(self.reach, self.nearer)
        if self.rows:
            words = f"outliers and clipped rows lose at most {self.reach:.4g} on average"
        said = missed = words, ""
        if self.check is not None:
            hidden = no_undetected(self.check.hidden, self.counted_at or self.units.region)
            said, missed = (words, hidden), self.check.short_assumption(words, hidden)
        return {
            **found,
            "target": MEAN,
            "assumption": assumed(self.design_effect, *said),
            "short_assumption": assumed(self.design_effect, *missed),
        }

    def standing(self, asked: str | None = None) -> tuple[str, str]:
        return (self.status, self.advice) if self.sums is None else super().standing(asked)

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
        found["sampling"] = (radius * (float(-ndtri((1 - level) / 2)) * sampling),)
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
