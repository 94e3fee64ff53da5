"""A curator that keeps what it is asked, and may answer as another run was answered."""

from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.noise_source import SimulatedNoise


class Scripted(TrustedCurator):
    """seen: mechanism, exact answer and noisy answer of every question. script: those of a first
    run, whose noisy answers are given in place of its own, so that both go the same way."""

    def __init__(self, people, script=None, noise=None):
        super().__init__(people, noise or SimulatedNoise(3))
        self.seen, self.script = [], script

    def ask(self, mechanism, exact):
        drawn = super().ask(mechanism, exact)
        self.seen.append((mechanism, exact, drawn))
        return drawn if self.script is None else self.script[len(self.seen) - 1][2]
