"""The least number that is enough, and where a condition turns: the searches of all rooms."""

from __future__ import annotations

import math
from collections.abc import Callable

MOST = 10**12  # people beyond which nobody is asked


def smallest_int(
    enough: Callable[[int], bool], first: int = 1, *, most: int = MOST, within: float = 0.0
) -> int | None:
    """The smallest whole number from `first` up to `most` that is enough; None if none is.

    `enough` is taken to stay true once it is. Doubling, then bisection that always moves; it stops
    early where the answer is at most a share `within` above the smallest number.
    """
    low, high = first - 1, max(first, 1)
    while not enough(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > max(1, within * low):
        middle = low + (high - low) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def smallest_real(enough: Callable[[float], bool], first: float, *, most: float) -> float | None:
    """The same for a positive amount: within 2% above the smallest that is enough."""
    if enough(first):
        return first
    low, high = first, first
    while not enough(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    for _ in range(math.ceil(math.log2(math.log(2) / math.log1p(0.02)))):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def bisect(
    holds: Callable[[float], bool], low: float, high: float, rounds: int = 1200
) -> tuple[float, float]:
    """Ends between which `holds` turns, true below and false above: halved so many times, or until
    no double lies between them."""
    for _ in range(rounds):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def bisect_ratio(
    holds: Callable[[float], bool], low: float, high: float, ratio: float
) -> tuple[float, float]:
    """The same for positive numbers: halved on a logarithmic scale until their ratio is at most
    `ratio`."""
    while high / low > ratio:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
