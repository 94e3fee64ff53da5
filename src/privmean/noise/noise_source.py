"""The one interface through which noise enters: integers in, integers out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

# Draws are 64-bit: at this scale a tail of 40 scales is still below 2^62.
LARGEST_SCALE = 2.0**56


class Noise(Protocol):
    """A source of integer noise.

    `secure` is True only for exact samplers fed by the operating system's entropy. Releases carry
    it, so that a simulation is never mistaken for a release.
    """

    @property
    def secure(self) -> bool: ...

    def laplace(self, size: int, scale: Fraction) -> Integers:
        """`size` draws of the discrete Laplace law P(k) proportional to exp(-|k|/scale)."""
        ...

    def gaussian(self, size: int, scale: float) -> Integers:
        """`size` draws of the discrete Gaussian law P(k) proportional to exp(-k^2/(2 scale^2))."""
        ...

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        """The index of the largest score plus Exponential(scale) noise (permute-and-flip law).

        With scores of sensitivity D (each moves by at most D, in any direction) the choice is
        (2 D/scale)-DP; if all move the same way it is (D/scale)-DP.
        """
        ...

    def bits64(self, size: int) -> Words:
        """`size` uniform 64-bit words."""
        ...

    def below(self, size: int, bound: int) -> Integers:
        """`size` integers, exactly uniform on 0, ..., bound - 1 (bound at most 2^63)."""
        ...

    def bernoulli(self, size: int, probability: Fraction) -> Flags:
        """`size` coins that are true with exactly this rational probability, 0 and 1 included."""
        ...


class FromBits(ABC):
    """The exact draws that need nothing but uniform words."""

    @abstractmethod
    def bits64(self, size: int) -> Words: ...

    def below(self, size: int, bound: int) -> Integers:
        if not 1 <= bound <= 2**63:
            raise ValueError(f"bound {bound!r} is outside [1, 2^63]")
        largest = 2**64 - 2**64 % bound - 1  # the words up to here fall evenly on the remainders
        words = self.bits64(size)
        while (over := words > np.uint64(largest)).any():
            words = words.copy()
            words[over] = self.bits64(int(np.count_nonzero(over)))
        return (words % np.uint64(bound)).astype(np.int64)

    def bernoulli(self, size: int, probability: Fraction) -> Flags:
        if not 0 <= probability <= 1:
            raise ValueError(f"probability {probability!r} is outside [0, 1]")
        result = np.zeros(size, dtype=np.bool_)
        undecided = np.arange(size)
        rest, denominator = probability.numerator, probability.denominator
        # a uniform real in base 2^64 is compared with the probability, digit by digit
        while undecided.size:
            digit, rest = divmod(rest << 64, denominator)
            if digit == 2**64:
                result[undecided] = True
                break
            words = self.bits64(undecided.size)
            result[undecided[words < np.uint64(digit)]] = True
            undecided = undecided[words == np.uint64(digit)] if rest else undecided[:0]
        return result
