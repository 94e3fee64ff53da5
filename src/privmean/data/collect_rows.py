"""The rows themselves, for estimators that cannot work from reductions; never without a word."""

from __future__ import annotations

import logging
from typing import Protocol, runtime_checkable

from privmean.array_types import Floats
from privmean.data.person_table import PersonTable

LOG = logging.getLogger("privmean")


def collect_rows(people: PersonTable, *, size_is_public: bool) -> Floats:
    """All rows, shape (people, columns), NaN for nulls, from wherever people are."""
    tell(people, size_is_public=size_is_public)
    return people.matrix()


@runtime_checkable
class Collected(Protocol):
    """People of an engine, whose rows can be had in memory."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def elsewhere(self) -> bool: ...

    def size(self) -> int: ...


def tell(people: PersonTable, *, size_is_public: bool) -> None:
    """Before rows leave an engine, one line of the logger "privmean" says so, with the size in
    memory; where the number of people is private, with that of one person. At level WARNING where
    rows leave for this process, INFO where the engine is a part of it (DuckDB, Polars).
    """
    if not isinstance(people, Collected):
        return
    width = len(people.columns)
    values: tuple[float, ...] = (width, 8 * width)
    size = "%d columns (%d bytes a person)"
    if size_is_public:
        n = people.size()
        size, values = "%d people x %d columns (%.1f MB)", (n, width, 8e-6 * n * width)
    way = "leave the engine for memory" if people.elsewhere else "are taken into memory"
    level = logging.WARNING if people.elsewhere else logging.INFO
    LOG.log(level, f"this method needs the rows themselves: {size} {way}", *values)
