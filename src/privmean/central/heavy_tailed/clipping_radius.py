"""The clipping radius that minimizes the planned error: a grid search over public numbers.

Clipping bias falls and noise grows with the radius. Both are known functions of the assumption, the
number of people and the noise, so the best radius is found by planning, without looking at data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privmean.central.heavy_tailed import clipping_bias as bias
from privmean.central.heavy_tailed.bounded_moment import Tail
from privmean.mechanisms.weighted_rows import Law


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


def one_dimension(
    tails: Sequence[Tail],
    *,
    persons: int,
    noise: float,
    offset: float,
) -> Choice:
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
