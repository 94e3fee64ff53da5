"""The variance between people and its intervals from noisy sums of powers. Reads no data.

docs/proofs/variance.md, section 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privmean import validate
from privmean.data.person_table import Floats
from privmean.inference.assumptions import INDEPENDENT, joined, no_undetected, outliers_within_times
from privmean.inference.interval import Interval
from privmean.inference.mean_interval import no_interval
from privmean.inference.status import (
    MODIFIED_TARGET,
    NOT_IDENTIFIED,
    OK,
    OUTLIERS_CLIPPED,
    OUTLIERS_UNCHECKED,
)
from privmean.models.pooled_intervals import SEEN, Coefficients

VARIANCE, CLIPPED = "variance", "clipped"
FEWEST = 8.0  # deviations of its noise that the number of people must reach
ABOVE = 3.0  # and the variance
HEAVIER = 2.25  # times the excess for people seen beyond what noise explains
THICKEST = 15.0  # people beyond the limit over the noise of a sum: the limit was misled
# Where the assumption on the tail decides and no released number speaks for it
UNSEEN_PART = 0.15  # of the variance: what people whom the count misses may add
HEAVY = 15.0  # kurtosis of the clipped values: beyond, the tail is that of a lognormal law


@dataclass(frozen=True)
class Powers:
    """sums: noisy, of 1, a, a^2, a^4, of distances over the farther limit. scales: of their noise
    (deviations, or Laplace scales)."""

    sums: tuple[float, ...]
    scales: tuple[float, ...]
    gaussian: bool

    @property
    def law(self) -> float:
        """The deviation of noise of scale 1."""
        return 1.0 if self.gaussian else math.sqrt(2)

    @property
    def enough(self) -> bool:
        """Whether more people were seen than noise shows."""
        return self.sums[0] >= max(FEWEST * self.law * self.scales[0], 1.0)


@dataclass(frozen=True, eq=False)
class MomentVarianceIntervals:
    """variance: about the mean, in the column's own unit squared. weights: of the sums in it, by
    the first derivative; made: the sums as weighted ones; tail: the status by
    who lies beyond the limit."""

    variance: float
    n: float
    nobody: bool
    weights: Floats
    made: Coefficients
    tail: str
    excess: float
    region: tuple[float, float]
    beyond: float

    @classmethod
    def of(
        cls,
        powers: Powers,
        *,
        region: tuple[float, float],
        unit: float,
        beyond: float,
        beyond_sd: float,
        design_effect: float,
        excess: float,
    ) -> MomentVarianceIntervals:
        """region, unit: the limits, and the farther one's distance from the center; beyond: noisy
        people beyond them."""
        n = max(powers.sums[0], 1.0)
        mean, square, fourth = (item / n for item in powers.sums[1:])
        value = square - mean * mean
        unit = unit**2
        weights = np.array([2 * mean * mean - square, -2 * mean, 1.0]) * (unit / n)
        # deviations of u^2 and of 2 m u add up at most; the fourth power's noise is not forgotten
        error = fourth + powers.law * powers.scales[3] / n / 2 - square * square
        sd = math.sqrt(min(max(error, 0.0), 0.25)) + 2 * abs(mean) * math.sqrt(max(value, 0.0))
        sampling = np.zeros((3, 3))
        sampling[2, 2] = design_effect * n * sd * sd
        sure = max(beyond - SEEN * beyond_sd, 0.0)
        counted = min(max(beyond, 0.0), SEEN * beyond_sd) + beyond_sd + HEAVIER * sure
        tail = OK
        if beyond > SEEN * beyond_sd:
            thick = beyond > THICKEST * powers.law * powers.scales[2]
            tail = MODIFIED_TARGET if thick else OUTLIERS_CLIPPED
        elif excess * SEEN * beyond_sd > UNSEEN_PART * n * value or fourth > HEAVY * square**2:
            tail = OUTLIERS_UNCHECKED
        added = 0.0 if tail == MODIFIED_TARGET else excess * counted
        made = Coefficients(
            ("1", "u", "u^2"), (OK,) * 3, "gaussian" if powers.gaussian else "laplace", (0, 1, 2),
            np.array(powers.sums[:3]), sampling, np.zeros((3, 3)), np.array(powers.scales[:3]),
            np.array([0.0, 0.0, 1.0]), np.zeros(3), added, 0.0,
            tail, excess, SEEN * beyond_sd,
        )  # fmt: skip
        return cls(
            value * unit,
            powers.sums[0],
            not powers.enough,
            weights,
            made,
            tail,
            excess,
            region,
            sure,
        )

    def unknown(self) -> NoVarianceInterval:
        return NoVarianceInterval()

    @property
    def all_outside(self) -> bool:
        """Whether most people are beyond the limits: their values are in no range of candidates."""
        return self.beyond > self.n / 2

    @property
    def resolved(self) -> bool:
        """Whether the variance is more than its noise, and not only that of people beyond the
        limits, whose squares are at most 1."""
        one_noise = self.made.scales[2] * (1.0 if self.made.law == "gaussian" else math.sqrt(2))
        inside = self.made.values[2] - self.beyond > ABOVE * one_noise
        return bool(inside) and self.variance > ABOVE * self.errors()[0]

    @property
    def status(self) -> str:
        return self.tail if self.resolved else NOT_IDENTIFIED

    def errors(self) -> tuple[float, float]:
        """Deviations of privacy noise, and of noise and sampling together."""
        noise = math.sqrt(float(self.weights @ self.made.noise @ self.weights))
        sampling = max(float(self.weights @ self.made.sampling @ self.weights), 0.0)
        return noise, math.sqrt(noise * noise + sampling)

    def interval(self, level: float, target: str | None = None) -> Interval:
        """For the variance of the population. target "variance" (default), or "clipped": of values
        clipped at the limit."""
        clipped = target is not None and (
            validate.choice("target", target, (VARIANCE, CLIPPED)) == CLIPPED
        )
        words = INDEPENDENT
        if clipped or self.tail == MODIFIED_TARGET:
            name = "variance of clipped values"
        else:
            name = VARIANCE
            beyond = f"squared {outliers_within_times(self.excess)}"
            words = joined((INDEPENDENT, beyond, no_undetected(self.made.hidden)))
        made = self._ends(level, sampling=True, clipped=clipped)
        ends = made if self.resolved else (0.0, made[1])
        return Interval.one(
            ends, level, target=name, assumption=words, region=self.region, status=self.status
        )

    def noise_interval(self, level: float) -> Interval:
        ends = self._ends(level, sampling=False, clipped=True)
        target = "clipped variance of these people"
        return Interval.one(ends, level, kind="noise_interval", target=target)

    def _ends(self, level: float, *, sampling: bool, clipped: bool) -> tuple[float, float]:
        """Clipped values vary no more than others: what is beyond the limits moves the upper end
        alone."""
        value, _, low, _ = self.made.combined(self.weights, level, sampling=sampling, clipped=True)
        high = self.made.combined(self.weights, level, sampling=sampling, clipped=clipped)[3]
        return max(self.variance - (value - low), 0.0), self.variance + (high - value)


@dataclass(frozen=True)
class NoVarianceInterval:
    """The intervals where no location was found."""

    def interval(self, level: float, target: str | None = None) -> Interval:
        return no_interval(level, bounds=(0.0, math.inf), target=VARIANCE)

    def noise_interval(self, level: float) -> Interval:
        return no_interval(
            level, bounds=(0.0, math.inf), kind="noise_interval", target="clipped variance"
        )
