"""Noisy sums of clipped rows, and the noise of the rows of a stream.

For lattice rows z, z' with ||z||, ||z'|| <= K the sums of z and of |z| (column by column) together
move by at most 2K in l2, as the sum of z alone: | |a| - |b| | <= |a + b|, and the squares of a - b
and of a + b add up to 2a^2 + 2b^2. The same holds for z_j^2 / (2 B_j) in place of |z_j|, if
|z_j| <= B_j. Rows that something is cut off end in a smaller ball (`ClippedRows`): what they no
longer use of the privacy loss pays for a weight in every column, so that people beyond a column's
limits are counted for next to nothing (`TailRows`). docs/proofs/many-columns.md.

`DrawAhead` draws for the rows of a stream; sensitivity, scale and loss are those of its strategy.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from privmean.array_types import Integers
from privmean.data.person_table import Besides, ClippedRows, L2Ball, L2BallSums
from privmean.mechanisms.noisy_vector import GaussianVector, VectorSums
from privmean.noise.exact import ExactNoise
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE

BITS = 20  # lattice steps from the center to the edge: 2^19 to 2^20


@dataclass(frozen=True)
class NoisyRows:
    """Noisy sums of z (in lattice steps) and of |z| or z^2, with the deviations of their noise.

    tails, tails_sd: of `TailRows`, in people."""

    sums: tuple[float, ...]
    besides: tuple[float, ...]
    sd: float
    besides_sds: tuple[float, ...]
    tails: tuple[float, ...] = ()
    tails_sd: float = 0.0


@dataclass(frozen=True)
class RowSums(VectorSums):
    """Rows in units of their own (`People.standardized`), shortened to `radius` around 0.

    reaches: the largest |value| of each column; only the squares depend on them.

    **Guarantees.** mu-GDP for one person replaced, for any data, radius and reaches that are public
    or already released.
    """

    name: str
    radius: float
    reaches: tuple[float, ...]
    mu: float
    besides: Besides

    @cached_property
    def ball(self) -> L2Ball:
        _, exponent = math.frexp(self.radius)
        step = math.ldexp(1.0, exponent - BITS)
        return L2Ball((0.0,) * len(self.reaches), self.radius, step)

    @cached_property
    def tops(self) -> tuple[int, ...]:
        """B: the largest |z_j| of each column; one more step for the rounding of shortened rows."""
        steps = self.ball.steps
        return tuple(
            steps if reach >= self.radius else min(steps, math.floor(reach / self.ball.step) + 1)
            for reach in self.reaches
        )

    @cached_property
    def sds(self) -> tuple[float, ...]:
        """Deviations of the noise of the sums, and of those besides, in lattice steps."""
        # a hair more than needed, so that rounded deviations never exceed the loss
        sd = 2 * self.ball.steps / self.mu * (1 + 1e-12)
        factors = (2 * top if self.besides == "squares" else 1 for top in self.tops)
        return (sd,) * len(self.reaches) + tuple(sd * factor for factor in factors)

    @cached_property
    def vector(self) -> GaussianVector:
        return self._vector(self.sds)

    def _vector(self, sds: tuple[float, ...]) -> GaussianVector:
        return GaussianVector(self.name, (1,) * len(sds), sds, self.mu, REPLACE_ONE)

    def answers(self, exact: L2BallSums) -> tuple[int, ...]:
        return (*exact.z, *exact.besides)

    def draw(self, exact: L2BallSums, noise: Noise) -> NoisyRows:
        read, width = self.noisy(exact, noise), len(self.reaches)
        return NoisyRows(tuple(read[:width]), tuple(read[width:]), self.sds[0], self.sds[width:])


@dataclass(frozen=True)
class TailRows(RowSums):
    """`RowSums` with squares, and the sums of the weights of those cut.

    ends: in the same units, what is beyond is cut off, below and above.
    part: of the radius, for rows that something is cut off; at least 1/2 and below 1.

    **Guarantees.** mu-GDP for one person replaced, for any data, radius and ends that are public or
    already released. A row z that is cut and its weights t have norms of at most K' = part K; one
    that is slightly cut M = (3 + part)/4 K and M/4; any other K and 0. Weights are not negative, so
    that ||t - t'||^2 <= ||t||^2 + ||t'||^2, and either row adds at most 2||z||^2 + ||t||^2/s^2 to
    the squared change. For s^2 = K'^2/(2(K^2 - K'^2)) that is 2K^2 or less in all three cases.
    Deviations are 2K/mu, and s times that for t.
    """

    besides: Besides = field(default="squares", init=False)
    ends: tuple[tuple[float, float], ...]
    part: float

    def __post_init__(self) -> None:
        if not 0.5 <= self.part < 1:
            raise ValueError("rows that are cut keep half of the radius or more, and not all of it")

    @cached_property
    def cut(self) -> ClippedRows:
        ball = self.ball
        middle = L2Ball(ball.center, (3 + self.part) / 4 * ball.radius, ball.step)
        inner = L2Ball(ball.center, self.part * ball.radius, ball.step)
        lower, upper = zip(*self.ends, strict=True)
        return ClippedRows(ball, middle, inner, lower, upper)

    @property
    def weight_sd(self) -> float:
        """Deviation of the noise of a column's weights, in lattice steps."""
        long, short = self.ball.steps, self.cut.inner.steps
        return self.sds[0] * short / math.sqrt(2 * (long**2 - short**2))

    @cached_property
    def vector(self) -> GaussianVector:
        weights = (self.weight_sd * (1 + 1e-12),) * len(self.ends)
        return self._vector((*self.sds, *weights))

    def answers(self, exact: L2BallSums) -> tuple[int, ...]:
        return (*super().answers(exact), *exact.tails)

    def draw(self, exact: L2BallSums, noise: Noise) -> NoisyRows:
        read, d, short = self.noisy(exact, noise), len(self.ends), self.cut.inner.steps
        return NoisyRows(
            tuple(read[:d]),
            tuple(read[d : 2 * d]),
            self.sds[0],
            self.sds[d:],
            tuple(item / short for item in read[2 * d :]),
            self.vector.sds[-1] / short,
        )


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
