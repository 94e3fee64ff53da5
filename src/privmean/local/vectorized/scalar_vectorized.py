"""`clients.scalar`, vectorised."""

from __future__ import annotations

import numpy as np

from privmean.array_types import Bytes, Flags, Floats, Integers, Words
from privmean.local.aggregators.batch import piecewise_branch
from privmean.local.clients.scalar_randomizers import window
from privmean.local.entropy import WORD
from privmean.local.exact_coins import flip_threshold, signal
from privmean.local.mechanisms import ONE_BIT, PIECEWISE
from privmean.local.round import Round
from privmean.local.vectorized.coerce_values import unit_values
from privmean.local.vectorized.coins_vectorized import Levels, below_many, by_level
from privmean.noise.noise_source import Noise


def _pack_int32(y: Integers) -> Bytes:
    return y.astype("<i4").view(np.uint8).reshape(-1, 4)


def _one_bit(round_: Round, x: Floats, levels: Levels, noise: Noise) -> Flags:
    t = by_level(round_, signal, levels, np.float64)
    flip = by_level(round_, flip_threshold, levels, np.uint64)
    wanted = np.rint(2.0**64 * (0.5 + 0.5 * x * t)).astype(np.uint64)
    top = by_level(round_, lambda e: WORD - flip_threshold(e), levels, np.uint64)
    result: Flags = noise.bits64(len(x)) < np.minimum(np.maximum(wanted, flip), top)
    return result


def _grid_points(position: Floats, noise: Noise) -> Integers:
    low = np.floor(position)
    part = np.rint((position - low) * 2.0**64)
    sure = part >= 2.0**64  # a tiny negative position: the difference rounds to 1
    up = sure | (noise.bits64(len(low)) < np.where(sure, 0.0, part).astype(np.uint64))
    return low.astype(np.int64) + up


def _piecewise(round_: Round, x: Floats, levels: Levels, noise: Noise) -> Integers:
    y = np.zeros(len(x), dtype=np.int64)
    for k, epsilon in enumerate(round_.menu):
        mine = np.flatnonzero(levels == k)
        if not len(mine):
            continue
        law = window(epsilon)
        start = _grid_points((x[mine] + 1) / 2 * law.outside, noise) - law.size
        inside = noise.bits64(len(mine)) < np.uint64(law.threshold)
        choice = np.where(inside, start, -law.size)
        number = int(inside.sum())
        choice[inside] += below_many(noise, number, law.width + 1)
        choice[~inside] += below_many(noise, len(mine) - number, law.outside)
        y[mine] = choice + np.where(~inside & (choice >= start), law.width + 1, 0)
    return y


def scalar_payload(
    round_: Round, values: object, levels: Levels, nonces: Words, noise: Noise
) -> Bytes:
    x = unit_values(round_, values, nonces)
    if round_.mechanism == ONE_BIT:
        return _one_bit(round_, x, levels, noise).astype(np.uint8).reshape(-1, 1)
    if round_.mechanism == PIECEWISE:
        return _pack_int32(_piecewise(round_, x, levels, noise))
    branch = piecewise_branch(round_, nonces, levels)
    y = np.empty(len(x), dtype=np.int64)
    y[branch] = _piecewise(round_, x[branch], levels[branch], noise)
    y[~branch] = 2 * _one_bit(round_, x[~branch], levels[~branch], noise).astype(np.int64) - 1
    return _pack_int32(y)
