"""Rounds of clipping and noise: radii, budget shares and the number of rounds, from public numbers.

Clipping bias falls and noise grows with the radius; both are known functions of the assumption, the
number of people and the noise, so the best radius is found without looking at data. A ball whose
center is off by more than radius/sqrt(d) biases the mean by its offset, so one round cannot start
from a coarse center. Each round clips all people around the last round's answer; two or three
rounds reach the floor.

Source: Agarwal et al. (2024), Algorithm 3 and Theorem 4.3 (the idea and its rate); shares and
radii are optimised numerically here (docs/proofs/heavy-tails-threaded.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy import stats

from privmean.estimators.heavy_tailed import clipping_bias as bias
from privmean.estimators.heavy_tailed.clipping_bias import Tail
from privmean.mechanisms.weighted_sums import Law


@dataclass(frozen=True)
class Choice:
    """A clipping radius and what it costs: bias bound, noise and sampling (all rms, l2 norm)."""

    radius: float
    bias: float
    noise: float
    sampling: float

    @property
    def private(self) -> float:
        """Root of bias^2 + noise^2: the error that privacy adds."""
        return math.hypot(self.bias, self.noise)

    @property
    def error(self) -> float:
        return math.hypot(self.private, self.sampling)


def noise_unit(
    law: Law, dimension: int, strength: float, persons: int, change: float = 2.0
) -> float:
    """Root mean square l2 noise of a mean over `persons` of rows clipped to radius 1.

    strength: epsilon for "laplace" (independent noise a coordinate, l1 sensitivity sqrt(d) change)
    and "k-norm" (density proportional to exp(-epsilon |x|/change)); mu for "gaussian". change: how
    far one person moves the sum in l2, 2 under replace-one.
    """
    if law == "gaussian":
        factor = math.sqrt(dimension)
    elif law == "k-norm":
        factor = math.sqrt(dimension * (dimension + 1))
    else:
        factor = math.sqrt(2) * dimension
    return change * factor / (persons * strength)


def short(value: float) -> float:
    """`value` to 20 binary places, so that units a power of two apart get the same radii."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 2**20), exponent - 20)


def one_dimension(tails: Sequence[Tail], *, persons: int, noise: float, offset: float) -> Choice:
    """The best radius for one coordinate, given the rms noise of the mean at radius 1.

    offset: how far the center may be from the mean.
    """
    spread = min(tail.spread for tail in tails)
    top = max(100.0 * spread, 4 * min(_balanced(tail, noise) for tail in tails))
    grid = offset + np.geomspace(1e-3 * spread, top, 600)
    bound = bias.one_dimension(tails, grid, offset)
    best = int(np.argmin(bound**2 + (noise * grid) ** 2))
    radius = short(float(grid[best]))
    return Choice(radius, float(bound[best]), noise * radius, spread / math.sqrt(persons))


def _balanced(tail: Tail, noise: float) -> float:
    """The radius at which one large record's bias equals the noise: a scale for the grid's end."""
    k = tail.order
    return float((bias.jump_constant(k) * tail.jump**k / noise) ** (1 / k))


def ball(
    tails: Sequence[Tail],
    *,
    dimension: int,
    persons: int,
    noise: float,
    offset: float,
    divisor: float = 0.0,
) -> Choice:
    """The best radius of a ball whose center is within `offset` of the mean.

    divisor: relative standard deviation of the noisy number of people that divides the sum; it
    moves the answer by that part of its distance from the center.
    """
    size = min(tail.size for tail in tails)
    grid = np.geomspace(0.2 * math.hypot(offset, size) * 1.001, 100 * math.hypot(offset, size), 60)
    bound = bias.ball(tails, grid, offset)
    best = int(np.argmin(bound**2 + (noise * grid) ** 2))
    radius = short(float(grid[best]))
    return Choice(
        radius,
        float(bound[best]),
        math.hypot(noise * radius, divisor * min(offset, radius)),
        size / math.sqrt(persons),
    )


RATIOS = (1, 2, 3, 4, 6, 10)  # budget of a round over that of the round before
MOST_ROUNDS = 4


@dataclass(frozen=True)
class Round:
    """One round: its share of the budget, its people, and what is expected of it.

    share: of mu^2 (Gaussian) or of epsilon (pure laws). offset: planned distance of its center
    from the mean. choice: radius and error parts, root mean squares.
    """

    share: Fraction
    n: int
    offset: float
    choice: Choice


