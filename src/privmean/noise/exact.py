"""Exact integer noise: OpenDP's rational samplers on the operating system's entropy."""

from __future__ import annotations

import math
import os
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from privmean.noise.base import FromBits, Integers, Words

# Draws are 64-bit: at this scale a tail of 40 scales is still below 2^62.
LARGEST_SCALE = 2.0**56


def double_above(scale: Fraction | float) -> float:
    """The smallest double that is at least `scale`: more noise, never less."""
    try:
        value = float(scale)
    except OverflowError:
        value = math.inf
    if math.isfinite(value) and Fraction(value) < Fraction(scale):
        value = math.nextafter(value, math.inf)
    if not 0 < value <= LARGEST_SCALE:
        raise ValueError(f"noise scale {value!r} is outside (0, 2^56]")
    return value


@lru_cache(maxsize=1)
def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


@lru_cache(maxsize=256)
def _laplace(scale: float) -> Any:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return dp.m.make_laplace(*space, scale=scale)


@lru_cache(maxsize=256)
def _gaussian(scale: float) -> Any:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return dp.m.make_gaussian(*space, scale=scale)


@lru_cache(maxsize=256)
def _argmax(scale: float) -> Any:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    return dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale)


class ExactNoise(FromBits):
    """Secure noise for releases. Scales are rounded up to the next double, never down."""

    @property
    def secure(self) -> bool:
        return True

    def laplace(self, size: int, scale: Fraction) -> Integers:
        draws = _laplace(double_above(scale))([0] * size)
        return np.asarray(draws, dtype=np.int64)

    def gaussian(self, size: int, scale: float) -> Integers:
        draws = _gaussian(double_above(scale))([0] * size)
        return np.asarray(draws, dtype=np.int64)

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        if not len(scores):
            raise ValueError("argmax needs at least one score")
        return int(_argmax(double_above(scale))([int(item) for item in scores]))

    def bits64(self, size: int) -> Words:
        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
