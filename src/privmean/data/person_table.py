"""The questions an estimator may ask of people, and the exact integer answers.

Every answer is a count or an integer sum, so that it does not depend on the order of rows, on the
number of threads or on the engine. The grids (origins, limits, steps) are public or already
released (`grids`); a null (no usable record) has a fixed place in every question.

Exact answers that are kept, so that a question asked twice is one pass over the data.

Numbers of people at and around points of one column, each asked when it is needed.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np

from privmean.array_types import Floats as Floats  # noqa: PLC0414 - the rooms above take it from here
from privmean.array_types import Integers as Integers  # noqa: PLC0414
from privmean.data.grids import GRID_BITS, LOG_GRID, WIDE_GRID, LogGrid, quotient

Answer = TypeVar("Answer")


class CachedPersonTable(ABC):
    """People, or pairs, who keep their answers, and count those around points of a column."""

    _cache: dict[Any, Any]

    def column_counts(self, column: int) -> ColumnCounts:
        """Numbers of people at and around points of a column, asked as they are needed."""
        return ColumnCounts(self, column)

    def log_counts(self, column: int, origin: float) -> Integers:
        """People per signed logarithmic bin of (value - origin); shape (LOG_CELLS,)."""
        return self._grid_counts(LOG_GRID, column, origin)

    def half_octave_counts(self, column: int, origin: float) -> Integers:
        """The same over 128 octaves, of bins closed at their outer edges; shape (WIDE_GRID.cells,).

        Of v = (value - origin) * INWARD, bin j = -128 .. 127 holds 2^(j/2) <= |v| < 2^((j+1)/2),
        the last one also all |v| >= 2^64; the zero bin holds |v| < 2^-64 and nulls.
        """
        return self._grid_counts(WIDE_GRID, column, origin)

    def _grid_counts(self, grid: LogGrid, column: int, origin: float) -> Integers:
        key = (grid, column, origin)
        return self._once(key, lambda: self._log_counts(grid, column, origin)).copy()

    @abstractmethod
    def _log_counts(self, grid: LogGrid, column: int, origin: float) -> Integers:
        """People, or masses, per bin of a grid."""

    def part_counts(self, column: int, sign: int, step: float, first: int, parts: int) -> Integers:
        """People per part k = 0 .. parts-1 of one side of a column; shape (parts,).

        Part k holds (first+k)*step < sign*value <= (first+k+1)*step. `step` is a power of two from
        2^-108 to 2^64, 0 <= first < 2^45 and parts <= 4096; nulls are in no part.
        """
        key = ("parts", column, sign, step, first, parts)
        return self._once(key, lambda: self._parts(column, sign, step, first, parts)).copy()

    @abstractmethod
    def _parts(self, column: int, sign: int, step: float, first: int, parts: int) -> Integers:
        """People, or masses, per part of one side of a column."""

    @abstractmethod
    def missing(self, column: int) -> int:
        """People, or masses of pairs, without a value in this column."""

    @abstractmethod
    def count_outside(self, column: int, lower: float, upper: float) -> tuple[int, int]:
        """People, or masses, with a value below `lower`, and above `upper`."""

    @abstractmethod
    def weighted_values(self, column: int) -> tuple[Floats, Integers]:
        """Every value (NaN for nulls) and what it counts. Collects: for audits and tests only."""

    def _once(self, key: Hashable, answer: Callable[[], Answer]) -> Answer:
        """What is kept under `key`; at first what `answer` gives."""
        if key not in self._cache:
            self._cache[key] = answer()
        found: Answer = self._cache[key]
        return found


@dataclass(frozen=True)
class ClipInterval:
    """A clipping interval [lower, upper] of one column on an integer grid centered at its middle.

    z = clamp(floor((clip(x, lower, upper) - middle) / step + 1/2), -steps, steps), with `step` a
    power of two and about 2^20 steps from the middle to either limit. A null gives z = 0, the
    middle. The value that z stands for is middle + step*z, at most step/2 from the clipped value.
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lower) and math.isfinite(self.upper)):
            raise ValueError("a box needs finite limits")
        if not self.lower < self.upper:
            raise ValueError("a box needs lower < upper")

    @cached_property
    def middle(self) -> float:
        return self.lower + (self.upper - self.lower) / 2

    @property
    def radius(self) -> float:
        """Half the width, as the grid has it: step * steps, at least the real half width."""
        return self.step * self.steps

    @cached_property
    def step(self) -> float:
        half = (self.upper - self.lower) / 2
        _, exponent = math.frexp(half / 2.0**GRID_BITS)
        return math.ldexp(1.0, max(exponent, -1000))

    @cached_property
    def steps(self) -> int:
        reach = max(self.upper - self.middle, self.middle - self.lower)
        return max(1, math.ceil(reach / self.step))


