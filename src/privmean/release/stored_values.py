"""Reads values of a stored release: numbers, texts, lists and objects, or Malformed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Stored = Mapping[str, Any]
SAME = 1e-9  # relative: a number that is stated twice comes from one computation
LARGEST = 2.0**1000  # a number beyond it is none of a release


class Malformed(ValueError):
    """A part has not the form that a release gives it."""


def number(value: object) -> float | None:
    """A number of a release: finite, or null for one that is not."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Malformed("holds something else than numbers")
    if not abs(value) <= LARGEST:
        raise Malformed("holds a number that no release has")
    return float(value)


def numbers(value: object) -> list[float | None]:
    """A list of them."""
    return [number(item) for item in items(value)]


def items(value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise Malformed("is no list")
    return list(value)


def text(value: object) -> str:
    if not isinstance(value, str):
        raise Malformed("holds something else than text")
    return value


def mapped(value: object) -> Stored:
    if not isinstance(value, Mapping):
        raise Malformed("is no object")
    return value


def same(one: float | None, other: float | None) -> bool:
    """Whether two numbers are one, as far as doubles tell; two nulls are."""
    if one is None or other is None:
        return one is other
    return one == other or math.isclose(one, other, rel_tol=SAME, abs_tol=0.0)


def about(one: float, other: float, size: float, part: float = SAME) -> bool:
    """Whether two results of a sum are one, whose terms are of this size."""
    return not abs(one - other) > part * max(abs(one), abs(other), abs(size))


def within(value: float, low: float | None, high: float | None) -> bool:
    """Whether a number lies between two ends (null: open), up to rounding."""
    size = max(abs(value), *(abs(end) for end in (low, high) if end is not None), 0.0)
    room = SAME * size
    return (low is None or value >= low - room) and (high is None or value <= high + room)