@dataclass(frozen=True)
class Schedule:
    """Rounds in order; the last one gives the estimate."""

    law: Law
    rounds: tuple[Round, ...]

    @property
    def error(self) -> float:
        """Planned root mean square l2 error of the estimate, sampling included."""
        return self.rounds[-1].choice.error

    @property
    def centers(self) -> tuple[float, ...]:
        """Planned distance of every round's center from the mean (with high probability)."""
        return tuple(item.offset for item in self.rounds)


def shares(rounds: int, ratio: int) -> tuple[Fraction, ...]:
    """Geometric shares ratio^1 : ratio^2 : ... that sum to one."""
    weights = [Fraction(ratio) ** i for i in range(rounds)]
    return tuple(weight / sum(weights) for weight in weights)


def strength(law: Law, total: float, share: Fraction) -> float:
    """mu or epsilon of a round that has `share` of the total strength's budget."""
    return total * math.sqrt(share) if law == "gaussian" else total * float(share)


@lru_cache(maxsize=256)
def noise_quantile(law: Law, dimension: int, tail: float) -> float:
    """Length that vector noise exceeds with probability `tail`, over its root mean square length.

    Independent Laplace noise is taken like K-norm noise: equal for one column, less above.
    """
    if law == "gaussian":
        return math.sqrt(float(stats.chi2.isf(tail, dimension)) / dimension)
    return float(stats.gamma.isf(tail, dimension)) / math.sqrt(dimension * (dimension + 1))


@lru_cache(maxsize=256)
def sampling_quantile(dimension: float, tail: float) -> float:
    """The same for a normal sampling error of effective dimension `dimension`."""
    return math.sqrt(float(stats.chi2.isf(tail, dimension)) / dimension)


@dataclass(frozen=True)
class Problem:
    """What planning needs to know, all of it public.

    total: mu (Gaussian) or epsilon (pure laws) for all rounds together. change: how far one person
    moves a clipped sum, in radii of the ball (2 under replace-one). known_weights: standard
    deviation of the sum of weights known before the first round, in people; None if every round's
    own is all there is. beta: probability that some round's center is farther from the mean than
    planned.
    """

    law: Law
    tails: tuple[Tail, ...]
    dimension: int
    total: float
    change: float = 2.0
    known_weights: float | None = None
    beta: float = 0.01

    def choose(self, power: float, persons: int, offset: float) -> Choice:
        return ball(
            self.tails,
            dimension=self.dimension,
            persons=persons,
            noise=noise_unit(self.law, self.dimension, power, persons, self.change),
            offset=offset,
            divisor=self._weights(power) / persons,
        )

    def reached(self, choice: Choice) -> float:
        """Distance from the mean that a round's answer exceeds with probability beta/8 only."""
        tail = self.beta / 16
        effective = max(tail_.dimension for tail_ in self.tails)
        noise = choice.noise * noise_quantile(self.law, self.dimension, tail)
        sampling = choice.sampling * sampling_quantile(effective, tail)
        return choice.bias + math.hypot(noise, sampling)

    def _weights(self, power: float) -> float:
        """Standard deviation of the sum of weights that a round divides by, in people."""
        if self.known_weights is not None:
            return self.known_weights
        return (2 / math.sqrt(3) if self.law == "gaussian" else 2 * math.sqrt(2)) / power

    def schedule(
        self, offset: float, parts: Sequence[tuple[Fraction, float, int]]
    ) -> Schedule | None:
        """The rounds for `parts` of (share, strength, people); None if a round would not help."""
        rounds = []
        for index, (share, power, persons) in enumerate(parts):
            if persons < 1:
                return None
            choice = self.choose(power, persons, offset)
            rounds.append(Round(share, persons, offset, choice))
            reached = self.reached(choice)
            if index < len(parts) - 1 and reached >= offset:
                return None
            offset = min(offset, reached)
        return Schedule(self.law, tuple(rounds))

    def together(self, offset: float, persons: int, rounds: int, ratio: int) -> Schedule | None:
        """All people in every round; the budget is shared."""
        return self.schedule(
            offset,
            [
                (share, strength(self.law, self.total, share), persons)
                for share in shares(rounds, ratio)
            ],
        )

    def best(
        self, offset: float, persons: int, *, rounds: int | None = None, most: int = MOST_ROUNDS
    ) -> Schedule | None:
        """The schedule of the smallest planned error over the number of rounds and the ratio."""
        counts = range(1, most + 1) if rounds is None else (rounds,)
        found = [
            self.together(offset, persons, count, ratio)
            for count in counts
            for ratio in (RATIOS if count > 1 else (1,))
        ]
        feasible = (item for item in found if item is not None)
        return min(feasible, key=lambda item: item.error, default=None)
