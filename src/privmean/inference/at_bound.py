"""Estimates at a public bound: what can be said where nobody is seen away from it.

Values that lie beyond a bound count as the bound. If all of them do (bounds in other units, say),
the released sums are those of a column whose values all equal the bound: nothing released tells
the two apart, and the interval is open on that side. Reads noisy numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from privmean.inference.interval import Interval

SEEN = 5.0  # noise scales: people away from a bound who do not show


class TypeBounds(tuple[float, float]):
    """A pair of bounds that the declared type of a column implies, as close as bounds of values can
    be: values are clipped to them, and no value lies beyond."""

    __slots__ = ()


BOOLEAN = TypeBounds((0.0, 1.0))


@dataclass(frozen=True)
class Reached:
    """Noisy sums over people of z in [-1, 1] and of z^2, the number of people, and scales of noise:
    of the sum at a bound (`scales`) and of the squares."""

    value: float
    square: float
    n: float
    scales: Sequence[float]
    square_scale: float

    @property
    def side(self) -> int:
        """-1 (lower) or 1 (upper) if nobody is seen away from that bound, else 0.

        At a bound both the sum and the sum of squares are those of all people. The squares tell
        values between the bounds from it, the sum tells those at the other bound.
        """
        noise = math.hypot(*self.scales)
        away = self.n - abs(self.value) > SEEN * noise
        between = self.n - self.square > SEEN * math.hypot(noise, self.square_scale)
        if away or between:
            return 0
        return 1 if self.value > 0 else -1


def opened(ends: tuple[float, float], side: int) -> tuple[float, float]:
    """The interval without its end on that side."""
    lower, upper = ends
    return (-math.inf if side < 0 else lower), (math.inf if side > 0 else upper)


def opened_at(made: Interval, sides: Sequence[int]) -> Interval:
    """The intervals of several columns without their ends on these sides."""
    pairs = [
        opened(ends, side)
        for ends, side in zip(zip(made.lower, made.upper, strict=True), sides, strict=True)
    ]
    return replace(made, lower=tuple(a for a, _ in pairs), upper=tuple(b for _, b in pairs))


def at_bound_advice(side: int, bounds: tuple[float, float], column: str = "") -> str:
    """What a release says of an estimate at a bound."""
    name, bound = ("upper", bounds[1]) if side > 0 else ("lower", bounds[0])
    whose = f"{column}: " if column else ""
    return f"{whose}The noise hides everyone who may be away from the {name} bound {bound:g}."
