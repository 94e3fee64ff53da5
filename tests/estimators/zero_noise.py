"""No noise: what the sums and the best choices say."""

from __future__ import annotations

import numpy as np

from privmean.noise.noise_source import SimulatedNoise


class Silence(SimulatedNoise):
    """Draws nothing but zeros."""

    def laplace(self, size, scale):
        return np.zeros(size, dtype=np.int64)

    def gaussian(self, size, scale):
        return np.zeros(size, dtype=np.int64)

    def argmax(self, scores, scale):
        return int(np.argmax(scores))
