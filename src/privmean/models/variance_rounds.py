"""The two adaptive searches for a variance: refinement (CoinPress) and bisection on coverage.

Every call costs the same epsilon, and the number of calls is capped by the plan, whatever the data
answer: constant data stop at the smallest variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from privmean.central.clipped_mean import ClippedMean
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.laplace import JointLaplace
from privmean.noise.base import Noise
from privmean.people.reductions import Box, People
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.loss import Laplace, Loss
from privmean.release import OK

if TYPE_CHECKING:
    from privmean.models.variance import Variance

NOT_COVERED = "not covered"


@dataclass(frozen=True)
class Found:
    """What a search found. scale: the pair scale, or the deviation at which the last second moment
    was taken; moment: that moment (noisy, in units of scale^2)."""

    variance: float
    bill: tuple[Loss, ...]
    status: str
    center: float | None
    scale: float
    moment: float = 0.0


def clip_multiple(gamma: float) -> float:
    """beta: how many deviations a round of refinement keeps."""
    log = math.log(1 / gamma)
    return math.sqrt(1 + 2 * math.sqrt(log) + 2 * log)


def coinpress(settings: Variance, people: People, n: int, each: Fraction, noise: Noise) -> Found:
    """Centre and spread in turn, `rounds` times."""
    assert settings.center is not None
    center, sd, beta = settings.center, settings.largest, clip_multiple(settings.gamma)
    bill: list[Loss] = []
    moment, scale = 0.0, sd
    for _ in range(settings.rounds):
        center, weight = _midpoint(people, n, center, math.sqrt(2) * sd, each, noise, bill)
        moment = _second_moment(people, center, beta * sd, each, noise, bill) * beta**2 / weight
        scale = sd
        # the terms added keep the next radius above the truth up to the noise, and above 0
        sd = scale * math.sqrt(max(0.0, moment) + 1 / math.sqrt(weight) + 1 / (2 * weight))
        sd = min(max(sd, settings.smallest), settings.largest)
    return Found(sd**2, tuple(bill), OK, center, scale, moment)


def bisection(settings: Variance, people: People, n: int, each: Fraction, noise: Noise) -> Found:
    """Halve the variance while the interval of sqrt(2) deviations covers 1 - gamma of the persons.

    The last variance that passed is returned; at most calls/2 rounds.
    """
    assert settings.center is not None
    center, sd = settings.center, settings.largest
    bill: list[Loss] = []
    passed: float | None = None
    for _ in range(settings.calls // 2):
        center, weight = _midpoint(people, n, center, math.sqrt(2) * sd, each, noise, bill)
        inside = people.count_in_box([_box(center, math.sqrt(2) * sd)])
        bill.append(Laplace("coverage", Fraction(1), 1 / each))
        (noisy,) = JointLaplace((1,), (1,), each).release([inside], noise)
        if noisy < (1 - settings.gamma) * weight:
            break
        passed = sd
        if sd <= settings.smallest:
            break
        sd = max(sd / math.sqrt(2), settings.smallest)
    if passed is None:
        return Found(settings.largest**2, tuple(bill), NOT_COVERED, center, settings.largest)
    return Found(passed**2, tuple(bill), OK, center, passed)


def _box(center: float, radius: float) -> Box:
    """[center - radius, center + radius], as wide as doubles can hold around a far centre."""
    radius = max(radius, abs(center) * 2.0**-40)
    return Box(center - radius, center + radius)


def _midpoint(
    people: People,
    n: int,
    center: float,
    radius: float,
    each: Fraction,
    noise: Noise,
    bill: list[Loss],
) -> tuple[float, float]:
    """The clipped mean around `center`, and what it was divided by (n less visible nulls)."""
    box = _box(center, radius)
    step = ClippedSums("midpoint", REPLACE_ONE, 1, epsilon=each)
    bill += step.losses
    (exact,) = people.box_sums([box])
    assert exact is not None
    (sums,) = step.release([box], [exact], noise)
    mean = ClippedMean(box, sums, n)
    return mean.estimate, mean.weight


def _second_moment(
    people: People, center: float, radius: float, each: Fraction, noise: Noise, bill: list[Loss]
) -> float:
    """Noisy sum of squared deviations clipped at `radius`, in units of radius^2: one person's share
    is at most 1."""
    box = _box(center, radius)
    bill.append(Laplace("second moment", Fraction(1), 1 / each))
    (exact,) = people.box_sums([box])
    assert exact is not None
    (noisy,) = JointLaplace((box.steps**2,), (1,), each).release([exact.zz], noise)
    return noisy
