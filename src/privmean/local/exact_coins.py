"""Exact random draws on a client: integer thresholds for uniform 64-bit words, and their source.

A coin comes up iff word < threshold. Thresholds are computed with 100 digits and rounded to the
side on which the ratio of probabilities stays at most e^epsilon, so the guarantee holds for the
integers that are really used. Words come from the operating system, or from a seed marked unsafe.
Pure Python, so that a client needs no numerical library.
"""

from __future__ import annotations

import decimal
import math
import os
import random
import re
from fractions import Fraction
from functools import lru_cache
from operator import index
from typing import Protocol

from privmean.errors import ArgumentError
from privmean.noise.exact_arithmetic import plain_context

WORD = 2**64


class Entropy(Protocol):
    """A source of uniform 64-bit words. `secure` is False for anything reproducible."""

    @property
    def secure(self) -> bool: ...

    def word(self) -> int:
        """A uniform integer from 0 to 2^64 - 1."""
        ...

    def bytes(self, size: int) -> bytes:
        """`size` uniform bytes."""
        ...


class SystemEntropy:
    """The operating system's cryptographic generator: what every real client uses."""

    secure = True

    def word(self) -> int:
        return int.from_bytes(os.urandom(8), "little")

    def bytes(self, size: int) -> bytes:
        return os.urandom(size)


class SimulatedEntropy:
    """Reproducible words from a seed. NOT PRIVATE: for tests and studies only."""

    secure = False

    def __init__(self, seed: int) -> None:
        # Python takes a seed and its negative for one, and texts of any kind
        try:
            number = -1 if isinstance(seed, bool) else index(seed)
        except TypeError:
            number = -1
        if number < 0:
            raise ArgumentError("seed", seed, "is not a seed", "give a whole number of at least 0")
        self._random = random.Random(number)

    def word(self) -> int:
        return self._random.getrandbits(64)

    def bytes(self, size: int) -> bytes:
        return self._random.randbytes(size)


def below(entropy: Entropy, bound: int) -> int:
    """A uniform integer from 0 to bound - 1, exactly (rejection; Lemire 2019 below 2^64)."""
    if bound <= WORD:
        while True:
            product = entropy.word() * bound
            if product % WORD >= WORD % bound:
                return product // WORD
    bits = (bound - 1).bit_length()
    while True:
        value = 0
        for _ in range(0, bits, 64):
            value = (value << 64) | entropy.word()
        value >>= -bits % 64
        if value < bound:
            return value


def normals(words: list[int]) -> list[float]:
    """Standard normals from an even number of uniform words (Box and Muller 1958).

    Only for directions that no private value touches, so that rounding cannot leak.
    """
    result: list[float] = []
    for first, second in zip(words[0::2], words[1::2], strict=True):
        radius = math.sqrt(-2.0 * math.log(((first >> 11) + 1) * 2.0**-53))
        angle = 2.0 * math.pi * ((second >> 11) * 2.0**-53)
        result += [radius * math.cos(angle), radius * math.sin(angle)]
    return result


SMALLEST_EPSILON = Fraction(1, 1000)
LARGEST_EPSILON = Fraction(16)

# Text of other forms is refused before it is computed: "1e999999999" would take all memory.
_NUMBER = re.compile(
    r"[0-9]{1,50}/[0-9]{1,50}|([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,2})?"
)

_DIGITS, _CEILING = plain_context(100), plain_context(100, decimal.ROUND_CEILING)
# Far above the error of 100 digits at 2^64, far below anything that matters.
_SLACK = decimal.Decimal("1e-60")


def exact_epsilon(name: str, value: object) -> Fraction:
    """epsilon as an exact fraction inside the range where local reports mean anything.

    Floats are read by their shortest decimal form (0.1 is one tenth). The range is 0.001 to 16:
    below, a report carries nothing; above, it protects nothing.
    """
    remedy = f"give a number from {float(SMALLEST_EPSILON):g} to {float(LARGEST_EPSILON):g}"
    if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction):
        raise ArgumentError(name, value, "is not a number", remedy)
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        raise ArgumentError(name, value, "is not a plain number", remedy)
    try:
        epsilon = Fraction(repr(float(value))) if isinstance(value, float) else Fraction(value)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ArgumentError(name, value, "is not a finite number", remedy) from None
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise ArgumentError(name, value, "must lie in the range of local reports", remedy)
    if epsilon.denominator > 10**45:
        raise ArgumentError(name, value, "has too many digits", "round it")
    return epsilon


@lru_cache(maxsize=4096)
def power_of_e(epsilon: Fraction) -> decimal.Decimal:
    """e^epsilon to 100 digits."""
    exponent = _DIGITS.divide(
        decimal.Decimal(epsilon.numerator), decimal.Decimal(epsilon.denominator)
    )
    return _DIGITS.exp(exponent)


def decayed(size: int, epsilon: Fraction) -> int:
    """The integer nearest to size/e^epsilon (never a tie: e^epsilon is irrational)."""
    quotient = _DIGITS.divide(decimal.Decimal(size), power_of_e(epsilon))
    return int(quotient.to_integral_value(context=_DIGITS))


@lru_cache(maxsize=4096)
def flip_threshold(epsilon: Fraction) -> int:
    """T(epsilon) = ceil(2^64/(1 + e^epsilon)): a bit is flipped iff word < T.

    Rounding up keeps (2^64 - T)/T at most e^epsilon.
    """
    share = _DIGITS.divide(decimal.Decimal(WORD), _DIGITS.add(1, power_of_e(epsilon)))
    return _ceiling(share)


@lru_cache(maxsize=4096)
def odds_threshold(epsilon: Fraction, favoured: int, other: int) -> int:
    """The largest N with N/(2^64 - N) at most e^epsilon favoured/other.

    The chance N/2^64 of landing among `favoured` outcomes, each e^epsilon times as likely as each
    of the `other` ones.
    """
    weight = _DIGITS.multiply(power_of_e(epsilon), decimal.Decimal(favoured))
    total = _DIGITS.add(weight, decimal.Decimal(other))
    rest = _DIGITS.divide(_DIGITS.multiply(decimal.Decimal(WORD), decimal.Decimal(other)), total)
    return WORD - _ceiling(rest)


def _ceiling(share: decimal.Decimal) -> int:
    lifted = _CEILING.add(share, _SLACK)
    return int(lifted.to_integral_value(context=_CEILING))


def signal(epsilon: Fraction | float) -> float:
    """t = tanh(epsilon/2) = 1/c: the factor by which randomized response shrinks a bit."""
    return math.tanh(float(epsilon) / 2)


def chance_threshold(chance: float) -> int:
    """round(2^64 chance), clamped to 0..2^64. Fine enough for unbiased rounding."""
    return min(max(round(chance * WORD), 0), WORD)
