"""Scores of places by how many people lie below and above: for quantiles and for medians.

Functions of counts alone. docs/proofs/longitudinal.md, section 4, and quantiles.md, section 1.
"""

from __future__ import annotations

import numpy as np

from privmean.noise.noise_source import Integers

LEAST, MOST, OF = 2, 3, 4  # the cell that holds a quantile between 2/4 and 3/4


def quantile_scores(
    counts: Integers, slope: float, parts: tuple[int, int, int] = (LEAST, MOST, OF)
) -> Integers:
    """Scores of the candidate magnitudes: the upper edges of half octaves.

    counts: people in each candidate's half octave, smallest first (people beyond go to the last).
    With N_k of N people up to edge k, score k is -max(2N - 4N_k, 4N_{k-1} - 3N, 0) less a public
    amount that grows with k: the cells in which the quantiles from 50 to 75 % lie share the best
    score, also where one cell holds everybody. One person replaced moves every score by at most 4,
    one added or removed by at most 3. parts: a, b and c for the quantiles from a/c to b/c; then one
    person moves scores by at most c, or by the largest of a, c - a, b, c - b.
    """
    least, most, of = parts
    upto = of * np.cumsum(counts)
    number = int(upto[-1]) // of
    before = np.concatenate([[0], upto[:-1]])
    gap = np.maximum(np.maximum(least * number - upto, before - most * number), 0)
    public = np.floor(slope * np.arange(len(counts))).astype(np.int64)
    scores: Integers = -gap - public
    return scores


def median_scores(counts: Integers) -> Integers:
    """Scores of public bins: 0 for one that holds the median, else minus twice the people that
    lie between. One person replaced moves every score by at most 2, one added or removed by 1."""
    upto = np.cumsum(counts)
    number = int(upto[-1])
    before = upto - counts
    scores: Integers = -np.maximum(np.maximum(2 * before - number, number - 2 * upto), 0)
    return scores
