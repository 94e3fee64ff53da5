"""Intervals of the rows of a release: what an estimator states of its rows, and what is made of it.

An estimator states both ends of its rows at a level, and what these cover and assume. How a target
is chosen, at which level rows hold together (docs/proofs/intervals.md, 7), and how one row is told
by itself is the same for all.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from privmean import validate
from privmean.inference.interval import ALIKE, Interval, IntervalMaker, IntervalText, joined
from privmean.inference.status import FAILED, OK, release_status, worst_status

MEAN, CLIPPED, BOUNDED = "mean", "clipped mean", "mean within bounds"
NOISE = "noise"  # instead of a target: privacy noise only, for the very people of the sample
THESE_PEOPLE = "clipped mean of these people"  # what that is for, mostly
WORDS = {"clipped": CLIPPED}  # the short word for it
EVERYWHERE = (-math.inf, math.inf)

Ends = tuple[float, float]
Rows = Sequence[int]


def sidak_level(level: float, rows: int) -> float:
    """The level of each of so many intervals so that all hold together with `level`.

    Valid for normal errors of any correlation; with Laplace noise that is independent over the
    coordinates it holds conditionally on the mixing scales. Not for Laplace noise that
    coordinates share.
    """
    return float(level ** (1.0 / rows))


def limit(lower: float, upper: float, bounds: Ends | None) -> Ends:
    """The intersection with public bounds (a point on the bounds if they do not meet)."""
    if bounds is None:
        return lower, upper
    a, c = bounds
    return min(max(lower, a), c), max(min(upper, c), a)


class RowIntervals(ABC):
    """What an estimator states of its rows; reads no data. targets: what intervals can be for, the
    default first."""

    targets: Sequence[str] = (MEAN, CLIPPED)

    @property
    @abstractmethod
    def number(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def ends(self, level: float, wanted: str, rows: Rows) -> Sequence[Ends]:
        """Both ends of these rows, each at this level. wanted: a target, or `NOISE`."""

    @abstractmethod
    def words(self, wanted: str, rows: Rows) -> IntervalText:
        """What these intervals cover and assume, their status and advice."""

    def parts(self, level: float, wanted: str, rows: Rows) -> Mapping[str, Sequence[float]]:
        """Half widths by cause, at the level of a row."""
        return {}

    def regions(self, wanted: str, rows: Rows) -> Sequence[Ends]:
        """Clipping bounds."""
        return ()

    def checked(self, found: Interval, wanted: str, rows: Rows) -> Interval:
        """The intervals with what their own ends decide."""
        return found

    def row_errors(self, row: int) -> tuple[float, float]:
        """Standard deviations by privacy noise, and by noise and sampling together; NaN where the
        released numbers do not tell."""
        return math.nan, math.nan

    def row_level(self, level: float, rows: Rows) -> float:
        """The level of each of these rows, so that all hold together."""
        return sidak_level(level, len(rows))

    def target(self, asked: str | None) -> str:
        """The target that was asked for."""
        wanted = self.targets[0] if asked is None else asked
        if wanted not in self.targets:
            wanted = WORDS.get(wanted, wanted)
        return validate.choice("target", wanted, self.targets)

    def standing(self, asked: str | None = None) -> tuple[str, str]:
        """Status and advice of the interval for a target, as it was asked for."""
        said = self.words(self.target(asked), range(self.number))
        return said.get("status", OK), said.get("advice", "")

    # --- what is made of it -----------------------------------------------------------------------
    def interval(self, level: float, target: str | None = None) -> Interval:
        """All rows together, for the population."""
        return self.made(level, self.target(target))

    def noise_interval(self, level: float) -> Interval:
        """All rows together, for these very people: privacy noise only."""
        return self.made(level, NOISE)

    def column(self, index: int) -> OneRow:
        """The intervals of one row for itself, as if the others were not looked at."""
        return OneRow(self, index)

    def errors(self) -> tuple[float, float]:
        """Of a single row; see `row_errors`."""
        return self.row_errors(0) if self.number == 1 else (math.nan, math.nan)

    def made(
        self,
        level: float,
        wanted: str,
        rows: Rows | None = None,
        ends: Sequence[Ends] | None = None,
    ) -> Interval:
        """The intervals of these rows (None: of all). ends: where they are known already."""
        rows = range(self.number) if rows is None else rows
        one = self.row_level(level, rows)
        pairs = self.ends(one, wanted, rows) if ends is None else ends
        words = self.words(wanted, rows)
        words["kind"] = "noise_interval" if wanted == NOISE else "interval"
        found = Interval(
            tuple(float(low) for low, _ in pairs),
            tuple(float(high) for _, high in pairs),
            level,
            clip_bounds=tuple(self.regions(wanted, rows)),
            half_widths={name: tuple(x) for name, x in self.parts(one, wanted, rows).items()},
            **words,
        )
        return self.checked(found, wanted, rows)


@dataclass(frozen=True)
class OneRow:
    """One of several rows: its intervals, and the deviations behind them."""

    all: RowIntervals
    index: int

    def interval(self, level: float, target: str | None = None) -> Interval:
        return self.all.made(level, self.all.target(target), (self.index,))

    def noise_interval(self, level: float) -> Interval:
        return self.all.made(level, NOISE, (self.index,))

    def errors(self) -> tuple[float, float]:
        return self.all.row_errors(self.index)


@dataclass(frozen=True)
class NoInterval(RowIntervals):
    """The honest intervals of a release without an estimate: public ranges, or the whole line.
    about: what an interval would be for, and one of privacy noise only."""

    number: int = 1
    ranges: Sequence[Ends] | None = None
    about: tuple[str, str] = (MEAN, MEAN)
    status: str = FAILED
    assumption: str = ""

    def target(self, asked: str | None) -> str:
        """There is nothing to choose."""
        return self.about[0]

    def ends(self, level: float, wanted: str, rows: Rows) -> Sequence[Ends]:
        return [EVERYWHERE if self.ranges is None else self.ranges[row] for row in rows]

    def words(self, wanted: str, rows: Rows) -> IntervalText:
        noise = wanted == NOISE
        said = "" if noise else self.assumption
        return {"target": self.about[noise], "assumption": said, "status": self.status}


@dataclass(frozen=True)
class SeparateRows:
    """Columns that were released with independent noise, each with intervals of its own: a Sidak
    box."""

    columns: Sequence[RowIntervals]

    @property
    def statuses(self) -> tuple[str, ...]:
        """Of every column."""
        return tuple(item.standing()[0] for item in self.columns)

    def column(self, index: int) -> IntervalMaker:
        """The intervals of one column for itself."""
        return self.columns[index]

    def each(self, level: float, target: str | None = None) -> list[Interval]:
        """Return the interval of every column for itself."""
        return [item.interval(level, target) for item in self.columns]

    def interval(self, level: float, target: str | None) -> Interval:
        return _stack(self.each(sidak_level(level, len(self.columns)), target), level)

    def noise_interval(self, level: float) -> Interval:
        one = sidak_level(level, len(self.columns))
        return _stack([item.noise_interval(one) for item in self.columns], level)


def stacked(found: Sequence[Interval]) -> Interval:
    """Intervals one after the other, which are for the same."""
    return replace(
        found[0],
        lower=tuple(x for item in found for x in item.lower),
        upper=tuple(x for item in found for x in item.upper),
        clip_bounds=tuple(x for item in found for x in item.clip_bounds),
        status=worst_status(item.status for item in found),
    )


def _stack(items: Sequence[Interval], level: float) -> Interval:
    first = items[0]
    names = [name for name in first.half_widths if all(name in item.half_widths for item in items)]
    return replace(
        stacked(items),
        level=level,
        target=" / ".join(dict.fromkeys(item.target for item in items)),
        assumption=" | ".join(dict.fromkeys(item.assumption for item in items if item.assumption)),
        clip_bounds=tuple(
            item.clip_bounds[0] if item.clip_bounds else (item.lower[0], item.upper[0])
            for item in items
        ),
        half_widths={name: tuple(item.half_widths[name][0] for item in items) for name in names},
        status=release_status(item.status for item in items),
        advice=" | ".join(dict.fromkeys(item.advice for item in items if item.advice)),
        short_assumption=joined((first.short_assumption, ALIKE)) if first.short_assumption else "",
    )
