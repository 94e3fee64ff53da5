"""Columns of keys as their canonical texts (`key_text.py`), on every engine."""

from __future__ import annotations

import narwhals as nw

from privmean.data.key_text import ACCEPTED, WHOLE
from privmean.data.typenames import type_name
from privmean.errors import SchemaError


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
