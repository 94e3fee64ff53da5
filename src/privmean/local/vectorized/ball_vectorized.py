"""`clients.ball`, vectorised."""

from __future__ import annotations

import numpy as np

from privmean.array_types import Bytes, Floats, Integers, Words
from privmean.local.aggregators.batch import candidate_normals, public_normals, units
from privmean.local.clients.closest_code import set_threshold
from privmean.local.exact_coins import flip_threshold
from privmean.local.mechanisms import CLOSEST
from privmean.local.round import Round
from privmean.local.vectorized.coerce_values import table_of
from privmean.local.vectorized.coins_vectorized import (
    Levels,
    below_many,
    by_level,
)
from privmean.noise.noise_source import Noise


def _poles(round_: Round, values: object, number: int, noise: Noise) -> Floats:
    """V of each client: see clients.ball."""
    assert round_.dimension is not None
    assert round_.radius is not None
    x = table_of(values, number, round_.dimension)
    x = np.where(np.isnan(x).any(axis=1, keepdims=True), 0.0, x)
    infinite = np.isinf(x)
    far = infinite.any(axis=1, keepdims=True)
    x = np.where(far, np.where(infinite, np.sign(x), 0.0), x)
    largest = np.abs(x).max(axis=1, keepdims=True)
    scaled = x / np.where(largest > 0, largest, 1.0)
    norm = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    with np.errstate(over="ignore"):
        share = np.where(far, 1.0, np.minimum(largest / round_.radius * norm, 1.0))[:, 0]
    axis = np.zeros(round_.dimension)
    axis[0] = 1.0
    u = np.where(norm > 0, scaled / np.where(norm > 0, norm, 1.0), axis)
    wanted = np.rint(2.0**64 * (0.5 + 0.5 * share))
    sure = wanted >= 2.0**64
    plus = sure | (noise.bits64(number) < np.where(sure, 0.0, wanted).astype(np.uint64))
    return np.where(plus[:, None], u, -u)


def ball_payload(
    round_: Round, values: object, levels: Levels, nonces: Words, noise: Noise
) -> Bytes:
    poles = _poles(round_, values, len(levels), noise)
    if round_.mechanism == CLOSEST:
        return _closest(round_, poles, levels, nonces, noise)
    side = (public_normals(round_, nonces) * poles).sum(axis=1) >= 0
    sign = side ^ (noise.bits64(len(levels)) < by_level(round_, flip_threshold, levels, np.uint64))
    bits: Bytes = sign.astype(np.uint8).reshape(-1, 1)
    return bits


def _closest(round_: Round, poles: Floats, levels: Levels, nonces: Words, noise: Noise) -> Bytes:
    """The number of a candidate each, a few people's directions at a time."""
    assert round_.candidates is not None
    half = round_.candidates // 2
    index = np.empty(len(levels), dtype=np.int64)
    step = max(1, 2**20 // (half * poles.shape[1]))
    for start in range(0, len(levels), step):
        some = slice(start, start + step)
        index[some] = _indices(round_, poles[some], levels[some], nonces[some], noise)
    return index.astype("<u2").view(np.uint8).reshape(-1, 2)


def _indices(round_: Round, poles: Floats, levels: Levels, nonces: Words, noise: Noise) -> Integers:
    assert round_.candidates is not None
    number, half, width = len(levels), round_.candidates // 2, poles.shape[1]
    every = np.tile(np.arange(half), number)
    u = units(candidate_normals(round_, np.repeat(nonces, half, axis=0), every))
    heights = np.einsum("nmd,nd->nm", u.reshape(number, half, width), poles)
    order = np.argsort(-np.abs(heights), axis=1, kind="stable")
    near = 2 * order + (np.take_along_axis(heights, order, axis=1) < 0)
    result = np.empty(number, dtype=np.int64)
    for k, epsilon in enumerate(round_.menu):
        mine, size = np.flatnonzero(levels == k), round_.favoured[k]
        limit = np.uint64(set_threshold(epsilon, size, round_.candidates))
        inside = noise.bits64(len(mine)) < limit
        rows = mine[inside]
        result[rows] = near[rows, below_many(noise, len(rows), size)]
        rows = mine[~inside]
        other = np.ones((len(rows), round_.candidates), dtype=bool)
        np.put_along_axis(other, near[rows, :size], False, axis=1)
        wanted = below_many(noise, len(rows), round_.candidates - size)
        result[rows] = (np.cumsum(other, axis=1) <= wanted[:, None]).sum(axis=1)
    return result
