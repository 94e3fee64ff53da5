"""`clients.items`, vectorised."""

from __future__ import annotations

import numpy as np

from privmean.array_types import Bytes, Words
from privmean.local.aggregators.batch import Batch, rows_of
from privmean.local.aggregators.item_law import sketch_signs
from privmean.local.bit_counts import bit_count
from privmean.local.clients.item_randomizers import subset_size, subset_threshold
from privmean.local.exact_coins import flip_threshold
from privmean.local.mechanisms import CHOSEN, HADAMARD
from privmean.local.round import Round
from privmean.local.vectorized.coerce_values import item_indices
from privmean.local.vectorized.coins_vectorized import (
    HALF,
    Levels,
    below_each,
    below_many,
    by_level,
)
from privmean.noise.noise_source import Noise


def row_payload(
    round_: Round, values: object, levels: Levels, nonces: Words, noise: Noise
) -> Bytes:
    assert round_.rows is not None
    number = len(levels)
    head = np.empty((number, 0), dtype=np.uint8)
    if round_.row_choice == CHOSEN:
        rows = below_many(noise, number, round_.rows)
        head = rows.astype("<u4").view(np.uint8).reshape(-1, 4)
    else:
        rows = rows_of(Batch(round_, nonces, levels, head))
    items = item_indices(round_, values, nonces)
    if round_.mechanism == HADAMARD:
        negative = (bit_count(rows & items) & 1).astype(bool)
    else:
        negative = sketch_signs(round_.seed, rows, np.maximum(items, 0)) < 0
    words = noise.bits64(number)
    bit = negative ^ (words >= by_level(round_, flip_threshold, levels, np.uint64))
    null = items < 0
    if null.any():
        bit = np.where(null, words < HALF, bit)
    return np.concatenate([head, bit.astype(np.uint8).reshape(-1, 1)], axis=1)


def subset_payload(
    round_: Round, values: object, levels: Levels, nonces: Words, noise: Noise
) -> Bytes:
    assert round_.items is not None
    items = round_.items
    own = item_indices(round_, values, nonces)
    null = np.flatnonzero(own < 0)
    own[null] = below_many(noise, len(null), items)
    limit = by_level(round_, lambda e: subset_threshold(e, items), levels, np.uint64)
    inside = noise.bits64(len(own)) < limit
    sizes = np.array([subset_size(e, items) for e in round_.menu], dtype=np.int64)
    needed = sizes[levels] - inside
    bits = np.zeros((items, len(own)), dtype=bool).T  # written item by item
    for k in range(items):  # sequential choice without replacement, exact
        left = items - k - (own > k)
        pick = below_each(noise, left) < needed
        pick &= own != k
        bits[:, k] = pick
        needed = needed - pick
    bits[np.arange(len(own)), own] = inside
    return np.packbits(bits, axis=1, bitorder="little")
