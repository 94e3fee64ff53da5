"""Exact integer noise on the operating system's entropy: OpenDP's rational samplers for single
draws and choices, the sampler of this library (`bulk_draws.py`) for many draws of one scale."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from privmean.noise import bulk_draws as bulk
from privmean.noise.noise_source import LARGEST_SCALE, FromBits, Integers, Words


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


_switch = threading.Lock()


@contextmanager
def _allowed() -> Iterator[None]:
    """OpenDP's leave to build the samplers, given for the moment: its switch is global and the
    caller's own, so one thread holds it at a time."""
    from opendp import mod

    with _switch:
        missing = "contrib" not in mod.GLOBAL_FEATURES
        if missing:
            mod.enable_features("contrib")
        try:
            yield
        finally:
            if missing:
                mod.disable_features("contrib")


@lru_cache(maxsize=256)
def _laplace(scale: float) -> Any:
    # not opendp.prelude: it also imports extras, engines among them
    from opendp import domains, measurements, metrics

    with _allowed():
        space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.l1_distance(T="i64")
        return measurements.make_laplace(*space, scale=scale)


@lru_cache(maxsize=256)
def _gaussian(scale: float) -> Any:
    from opendp import domains, measurements, metrics

    with _allowed():
        space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.l2_distance(T="f64")
        return measurements.make_gaussian(*space, scale=scale)


@lru_cache(maxsize=256)
def _argmax(scale: float) -> Any:
    from opendp import domains, measurements, measures, metrics

    with _allowed():
        space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.linf_distance(T="i64")
        return measurements.make_noisy_max(*space, measures.max_divergence(), scale=scale)


class ExactNoise(FromBits):
    """Secure noise for releases. Scales are rounded up to the next double, never down.

    Who draws depends on the size and the scale alone, which are public; the law is the same.
    """

    @property
    def secure(self) -> bool:
        return True

    def laplace(self, size: int, scale: Fraction) -> Integers:
        return self._drawn(size, scale, 1, _laplace)

    def gaussian(self, size: int, scale: float) -> Integers:
        return self._drawn(size, scale, 2, _gaussian)

    def _drawn(
        self, size: int, scale: Fraction | float, power: int, alone: Callable[[float], Any]
    ) -> Integers:
        """Of the law P(k) proportional to exp(-|k|^power ...); alone: who draws a few."""
        width = double_above(scale)
        if bulk.fits(size, width, power):
            return bulk.table(width, power).draw(size, self.bits64)
        return np.asarray(alone(width)([0] * size), dtype=np.int64)

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        if not len(scores):
            raise ValueError("argmax needs at least one score")
        return int(_argmax(double_above(scale))(np.array(scores, dtype=np.int64)))

    def bits64(self, size: int) -> Words:
        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
