"""What records may be given as, in types: nothing here imports an engine or runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt


class Frame(Protocol):
    """A data frame of pandas, Polars (also lazy) or PySpark, a PyArrow table, a DuckDB relation."""

    @property
    def columns(self) -> Any: ...

    def join(self, *args: Any, **kwargs: Any) -> Any: ...


Array: TypeAlias = npt.NDArray[Any]
Numbers: TypeAlias = Array | Sequence[float] | Sequence[np.floating] | Sequence[np.integer]
Rows: TypeAlias = Numbers | Sequence[Sequence[float]]
Ids: TypeAlias = Array | Sequence[str] | Sequence[int]
Person: TypeAlias = str | Ids  # the name of a column; for an array of records, an id a row
Roster: TypeAlias = Array | Iterable[object]

# a path, a folder or a pattern of files; a frame; arrays by name, one entry a record; an array
Records: TypeAlias = "str | os.PathLike[str] | Frame | Mapping[str, Numbers | Ids] | Array"
