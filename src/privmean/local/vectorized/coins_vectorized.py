"""Exact coins and uniform integers, vectorised."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean.array_types import Integers
from privmean.local.entropy import WORD
from privmean.local.round import Round
from privmean.noise.noise_source import Noise

Levels = npt.NDArray[np.uint16]

HALF = np.uint64(WORD // 2)


def by_level(
    round_: Round, rule: Callable[[Fraction], float], levels: Levels, dtype: npt.DTypeLike
) -> Any:
    """rule(epsilon) of each report; one number if the menu has one level."""
    table = np.array([rule(item) for item in round_.menu], dtype=dtype)
    return table[0] if len(table) == 1 else table[levels]


def below_many(noise: Noise, size: int, bound: int) -> Integers:
    """`size` uniform integers from 0 to bound - 1, bound at most 2^32, exactly (Lemire 2019)."""
    words = noise.bits64(size)
    low, high, wide = words & np.uint64(0xFFFFFFFF), words >> np.uint64(32), np.uint64(bound)
    middle = high * wide + ((low * wide) >> np.uint64(32))
    result = (middle >> np.uint64(32)).astype(np.int64)
    with np.errstate(over="ignore"):
        again = np.flatnonzero(words * wide < np.uint64(WORD % bound))
    if len(again):
        result[again] = below_many(noise, len(again), bound)
    return result


def below_each(noise: Noise, bounds: Integers) -> Integers:
    """A uniform integer below each bound, exactly, from 32-bit words."""
    number = len(bounds)
    words = noise.bits64((number + 1) // 2).view(np.uint32)[:number].astype(np.uint64)
    wide = np.maximum(bounds, 1).astype(np.uint64)
    product = words * wide
    result = (product >> np.uint64(32)).astype(np.int64)
    rest = product & np.uint64(0xFFFFFFFF)
    again = np.flatnonzero(rest < wide)  # the remainder is smaller, and takes long to find
    again = again[rest[again] < np.uint64(2**32) % wide[again]]
    if len(again):
        result[again] = below_each(noise, bounds[again])
    return result
