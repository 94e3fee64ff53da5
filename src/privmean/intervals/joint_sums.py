"""One Laplace release of several integer sums of a clipped value: the mean and its interval.

For z = (clip(x) - middle)/step, an integer from -K to K, the square z^2 is as good as free beside
z, the tail share costs little beside both, and the number of persons with a value is free beside
all of them. Proofs and constants: docs/proofs/intervals.md, sections 1 to 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from privmean.intervals.mean_interval import NoisySums
from privmean.noise.base import Noise
from privmean.people.reductions import Box, BoxSums
from privmean.privacy.loss import Laplace

RHO = Fraction(7, 10)  # noise of the tail share, in scales of the value's noise; at most 1
MISSING_SCALES = 4  # nulls count as seen when they exceed this many noise scales


def one(noise: Noise, scale: Fraction) -> int:
    return int(noise.laplace(1, scale)[0])


@dataclass(frozen=True)
class JointSums:
    """What a joint release gave, in units of the radius (K steps) and of persons.

    sums: for the interval. tail: half the clipping allowance summed over persons (0 if not bought),
    with Laplace scale tail_scale. present: the noisy number of persons with a value. missing:
    whether enough persons have none to be seen; then `sums.persons` is `present`. far: noisy number
    of persons that were set apart, None if none were, with Laplace scale far_scale.
    """

    sums: NoisySums
    tail: float
    tail_scale: float
    present: float
    missing: bool
    loss: Laplace
    far: float | None = None
    far_scale: float = 0.0


def jump_steps(jump: float, steps: int) -> int:
    """ceil(K p): the integer jump at a limit."""
    return math.ceil(steps * Fraction(jump))


def value_bound(steps: int, jump: int) -> Fraction:
    """b = 2K + P(1 + 1/rho): the joint l1 sensitivity in units of the value's noise scale."""
    return 2 * steps + jump * (1 + 1 / RHO)


def joint_sums(
    box_sums: BoxSums,
    box: Box,
    epsilon: Fraction,
    noise: Noise,
    *,
    persons: int,
    jumps: tuple[float, float] = (0.0, 0.0),
    far: int | None = None,
    name: str = "value and square",
) -> JointSums:
    """The joint release under replace-one; `persons` is public.

    jumps: p+ and p-, what a person beyond the upper or lower limit adds to |value| and to the
    allowance, in units of the radius; (0, 0) releases no allowance. far: persons set apart, each
    with z = 0, z^2 = K^2 and a value; their number is released too (not together with jumps).
    """
    assert far is None or not any(jumps)
    k = box.steps
    up, down = (jump_steps(item, k) for item in jumps)
    jump = max(up, down)
    bound = value_bound(k, jump)
    value_scale = bound / epsilon
    square_scale = 2 * k * bound / epsilon
    count_scale = 2 * bound / k / epsilon
    s = box_sums
    value = s.z + up * s.above - down * s.below + one(noise, value_scale)
    square = s.zz + one(noise, square_scale)
    present = s.present + one(noise, count_scale)
    tail, tail_scale = 0, Fraction(0)
    if jump:
        tail_scale = RHO * bound / epsilon
        tail = up * s.above + down * s.below + one(noise, tail_scale)
    missing = persons - present > MISSING_SCALES * count_scale
    unit = NoisySums(
        value=value / k,
        square=square / k**2,
        persons=float(max(present, 1)) if missing else float(persons),
        value_scale=float(value_scale / k),
        square_scale=float(square_scale / k**2),
        count_scale=float(count_scale) if missing else 0.0,
    )
    return JointSums(
        unit,
        tail / k,
        float(tail_scale / k),
        float(present),
        missing,
        Laplace(name, bound, value_scale, joint=True),
        *_counted(far, 2 / epsilon, noise),
    )


def _counted(far: int | None, scale: Fraction, noise: Noise) -> tuple[float | None, float]:
    return (None, 0.0) if far is None else (float(far + one(noise, scale)), float(scale))


def partition_sums(
    box_sums: BoxSums,
    box: Box,
    epsilon: Fraction,
    noise: Noise,
    *,
    far: int | None = None,
    name: str = "count, value and square",
) -> JointSums:
    """The joint release under add-remove, where the number of persons is private.

    With Z = z + K from 0 to 2K the three integers Z^2, 2Z(2K - Z), (2K - Z)^2 of a person add up to
    4K^2 exactly, so three sums with Laplace noise of scale 4K^2/epsilon cost epsilon together and
    give the count, the sum and the sum of squares. far: persons set apart, who are in none of the
    three; their number is a fourth cell, with scale 1/epsilon.
    """
    k = box.steps
    s = box_sums
    whole = 4 * k * k
    scale = Fraction(whole) / epsilon
    high = s.zz + 2 * k * s.z + k * k * s.present + one(noise, scale)
    middle = 2 * (k * k * s.present - s.zz) + one(noise, scale)
    low = s.zz - 2 * k * s.z + k * k * s.present + one(noise, scale)
    count = (high + middle + low) / whole
    unit = NoisySums(
        value=(high - low) / whole,
        square=(high + low - middle) / whole,
        persons=max(count, 1.0),
        value_scale=float(1 / epsilon),
        square_scale=float(2 / epsilon),
        partition=True,
    )
    loss = Laplace(name, Fraction(whole), scale)
    apart = _counted(far, 1 / epsilon, noise)
    return JointSums(unit, 0.0, 0.0, count, True, loss, *apart)
