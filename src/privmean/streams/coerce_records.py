"""Whatever arrives to ids and rows of doubles, silently and by fixed rules."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import numpy as np

from privmean.errors import ArgumentError
from privmean.streams.toeplitz_matrices import Floats


def person_name(person: object) -> str | None:
    """The id as text; None for a missing one (None, NaN, NaT, NA). 5 and 5.0 are one person."""
    if person is None or _missing(person):
        return None
    if isinstance(person, float | np.floating):
        return str(int(person)) if person.is_integer() else repr(float(person))
    return str(person)


def _missing(person: object) -> bool:
    """NaN of any kind and NaT differ from themselves; NA does not say whether it does."""
    try:
        return bool(person != person)  # noqa: PLR0124
    except TypeError:
        return True
    except (ValueError, ArithmeticError):  # an array, a signalling NaN
        return False


def require_listed(name: str, values: object) -> None:
    """Refuse what has no items, without showing it: it may be a private value."""
    if not hasattr(values, "__len__"):
        kind = type(values).__name__
        raise ArgumentError(name, kind, "is not a list", "give a list with one item per record")


def as_rows(values: Collection[object], dimension: int) -> Floats:
    """Rows of doubles, shape (m, d); whatever is not a number becomes NaN, silently."""
    require_listed("values", values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiu":
        rows = values.astype(np.float64)
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or rows.shape[1] != dimension:
            raise ArgumentError(
                "values", values.shape, f"must be rows of {dimension} numbers", "reshape"
            )
        return rows
    if dimension == 1 and len(values) == 1:
        (value,) = values
        if type(value) is float:
            return np.array([[value]])
    rows = np.full((len(values), dimension), np.nan)
    for index, value in enumerate(values):
        cells = value if isinstance(value, list | tuple | np.ndarray) else [value]
        if isinstance(cells, np.ndarray):
            if cells.ndim == 0:  # an array that has no length
                cells = cells.reshape(1)
            if cells.ndim == 1 and cells.dtype.kind in "fiu":
                if len(cells) == dimension:
                    rows[index] = cells  # as `as_number` would, cell by cell
                continue
        if len(cells) == dimension:
            rows[index] = [as_number(cell) for cell in cells]
    return rows


def as_number(value: Any) -> float:
    """The value as a double; NaN for anything else. Never raises."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
    except OverflowError:
        return float("-inf") if value < 0 else float("inf")


def plain(values: object) -> Any:
    """As it looks after a round trip through JSON."""
    return json.loads(json.dumps(values, default=repr))
