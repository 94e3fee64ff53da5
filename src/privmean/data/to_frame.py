"""Columns of plain values as a frame of the reader's own library, through Narwhals."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal, cast

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
