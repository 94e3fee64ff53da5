"""The interval of one difference of two means, from released numbers. No data are read."""

from __future__ import annotations

import math
from dataclasses import dataclass

from privmean.inference.group_table import MEAN, target_of
from privmean.inference.interval import Interval
from privmean.inference.mean_interval import limit
from privmean.inference.noise_sums import bounded_quantile, sum_quantile, sum_tail
from privmean.inference.status import OK

NOISE_TARGET = "clipped difference of these people"


@dataclass(frozen=True)
class EffectIntervals:
    """estimate: the difference, NaN where nothing is shown. sampling: deviation of its sampling
    error; scales: of the Laplace noises in it. above, below: allowances for what the limits cut
    off; infinite where a side is open. counted: whether people beyond the limits were counted.
    bounds: of the difference, by public bounds of the values."""

    estimate: float
    sampling: float = math.nan
    scales: tuple[float, ...] = ()
    above: float = 0.0
    below: float = 0.0
    region: tuple[float, float] = (-math.inf, math.inf)
    counted: bool = True
    assumption: str = ""
    status: str = OK
    advice: str = ""
    bounds: tuple[float, float] | None = None

    def interval(self, level: float, target: str | None) -> Interval:
        wanted = target_of(target, self.counted)
        up, down = (self.above, self.below) if wanted == MEAN else (0.0, 0.0)
        size = self.estimate  # NaN where nothing is shown
        if not math.isnan(size):
            size = bounded_quantile(level, up + down, self.scales, self.sampling)
        return Interval.one(
            self._within(self.estimate - size - down, self.estimate + size + up),
            level,
            target=wanted,
            assumption=self.assumption if wanted == MEAN else "",
            region=self.region,
            status=self.status,
            advice=self.advice,
        )

    def noise_interval(self, level: float) -> Interval:
        size = self.estimate
        if not math.isnan(size):
            size = sum_quantile((1 - level) / 2, self.scales, 0.0)
        ends = self._within(self.estimate - size, self.estimate + size)
        return Interval.one(
            ends, level, kind="noise_interval", target=NOISE_TARGET, status=self.status
        )

    def _within(self, low: float, high: float) -> tuple[float, float]:
        return (low, high) if math.isnan(low) else limit(low, high, self.bounds)

    def p_value(self) -> float:
        """The smallest level at which the interval for the clipped mean leaves 0 out."""
        if math.isnan(self.estimate):
            return math.nan
        return 2 * sum_tail(abs(self.estimate), self.scales, self.sampling)

    def errors(self) -> tuple[float, float]:
        """Deviations by privacy noise, and by noise and sampling together."""
        noise = math.sqrt(2 * math.fsum(item * item for item in self.scales))
        return noise, math.hypot(noise, self.sampling)
