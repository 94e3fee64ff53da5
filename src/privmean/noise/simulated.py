"""Noise of a seed, and noise that was recorded.

Seeded noise for tests and studies. Releases made with it say `secure: false` everywhere.

Noise that is kept as it is drawn, so that a stream that goes on draws nothing twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from privmean.errors import ArgumentError, PrivmeanError
from privmean.noise.exact import double_above
from privmean.noise.noise_source import LARGEST_SCALE, FromBits, Integers, Noise, Words

SMALL = 64.0  # below, rounding a continuous normal would show; the discrete law is tabulated


def _width(scale: Fraction | float) -> float:
    """The scale as a double, where the exact samplers would draw it; ValueError otherwise."""
    try:
        width = float(scale)
    except OverflowError:
        width = math.inf
    return width if 0 < width <= LARGEST_SCALE else double_above(scale)


@lru_cache(maxsize=256)
def _gaussian_table(scale: float) -> tuple[int, npt.NDArray[np.float64]]:
    """The smallest value and the cumulated probabilities of the discrete Gaussian law."""
    reach = math.ceil(14 * scale)
    with np.errstate(over="ignore"):
        weights = np.exp(-((np.arange(-reach, reach + 1) / scale) ** 2) / 2)
    total = np.cumsum(weights)
    return -reach, total / total[-1]


class SimulatedNoise(FromBits):
    """Reproducible noise for tests, from a seeded NumPy generator.

    Parameters
    ----------
    seed : int or numpy Generator
        Seed of the noise.

    Privacy
    -------
    None: the release is marked as unsafe.

    Notes
    -----
    The distributions agree with the exact ones far below what a test can detect. Scales that the
    exact samplers refuse are refused here too.

    Examples
    --------
    values = np.random.default_rng(1).normal(10, 2, 2000)
    one, other = (pm.mean(values, epsilon=1.0, noise=pm.SimulatedNoise(7)) for _ in range(2))
    assert one.estimate == other.estimate and not one.secure
    """

    def __init__(self, seed: int | np.random.Generator) -> None:
        try:
            self._generator = np.random.default_rng(seed)
        except (TypeError, ValueError):
            raise ArgumentError(
                "seed", seed, "is not a seed", "give a whole number of at least 0"
            ) from None

    @property
    def secure(self) -> bool:
        return False

    def laplace(self, size: int, scale: Fraction) -> Integers:
        width = _width(scale)
        if width > 2**16:  # the rounding of a continuous draw is then far below any test's power
            return np.rint(self._generator.laplace(0.0, width, size)).astype(np.int64)
        success = -np.expm1(-1.0 / width)
        first = self._generator.geometric(success, size)
        return (first - self._generator.geometric(success, size)).astype(np.int64)

    def gaussian(self, size: int, scale: float) -> Integers:
        width = _width(scale)
        if width < SMALL:
            least, table = _gaussian_table(width)
            return least + np.searchsorted(table, self._generator.random(size), side="right")
        return np.rint(self._generator.normal(0.0, width, size)).astype(np.int64)

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        if not len(scores):
            raise ValueError("argmax needs at least one score")
        draws = self._generator.exponential(_width(scale), len(scores))
        gaps = np.asarray(scores) - np.max(scores)  # large scores lose nothing to doubles
        return int(np.argmax(gaps + draws))

    def bits64(self, size: int) -> Words:
        return self._generator.integers(0, 2**64, size, dtype=np.uint64)


class RecordedNoise(FromBits):
    """Noise that keeps what it draws, and repeats recorded draws first."""

    def __init__(self, source: Noise) -> None:
        self._source = source
        self._recorded: list[Integers] = []
        self._next = 0
        self._drawn: list[Integers] = []

    @property
    def secure(self) -> bool:
        return self._source.secure

    def replay(self, draws: list[Integers]) -> None:
        """Answer with these draws before any new one."""
        self._recorded, self._next = draws, 0

    def require_replayed(self) -> None:
        """All recorded draws are used and none was new; anything else would be a second noise."""
        if self._next != len(self._recorded) or self._drawn:
            raise PrivmeanError(
                "the state is from a version that draws noise differently. Use that version."
            )

    def take_drawn(self) -> list[Integers]:
        """The new draws since the last call."""
        drawn, self._drawn = self._drawn, []
        return drawn

    def _answer(self, size: int, fresh: Callable[[], Integers]) -> Integers:
        if self._next < len(self._recorded):
            draw = self._recorded[self._next]
            self._next += 1
            if len(draw) != size:
                raise PrivmeanError(
                    "the state is from a version that draws noise differently. Use that version."
                )
            return draw
        result = fresh()
        self._drawn.append(result)
        return result

    def laplace(self, size: int, scale: Fraction) -> Integers:
        return self._answer(size, lambda: self._source.laplace(size, scale))

    def gaussian(self, size: int, scale: float) -> Integers:
        return self._answer(size, lambda: self._source.gaussian(size, scale))

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        draw = self._answer(1, lambda: np.array([self._source.argmax(scores, scale)]))
        return int(draw[0])

    def bits64(self, size: int) -> npt.NDArray[np.uint64]:
        return self._answer(size, lambda: self._source.bits64(size).view(np.int64)).view(np.uint64)
