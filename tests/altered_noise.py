"""Noise that is not what was asked for: none, or narrower."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from privmean.noise.noise_source import Noise, SimulatedNoise


class NoAddedNoise(SimulatedNoise):
    """Adds nothing but zeros; choices are drawn."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)

    def laplace(self, size: int, scale: Any) -> Any:
        return np.zeros(size, dtype=np.int64)

    gaussian = laplace


class Silence(NoAddedNoise):
    """The best choice, too."""

    def argmax(self, scores: Any, scale: Fraction) -> int:
        return int(np.argmax(scores))


class Narrow:
    """Noise so many times narrower than it was asked for."""

    def __init__(self, noise: Noise, times: Fraction) -> None:
        self._noise, self._times = noise, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._noise, name)

    def laplace(self, size: int, scale: Fraction) -> Any:
        return self._noise.laplace(size, Fraction(scale) / self._times)

    def gaussian(self, size: int, scale: float) -> Any:
        return self._noise.gaussian(size, scale / float(self._times))

    def argmax(self, scores: Any, scale: Fraction) -> int:
        return self._noise.argmax(scores, Fraction(scale) / self._times)
