"""Vectors in an l2 ball by the number of a direction: the k-closest code, with integer coins.

Proof: docs/proofs/local-ball.md.
"""

from __future__ import annotations

import hashlib
import math
import struct
from fractions import Fraction
from functools import lru_cache

from privmean.local.clients.ball_randomizer import pole, unit
from privmean.local.entropy import Entropy, below, normals
from privmean.local.exact_coins import odds_threshold
from privmean.local.round import Round

INDEX = struct.Struct("<H")
PERSON = b"privmean-closest"


@lru_cache(maxsize=1024)
def set_threshold(epsilon: Fraction, favoured: int, candidates: int) -> int:
    """The report is one of the favoured candidates iff word < this."""
    return odds_threshold(epsilon, favoured, candidates - favoured)


def candidate_words(round_: Round, nonce: bytes, direction: int) -> bytes:
    """The public random bytes of one direction of a report."""
    assert round_.dimension is not None
    size = 8 * (round_.dimension + round_.dimension % 2)
    return hashlib.shake_128(PERSON + round_.seed + nonce + INDEX.pack(direction)).digest(size)


def direction(round_: Round, nonce: bytes, number: int) -> list[float]:
    """The unit vector number `number` of this nonce; candidate j is this of j div 2, odd j minus
    it."""
    data = candidate_words(round_, nonce, number)
    words = list(struct.unpack(f"<{len(data) // 8}Q", data))
    return unit(normals(words)[: round_.dimension])


def closest_set(heights: list[float], size: int) -> list[int]:
    """The `size` candidates nearest the pole, from the heights of the directions above it.

    Always exactly that many, whatever the heights are: the guarantee needs no more.
    """
    order = sorted(range(len(heights)), key=lambda i: (-abs(heights[i]), i))
    return [2 * i + (heights[i] < 0) for i in order[:size]]


def closest(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """The k-closest code (Isik et al. 2023) over public candidates +-U_i that the nonce gives.

    A favoured candidate is e^epsilon times as likely as another; there are exactly k of them.
    """
    assert round_.candidates is not None
    number, size = round_.candidates, round_.favoured[level]
    centre = pole(round_, value, entropy)
    heights = [
        math.fsum(a * b for a, b in zip(direction(round_, nonce, i), centre, strict=True))
        for i in range(number // 2)
    ]
    favoured = closest_set(heights, size)
    if entropy.word() < set_threshold(round_.menu[level], size, number):
        return INDEX.pack(favoured[below(entropy, size)])
    rest = below(entropy, number - size)
    near = set(favoured)
    return INDEX.pack([j for j in range(number) if j not in near][rest])
