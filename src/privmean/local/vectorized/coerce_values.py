"""Private values become points of the public domain: `clients.domain`, vectorised."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from privmean.array_types import Floats, Integers, Words
from privmean.errors import ArgumentError
from privmean.local.aggregators.batch import coordinates_of
from privmean.local.clients.coerce_value import item, reals
from privmean.local.round import Round


def table_of(values: object, number: int, width: int) -> Floats:
    """An (number, width) array of floats, NaN where an entry is no number.

    An array of numbers must have that shape, which is public. Of anything else each row is read
    on its own, so that one person's odd entry neither raises nor changes another's.
    """
    array = numeric(values)
    if array is None:
        rows = [reals(row, width) for row in cast("Iterable[object]", values)]
        return np.array(rows, dtype=np.float64).reshape(number, width)
    with np.errstate(over="ignore"):  # of longer floats
        result = floats(array)
    if result.ndim == 1:
        result = result.reshape(-1, 1)
    if result.shape != (number, width):
        raise ArgumentError(
            "values", result.shape, "must have another shape", f"give shape {(number, width)}"
        )
    return result


def numeric(values: object) -> npt.NDArray[Any] | None:
    """The array of numbers behind `values`, or None: decided by the type alone."""
    if not hasattr(values, "__array__"):
        return None
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    return array if array.dtype.kind in "fiub" else None


def floats(array: object) -> Floats:
    """As doubles; masked entries are missing."""
    result: Floats = np.asarray(array, dtype=np.float64)
    if isinstance(array, np.ma.MaskedArray):
        result = np.where(np.ma.getmaskarray(array), np.nan, result)
    return result


def _picked(round_: Round, values: object, nonces: Words) -> tuple[Floats, Floats, Floats]:
    array = table_of(values, len(nonces), round_.coordinates)
    place = coordinates_of(round_, nonces)
    low, high = np.array(round_.lower), np.array(round_.upper)
    return array[np.arange(len(place)), place], low[place], high[place]


def unit_values(round_: Round, values: object, nonces: Words) -> Floats:
    """`clients.domain.unit_value` of many."""
    x, low, high = _picked(round_, values, nonces)
    clipped = np.minimum(np.maximum(x, low), high)
    result = np.clip((clipped - low - (high - clipped)) / (high - low), -1.0, 1.0)
    return np.where(np.isnan(x), 0.0, result)


def item_indices(round_: Round, values: object, nonces: Words) -> Integers:
    """`clients.domain.item` of many; -1 for a null."""
    assert round_.items is not None
    null = -1 if round_.other is None else round_.other
    if round_.bins is not None:
        x, low, high = _picked(round_, values, nonces)
        clipped = np.minimum(np.maximum(x, low), high)
        place = np.where(np.isnan(x), 0.0, (clipped - low) / (high - low) * round_.bins)
        result = np.minimum(place.astype(np.int64), round_.bins - 1)
        return np.where(np.isnan(x), -1, result)
    array = numeric(values)
    if array is None:
        own = [item(round_, value, b"") for value in cast("Iterable[object]", values)]
        return np.array([-1 if place is None else place for place in own], dtype=np.int64)
    if array.shape != nonces.shape[:1]:
        raise ArgumentError(
            "values", array.shape, "must have another shape", f"give shape {nonces.shape[:1]}"
        )
    # items lie below 2^53, so that nothing an integer array holds is mistaken for one
    exact = floats(array)
    known = (exact >= 0) & (exact < round_.items) & (exact == np.floor(exact))
    return np.where(known, np.where(known, exact, 0).astype(np.int64), null)
