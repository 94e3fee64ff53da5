"""Randomizers of an item: Hadamard rows, a sketch of signs, sets of items.

Proofs: docs/proofs/local-items.md.
"""

from __future__ import annotations

import hashlib
import struct
from fractions import Fraction
from functools import lru_cache

from privmean.local.clients.coerce_value import item
from privmean.local.entropy import WORD, Entropy, below
from privmean.local.exact_coins import flip_threshold, odds_threshold
from privmean.local.mechanisms import CHOSEN, HADAMARD, SKETCH, SUBSET
from privmean.local.round import Round

PERSON = b"hldp-jl-v1"
BLOCK = 512


def sign_block(seed: bytes, column: int, block: int) -> bytes:
    """512 signs of a column of the sketch: rows 512 block to 512 block + 511."""
    data = struct.pack("<QI", column, block)
    return hashlib.blake2b(data, digest_size=64, key=seed, person=PERSON).digest()


def sketch_sign(seed: bytes, row: int, column: int) -> int:
    """s(row, column) = +1 or -1."""
    block, k = divmod(row, BLOCK)
    return 1 - 2 * ((sign_block(seed, column, block)[k >> 3] >> (k & 7)) & 1)


def hadamard_sign(row: int, column: int) -> int:
    """(-1)^(number of common ones)."""
    return 1 - 2 * ((row & column).bit_count() & 1)


def row_bit(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """One bit: the sign of the item in a row drawn without looking at it, by randomized response.

    A null sends a uniform bit.
    """
    assert round_.rows is not None
    chosen = round_.row_choice == CHOSEN
    row = below(entropy, round_.rows) if chosen else round_.row(nonce)
    v = item(round_, value, nonce)
    word = entropy.word()
    if v is None:
        bit = int(word < WORD // 2)
    else:
        hadamard = round_.mechanism == HADAMARD
        sign = hadamard_sign(row, v) if hadamard else sketch_sign(round_.seed, row, v)
        bit = int(sign > 0) ^ int(word < flip_threshold(round_.menu[level]))
    return (struct.pack("<I", row) if chosen else b"") + bytes([bit])


def pack(bits: list[bool]) -> bytes:
    """Bit v of the result is bit v mod 8 of byte v div 8."""
    result = bytearray((len(bits) + 7) // 8)
    for v, bit in enumerate(bits):
        result[v >> 3] |= bit << (v & 7)
    return bytes(result)


@lru_cache(maxsize=1024)
def subset_size(epsilon: Fraction, items: int) -> int:
    """k = d/(e^epsilon + 1), at least 1 (then it is k-ary randomized response)."""
    share = Fraction(flip_threshold(epsilon), WORD)
    return min(max(1, round(items * share)), items - 1)


@lru_cache(maxsize=1024)
def subset_threshold(epsilon: Fraction, items: int) -> int:
    """The own item is in the set iff word < this."""
    size = subset_size(epsilon, items)
    return odds_threshold(epsilon, size, items - size)


def subset(round_: Round, level: int, value: object, nonce: bytes, entropy: Entropy) -> bytes:
    """Subset selection (Ye and Barg 2018): a set of k items, the own one favoured by e^epsilon.

    Given whether the own item is in, the others are a uniform choice. A null plays a uniform item.
    """
    assert round_.items is not None
    items, epsilon = round_.items, round_.menu[level]
    v = item(round_, value, nonce)
    if v is None:
        v = below(entropy, items)
    inside = entropy.word() < subset_threshold(epsilon, items)
    needed = subset_size(epsilon, items) - inside
    bits = [False] * items
    bits[v] = inside
    for k in range(items):  # sequential choice without replacement, exact
        if k == v:
            continue
        left = items - k - (1 if k < v else 0)
        if below(entropy, left) < needed:
            bits[k] = True
            needed -= 1
    return pack(bits)


RANDOMIZERS = {
    SKETCH: row_bit,
    HADAMARD: row_bit,
    SUBSET: subset,
}
