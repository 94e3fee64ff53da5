"""Sums of rows clipped to a ball, of their squares, and of what is cut off them, at one loss.

Rows that something is cut off end in a smaller ball (`Cut`): what they no longer use of the privacy
loss pays for a weight in every column, so that people beyond a column's limits, or in rows that
were shortened, are counted for next to nothing. docs/proofs/many-columns.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from privmean.data.person_table import Besides, ClippedRows, L2Ball, L2BallSums
from privmean.mechanisms.gaussian_sums import GaussianSums
from privmean.mechanisms.row_sums import NoisyRows, RowSums
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE


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
    def mechanism(self) -> GaussianSums:
        weights = (self.weight_sd * (1 + 1e-12),) * len(self.ends)
        return GaussianSums(self.name, (*self.sds, *weights), self.mu, relation=REPLACE_ONE)

    def answers(self, sums: L2BallSums) -> tuple[int, ...]:
        return (*super().answers(sums), *sums.tails)

    def draw(self, exact: L2BallSums, noise: Noise) -> NoisyRows:
        read, d, short = self.noisy(exact, noise), len(self.ends), self.cut.inner.steps
        return NoisyRows(
            read[:d],
            read[d : 2 * d],
            self.sds[0],
            self.sds[d:],
            tuple(item / short for item in read[2 * d :]),
            self.mechanism.sds[-1] / short,
        )
