"""Bounds that follow from declared types: those of a Boolean column are 0 and 1.

A question takes them from its table before it is planned. Ends that are printed never pass them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from privmean.inference.at_bound import BOOLEAN
from privmean.inference.group_table import GroupTable
from privmean.inference.interval import ByColumn, HasStdErrors, Interval, IntervalMaker

if TYPE_CHECKING:
    from privmean.data.table import Table
    from privmean.release.release import Release

Pair: TypeAlias = tuple[float, float]
Limits: TypeAlias = Sequence[Pair | None]
Q = TypeVar("Q")
WHOLE = (-np.inf, np.inf)


def booleans_of(table: Table | None, values: Sequence[str] | None) -> tuple[bool, ...]:
    """Which of the columns that `values` mean are Boolean; none without a table."""
    if table is None:
        return ()
    names, found = table.booleans(values)
    return tuple(name in found for name in names)


def is_unit_pair(assume: object) -> bool:
    """Whether the bounds of a Boolean column were said, so that its type adds nothing to them."""
    return isinstance(assume, list | tuple) and tuple(assume) == BOOLEAN


def with_limits(question: Q, limits: Limits) -> Q:
    """The question with public limits of its answers, column by column, for its release."""
    made: Any = replace(question)  # type: ignore[type-var]
    object.__setattr__(made, "limits", tuple(limits))
    return made  # type: ignore[no-any-return]


def limited(release: Release, limits: Limits) -> Release:
    """The release with every estimate and end within public limits (none where there are none)."""
    if not any(pair is not None for pair in limits) or isinstance(release.intervals, GroupTable):
        return release
    pairs = tuple(WHOLE if pair is None else pair for pair in limits)
    low, high = np.array(pairs).T
    made = LimitedIntervals(release.intervals, pairs)
    return replace(release, estimate=np.clip(release.estimate, low, high), intervals=made)


@dataclass(frozen=True)
class LimitedIntervals:
    """Intervals within public limits, a pair a column."""

    made: IntervalMaker
    limits: tuple[Pair, ...]

    def column(self, index: int) -> IntervalMaker:
        """The intervals of one column for itself."""
        pairs = self.limits[index : index + 1]
        made = self.made
        if isinstance(made, ByColumn):
            return LimitedIntervals(made.column(index), pairs)
        return LimitedIntervals(_OneOf(made, index), pairs)

    def errors(self) -> tuple[float, float]:
        """Deviations of one column, by noise and in all; NaN where they are not known."""
        made: object = self.made
        return made.errors() if isinstance(made, HasStdErrors) else (np.nan, np.nan)

    def interval(self, level: float, target: str | None) -> Interval:
        return self._within(self.made.interval(level, target))

    def noise_interval(self, level: float) -> Interval:
        return self._within(self.made.noise_interval(level))

    def _within(self, found: Interval) -> Interval:
        low, high = np.array(self.limits).T
        return replace(
            found,
            lower=tuple(np.clip(found.lower, low, high).tolist()),
            upper=tuple(np.clip(found.upper, low, high).tolist()),
        )


@dataclass(frozen=True)
class _OneOf:
    """One column of intervals that hold together."""

    made: IntervalMaker
    index: int

    def interval(self, level: float, target: str | None) -> Interval:
        return self._part(self.made.interval(level, target))

    def noise_interval(self, level: float) -> Interval:
        return self._part(self.made.noise_interval(level))

    def _part(self, found: Interval) -> Interval:
        at = slice(self.index, self.index + 1)
        return replace(found, lower=found.lower[at], upper=found.upper[at])