@dataclass(frozen=True)
class IntervalSums:
    """Exact sums over people for one `Box`, with w = 1 (or the capped record count, see People).

    present: people with a value; above/below: values beyond the limits; z: sum of z;
    zz: sum of z^2. Weighted forms: w: sum of weights of present people; wz: sum of w*z;
    ww, wwz, wwzz: sums of w^2, w^2 z, w^2 z^2 (for the variance of a ratio). For w = 1 they
    repeat present, z, present, z and zz.
    """

    present: int
    above: int
    below: int
    z: int
    zz: int
    w: int
    wz: int
    ww: int
    wwz: int
    wwzz: int


@dataclass(frozen=True)
class L2Ball:
    """An l2 clipping ball on an integer lattice: every row lands inside, none is dropped.

    For a row x: v = x - center (0 for nulls; an infinity is the largest double), top = max |v_j|.
    If top <= radius then w_j = quotient(v_j, step), else w_j = v_j, times GROW if top < TINY or
    SHRINK if top > HUGE, so that squares neither overflow nor vanish; norm = sqrt of the sum of
    w_j^2 added from the first column to the last. With K = steps, z_j = trunc(w_j) if top <= radius
    and norm <= K, else z_j = trunc(w_j/norm * K): shrunk to the lattice's own radius K, then
    truncated toward the center. If doubles still overshot, which the integer sum of z_j^2 tells, K
    is replaced by K (1 - 2^-30); were it to exceed K^2 even then (not below 2^20 columns), z = 0.
    So ||z|| <= K for any row, exactly, and z is within sqrt(d) + 1 steps of the real clipped row.
    """

    center: tuple[float, ...]
    radius: float
    step: float

    def __post_init__(self) -> None:
        if not self.radius / self.step < 2**31:
            raise ValueError("a ball of 2^31 steps and more has squares beyond 64 bits")

    @cached_property
    def place(self) -> Floats:
        """The center as an array; not to be written to."""
        return np.array(self.center, dtype=float)

    @cached_property
    def steps(self) -> int:
        """floor(radius/step), the largest integer norm."""
        return math.floor(self.radius / self.step)

    @property
    def shorter(self) -> float:
        """The length tried where doubles overshot."""
        return self.steps * (1 - 2.0**-30)


@dataclass(frozen=True)
class L2BallSums:
    """Exact sums over people for one `Ball`: the vector of sums of z, and the people present.

    besides: the sums of |z_j|, or of z_j^2, where they were asked for. tails: those of `Cut`.
    """

    z: tuple[int, ...]
    present: int
    besides: tuple[int, ...] = ()
    tails: tuple[int, ...] = ()


OPENED = 2.0**-20
Besides = Literal["sizes", "squares"]


@dataclass(frozen=True)
class ClippedRows:
    """Rows of finite values clipped to a ball, and in which columns something is cut off them.

    N is the row's norm (added as in `shell_counts`, nulls 0), R the ball's radius. A row with a
    value above `upper` or below `lower`, or with N > 1.25 R, is cut and lands in `inner`; else, if
    N > R, it is slightly cut and lands in `middle`; any other row lands in `ball` (z as `Ball` has
    it, all three on one lattice). Weights t: with K = inner.steps, q_j = |z_j| if N > R (else 0),
    plus K for a value beyond; a row that is cut has t = q if ||q|| <= K, else trunc(q/||q||
    inner.shorter); one that is slightly cut has t_j = floor(|z_j|/4); any other has t = 0.
    """

    ball: L2Ball
    middle: L2Ball
    inner: L2Ball
    lower: tuple[float, ...]
    upper: tuple[float, ...]


