"""Intervals of the rows of a release: what one says of itself, and how it is made.

An estimator states both ends of its rows at a level, and what these cover and assume
(`RowIntervals`). How a target is chosen, at which level rows hold together
(docs/proofs/intervals.md, 7), and how one row is told by itself is the same for all.

What intervals assume are sentences that are the same wherever they are said, joined by "; ". The
privacy guarantee depends on none. The variance of a mean of clustered people is a multiple of that
of independent ones, the design effect, from public knowledge (docs/proofs/intervals.md, section 6).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from privmean import validate
from privmean.errors import ArgumentError
from privmean.inference.status import FAILED, OK, release_status, worst_status
from privmean.output import decimals
from privmean.plain_data import plain

UNDETECTED = "undetected outliers"  # the part of a half-width for those whom a noisy count may miss
UNSAFE = "SIMULATED NOISE: not private, for tests and studies only"


class IntervalText(TypedDict, total=False):
    """What an interval says of itself; see `Interval`."""

    kind: str
    target: str
    assumption: str
    status: str
    advice: str
    short_assumption: str


@dataclass(frozen=True)
class Interval:
    """Intervals of a release, with what they cover and assume.

    Attributes
    ----------
    lower, upper : tuple of float
        Ends, one per row, in the unit of the value.
    level : float
        Confidence level.
    kind : {"interval", "noise_interval"}
        Confidence interval with sampling error, or noise-only interval.
    target : str
        What is covered, such as "mean" or "clipped mean".
    assumption : str
        What coverage assumes.
    clip_bounds : tuple of (float, float)
        Clipping bounds, one pair per row.
    half_widths : dict
        Half widths by cause. They add up to more than that of the interval.
    status, advice : str
        Status code, and detail of this case.
    secure : bool, optional
        False for simulated noise; None if not stated.
    short_assumption : str
        The assumption in a few words; empty if it is short itself.

    Examples
    --------
    release = pm.mean(pm.example("ratings"), "rating", person="student", epsilon=1.0)
    interval = release.interval(0.9)
    interval.lower[0], interval.upper[0], interval.assumption
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    level: float
    kind: str = "interval"
    target: str = "mean"
    assumption: str = ""
    clip_bounds: tuple[tuple[float, float], ...] = ()
    half_widths: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    status: str = OK
    advice: str = ""
    secure: bool | None = None
    short_assumption: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "level": self.level,
            "lower": [plain(item) for item in self.lower],
            "upper": [plain(item) for item in self.upper],
            "kind": self.kind,
            "target": self.target,
            "assumption": self.assumption,
            "short_assumption": self.short_assumption,
            "clip_bounds": [[plain(a), plain(b)] for a, b in self.clip_bounds],
            "half_widths": {
                name: [plain(x) for x in half] for name, half in self.half_widths.items()
            },
            "status": self.status,
            "advice": self.advice,
            "secure": self.secure,
        }


class IntervalMaker(ABC):
    """Post-processing of released numbers into intervals; reads no data."""

    @abstractmethod
    def interval(self, level: float, target: str | None = None) -> Interval:
        """All rows together, for the population."""

    @abstractmethod
    def noise_interval(self, level: float) -> Interval:
        """All rows together, for these very people: privacy noise only."""

    def column(self, index: int) -> IntervalMaker | None:
        """The intervals of one column for itself, as if the others were not looked at; None where
        they are known for all together only."""
        return None

    def each(self, level: float) -> list[Interval] | None:
        """The interval of every column for itself, where these are found faster together."""
        return None

    def errors(self) -> tuple[float, float]:
        """Standard deviations of a single estimate by privacy noise, and by noise and sampling
        together; NaN where the released numbers do not tell."""
        return math.nan, math.nan


INDEPENDENT = "people are independent"
GROUP_SHARE = "no group has more than twice the overall share of outliers"
DECLARED = " declared "  # in every sentence about a type
FEW = 4  # columns of one type that are named
SHARED = "clipping affects all coefficients alike"
ALIKE = "other columns alike, each with its own clipping bounds"


def joined(sentences: Iterable[str]) -> str:
    """The sentences as one text, each once."""
    return "; ".join(dict.fromkeys(item for item in sentences if item))


