"""Numbers of people at and around points of one column, each asked when it is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.data.answer_cache import CachedPersonTable
from privmean.data.grids import WIDE_GRID

APART = 2.0**-22  # of a center: values nearer to it are taken for it


class ColumnTable(Protocol):
    """What is asked of people, or of pairs in masses, see `person_table.PersonTable`."""

    def missing(self, column: int) -> int: ...

    def half_octave_counts(self, column: int, origin: float) -> Integers: ...

    def part_counts(
        self, column: int, sign: int, step: float, first: int, parts: int
    ) -> Integers: ...

    def count_outside(self, column: int, lower: float, upper: float) -> tuple[int, int]: ...

    def weighted_values(self, column: int) -> tuple[Floats, Integers]: ...


@dataclass(frozen=True)
class ColumnCounts:
    """Exact numbers of people at and around points of one column, asked as they are needed."""

    people: ColumnTable = field(repr=False, compare=False)
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


class CountedTable(CachedPersonTable):
    """People who keep their answers, and count those around points of a column."""

    def column_counts(self: ColumnTable, column: int) -> ColumnCounts:
        return ColumnCounts(self, column)
