"""Columns of keys as their canonical texts (`key_text.py`), on every engine.

Columns of Python objects as texts that any engine reads: no id may make reading fail.

An object is the text that `str` gives; None, NaN, NA and what has no text are missing; half a
surrogate pair, which no engine can hold, is written out (`\\ud800`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as known

from privmean.data.key_text import ACCEPTED, WHOLE
from privmean.data.typenames import type_name
from privmean.errors import SchemaError

if TYPE_CHECKING:
    from pandas import DataFrame

    from privmean.data.duckdb_engine import Array


def key_expression(column: str, kind: nw.dtypes.DType, name: str) -> nw.Expr:
    """The canonical text of a column of keys, null where there is none. kind: its type, which is
    public; SchemaError for one that holds no keys. name: as the caller calls it."""
    x = nw.col(column)
    if kind in (nw.String, nw.Categorical, nw.Enum):
        return x.cast(nw.String())
    if kind == nw.Boolean:
        found = nw.when(x).then(nw.lit("true")).otherwise(nw.lit("false"))
        return nw.when(~x.is_null()).then(found)
    if kind.is_integer():
        return x.cast(nw.String())
    if kind.is_float():
        y = x.cast(nw.Float64())
        finite = nw.when(y.is_finite()).then(y)  # NaN compares in a way of its own on each engine
        size = finite.abs()  # -0.0 is not equal to 0.0 on each engine
        whole = nw.when((size <= WHOLE) & (size.floor() == size)).then(finite)
        return whole.cast(nw.Int64()).cast(nw.String())
    if kind == nw.Date:
        return x.cast(nw.String())
    raise SchemaError(
        f"column {name!r} of type {type_name(kind)} cannot hold keys of "
        f"groups. Cast it to {ACCEPTED}."
    )


def form(kind: nw.dtypes.DType) -> tuple[str, str]:
    """The canonical texts that a column of keys of this type can hold: a pattern, and in words."""
    if kind == nw.Boolean:
        return "true|false", "true or false"
    if kind.is_numeric():
        return "-?[0-9]+", "whole numbers"
    return (
        ("[0-9]+-[0-9]+-[0-9]+", "dates as 2026-01-31") if kind == nw.Date else ("(?s:.*)", "text")
    )


def texts(column: object) -> Any:
    """A NumPy array or pandas series as it is, or of texts where it holds Python objects."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "OS" or (column.dtype.kind == "U" and _halves(column)):
            return said(column.tolist())
        return column
    if not known.is_pandas_series(column):
        return column
    import pandas as pd

    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        if kind.categories.dtype.kind != "O":
            return column
        found = np.append(said(list(kind.categories)), [None])[column.cat.codes.to_numpy()]
    elif (isinstance(kind, np.dtype) and kind.kind == "O") or (
        isinstance(kind, pd.StringDtype) and kind.storage == "python"
    ):
        found = said(column.tolist())
    else:
        return column
    return pd.Series(found, index=column.index, dtype=object)


def of_keys(frame: DataFrame, columns: Sequence[str], keys: Sequence[str]) -> DataFrame:
    """These columns of a pandas frame, those of `keys` that hold Python objects as texts of keys:
    truth values and whole numbers as in a column of their own type."""
    import pandas as pd

    from privmean.data.key_text import object_text

    chosen = {}
    for name in columns:
        series = frame[name]
        kind = getattr(series, "dtype", None)
        if name in keys and isinstance(kind, np.dtype) and kind.kind == "O":
            found = said([object_text(item) for item in series.tolist()])
            series = pd.Series(found, index=series.index, dtype=object)
        chosen[name] = series
    return pd.DataFrame(chosen, copy=False)


def of_named(arrays: Mapping[str, object], keys: Sequence[str]) -> dict[str, object]:
    """Arrays by name, those of `keys` that hold Python objects as `of_keys` has them."""
    from privmean.data.key_text import object_text

    made = {str(name): values for name, values in arrays.items()}
    for name in keys:
        found: Any = made[name]
        if not isinstance(found, list | tuple):
            found = np.ascontiguousarray(found)
        if not isinstance(found, np.ndarray) or found.dtype.kind == "O":
            made[name] = said([object_text(item) for item in list(found)])
    return made


def said(items: Sequence[object]) -> Any:
    """Python objects as their texts, None for what has none, in an array of objects."""
    found = np.empty(len(items), dtype=object)
    found[:] = [item if type(item) is str and item.isascii() else _text(item) for item in items]
    return found


def _text(item: object) -> str | None:
    if isinstance(item, bytes):
        return item.decode(errors="backslashreplace")
    try:
        if item is None or (not isinstance(item, str) and bool(item != item)):  # noqa: PLR0124
            return None
    except Exception:  # NA cannot say, nor can arrays
        if type(item).__name__ == "NAType":
            return None
    try:
        return str(item).encode(errors="backslashreplace").decode()
    except Exception:
        return None


def _halves(column: Array) -> bool:
    """Whether an array of strings holds a half of a surrogate pair."""
    codes = np.ascontiguousarray(column).view(np.uint32)
    return bool(((codes >= 0xD800) & (codes < 0xE000)).any())
