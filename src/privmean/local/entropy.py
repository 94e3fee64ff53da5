"""Where a client's randomness comes from: the operating system, or a seed marked unsafe.

Pure Python, so that a client needs no numerical library.
"""

from __future__ import annotations

import math
import os
import random
from operator import index
from typing import Protocol

from privmean.errors import ArgumentError

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

    @property
    def secure(self) -> bool:
        return True

    def word(self) -> int:
        return int.from_bytes(os.urandom(8), "little")

    def bytes(self, size: int) -> bytes:
        return os.urandom(size)


class SimulatedEntropy:
    """Reproducible words from a seed. NOT PRIVATE: for tests and studies only."""

    def __init__(self, seed: int) -> None:
        # Python takes a seed and its negative for one, and texts of any kind
        try:
            number = -1 if isinstance(seed, bool) else index(seed)
        except TypeError:
            number = -1
        if number < 0:
            raise ArgumentError("seed", seed, "is not a seed", "give a whole number of at least 0")
        self._random = random.Random(number)

    @property
    def secure(self) -> bool:
        return False

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
