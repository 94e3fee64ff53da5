"""Exact integer noise on the operating system's entropy: a few Laplace draws by fair coins (here),
many draws of one scale from a table (`bulk_draws.py`), the rest by OpenDP's rational samplers."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
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


# --- a few draws of the discrete Laplace law (Canonne, Kamath and Steinke 2020, Algorithm 2) ------
# Integers and rational coins only; proof: docs/proofs/discrete-laplace.md.
WORDS = 32  # drawn at a time; a draw takes about ten


def laplace_draw(scale: float, words: Iterator[int]) -> int:
    """One draw of P(k) proportional to exp(-|k|/scale), from uniform 64-bit words."""
    numerator, denominator = scale.as_integer_ratio()
    last = 2**64 - 2**64 % numerator  # words below it fall evenly on the remainders
    while True:
        word = next(words)
        if word >= last or not _exponential_coin(word % numerator, numerator, words):
            continue
        size = word % numerator
        while _exponential_coin(1, 1, words):
            size += numerator
        size //= denominator
        if next(words) & 1:
            return size
        if size:  # zero comes with one sign only
            return -size


def _exponential_coin(above: int, below: int, words: Iterator[int]) -> bool:
    """True with probability exp(-above/below), for a fraction of at most 1 (their Algorithm 1)."""
    turn = 1
    while _coin(above, below * turn, words):
        turn += 1
    return turn % 2 == 1


def _coin(above: int, below: int, words: Iterator[int]) -> bool:
    """True with probability above/below: a uniform number in base 2^64 is compared with it."""
    while True:
        digit, above = divmod(above << 64, below)
        if (word := next(words)) != digit:
            return word < digit
        if not above:
            return False


@lru_cache(maxsize=256)
def _gaussian(scale: float) -> Any:
    # not opendp.prelude: it also imports extras, engines among them
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
        width = double_above(scale)
        if bulk.fits(size, width, 1):
            return bulk.table(width, 1).draw(size, self.bits64)
        words = self._words()
        return np.array([laplace_draw(width, words) for _ in range(size)], dtype=np.int64)

    def gaussian(self, size: int, scale: float) -> Integers:
        width = double_above(scale)
        if bulk.fits(size, width, 2):
            return bulk.table(width, 2).draw(size, self.bits64)
        return np.asarray(_gaussian(width)([0] * size), dtype=np.int64)

    def _words(self) -> Iterator[int]:
        """Uniform words of one call; those left over are dropped."""
        while True:
            yield from self.bits64(WORDS).tolist()

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        if not len(scores):
            raise ValueError("argmax needs at least one score")
        return int(_argmax(double_above(scale))(np.array(scores, dtype=np.int64)))

    def bits64(self, size: int) -> Words:
        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
