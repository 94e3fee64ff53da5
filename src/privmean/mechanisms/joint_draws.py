"""Noise for many answers of one release: equal scales are drawn together where that pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from privmean.array_types import Integers

Scale = TypeVar("Scale")
TOGETHER = 8  # equal scales of one release from which they are drawn in one call


def drawn_each(draw: Callable[[int, Scale], Integers], scales: Sequence[Scale]) -> list[int]:
    """One independent draw for each scale, in the order of `scales`.

    draw: a method of `Noise`. How they are grouped follows from the scales alone. Few answers are
    drawn one by one in their order, so that a seed gives them the same noise in any company.
    """
    counts = Counter(scales)
    ready = {
        scale: iter(draw(count, scale).tolist())
        for scale, count in counts.items()
        if count >= TOGETHER
    }
    return [
        next(ready[scale]) if scale in ready else draw(1, scale).tolist()[0] for scale in scales
    ]
