"""Pairs of persons and groups, and differences within persons, as summaries of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privmean.people.pairs import DifferenceAsked, PairsAsked

if TYPE_CHECKING:
    from privmean.people.reductions import People
    from privmean.people.table import Table


@dataclass(frozen=True)
class Pairs(PairsAsked):
    """See `PairsAsked`; this one reads a table."""

    def reduce(self, table: Table) -> People:
        from privmean.people.pairread import read_pairs

        # the road hands people on unseen; who asks pairs takes them with `pairs_of`
        found: Any = read_pairs(self, table)
        return found  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Difference(DifferenceAsked):
    """See `DifferenceAsked`; this one reads a table."""

    def reduce(self, table: Table) -> People:
        from privmean.people.pairread import read_differences

        return read_differences(self, table)