@dataclass(frozen=True)
class Standardization:
    """One column in units of its own: (clip(x, lower, upper) - center) over scale (`quotient`); 0
    for a null."""

    lower: float
    upper: float
    center: float
    scale: float

    @property
    def reach(self) -> float:
        """The largest value to either side, with the rounding of the column itself."""
        lower, upper = self.ends
        return max(upper, -lower)

    @property
    def opened(self) -> Standardization:
        """With limits a millionth of their distance farther apart, so that values beyond the limits
        stay apart from those at them."""
        more = (self.upper - self.lower) * OPENED
        return replace(self, lower=self.lower - more, upper=self.upper + more)

    @property
    def ends(self) -> tuple[float, float]:
        """Where values at the edges are, exactly as every home computes them."""
        lower, upper = self.lower - self.center, self.upper - self.center
        return float(quotient(lower, self.scale)), float(quotient(upper, self.scale))


class PersonTable(CachedPersonTable):
    """One summary row a person: the only view of the data an estimator has.

    columns: the names of the d columns. cap: None for the estimand "people" (weights 1), or the
    record cap C of the estimand "records" (weight w = min(records, C), an integer from 0 to C).
    """

    columns: tuple[str, ...]
    max_records: int | None

    @abstractmethod
    def size(self) -> int:
        """People in the roster. Public under replace-one only; private under add-remove."""

    @abstractmethod
    def uniform_counts(self, column: int, half_width: float, origin: float = 0.0) -> dict[int, int]:
        """People per occupied uniform bin, by bin index; nulls are in no bin."""

    @abstractmethod
    def pair_counts(self, column: int, low: int, high: int) -> Integers:
        """Public pairs of people per dyadic bin of |difference|/sqrt(2); shape (high-low+1,).

        Pairs are fixed by the roster's order alone (the odd person is left out). The bin of a
        spread s is ceil(log2 s) clamped to [low, high]; a pair with a null counts in `low`.
        """

    @abstractmethod
    def interval_sums(self, boxes: Sequence[ClipInterval | None]) -> list[IntervalSums | None]:
        """For each column the sums of its box (None leaves a column out)."""

    @abstractmethod
    def counts_below(self, column: int, edges: Sequence[float]) -> Integers:
        """People with a value below each of increasing edges; shape (len(edges),)."""

    @abstractmethod
    def ball_sums(self, ball: L2Ball, besides: Besides | None = None) -> L2BallSums:
        """Sums of the rows clipped to a ball; `besides` needs at most 2^21 steps."""

    @abstractmethod
    def clipped_row_sums(self, cut: ClippedRows) -> L2BallSums:
        """Sums of rows, of their squares and of what is cut off them, column by column."""

    @abstractmethod
    def norm_counts(self, edges: Sequence[float]) -> Integers:
        """People with a norm of at most edges[0], then up to edges[1], .., beyond the last; nulls
        are 0 and squares are added from the first column to the last. Shape (len(edges) + 1,)."""

    @abstractmethod
    def standardized(self, columns: Sequence[Standardization | None]) -> PersonTable:
        """The same people, each column in units of its own (None leaves a column out)."""

    @abstractmethod
    def count_in_ball(self, center: Sequence[float], radius: float) -> int:
        """People without nulls whose row lies within the ball (norm added as in `Ball`)."""

    @abstractmethod
    def split(self, index: int, parts: int) -> PersonTable:
        """The people at roster positions congruent to `index` modulo `parts`."""

    @abstractmethod
    def matrix(self) -> Floats:
        """All rows, shape (people, columns); NaN for nulls. Collects: only where it must."""

    def weighted_values(self, column: int) -> tuple[Floats, Integers]:
        values = self.matrix()[:, column]
        return values, np.ones(len(values), dtype=np.int64)


