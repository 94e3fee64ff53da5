"""The numbers a bill entry may hold: positive, finite, exact where they are exact."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Rational
from typing import SupportsFloat, SupportsInt, cast

from privmean.errors import ArgumentError

LARGEST_EXPONENT = 700.0  # exp of more overflows a double
LARGEST_LOSS = 1e100  # no promise is near it, and its square is still a double


def refused(name: str, value: object, problem: str) -> ArgumentError:
    """The error for a bill entry that no mechanism can have."""
    return ArgumentError(name, value, problem, "a bill entry states the numbers of its mechanism")


def positive_fraction(name: str, value: object) -> Fraction:
    """An exact positive rational from a Fraction, an integer, a double or text such as "7/3"."""
    if type(value) is Fraction and value.numerator > 0:  # nearly always: the rest takes its time
        return value
    if isinstance(value, bool) or (isinstance(value, str) and len(value) > 4000):
        raise refused(name, value, "is not a number")
    try:
        result = Fraction(cast(Rational | str, value))
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise refused(name, value, "is not a finite number") from None
    if result <= 0:
        raise refused(name, value, "must be greater than 0")
    return result


def positive_float(name: str, value: object) -> float:
    """A finite double greater than zero."""
    if type(value) is float and 0.0 < value < math.inf:
        return value
    if isinstance(value, bool | str):
        raise refused(name, value, "is not a number")
    try:
        result = float(cast(SupportsFloat, value))
    except (TypeError, ValueError, OverflowError):
        raise refused(name, value, "is not a number") from None
    if not (math.isfinite(result) and result > 0):
        raise refused(name, value, "must be finite and greater than 0")
    return result


def count(name: str, value: object) -> int:
    """A whole number of at least one."""
    if type(value) is int and value >= 1:
        return value
    if (
        isinstance(value, bool)
        or not hasattr(value, "__index__")
        or int(cast(SupportsInt, value)) < 1
    ):
        raise refused(name, value, "must be a whole number of at least 1")
    return int(cast(SupportsInt, value))
