"""Lists and series as arrays, where they are rows or records with an id each."""

from __future__ import annotations

from typing import Any

from narwhals.dependencies import is_into_series, is_pandas_series

from privmean.data.list_columns import id_array, value_array
from privmean.errors import ArgumentError


def in_arrays(given: Any, person: Any) -> tuple[Any, Any]:
    """Both as arrays; what is no list and no series, as it is. A series alone may have many records
    a person, of whom its index may know: it is not taken for one row a person."""
    if not (isinstance(given, list | tuple) or is_into_series(given)):
        return given, person
    if person is not None:
        labels = [item.index for item in (given, person) if is_pandas_series(item)]
        if len(labels) == 2 and not labels[0].equals(labels[1]):
            raise ArgumentError(
                "person",
                person,
                "must have the same index as the values",
                "sort both arrays in one order",
            )
        return value_array(given), id_array(person)
    if is_into_series(given):
        raise ArgumentError(
            "source", given, "is a series without person ids",
            "pass person, or series.to_numpy() if each value belongs to another person",
        )  # fmt: skip
    return value_array(given), None
