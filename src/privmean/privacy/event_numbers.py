"""Numbers of privacy events, and the correction of a lattice.

The numbers an accounting entry may hold: positive, finite, exact where they are exact.

What a discrete Gaussian costs beyond the continuous one: its lattice, in three corrections.

Of `answers` coordinates on a lattice of `scale` steps a deviation. Proof:
docs/proofs/discrete-gaussian.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Rational
from operator import index
from typing import NamedTuple, SupportsFloat, SupportsIndex, cast

from privmean.errors import ArgumentError

LARGEST_EXPONENT = 700.0  # exp of more overflows a double
LARGEST_LOSS = 1e100  # no guarantee is near it, and its square is still a double
# No mechanism has a number beyond it: squares and products of two are doubles, and a stored bill
# cannot ask for arithmetic that never ends.
LARGEST = 10**100
LONGEST_TEXT = 4000
LONGEST_EXPONENT = 4  # signs of it in a text
BEYOND = "is beyond the numbers of any mechanism"


def refused(name: str, value: object, problem: str) -> ArgumentError:
    """The error for an accounting entry that no mechanism can have."""
    return ArgumentError(name, value, problem, "give the numbers of the mechanism")


def positive_fraction(name: str, value: object) -> Fraction:
    """An exact positive rational from a Fraction, an integer, a double or text such as "7/3"."""
    if type(value) is Fraction and value.numerator > 0:  # nearly always: the rest takes its time
        return _within(name, value, value)
    if isinstance(value, bool) or (isinstance(value, str) and not _short(value)):
        raise refused(name, value, "is not a number")
    try:
        result = Fraction(cast(Rational | str, value))
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise refused(name, value, "is not a finite number") from None
    if result <= 0:
        raise refused(name, value, "must be greater than 0")
    return _within(name, value, result)


def _short(text: str) -> bool:
    """Whether a text is short, and so is the number that it stands for: an exponent of nine digits
    is a number that fills the memory."""
    _, mark, exponent = text.lower().partition("e")
    return len(text) <= LONGEST_TEXT and (not mark or len(exponent) <= LONGEST_EXPONENT)


def positive_float(name: str, value: object) -> float:
    """A finite double greater than zero."""
    if type(value) is float and 0.0 < value <= LARGEST_LOSS:
        return value
    if isinstance(value, bool | str):
        raise refused(name, value, "is not a number")
    try:
        result = float(cast(SupportsFloat, value))
    except (TypeError, ValueError, OverflowError):
        raise refused(name, value, "is not a number") from None
    if not (math.isfinite(result) and result > 0):
        raise refused(name, value, "must be finite and greater than 0")
    if result > LARGEST_LOSS:
        raise refused(name, value, BEYOND)
    return result


def count(name: str, value: object) -> int:
    """A whole number of at least one."""
    if type(value) is int and 1 <= value <= LARGEST:
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise refused(name, value, "must be a whole number of at least 1")
    number = index(cast(SupportsIndex, value))
    if number < 1:
        raise refused(name, value, "must be a whole number of at least 1")
    if number > LARGEST:
        raise refused(name, value, BEYOND)
    return number


def _within(name: str, value: object, result: Fraction) -> Fraction:
    """The same, unless it or its inverse is beyond the numbers of any mechanism."""
    above, below = result.numerator, result.denominator
    if above > LARGEST * below or below > LARGEST * above:
        raise refused(name, value, BEYOND)
    return result


class Correction(NamedTuple):
    """What is paid beyond the curve of a Gaussian part: epsilon that adds, what its delta is
    multiplied with, and delta that adds where the curve is used."""

    epsilon: float = 0.0
    factor: float = 1.0
    tail: float = 0.0


def correction(mu: float, scale: float, answers: int) -> Correction:
    """That of discrete Gaussian noise of `mu`. Below one step a deviation no curve is claimed."""
    return Correction(
        answers * min((12 + mu) / scale, LARGEST_LOSS) ** 2 / 12,
        math.exp(min(answers / 12 / scale / scale, LARGEST_EXPONENT)),
        answers * 5e-32 if scale >= 1 else 1.0,
    )
