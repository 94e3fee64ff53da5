"""The error that a plan for an unknown covariance guarantees: of public numbers, and scale-free.

Nothing is known of the scales, so the guarantee is for a reference spectrum: columns of one
deviation where every column gets a scale of its own (no other spectrum costs more for its total
variance), and deviations 1, 1/2, 1/3, ... where columns share a radius, which pays only if few of
them matter. What a release would do is followed step by step, with the distances of normal rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaincinv

from privmean.central.anisotropic.column_scales import (
    QUANTILE,
    Block,
    Scales,
    Stage,
    centre_shares,
    clip_shares,
)
from privmean.data.person_table import Floats
from privmean.mechanisms.searches import FINE


def reference(dimension: int, top: int) -> Floats:
    """Deviations of the columns of total variance 1 that a guarantee is made for, largest first."""
    size = np.ones(dimension) if top == dimension else 1 / np.arange(1.0, dimension + 1)
    return np.asarray(size / math.sqrt(float((size**2).sum())))


def pair_distance(quantile: float, variances: Floats) -> float:
    """A quantile of the distance of pairs of normal rows, half a grid step more.

    The squared distance has nearly a gamma law of its mean and variance (Satterthwaite 1946).
    """
    if not len(variances):
        return 0.0
    mean, square = float(variances.sum()), float((variances**2).sum())
    scale = 2 * square / mean
    found = 2 * scale * float(gammaincinv(mean / scale, quantile))
    return math.sqrt(found * FINE.radius(1))


def expected_scales(deviations: Floats, top: int, exponent: float) -> Scales:
    """What the variance stage finds, its noise aside."""
    mine, rest = deviations[:top], deviations[top:]
    return Scales(
        1.0,
        np.arange(top),
        mine,
        pair_distance(QUANTILE, mine ** (2 - exponent)),
        pair_distance(QUANTILE, mine),
        pair_distance(0.5, mine),
        pair_distance(QUANTILE, rest**2),
    )


def stage_noise(
    blocks: Sequence[Block], stage: Stage, sums_mu: Sequence[float], centred: int, summed: int
) -> float:
    """Predicted l2 norm (rms) of the noise of all blocks' clipped sums.

    sums_mu: of each sum; centered, summed: people of the center and of the sums.
    """
    s = stage.calibration.expected_multiplier(centred)
    if math.isinf(s):
        return math.inf
    shares = centre_shares(blocks)
    radii = [
        item.clip_radius(2 * item.radius * s / math.sqrt(part) / centred)
        for item, part in zip(blocks, shares, strict=True)
    ]
    roots = [math.sqrt(item.spread) for item in blocks]
    total = 0.0
    for mu in sums_mu:
        total = math.fsum(r * root for r, root in zip(radii, roots, strict=True))
        parts = clip_shares(blocks, radii)
        radii = [
            item.next_radius(2 * radius / (mu * math.sqrt(part) * summed))
            for item, radius, part in zip(blocks, radii, parts, strict=True)
        ]
    return 2 * total / (mu * summed)
