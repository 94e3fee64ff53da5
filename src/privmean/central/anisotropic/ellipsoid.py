"""Sums of rows clipped to an ellipsoid around a released center, on an integer lattice."""

from __future__ import annotations

import math

import numpy as np

from privmean.central.anisotropic.calibrate_filter import CLIP_STEPS
from privmean.data.person_table import Floats, Integers
from privmean.mechanisms.filtered.row_lattice import CACHED, slices, to_lattice

STEPS = CLIP_STEPS


def clip_to_ball(v: Integers, steps: int = STEPS) -> Integers:
    """Each row shortened to norm `steps` (at most 2^26), toward zero; the norm holds exactly.

    Rows outside are halved first until their squared norm is an exact double, so that the factor
    depends on the row alone, whatever the order of additions.
    """
    y = v.astype(np.float64)
    limit = float(steps) ** 2
    # an exact decision: below 2^53 the sum of squares is exact, above it is far above the limit
    outside = np.flatnonzero(np.einsum("ij,ij->i", y, y) > limit)
    if len(outside) == 0:
        return v.copy()
    long = y[outside]
    spare = 26 - math.ceil(math.log2(max(v.shape[1], 1)) / 2)
    _, exponent = np.frexp(np.abs(long).max(axis=1))
    long = np.trunc(np.ldexp(long, -np.maximum(exponent - spare, 0)[:, None]))
    factor = steps / np.sqrt(np.einsum("ij,ij->i", long, long))
    short = np.trunc(long * factor[:, None])
    for shrink in (1 - 2.0**-30, 0.0):
        over = np.einsum("ij,ij->i", short, short) > limit
        short[over] = np.trunc(long[over] * (factor[over] * shrink)[:, None])
    result = v.copy()
    result[outside] = short.astype(np.int64)
    return result


def clipped_sums(x: Floats, centre: Floats, factor: Floats, steps: int = STEPS) -> Integers:
    """Sums over rows of clip((x - center) * factor) in lattice steps; a null counts as center.

    factor: lattice steps a unit of each column, public or released like the center. One person
    moves the vector of sums by at most `steps`, or 2 `steps` if replaced, in l2 norm.
    """
    total = np.zeros(x.shape[1], dtype=np.int64)
    for where in slices(x, numbers=CACHED):
        some = x[where]
        with np.errstate(all="ignore"):
            gap = some - centre
        # a person with an infinite or impossible value is nobody's problem but her own
        bad = np.isinf(some).any(axis=1)
        v = to_lattice(gap, factor)
        v[bad] = 0
        total += clip_to_ball(v, steps).sum(axis=0)
    return total
