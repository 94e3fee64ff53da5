"""The K-norm mechanism of the l2 ball on the integer lattice, drawn exactly.

Pure differential privacy for a vector sum: noise z with P(z) proportional to exp(-N(z)/b), where
N(z) is the l2 norm rounded up to an integer. In d dimensions its length is about d b, against
sqrt(2) d b for independent Laplace noise of the same privacy.

The sampler rejects from independent discrete Laplace draws, with acceptance probabilities
exp(-gamma), gamma rational, decided by exact coins. No floating point enters the law.

Source: Hardt and Talwar (2010) for the mechanism; Canonne, Kamath and Steinke (2020), Algorithm 1,
for the coin. The lattice form and its proof are in docs/proofs/heavy-tails-k-norm.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy.special import gammaln

from privmean.array_types import Integers
from privmean.noise.noise_source import Noise

LARGEST_DIMENSION = 24  # above, a draw would need more than about 500 proposals
BATCH = 4096  # integers of Laplace noise a batch of proposals


def norm_above(z: Sequence[int]) -> int:
    """The l2 norm of an integer vector, rounded up."""
    square = sum(int(item) * int(item) for item in z)
    root = math.isqrt(square)
    return root if root * root == square else root + 1


def exponential_coin(noise: Noise, gamma: Fraction) -> bool:
    """True with probability exp(-gamma), gamma >= 0 rational."""
    while gamma > 1:
        if not _fraction_coin(noise, Fraction(1)):
            return False
        gamma -= 1
    return _fraction_coin(noise, gamma)


def _fraction_coin(noise: Noise, gamma: Fraction) -> bool:
    """True with probability exp(-gamma), 0 <= gamma <= 1: the series of exp by alternating runs."""
    k = 1
    while noise.bernoulli(1, gamma / k)[0]:
        k += 1
    return k % 2 == 1


def acceptance(dimension: int) -> float:
    """The chance that one proposal is accepted, in the limit of a fine lattice."""
    d = dimension
    volume = d / 2 * math.log(math.pi) - gammaln(d / 2 + 1)
    return float(math.exp(gammaln(d + 1) + volume - d * math.log(2 * math.sqrt(d))))


def proposal_scale(scale: Fraction, dimension: int) -> Fraction:
    """A double of at least sqrt(dimension) * scale: the proposals' Laplace scale."""
    near = math.sqrt(dimension) * float(scale)
    result = Fraction(near)
    while result * result < dimension * scale * scale:
        near = math.nextafter(near, math.inf)
        result = Fraction(near)
    return result


def draw(noise: Noise, dimension: int, scale: Fraction) -> Integers:
    """One vector of `dimension` integers with P(z) proportional to exp(-norm_above(z)/scale).

    **Guarantees.** Added to an integer vector that one person moves by at most S in l2 (S an
    integer), it is S/scale-DP: norm_above(z + s) <= norm_above(z) + S whenever |s| <= S.
    """
    proposal = proposal_scale(scale, dimension)
    rate, proposal_rate = 1 / scale, 1 / proposal
    rows = max(1, min(BATCH // dimension, math.ceil(2 / acceptance(dimension))))
    while True:
        draws = noise.laplace(rows * dimension, proposal).reshape(rows, dimension)
        for z in draws:
            items = [int(item) for item in z]
            taxicab = sum(abs(item) for item in items)
            # norm_above(z) >= |z|_1/sqrt(d) and proposal >= sqrt(d) scale, so gamma >= 0
            gamma = norm_above(items) * rate - taxicab * proposal_rate
            if exponential_coin(noise, gamma):
                return np.asarray(items, dtype=np.int64)
