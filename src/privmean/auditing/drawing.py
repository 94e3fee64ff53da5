"""Noise that keeps a list of what was drawn from it, and fixed noise to try draws with."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from privmean.noise.base import Flags, FromBits, Integers, Noise, Words

MOST_REQUESTS = 20_000


@dataclass(frozen=True)
class Request:
    """One call of a source of noise. law: the method; scale: as it was asked for (0: none)."""

    law: str
    size: int
    scale: Fraction = Fraction(0)


class Endless(Exception):
    """A draw does not come to an end: it tries again until the noise suits it."""


@dataclass
class Draws:
    """The same noise; never secure, so that no release made with it passes for one."""

    noise: Noise
    requests: list[Request] = field(default_factory=list)
    most: int = MOST_REQUESTS

    @property
    def secure(self) -> bool:
        return False

    def _note(self, law: str, size: int, scale: Fraction | float = 0) -> None:
        if len(self.requests) >= self.most:
            raise Endless
        self.requests.append(Request(law, size, Fraction(scale)))

    def laplace(self, size: int, scale: Fraction) -> Integers:
        self._note("laplace", size, scale)
        return self.noise.laplace(size, scale)

    def gaussian(self, size: int, scale: float) -> Integers:
        self._note("gaussian", size, scale)
        return self.noise.gaussian(size, scale)

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        self._note("argmax", len(scores), scale)
        return self.noise.argmax(scores, scale)

    def bits64(self, size: int) -> Words:
        self._note("bits64", size)
        return self.noise.bits64(size)

    def below(self, size: int, bound: int) -> Integers:
        self._note("below", size, Fraction(bound))
        return self.noise.below(size, bound)

    def bernoulli(self, size: int, probability: Fraction) -> Flags:
        self._note("bernoulli", size, probability)
        return self.noise.bernoulli(size, probability)


class Fixed(FromBits):
    """Noise of a given number of scales in every draw, and about one scale more in one of them.

    times: the noise in scales; step: which draw (counted over all requests) gets one more: one
    scale in whole steps, at least 1.
    """

    def __init__(self, times: float = 0.0, step: int | None = None) -> None:
        self._times, self._step, self._done = Fraction(times), step, 0

    @property
    def secure(self) -> bool:
        return False

    def _draw(self, size: int, scale: Fraction | float) -> Integers:
        drawn = np.full(size, round(self._times * Fraction(scale)), dtype=np.int64)
        if self._step is not None and 0 <= self._step - self._done < size:
            drawn[self._step - self._done] += max(1, round(Fraction(scale)))
        self._done += size
        return drawn

    def laplace(self, size: int, scale: Fraction) -> Integers:
        return self._draw(size, scale)

    def gaussian(self, size: int, scale: float) -> Integers:
        return self._draw(size, scale)

    def argmax(self, scores: Integers, scale: Fraction) -> int:
        return int(np.argmax(scores))

    def bits64(self, size: int) -> Words:
        return np.zeros(size, dtype=np.uint64)
