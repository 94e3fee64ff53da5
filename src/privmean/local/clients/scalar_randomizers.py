"""Randomizers of one number in [-1, 1]: one bit, piecewise, hybrid.

Proofs: docs/proofs/local-scalar.md.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from privmean.local.clients.coerce_value import unit_value
from privmean.local.entropy import WORD, Entropy, below
from privmean.local.exact_coins import (
    chance_threshold,
    decayed,
    flip_threshold,
    odds_threshold,
)
from privmean.local.mechanisms import HYBRID, ONE_BIT, PIECEWISE
from privmean.local.round import Round

INT32 = struct.Struct("<i")

# Above this level the hybrid mechanism uses the piecewise one at all (Wang et al. 2019).
HYBRID_START = Fraction(61, 100)


def bit_threshold(epsilon: Fraction, x: float) -> int:
    """N: the bit is +1 iff word < N. Between T and 2^64 - T for every x in [-1, 1].

    In integers, so that clients in all languages have the same N.
    """
    top, bottom = x.as_integer_ratio()
    return WORD // 2 + round(Fraction(top * (WORD // 2 - flip_threshold(epsilon)), bottom))


def one_bit(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """One-bit mean (Duchi, Jordan and Wainwright 2018): y = +1 with probability (1 + x t)/2."""
    x = unit_value(round_, value, nonce)
    return b"\x01" if entropy.word() < bit_threshold(round_.menu[level], x) else b"\x00"


def grid_point(position: float, word: int) -> int:
    """Unbiased rounding of a real position to an integer."""
    low = math.floor(position)
    return low + (word < chance_threshold(position - low))


@dataclass(frozen=True)
class Window:
    """The piecewise mechanism on the integers -M..M: a window of `width` + 1 likely outcomes.

    threshold/2^64 is the chance of the window; inside and outside the law is uniform. The window's
    center c runs over +-(M - width/2) and E[y] = shrink c.
    """

    size: int
    width: int
    threshold: int

    @property
    def outside(self) -> int:
        return 2 * self.size - self.width

    @property
    def chance(self) -> float:
        return self.threshold / WORD

    @cached_property
    def shrink(self) -> float:
        inside = Fraction(self.threshold, WORD)
        return float(inside - (1 - inside) * Fraction(self.width + 1, self.outside))

    @property
    def unit(self) -> float:
        """The value in [-1, 1] of one step of y."""
        return 1.0 / (self.shrink * (self.size - self.width / 2))

    @property
    def largest(self) -> float:
        """C: the largest value a report can stand for."""
        return self.size * self.unit


@lru_cache(maxsize=1024)
def window(epsilon: Fraction) -> Window:
    """The window of Wang et al. (2019), its share of the outcomes 1/(e^(epsilon/2) + 1)."""
    size = 2**15
    share = Fraction(flip_threshold(epsilon / 2), WORD)
    width = max(0, round((2 * size + 1) * share) - 1)
    return Window(size, width, odds_threshold(epsilon, width + 1, 2 * size - width))


def window_draw(law: Window, start: int, inside: bool, choice: int) -> int:
    """The outcome number `choice` inside or outside the window that starts at `start`."""
    if inside:
        return start + choice
    y = choice - law.size
    return y if y < start else y + law.width + 1


def piecewise_value(epsilon: Fraction, x: float, entropy: Entropy) -> int:
    law = window(epsilon)
    start = grid_point((x + 1) / 2 * law.outside, entropy.word()) - law.size
    inside = entropy.word() < law.threshold
    count = law.width + 1 if inside else law.outside
    return window_draw(law, start, inside, below(entropy, count))


def piecewise(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """Piecewise mechanism (Wang et al. 2019) on a grid, with integer probabilities."""
    x = unit_value(round_, value, nonce)
    return INT32.pack(piecewise_value(round_.menu[level], x, entropy))


@lru_cache(maxsize=1024)
def hybrid_share(epsilon: Fraction) -> int:
    """Of 2^32 public branch numbers, those below this one take the piecewise branch."""
    return 2**32 - decayed(2**32, epsilon / 2) if epsilon > HYBRID_START else 0


def takes_piecewise(round_: Round, level: int, nonce: bytes) -> bool:
    """The branch of the hybrid mechanism: public, from the nonce, the same on both sides."""
    return (round_.selector(nonce) >> 32) < hybrid_share(round_.menu[level])


def hybrid(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """Piecewise with probability 1 - e^(-epsilon/2), else one bit (sent as +1 or -1)."""
    if takes_piecewise(round_, level, nonce):
        return piecewise(round_, level, value, nonce, entropy)
    bit = one_bit(round_, level, value, nonce, entropy) == b"\x01"
    return INT32.pack(1 if bit else -1)


RANDOMIZERS = {ONE_BIT: one_bit, PIECEWISE: piecewise, HYBRID: hybrid}
