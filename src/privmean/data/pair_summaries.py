"""Pairs of people and groups, and differences within people, as summaries of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privmean.data.group_pairs import BinQuery, DifferenceQuery, GroupPairQuery

if TYPE_CHECKING:
    from privmean.data.person_table import PersonTable
    from privmean.data.table import Table


@dataclass(frozen=True)
class Pairs(GroupPairQuery):
    """See `PairsAsked`; this one reads a table."""

    def reduce(self, table: Table) -> PersonTable:
        from privmean.data.read_pairs import read_pairs

        # the road hands people on unseen; who asks pairs takes them with `pairs_of`
        found: Any = read_pairs(self, table)
        return found  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Difference(DifferenceQuery):
    """See `DifferenceAsked`; this one reads a table."""

    def reduce(self, table: Table) -> PersonTable:
        from privmean.data.read_pairs import read_differences

        return read_differences(self, table)


@dataclass(frozen=True)
class BinPairs(BinQuery):
    """See `BinQuery`; this one reads a table."""

    def reduce(self, table: Table) -> PersonTable:
        from privmean.data.read_pairs import read_bins

        found: Any = read_bins(self, table)
        return found  # type: ignore[no-any-return]
