"""Noise for the rows of a stream: the one place of a stream where rows and noise meet.

Sensitivity, scale and loss are those of `continual.mechanism.PrefixMechanism`.
"""

from __future__ import annotations

import os

import numpy as np

from privmean.noise.base import Integers, Noise
from privmean.noise.exact import ExactNoise

AHEAD = 256


class DrawAhead:
    """Exact draws of one scale, taken from the sampler in blocks: a call costs more than a draw.

    Draws that were not used when the process ends are forgotten; nothing was made of them. A fork
    forgets them too: two processes that add the same noise would tell their difference exactly.
    """

    def __init__(self, noise: Noise, scale: float) -> None:
        self._noise, self._scale = noise, scale
        # only the exact sampler: a simulation must consume its seed in the order of the steps
        self._ahead = AHEAD if isinstance(noise, ExactNoise) else 0
        self._ready = np.zeros(0, dtype=np.int64)
        self._process = os.getpid()

    def draw(self, size: int) -> Integers:
        if size >= self._ahead:
            return self._noise.gaussian(size, self._scale)
        if len(self._ready) < size or self._process != os.getpid():
            self._process = os.getpid()
            self._ready = self._noise.gaussian(self._ahead, self._scale)
        drawn, self._ready = self._ready[:size], self._ready[size:]
        return drawn

    def added(self, rows: Integers) -> Integers:
        """The integer rows, shape (m, d), each number with noise of its own."""
        return rows + self.draw(rows.size).reshape(rows.shape)
