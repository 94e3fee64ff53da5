"""The rows themselves, for estimators that cannot work from reductions; never without a word."""

from __future__ import annotations

import logging

from privmean.dtypes import Floats
from privmean.people.reductions import People

LOG = logging.getLogger("privmean")


def rows(people: People, *, size_is_public: bool) -> Floats:
    """All rows, shape (persons, columns), NaN for nulls, from wherever people are."""
    tell(people, size_is_public=size_is_public)
    return people.matrix()


def tell(people: People, *, size_is_public: bool) -> None:
    """Before rows leave an engine, one line at level WARNING of the logger "privmean" says so,
    with the size in memory; where the number of persons is private, with that of one person.
    """
    if hasattr(people, "collect"):
        width = len(people.columns)
        if size_is_public:
            n = people.size()
            LOG.warning(
                "this method needs the rows themselves: %d persons x %d columns (%.1f MB) leave "
                "the engine for memory", n, width, 8e-6 * n * width,
            )  # fmt: skip
        else:
            LOG.warning(
                "this method needs the rows themselves: %d columns (%d bytes a person) leave the "
                "engine for memory", width, 8 * width,
            )  # fmt: skip
