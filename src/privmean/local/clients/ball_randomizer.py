"""Randomizer of a vector in an l2 ball: the one-bit form of the hemisphere mechanism.

Proofs: docs/proofs/local-ball.md.
"""

from __future__ import annotations

import hashlib
import math
import struct
from fractions import Fraction

from privmean.local.clients.coerce_value import direction
from privmean.local.entropy import Entropy, normals
from privmean.local.exact_coins import chance_threshold, flip_threshold
from privmean.local.mechanisms import BALL_BIT
from privmean.local.round import Round


def pole(round_: Round, value: object, entropy: Entropy) -> list[float]:
    """V: a unit vector with E[r V] = x, drawn as u with probability 1/2 + rho/(2r), else -u."""
    u, share = direction(round_, value)
    if entropy.word() < chance_threshold(0.5 + 0.5 * share):
        return u
    return [-item for item in u]


def noisy_side(epsilon: Fraction, centre: list[float], u: list[float], entropy: Entropy) -> int:
    """The side of the hemisphere that holds the pole, flipped with probability 1/(1 + e^eps)."""
    side = 1 if math.fsum(a * b for a, b in zip(u, centre, strict=True)) >= 0 else -1
    return -side if entropy.word() < flip_threshold(epsilon) else side


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


def ball_bit(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """Hemisphere mechanism with a public direction: only the sign is sent."""
    assert round_.dimension is not None
    data = public_words(round_, nonce)
    centre = pole(round_, value, entropy)
    u = normals(list(struct.unpack(f"<{len(data) // 8}Q", data)))[: round_.dimension]
    return b"\x01" if noisy_side(round_.menu[level], centre, u, entropy) > 0 else b"\x00"


RANDOMIZERS = {BALL_BIT: ball_bit}
