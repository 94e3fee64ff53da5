"""Randomizers of a vector in an l2 ball: the hemisphere mechanism, its one-bit form, PrivUnit.

Proofs: docs/proofs/local-ball.md.
"""

from __future__ import annotations

import hashlib
import math
import random
import struct

from privmean.local.clients.cap_geometry import cap_law
from privmean.local.clients.coerce_value import direction
from privmean.local.entropy import Entropy, normals
from privmean.local.exact_coins import chance_threshold, flip_threshold
from privmean.local.mechanisms import BALL, BALL_BIT, PRIV_UNIT
from privmean.local.round import Round


def pole(round_: Round, value: object, entropy: Entropy) -> list[float]:
    """V: a unit vector with E[r V] = x, drawn as u with probability 1/2 + rho/(2r), else -u."""
    u, share = direction(round_, value)
    if entropy.word() < chance_threshold(0.5 + 0.5 * share):
        return u
    return [-item for item in u]


def _sign(round_: Round, level: int, centre: list[float], u: list[float], entropy: Entropy) -> int:
    """The side of the hemisphere that holds the pole, flipped with probability 1/(1 + e^eps)."""
    side = 1 if math.fsum(a * b for a, b in zip(u, centre, strict=True)) >= 0 else -1
    return -side if entropy.word() < flip_threshold(round_.menu[level]) else side


def unit(vector: list[float]) -> list[float]:
    """The vector divided by its norm (the first axis if that is zero)."""
    norm = math.sqrt(math.fsum(item * item for item in vector))
    if norm == 0.0:
        return [1.0] + [0.0] * (len(vector) - 1)
    return [item / norm for item in vector]


def public_words(round_: Round, nonce: bytes) -> bytes:
    """The public random bytes from which client and server make the same direction."""
    assert round_.dimension is not None
    size = 8 * (round_.dimension + round_.dimension % 2)
    return hashlib.shake_128(b"privmean-ball" + round_.seed + nonce).digest(size)


def ball(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """Hemisphere mechanism (Duchi, Jordan and Wainwright 2018): the direction is the client's.

    Sends the unit vector as 32-bit floats; the server multiplies it by B.
    """
    assert round_.dimension is not None
    size = round_.dimension
    centre = pole(round_, value, entropy)
    words = [entropy.word() for _ in range(size + size % 2)]
    u = unit(normals(words)[:size])
    sign = _sign(round_, level, centre, u, entropy)
    return struct.pack(f"<{size}f", *(sign * item for item in u))


def ball_bit(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """Hemisphere mechanism with a public direction: only the sign is sent."""
    assert round_.dimension is not None
    data = public_words(round_, nonce)
    centre = pole(round_, value, entropy)
    u = normals(list(struct.unpack(f"<{len(data) // 8}Q", data)))[: round_.dimension]
    return b"\x01" if _sign(round_, level, centre, u, entropy) > 0 else b"\x00"


class _Generator(random.Random):
    """Python's distributions on the words of an `Entropy`."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        super().__init__()

    def random(self) -> float:
        return (self._entropy.word() >> 11) * 2.0**-53

    def seed(self, *_: object, **__: object) -> None:
        return None

    def getrandbits(self, k: int, /) -> int:
        return int.from_bytes(self._entropy.bytes((k + 7) // 8), "little") >> (-k % 8)


def priv_unit(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """PrivUnit (Bhowmick et al. 2018): a cap around V instead of a hemisphere. IDEALISED.

    The chance of the cap is an exact integer coin; where in the cap the report lies is drawn with
    floating-point numbers, whose last digits may depend on V.
    """
    assert round_.dimension is not None
    size, law = round_.dimension, cap_law(round_.menu[level], round_.caps[level], round_.dimension)
    centre = pole(round_, value, entropy)
    generator = _Generator(entropy)
    inside = entropy.word() < law.threshold
    height = law.inside(generator) if inside else law.outside(generator)
    u = [generator.gauss(0.0, 1.0) for _ in range(size)]
    along = math.fsum(a * b for a, b in zip(u, centre, strict=True))
    across = unit([a - along * b for a, b in zip(u, centre, strict=True)])
    rest = math.sqrt(max(0.0, 1.0 - height * height))
    z = unit([height * a + rest * b for a, b in zip(centre, across, strict=True)])
    return struct.pack(f"<{size}f", *z)


RANDOMIZERS = {BALL: ball, BALL_BIT: ball_bit, PRIV_UNIT: priv_unit}
