"""Responses at public times: two columns of a table whose unit is a record, not a person."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from privmean.array_types import Floats
from privmean.data import schema
from privmean.data.engines import fetch
from privmean.data.open_source import open_source, typed
from privmean.errors import ArgumentError


def timed_responses(
    source: object, time: str, value: str, text: Mapping[str, object], resources: Mapping[str, Any]
) -> tuple[Floats, Floats]:
    """Times and responses, one record a place; a response without a number is NaN.

    Times are public: one that is no number is an ArgumentError.
    """
    opened = open_source(source, text, resources)
    at = schema.person_column(opened.names, time)  # in text files read as it is written
    (response,) = schema.value_columns(opened.names, at, [value])
    records = typed(opened.records(at, (response,)), at, (response,))
    found = fetch(opened.home.keep(records))
    comma = text.get("decimal") == ","
    times = np.array([_number(row[0], comma) for row in found], dtype=float)
    if len(times) == 0 or not np.isfinite(times).all():
        raise ArgumentError(
            "time", time, "is not a number in some records", "give each record a public time"
        )
    values = [math.nan if row[1] is None else float(row[1]) for row in found]
    return times, np.array(values, dtype=float)


def _number(written: object, comma: bool) -> float:
    try:
        if isinstance(written, str):
            return float(written.replace(",", ".") if comma else written)
        return math.nan if written is None else float(written)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
