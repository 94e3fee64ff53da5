"""Joint Gaussian release of several columns: values, squares and counts of persons with a value.

For z in [-1, 1] and Gaussian noise of deviation s on sum(z), noise s/lambda on sum(z^2) is free if
lambda^2 <= (11 + 5 sqrt 5)/8, and noise COUNT*s on the number of persons with a value is free
beside both (docs/proofs/intervals.md, section 4). All noise lives on a fine lattice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from privmean.intervals.mean_interval import NoisySums
from privmean.noise.base import Noise
from privmean.people.reductions import Box, BoxSums
from privmean.privacy.budget import Budget
from privmean.privacy.calibrate import calibrate
from privmean.privacy.loss import Gaussian, Loss

LAMBDA = 1.665  # below sqrt((11 + 5 sqrt 5)/8) = 1.66510
COUNT = 2.11  # above 1/sqrt(3 - LAMBDA^2) = 2.0954
COUNT_LATTICE = 2**20  # counts are scaled up: their own unit is too coarse for Gaussian noise
MISSING_SDS = 5


def gaussian_loss(
    columns: int, sd: float, steps: int, name: str = "values and squares"
) -> Gaussian:
    """The loss of the joint release of `columns` columns with noise `sd` on each sum of z.

    steps: the coarsest K of the columns' grids; it sets the size of the lattice correction only.
    """
    root = math.nextafter(2 * math.sqrt(columns), math.inf)
    return Gaussian(name, root * steps, sd * steps, 3 * columns)


@dataclass(frozen=True)
class Missing:
    """Noisy number of persons with a value, and whether nulls are too many to ignore."""

    present: float
    seen: bool


def gaussian_sums(
    sums: Sequence[BoxSums],
    boxes: Sequence[Box],
    sd: float,
    noise: Noise,
    *,
    persons: int,
) -> tuple[list[NoisySums], list[Missing]]:
    """The joint release under replace-one: noise `sd` (in units of z) on every value."""
    result, counts = [], []
    for s, box in zip(sums, boxes, strict=True):
        k = box.steps
        value = s.z + int(noise.gaussian(1, sd * k)[0])
        square = s.zz + int(noise.gaussian(1, sd * k * k / LAMBDA)[0])
        count_sd = COUNT * sd
        raised = s.present * COUNT_LATTICE + int(noise.gaussian(1, count_sd * COUNT_LATTICE)[0])
        present = raised / COUNT_LATTICE
        seen = persons - present > MISSING_SDS * count_sd
        result.append(
            NoisySums(
                value=value / k,
                square=square / k**2,
                persons=max(present, 1.0) if seen else float(persons),
                value_scale=sd,
                square_scale=sd / LAMBDA,
                law="gaussian",
                count_scale=count_sd if seen else 0.0,
            )
        )
        counts.append(Missing(present, seen))
    return result, counts


def largest_strength(bill: Callable[[float], Sequence[Loss]], budget: Budget) -> float:
    """mu such that bill(mu) is within the budget (0 if none is)."""
    return calibrate(bill, budget, grid=False)


def cheaper_is_gaussian(columns: int, sd: float, epsilon: Fraction) -> bool:
    """Whether Gaussian noise `sd` is below Laplace noise at epsilon/columns a column."""
    laplace = math.sqrt(2) * 2 * columns / float(epsilon)
    return sd < laplace
