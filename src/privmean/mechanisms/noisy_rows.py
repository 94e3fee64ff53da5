"""Noise for the rows of a stream: the one place of a stream where rows and noise meet.

Sensitivity, scale and loss are those of `continual.mechanism.PrefixMechanism`.
"""

from __future__ import annotations

import os

import numpy as np

from privmean.array_types import Integers
from privmean.noise.exact import ExactNoise
from privmean.noise.noise_source import Noise

AHEAD = 256  # steps whose public numbers are computed together
BLOCK = 2**13  # draws taken together: a call costs more than a draw


class DrawAhead:
    """Exact draws of one scale, taken from the sampler in blocks and handed out in order.

    Draws that were not used when the process ends are forgotten; nothing was made of them. A fork
    forgets them too, and so does a copy: two that add the same noise would tell their difference
    exactly.
    """

    def __init__(self, noise: Noise, scale: float) -> None:
        self._noise, self._scale = noise, scale
        # only the exact sampler: a simulation must consume its seed in the order of the steps
        self._ahead = BLOCK if isinstance(noise, ExactNoise) else 0
        self._forget()

    def _forget(self) -> None:
        self._ready = np.zeros(0, dtype=np.int64)
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, object]:
        """Of copies and pickles: without draws."""
        return {"_noise": self._noise, "_scale": self._scale, "_ahead": self._ahead}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._forget()

    def draw(self, size: int) -> Integers:
        if size >= self._ahead:
            return self._noise.gaussian(size, self._scale)
        if self._process != os.getpid():
            self._forget()
        if len(self._ready) < size:
            more = self._noise.gaussian(self._ahead, self._scale)
            self._ready = np.concatenate([self._ready, more])
        drawn, self._ready = self._ready[:size], self._ready[size:]
        return drawn

    def added_one(self, number: int) -> int:
        """`added` for one row of one number."""
        return number + self.draw(1).item()

    def added(self, rows: Integers) -> Integers:
        """The integer rows, shape (m, d), each number with noise of its own."""
        return rows + self.draw(rows.size).reshape(rows.shape)
