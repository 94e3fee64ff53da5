"""How many friends everybody has: all pairs in symmetric blocks, or a random sample a person."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privmean.array_types import Flags, Integers
from privmean.mechanisms.filtered.pair_progress import Progress
from privmean.mechanisms.filtered.row_lattice import Metric, Prepared, half_norms, pairs_close
from privmean.noise.noise_source import Noise

BLOCK = 2048


def degrees(
    metrics: Sequence[Metric],
    usable: Flags,
    *,
    block: int = BLOCK,
    progress: Progress | None = None,
) -> Integers:
    """Friends of each person, self included; friends are close in every metric.

    usable: rows that can have friends; the others have themselves only. Memory: one block^2 matrix
    of doubles and a second copy of the rows; never people^2. `progress` gets the fraction done.
    """
    result = np.ones(len(usable), dtype=np.int64)
    index = np.flatnonzero(usable)
    if len(index) == 0:
        return result
    # rows far from the middle come last, so that the blocks before them need no second look
    norm = np.zeros(len(index))
    for metric in metrics:
        norm += half_norms(metric, index) / float(metric.radius) ** 2
    order = index[np.argsort(norm, kind="stable")]
    prepared = [Prepared(metric, order) for metric in metrics]
    count = np.zeros(len(order), dtype=np.int64)
    starts = range(0, len(order), block)
    total, done = len(starts) * (len(starts) + 1) / 2, 0
    for first in starts:
        a = slice(first, min(first + block, len(order)))
        for second in range(first, len(order), block):
            b = slice(second, min(second + block, len(order)))
            close = prepared[0].close(a, b)
            for other in prepared[1:]:
                close &= other.close(a, b)
            count[a] += np.count_nonzero(close, axis=1)
            if second > first:
                count[b] += np.count_nonzero(close, axis=0)
            done += 1
            if progress is not None:
                progress(done / total)
    result[order] = count
    return result


def sampled_degrees(
    metrics: Sequence[Metric],
    usable: Flags,
    draws: int,
    noise: Noise,
    *,
    progress: Progress | None = None,
) -> Integers:
    """Friends among `draws` people drawn with replacement, afresh for each person.

    One shared sample would not do: replacing a person in it would move everybody.
    """
    n = len(usable)
    result = np.zeros(n, dtype=np.int64)
    rows = max(1, (1 << 18) // draws)
    for start in range(0, n, rows):
        i = np.repeat(np.arange(start, min(start + rows, n)), draws)
        j = noise.below(len(i), n)
        close = i == j
        ask = np.flatnonzero(usable[i] & usable[j] & ~close)
        friends = np.ones(len(ask), dtype=bool)
        for metric in metrics:
            friends &= pairs_close(metric, i[ask], j[ask])
        close[ask] = friends
        result[start : start + rows] = close.reshape(-1, draws).sum(axis=1)
        if progress is not None:
            progress(min(1.0, (start + rows) / n))
    return result
