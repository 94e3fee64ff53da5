"""Seeded noise for tests and studies. Releases made with it say `secure: false` everywhere."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from privmean.noise.base import Integers


class SimulatedNoise:
    """Reproducible noise of the same laws, from a seeded NumPy generator. Not private."""

    def __init__(self, seed: int | np.random.Generator) -> None:
        self._generator = np.random.default_rng(seed)

    @property
    def secure(self) -> bool:
        return False

    def laplace(self, size: int, scale: Fraction) -> Integers:
        width = float(scale)
        if width > 2**16:  # the rounding of a continuous draw is then far below any test's power
            return np.rint(self._generator.laplace(0.0, width, size)).astype(np.int64)
        success = -np.expm1(-1.0 / width)
        first = self._generator.geometric(success, size)
        return (first - self._generator.geometric(success, size)).astype(np.int64)

    def gaussian(self, size: int, scale: float) -> Integers:
        return np.rint(self._generator.normal(0.0, float(scale), size)).astype(np.int64)

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        draws = self._generator.exponential(float(scale), len(scores))
        return int(np.argmax(np.asarray(scores, dtype=float) + draws))

    def bits64(self, size: int) -> npt.NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, size, dtype=np.uint64)
