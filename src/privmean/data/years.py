"""Dates and times that every engine can write as text: those of the years 1 to 9999."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime

import narwhals as nw

from privmean.data.exact_totals import Lazy

DAYS = (date.min, date.max)
TIMES = (datetime.min, datetime.max)


def within_years(frame: Lazy, types: Mapping[str, nw.dtypes.DType], columns: Sequence[str]) -> Lazy:
    """Return the frame with dates and times of other years missing, in `columns`.

    Polars ends the process with a panic where such a date becomes text. Spark and SQL engines write
    any date; some of these cannot compare one with the first day of the year 1.
    """
    if not (frame.implementation.is_polars() or frame.implementation.is_duckdb()):
        return frame
    kept = []
    for name in columns:
        kind, x = types[name], nw.col(name)
        zone = isinstance(kind, nw.Datetime) and kind.time_zone is not None
        if zone or kind not in (nw.Date, nw.Datetime):
            continue
        first, last = DAYS if kind == nw.Date else TIMES
        inside = (x >= nw.lit(first)) & (x <= nw.lit(last))
        kept.append(nw.when(inside).then(x).alias(name))
    return frame.with_columns(*kept) if kept else frame