def dependence(design_effect: float) -> str:
    """How the values of people may be related."""
    if design_effect == 1:
        return INDEPENDENT
    return f"clustered people: design effect {design_effect:g}"


def values_within(low: object, high: object) -> str:
    return f"values lie in [{low:.6g}, {high:.6g}] (values outside count as the nearer bound)"


def type_says(columns: Sequence[str], kind: str, low: float, high: float) -> str:
    """What is owed to a declared type, which the caller makes public."""
    inside = f"at least {low:g}" if high == math.inf else f"in [{low:g}, {high:g}]"
    return f"{_named(columns)}{DECLARED}{kind}: values {inside}"


def keys_say(columns: Sequence[str]) -> str:
    """The same of keys that follow from types."""
    return f"{_named(columns)}{DECLARED}Enum: the categories are the keys"


def _named(columns: Sequence[str]) -> str:
    """Columns by their names, or by their number if they are many."""
    if len(columns) == 1:
        return f"{columns[0]} is"
    few = len(columns) <= FEW
    return f"{', '.join(columns) if few else f'{len(columns)} columns'} are"


def outliers_within(most: float, nearer: float | None = None) -> str:
    """How far outliers lie beyond the clipping bounds. nearer: on the side of the nearer one."""
    beside = "" if nearer is None else f" (by {nearer:.4g} on the nearer side)"
    return f"outliers exceed the clipping bounds by at most {most:.4g} on average{beside}"


def outliers_within_times(factor: float) -> str:
    """The same as a multiple of the bound."""
    return f"outliers exceed the clipping bounds by at most {factor:.0%} of the bound on average"


def contributions_within(part: float) -> str:
    """How far score contributions lie beyond their bound, as a part of it."""
    return f"clipped score contributions exceed their bound by at most {part:.0%} on average"


def no_undetected(people: float, limits: tuple[float, float] | None = None) -> str:
    """How many outliers the noisy count may miss; "" where it can miss none."""
    if not 0 < people < math.inf:
        return ""
    where = ""
    if limits is not None:
        places = decimals((limits[1] - limits[0]) / 10)
        where = f" far outside [{limits[0]:.{places}f}, {limits[1]:.{places}f}]"
    return (
        f"no outliers were missed (fewer than about {math.ceil(people)} people{where} "
        "could go undetected)"
    )


def missing_count_at(place: object) -> str:
    return f"people without a value count at {place}"


def assumed(design_effect: float, *more: str) -> str:
    """How people may be related, and what else is assumed."""
    return joined((dependence(design_effect), *more))


def grouped_design_effect(sizes: Sequence[int], icc: float) -> float:
    """1 + (sum n_g^2/n - 1) icc for public group sizes and a public intraclass correlation."""
    correlation = validate.number("icc", icc)
    if not 0 <= correlation <= 1:
        raise ArgumentError("icc", icc, "must lie in [0, 1]", "give a number in [0, 1]")
    counts = [validate.whole("sizes", item, least=1) for item in sizes]
    if not counts:
        raise ArgumentError("sizes", sizes, "is empty", "give the size of every group")
    n = sum(counts)
    return 1 + (sum(item**2 for item in counts) / n - 1) * correlation


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


class RowIntervals(IntervalMaker):
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
        return self.made(level, self.target(target))

    def noise_interval(self, level: float) -> Interval:
        return self.made(level, NOISE)

    def column(self, index: int) -> IntervalMaker:
        return OneRow(self, index)

    def errors(self) -> tuple[float, float]:
        return self.row_errors(0) if self.number == 1 else super().errors()

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
class OneRow(IntervalMaker):
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
class SeparateRows(IntervalMaker):
    """Columns that were released with independent noise, each with intervals of its own: a Sidak
    box."""

    columns: Sequence[RowIntervals]

    @property
    def statuses(self) -> tuple[str, ...]:
        return tuple(item.standing()[0] for item in self.columns)

    def column(self, index: int) -> IntervalMaker:
        return self.columns[index]

    def each(self, level: float, target: str | None = None) -> list[Interval]:
        return [item.interval(level, target) for item in self.columns]

    def interval(self, level: float, target: str | None = None) -> Interval:
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
