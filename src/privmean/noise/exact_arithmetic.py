"""Arithmetic without a rounded decision: the exponential of a rational number between integers, and
comparisons that it decides exactly (docs/proofs/bulk-noise.md, sections 3 and 4); decimal numbers
of so many digits.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from privmean.array_types import Words

Source: TypeAlias = "Callable[[int], Words]"  # that many uniform 64-bit words, native byte order
Bounds = tuple[int, int]  # a number times a power of 2 lies between them

DIGIT = 64  # bits of a uniform number that come with each word
GUARD = 32  # bits of an exponential beyond those of the number that it is compared with


def exp_minus(x: Fraction, places: int) -> Bounds:
    """Integers (low, high) with low <= 2^places exp(-x) <= high, for a rational x >= 0."""
    if x < 0:
        raise ValueError("exp_minus needs x >= 0")
    if x == 0:
        return 1 << places, 1 << places
    halvings = (2 * x.numerator // x.denominator).bit_length()  # x / 2^halvings <= 1/2
    precision = places + halvings + GUARD
    y = (x.numerator << precision) // (x.denominator << halvings)
    value, term, terms = 1 << precision, 1 << precision, 0
    while term:  # the series of exp(-y), each term rounded down
        terms += 1
        term = (term * y >> precision) // terms
        value += term if terms % 2 == 0 else -term
    error = 2 * terms + 5
    low, high = value - error, min(value + error, 1 << precision)
    for _ in range(halvings):
        low, high = low * low >> precision, (high * high >> precision) + 1
    drop = precision - places
    return low >> drop, (high >> drop) + 1


def product(one: Bounds, other: Bounds, places: int) -> Bounds:
    """Bounds of a product of two numbers of at least 0, all with `places` bits."""
    return one[0] * other[0] >> places, (one[1] * other[1] >> places) + 1


def under_curve(first: int, level: int, peak: Fraction | int, x: Fraction, words: Source) -> bool:
    """Whether level + U < peak exp(-x), for U uniform on [0, 1) with the first digit `first`.

    More digits of U are drawn until intervals decide; nothing is rounded into a decision.
    """
    top, bottom = peak.as_integer_ratio()
    room = GUARD + max(top.bit_length() - bottom.bit_length(), 0)
    digits, bits = first, DIGIT
    while True:
        low, high = exp_minus(x, bits + room)
        least = (level << bits) + digits
        if bottom * (least + 1) << room <= top * low:
            return True
        if bottom * least << room >= top * high:
            return False
        digits = (digits << DIGIT) + int(words(1)[0])
        bits += DIGIT


def plain_context(digits: int, rounding: str = ROUND_HALF_EVEN) -> Context:
    """So many digits, no limit of exponents within reach, nothing raised. Whatever is left out here
    would come from `decimal.DefaultContext`, which the caller may have changed."""
    return Context(digits, rounding, MIN_EMIN, MAX_EMAX, capitals=1, clamp=0, flags=[], traps=[])
