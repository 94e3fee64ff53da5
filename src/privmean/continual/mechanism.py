"""The one place of a stream where data and noise meet: noisy rows, and prefix sums made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from privmean.continual.lattice import Lattice
from privmean.continual.series import Floats
from privmean.noise.base import Integers, Noise
from privmean.privacy.loss import Gaussian


@dataclass(frozen=True)
class PrefixMechanism:
    """The public facts of one noisy prefix-sum mechanism.

    movement: how many lattice steps one row can move (2 * row norm under replacement, row norm
    under zeroing). scale: standard deviation of the noise in lattice units.

    Guarantees: with rows within the row norm and persons within the participation pattern, the
    noisy rows of all steps together have the loss `loss`; everything else is computed from them.
    """

    lattice: Lattice
    dimension: int
    movement: int
    scale: float
    name: str = "noisy rows of the stream"

    @property
    def loss(self) -> Gaussian:
        return Gaussian(
            self.name,
            sensitivity=self.lattice.sensitivity(self.movement, self.dimension),
            scale=self.scale,
            answers=self.lattice.answers(self.dimension),
        )

    @property
    def noise_step(self) -> float:
        """Standard deviation of the noise of one row, in steps of z."""
        return self.scale / 2.0**self.lattice.bits


class Block(NamedTuple):
    """Released prefix sums: sums (steps, d) in steps of z, and sum g_s^2 after each step."""

    sums: Floats
    squares: Floats


class NoisyPrefixSums:
    """A running `PrefixMechanism`: integer rows in, noisy prefix sums out, O(p d) state."""

    def __init__(self, mechanism: PrefixMechanism, noise: Noise) -> None:
        d = mechanism.dimension
        self.mechanism = mechanism
        self.noise = noise
        self.steps = 0
        self._forward = mechanism.lattice.forward(d)
        # the extra coordinate carries an impulse: its outputs are the inverse column of C
        self._backward = mechanism.lattice.backward(d + 1)
        self._sums = np.zeros(d + 1)
        self._square = 0.0

    def advance(self, rows: Integers) -> Block:
        """Take the next steps with these rows, shape (m, d), integers within the row norm."""
        lattice, d = self.mechanism.lattice, self.mechanism.dimension
        m = len(rows)
        mixed = lattice.round_rows(self._forward.run(np.ascontiguousarray(rows.T, dtype=float)))
        drawn = self.noise.gaussian(m * d, self.mechanism.scale).reshape(m, d)
        noisy = mixed.T.astype(np.int64) + drawn
        del mixed  # from here on everything is a function of the noisy integers
        public = np.zeros((d + 1, m))
        public[:d] = noisy.T / 2.0**lattice.bits
        if self.steps == 0:
            public[d, 0] = 1.0
        estimates = self._backward.run(public)
        running = np.cumsum(np.concatenate([self._sums[:, None], estimates], axis=1), axis=1)
        self._sums = running[:, -1].copy()
        squares = np.cumsum(np.concatenate([[self._square], running[d, 1:] ** 2]))
        self._square = float(squares[-1])
        self.steps += m
        return Block(running[:d, 1:].T.copy(), squares[1:])

    def arrays(self) -> dict[str, Floats]:
        """The whole state. Secret: with the noisy rows it reveals the raw ones."""
        return {
            "forward": self._forward.state,
            "backward": self._backward.state,
            "sums": np.append(self._sums, [self._square, float(self.steps)]),
        }

    def restore(self, arrays: dict[str, Floats]) -> None:
        """Continue exactly from `arrays()`."""
        self._forward.state = arrays["forward"].copy()
        self._backward.state = arrays["backward"].copy()
        *sums, self._square, steps = (float(item) for item in arrays["sums"])
        self._sums = np.array(sums)
        self.steps = int(steps)
