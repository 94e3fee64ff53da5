"""Discrete Laplace noise by the same work for every draw, from one 256-bit number.

How long a client takes then tells nothing of how large its noise was. Proof:
docs/proofs/local-scalar.md.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from privmean.local.entropy import WORD, Entropy
from privmean.noise.decimal_context import plain_context

BITS = 256  # of the uniform number
GUARD = 384  # of the products that it is compared with
REACH = 60  # noise beyond so many scales is cut with the report: less than 1e-26 of all
SENTINEL = 1 << 10
SHAVED = Fraction(2**64 - 1, 2**64)  # of epsilon: pays for the rounding of the thresholds

_CONTEXT = plain_context(220)


@dataclass(frozen=True)
class NoiseLaw:
    """P(|noise| >= j) is about 2 q^j/(1 + q) with q = e^(-1/scale).

    first: 2/(1 + q) and powers: q^(2^i), i falling to 0, all times 2^GUARD. limit: reports are
    clamped to +-limit, on the grid.
    """

    first: int
    powers: tuple[int, ...]
    limit: int


def _fixed(value: decimal.Decimal) -> int:
    scaled = _CONTEXT.multiply(value, decimal.Decimal(2**GUARD))
    return int(scaled.to_integral_value(decimal.ROUND_FLOOR, _CONTEXT))


@lru_cache(maxsize=1024)
def noise_law(scale: Fraction, steps: int) -> NoiseLaw:
    """The law for values of -steps..steps; scale: in steps of the grid, 2 steps/epsilon."""
    rate = SHAVED / scale
    number = decimal.Decimal(rate.numerator)
    exponent = _CONTEXT.divide(number, decimal.Decimal(rate.denominator))
    limit = min(2**31 - 1, -(-REACH * scale.numerator // scale.denominator) + steps)
    digits = (limit + steps).bit_length()
    powers = tuple(
        _fixed(_CONTEXT.exp(_CONTEXT.multiply(exponent, decimal.Decimal(-(2**i)))))
        for i in reversed(range(digits))
    )
    whole = _CONTEXT.add(1, _CONTEXT.exp(_CONTEXT.minus(exponent)))  # never the caller's context
    return NoiseLaw(_fixed(_CONTEXT.divide(decimal.Decimal(2), whole)), powers, limit)


def magnitude(law: NoiseLaw, uniform: int) -> int:
    """The largest j with uniform < 2^BITS P(|noise| >= j): one product and one comparison a
    binary digit, whatever they say."""
    top = 1 << GUARD
    wanted = (uniform << (GUARD - BITS)) + top
    product, size = law.first + top, SENTINEL  # never short numbers, which are multiplied faster
    for power in law.powers:
        next_ = (product * power >> GUARD) + top - power
        hit = wanted < next_
        product = (product, next_)[hit]
        size = 2 * size + hit
    return size - (SENTINEL << len(law.powers))


def noisy(law: NoiseLaw, point: int, entropy: Entropy) -> int:
    """point + noise, clamped to +-limit. Five words of entropy."""
    uniform = int.from_bytes(entropy.bytes(BITS // 8), "little")
    size = magnitude(law, uniform)
    sign = 1 - 2 * (entropy.word() < WORD // 2)
    return min(max(point + sign * size, -law.limit), law.limit)
