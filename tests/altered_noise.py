"""No noise: what the sums and the best choices say."""

import numpy as np

from privmean.noise.noise_source import SimulatedNoise


class NoAddedNoise(SimulatedNoise):
    """Adds nothing but zeros; choices are drawn."""

    def laplace(self, size, scale):
        return np.zeros(size, dtype=np.int64)

    gaussian = laplace


class Silence(NoAddedNoise):
    """The best choice, too."""

    def argmax(self, scores, scale):
        return int(np.argmax(scores))
