"""Columns of plain values as a frame of the reader's own library, through Narwhals.

The rows themselves, for estimators that cannot work from reductions; never without a word.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal, Protocol, cast, runtime_checkable

from privmean.array_types import Floats
from privmean.data.person_table import PersonTable
from privmean.errors import ArgumentError

BACKENDS = ("pandas", "polars", "pyarrow")


def frame_of(columns: Mapping[str, Sequence[object]], backend: str | None = None) -> Any:
    """A frame with these columns, of one length.

    backend: "pandas", "polars" or "pyarrow". None: the first of them that is imported already, else
    the first that is installed. Raises ArgumentError where there is none, or no such one.
    """
    import narwhals as nw

    if backend is None:
        installed = [name for name in BACKENDS if _there(name)]
        used = [name for name in installed if name in sys.modules]
        if not installed:
            raise ArgumentError(
                "backend",
                None,
                "is required",
                "install privmean[pandas], privmean[polars] or PyArrow, or use release.rows()",
            )
        backend = (used or installed)[0]
    elif backend not in BACKENDS:
        raise ArgumentError(
            "backend", backend, "cannot make frames", f"choose one of {', '.join(BACKENDS)}"
        )
    elif not _there(backend):
        extra = "arrow" if backend == "pyarrow" else backend
        raise ArgumentError("backend", backend, "is not installed", f"install privmean[{extra}]")
    plain = {name: list(values) for name, values in columns.items()}
    made = cast(Literal["pandas", "polars", "pyarrow"], backend)
    return nw.from_dict(plain, backend=made).to_native()


def _there(name: str) -> bool:
    return name in sys.modules or find_spec(name) is not None


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
