"""Private values become points of the public domain: `clients.domain`, vectorised."""

from __future__ import annotations

from typing import Any

import numpy as np

from privmean.errors import ArgumentError
from privmean.local.aggregators.batch import (
    Floats,
    Integers,
    Words,
    coordinates_of,
)
from privmean.local.descriptor import Round


def _values(round_: Round, values: Any, number: int) -> Floats:
    """An (n, coordinates) array of floats."""
    array = np.asarray(values, dtype=np.float64)
    shape = (number, round_.coordinates)
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    if array.shape != shape:
        raise ArgumentError("values", array.shape, "has the wrong shape", f"give shape {shape}")
    return array


def _picked(round_: Round, values: Any, nonces: Words) -> tuple[Floats, Floats, Floats]:
    array = _values(round_, values, len(nonces))
    place = coordinates_of(round_, nonces)
    low, high = np.array(round_.lower), np.array(round_.upper)
    return array[np.arange(len(place)), place], low[place], high[place]


def unit_values(round_: Round, values: Any, nonces: Words) -> Floats:
    """`clients.domain.unit_value` of many."""
    x, low, high = _picked(round_, values, nonces)
    clipped = np.minimum(np.maximum(x, low), high)
    result = np.clip((clipped - low - (high - clipped)) / (high - low), -1.0, 1.0)
    return np.where(np.isnan(x), 0.0, result)


def item_indices(round_: Round, values: Any, nonces: Words) -> Integers:
    """`clients.domain.item` of many; -1 for a null."""
    assert round_.items is not None
    null = -1 if round_.other is None else round_.other
    if round_.bins is not None:
        x, low, high = _picked(round_, values, nonces)
        clipped = np.minimum(np.maximum(x, low), high)
        place = np.where(np.isnan(x), 0.0, (clipped - low) / (high - low) * round_.bins)
        result = np.minimum(place.astype(np.int64), round_.bins - 1)
        return np.where(np.isnan(x), -1, result)
    array = np.asarray(values)
    if array.dtype.kind in "iu":
        known = (array >= 0) & (array < round_.items)
        return np.where(known, array, null).astype(np.int64)
    array = array.astype(np.float64)
    known = (array >= 0) & (array < round_.items) & (array == np.floor(array))
    return np.where(known, np.where(known, array, 0).astype(np.int64), null)
