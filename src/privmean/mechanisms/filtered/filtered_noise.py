"""The mean of the people kept: a noisy count first, then noise in proportion to its inverse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.array_types import Flags, Floats, Integers
from privmean.mechanisms.filtered.row_lattice import Metric
from privmean.noise.noise_source import Noise
from privmean.privacy.privacy_events import PrivacyEvent

MEAN_STEPS = 2.0**30  # least lattice steps a standard deviation of the mean's noise


@dataclass(frozen=True)
class FilterCalibration:
    """Noise of one filtered mean.

    count_steps: lattice steps a person; count_scale: noise of the count in steps; threshold: steps
    taken off; multiplier: s; losses: the accounting of the whole filtered mean (filter included).
    law: "gaussian" or "laplace" (the published form) for the count.
    """

    count_steps: int
    count_scale: float
    threshold: int
    multiplier: float
    events: tuple[PrivacyEvent, ...]
    law: str = "gaussian"

    @property
    def offset(self) -> float:
        """t: people taken off the count."""
        return self.threshold / self.count_steps

    def expected_multiplier(self, persons: float) -> float:
        """s people/(people - t): the noise in units of 2 lambda/people; infinite if t is."""
        left = persons - self.offset
        return self.multiplier * persons / left if left >= 1 else math.inf


@dataclass(frozen=True)
class KeptMean:
    """What a filtered mean releases, in lattice units.

    count: the noisy count of kept people (less its offset). means, deviations: one a metric, the
    noisy means and the standard deviation of their noise a coordinate.
    """

    count: float
    means: tuple[Floats, ...]
    deviations: tuple[float, ...]


def exact_sums(points: Integers, kept: Flags) -> list[int]:
    """Sums over the kept rows as Python integers, whatever their size."""
    high = np.zeros(points.shape[1], dtype=np.int64)
    low = np.zeros(points.shape[1], dtype=np.int64)
    index = np.flatnonzero(kept)
    rows = max(1, (1 << 20) // max(1, points.shape[1]))
    for start in range(0, len(index), rows):
        some = points[index[start : start + rows]]
        high += (some >> 31).sum(axis=0)
        low += (some & 0x7FFFFFFF).sum(axis=0)
    return [(int(a) << 31) + int(b) for a, b in zip(high, low, strict=True)]


def noisy_count(kept: int, calibration: FilterCalibration, noise: Noise) -> int:
    """The count less its offset plus noise, in lattice steps."""
    if calibration.law == "laplace":
        (drawn,) = noise.laplace(1, Fraction(calibration.count_scale)).tolist()
    else:
        (drawn,) = noise.gaussian(1, calibration.count_scale).tolist()
    steps: int = kept * calibration.count_steps - calibration.threshold + drawn
    return steps


def lattice_bits(deviation: float) -> int:
    """Halvings of the data's lattice step until noise of `deviation` steps has MEAN_STEPS."""
    return max(0, math.ceil(math.log2(MEAN_STEPS / deviation)))


def kept_mean(
    metrics: Sequence[Metric],
    kept: Flags,
    calibration: FilterCalibration,
    noise: Noise,
    shares: Sequence[float] = (1.0,),
) -> KeptMean | None:
    """The noisy mean of the kept rows, or None where the noisy count is below one person.

    shares: of the squared precision 1/s^2 a metric; they add up to 1. The mean is a ratio with a
    private denominator, so it is first rounded to a lattice that the noisy count alone decides.
    """
    persons = int(np.count_nonzero(kept))
    steps = noisy_count(persons, calibration, noise)
    if steps < calibration.count_steps:
        return None
    count = steps / calibration.count_steps
    means, deviations = [], []
    for metric, share in zip(metrics, shares, strict=True):
        multiplier = calibration.multiplier / math.sqrt(share)
        deviation = 2 * metric.radius * multiplier / count
        bits = lattice_bits(deviation)
        drawn = noise.gaussian(metric.points.shape[1], deviation * 2**bits)
        sums = exact_sums(metric.points, kept)
        # an empty count above one person has probability below the billed delta; its mean is 0
        c = max(persons, 1)
        rounded = [((2 * total << bits) + c) // (2 * c) for total in sums]
        means.append(
            np.array([(a + b) / 2**bits for a, b in zip(rounded, drawn.tolist(), strict=True)])
        )
        deviations.append(deviation)
    return KeptMean(count, tuple(means), tuple(deviations))
