"""Noise that is kept as it is drawn, so that a stream that goes on draws nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from privmean.errors import PrivmeanError
from privmean.noise.noise_source import FromBits, Integers, Noise


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