APART = 2.0**-22  # of a center: values nearer to it are taken for it


@dataclass(frozen=True)
class ColumnCounts:
    """Exact numbers of people at and around points of one column, asked as they are needed."""

    people: CachedPersonTable = field(repr=False, compare=False)
    column: int

    @property
    def present(self) -> int:
        """People with a value."""
        return int(self.half_octaves(0.0).sum())

    def half_octaves(self, origin: float) -> Integers:
        """The bins of `PersonTable.half_octave_counts`, of people with a value alone."""
        counts = self.people.half_octave_counts(self.column, origin)
        counts[WIDE_GRID.zero] -= self.people.missing(self.column)
        return counts

    def parts(self, sign: int, step: float, first: int, parts: int) -> Integers:
        """As `PersonTable.part_counts`."""
        return self.people.part_counts(self.column, sign, step, first, parts)

    def outside(self, lower: float, upper: float) -> tuple[int, int]:
        """People strictly below `lower` and strictly above `upper`."""
        return self.people.count_outside(self.column, lower, upper)

    def distances(self, center: float) -> DistanceCounts:
        return DistanceCounts(self.people, self.column, center)

    def distribution(self) -> tuple[Floats, Integers]:
        """Distinct values in ascending order (0.0 for both zeros), and how many people have each.
        Collects: for audits and tests only."""
        values, masses = self.people.weighted_values(self.column)
        known = ~np.isnan(values)
        found, where = np.unique(values[known] + 0.0, return_inverse=True)
        return found, np.bincount(where, masses[known], len(found)).astype(np.int64)


@dataclass(frozen=True)
class DistanceCounts(ColumnCounts):
    """Numbers of people by the distance of their values from a public center.

    Values nearer than `APART` of the center count nowhere: a value that many people share is no
    spread. So does nobody without a value.
    """

    center: float = 0.0

    @property
    def _first(self) -> int:
        """The first bin that is farther away."""
        return int(np.searchsorted(WIDE_GRID.edges(), abs(self.center) * APART))

    def half_octaves(self, origin: float) -> Integers:
        """Those about 0, the only origin that distances have; all are positive."""
        counts, middle = super().half_octaves(self.center), WIDE_GRID.zero
        found = np.zeros_like(counts)
        found[:middle] = counts[:middle] + counts[middle + 1 :]
        found[: self._first] = 0
        return found

    def distribution(self) -> tuple[Floats, Integers]:
        values, masses = super().distribution()
        with np.errstate(over="ignore"):
            found, where = np.unique(np.abs(values - self.center), return_inverse=True)
        far = found > WIDE_GRID.edges()[self._first]
        return found[far], np.bincount(where, masses, len(found)).astype(np.int64)[far]


LOG = logging.getLogger("privmean")


def collect_rows(people: PersonTable, *, size_is_public: bool) -> Floats:
    """All rows, shape (people, columns), NaN for nulls, from wherever people are."""
    tell(people, size_is_public=size_is_public)
    return people.matrix()


def tell(people: PersonTable, *, size_is_public: bool) -> None:
    """Before rows leave an engine, one line of the logger "privmean" says so, with the size in
    memory; where the number of people is private, with that of one person. At level WARNING where
    rows leave for this process, INFO where the engine is a part of it (DuckDB, Polars).
    """
    elsewhere = getattr(people, "elsewhere", None)
    if elsewhere is None:  # in memory
        return
    width = len(people.columns)
    values: tuple[float, ...] = (width, 8 * width)
    size = "%d columns (%d bytes a person)"
    if size_is_public:
        n = people.size()
        size, values = "%d people x %d columns (%.1f MB)", (n, width, 8e-6 * n * width)
    way = "leave the engine for memory" if elsewhere else "are taken into memory"
    level = logging.WARNING if elsewhere else logging.INFO
    LOG.log(level, f"this method needs the rows themselves: {size} {way}", *values)
