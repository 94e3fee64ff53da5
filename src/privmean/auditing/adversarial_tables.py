"""Numbers made to hurt: where a sensitivity is reached, or a branch is hidden.

Infinities, the largest and the smallest doubles, edges of logarithmic bins, and the limits that the
recorded run asked with, each with the double below and above it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

import numpy as np

from privmean.auditing.transcript import Answered, Transcript

STRANGE = (
    math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -5e-324, 0.0, -0.0, 2.0**40, -(2.0**40),
    math.nextafter(2.0**40, 0), 2.0**-40, math.nextafter(2.0**-40, 0), 1e18, -1e18, 1.0, -1.0,
)  # fmt: skip
MOST_EDGES = 400


def edges(tape: Transcript) -> list[float]:
    """Numbers that the recorded run asked with (limits, origins, centres and radii around them),
    and their neighbours among the doubles."""
    found: dict[float, None] = {}
    for item in tape.events:
        numbers = list(_numbers(item.mechanism)) if isinstance(item, Answered) else []
        for number in numbers[:64]:
            found[number] = None
        for first in numbers[:8]:
            for second in numbers[:8]:
                found[first + second] = None
                found[first - second] = None
        if len(found) > MOST_EDGES:
            break
    listed = [item for item in found if math.isfinite(item)][:MOST_EDGES]
    beside = [math.nextafter(item, way) for item in listed for way in (-math.inf, math.inf)]
    return listed + beside


def _numbers(value: object) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            yield from value.ravel()[:64].tolist()
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _numbers(item)
    elif is_dataclass(value):
        for item in fields(value):
            yield from _numbers(getattr(value, item.name))
