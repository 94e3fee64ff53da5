"""Intervals of clipped sums.

Estimates at a public bound: what can be said where nobody is seen away from it.

Values that lie beyond a bound count as the bound. If all of them do (bounds in other units, say),
the released sums are those of a column whose values all equal the bound: nothing released tells
the two apart, and the interval is open on that side. Reads noisy numbers only.

The level of each of several intervals that hold together (docs/proofs/intervals.md, 7).

The intervals that a release of one clipped column carries: for the mean and the clipped mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from privmean import validate
from privmean.errors import ArgumentError
from privmean.inference.interval import (
    ALIKE,
    UNDETECTED,
    Interval,
    IntervalMaker,
    assumed,
    joined,
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
    clipped_interval,
    deviations,
    ends_of,
    limit,
    no_interval,
    noise_interval,
    parts_of,
    undetected_half,
)
from privmean.inference.outlier_check import OutlierCheck
from privmean.inference.status import OK, release_status

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


def opened_at(made: Interval, sides: Sequence[int]) -> Interval:
    """The intervals of several columns without their ends on these sides."""
    pairs = [
        opened(ends, side)
        for ends, side in zip(zip(made.lower, made.upper, strict=True), sides, strict=True)
    ]
    return replace(made, lower=tuple(a for a, _ in pairs), upper=tuple(b for _, b in pairs))


def at_bound_advice(side: int, bounds: tuple[float, float], column: str = "") -> str:
    """What a release says of an estimate at a bound."""
    name, bound = ("upper", bounds[1]) if side > 0 else ("lower", bounds[0])
    whose = f"{column}: " if column else ""
    return f"{whose}The noise hides everyone who may be away from the {name} bound {bound:g}."


def sidak_level(level: float, columns: int) -> float:
    """The level of each of `columns` intervals so that all hold together with `level`.

    Valid for normal errors of any correlation; with Laplace noise that is independent over the
    coordinates it holds conditionally on the mixing scales. Not for Laplace noise that
    coordinates share.
    """
    return float(level ** (1.0 / columns))


MEAN, CLIPPED, BOUNDED = "mean", "clipped mean", "mean within bounds"
WORDS = {"clipped": CLIPPED}  # the short word for it


@dataclass(frozen=True)
class ColumnIntervals:
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

    def interval(
        self, level: float, target: str | None, ends: tuple[float, float] | None = None
    ) -> Interval:
        """ends: the answer to what is `asked`, where it is known already."""
        wanted = self._wanted(target)
        if self.sums is None:
            return no_interval(level, bounds=self.bounds, target=wanted, status=self.status)
        if wanted == MEAN and self.allowance is None:
            raise _not_counted(wanted)
        one = self.asked(target)
        assert one is not None
        ends = ends or ends_of(one.sums, level, one.design_effect, one.allowance)
        if self._holds_mean(target):
            made = self._mean(level, ends)
        else:
            made = self._clipped(level, CLIPPED if wanted == MEAN else wanted, ends)
        if self.open_side:
            made = opened_at(made, [self.open_side])
        status, advice = self.standing(target)
        return replace(made, status=status, advice=advice)

    def standing(self, target: str | None = None) -> tuple[str, str]:
        """Status and advice of the interval for a target; of the column, for the default one."""
        if self.sums is not None and self.check is not None:
            if self._wanted(target) != MEAN:
                return OK, ""
            return self.check.status, self.check.advice
        return self.status, self.advice

    def _holds_mean(self, target: str | None) -> bool:
        """Whether the interval is one for the mean itself, with what outliers may add."""
        return self._wanted(target) == MEAN and (self.check is None or self.check.stands)

    def asked(self, target: str | None) -> Asked | None:
        """Return what the ends of the interval are found from; None if nothing was released."""
        if self.sums is None:
            return None
        # the value of a corrected release is off the clipped mean by at most the allowance
        allowance = self.allowance if self._holds_mean(target) else self._moved()
        return Asked(self.sums, self.design_effect, allowance)

    def _wanted(self, target: str | None) -> str:
        allowed = [BOUNDED] if self.default == BOUNDED else [MEAN, CLIPPED]
        asked = target or self.default
        return validate.choice("target", WORDS.get(asked, asked), allowed)

    def errors(self) -> tuple[float, float]:
        """Deviations by privacy noise, and by noise and sampling together."""
        if self.sums is None:
            return math.nan, math.nan
        noise, total = deviations(self.sums, self.design_effect)
        return self.units.radius * noise, self.units.radius * total

    def _moved(self) -> ClippingBiasBound | None:
        return self.allowance if self.allowance and self.allowance.corrected else None

    def _clipped(self, level: float, target: str, ends: tuple[float, float]) -> Interval:
        assert self.sums is not None
        if self._moved() is None:
            return clipped_interval(
                self.sums,
                self.units,
                level=level,
                design_effect=self.design_effect,
                bounds=self.bounds,
                target=target,
                ends=ends,
            )
        return Interval.one(
            self._limited(ends, self.units.region),
            level,
            target=target,
            assumption=assumed(self.design_effect),
            region=self.units.region,
            parts=parts_of(self.sums, level, self.units.radius, self.design_effect),
        )

    def _limited(
        self, ends: tuple[float, float], bounds: tuple[float, float] | None
    ) -> tuple[float, float]:
        return limit(self.units.of(ends[0]), self.units.of(ends[1]), bounds)

    def _mean(self, level: float, ends: tuple[float, float]) -> Interval:
        assert self.sums is not None
        assert self.allowance is not None
        extra = max(self.allowance.total, 0.0) / self.sums.n * self.units.radius
        words = outliers_within(self.reach, self.nearer)
        if self.rows:
            words = f"outliers and clipped rows lose at most {self.reach:.4g} on average"
        brief = ""
        if self.check is not None:
            brief = no_undetected(self.check.hidden, self.counted_at or self.units.region)
        return Interval.one(
            self._limited(ends, self.bounds),
            level,
            target=MEAN,
            assumption=assumed(self.design_effect, words, brief),
            region=self.units.region,
            parts={
                **parts_of(self.sums, level, self.units.radius, self.design_effect),
                "clipping allowance": extra,
                UNDETECTED: self.units.radius * undetected_half(self.sums, self.allowance, level),
            },
            short_assumption=assumed(self.design_effect, brief or words),
        )

    def noise_interval(self, level: float) -> Interval:
        if self.sums is None:
            return no_interval(
                level,
                bounds=self.bounds,
                kind="noise_interval",
                target=self.default,
                status=self.status,
            )
        corrected = self._moved() is not None
        made = noise_interval(
            self.sums,
            self.units,
            level=level,
            target=f"{'corrected ' if corrected else ''}clipped mean of these people",
        )
        lower, upper = limit(made.lower[0], made.upper[0], self.bounds)
        return replace(made, lower=(lower,), upper=(upper,))


def _not_counted(wanted: str) -> Exception:
    return ArgumentError(
        "target",
        wanted,
        "is not available: outliers were not counted in this release",
        f"use target={CLIPPED!r}, or make the release with target={MEAN!r}",
    )


class StandingIntervals(IntervalMaker, Protocol):
    """Intervals of one column that know its status."""

    def standing(self, target: str | None = None) -> tuple[str, str]: ...


@dataclass(frozen=True)
class BoxIntervals:
    """Columns that were released with independent noise: a Sidak box."""

    columns: Sequence[StandingIntervals]

    @property
    def statuses(self) -> tuple[str, ...]:
        """Of every column."""
        return tuple(item.standing()[0] for item in self.columns)

    def column(self, index: int) -> IntervalMaker:
        """The intervals of one column for itself."""
        return self.columns[index]

    def each(self, level: float, target: str | None = None) -> list[Interval]:
        """Return the interval of every column for itself, the ends of all found at once."""
        asked = [
            item.asked(target) if isinstance(item, ColumnIntervals) else None
            for item in self.columns
        ]
        found = iter(all_ends([one for one in asked if one is not None], level))
        return [
            item.interval(level, target, next(found))
            if isinstance(item, ColumnIntervals) and one is not None
            else item.interval(level, target)
            for item, one in zip(self.columns, asked, strict=True)
        ]

    def interval(self, level: float, target: str | None) -> Interval:
        return _stack(self.each(sidak_level(level, len(self.columns)), target), level)

    def noise_interval(self, level: float) -> Interval:
        one = sidak_level(level, len(self.columns))
        return _stack([item.noise_interval(one) for item in self.columns], level)


def _stack(items: list[Interval], level: float) -> Interval:
    first = items[0]
    names = [name for name in first.half_widths if all(name in item.half_widths for item in items)]
    targets = list(dict.fromkeys(item.target for item in items))
    words = list(dict.fromkeys(item.assumption for item in items if item.assumption))
    return Interval(
        tuple(item.lower[0] for item in items),
        tuple(item.upper[0] for item in items),
        level,
        kind=first.kind,
        target=" / ".join(targets),
        assumption=" | ".join(words),
        clip_bounds=tuple(
            item.clip_bounds[0] if item.clip_bounds else (item.lower[0], item.upper[0])
            for item in items
        ),
        half_widths={name: tuple(item.half_widths[name][0] for item in items) for name in names},
        status=release_status(item.status for item in items),
        advice=" | ".join(dict.fromkeys(item.advice for item in items if item.advice)),
        short_assumption=joined((first.short_assumption, ALIKE)) if first.short_assumption else "",
    )
