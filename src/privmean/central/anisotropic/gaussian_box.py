"""Boxes around an estimate with Gaussian noise: post-processing of released numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from privmean import validate
from privmean.data.person_table import Floats
from privmean.inference.clipped_intervals import sidak_level
from privmean.inference.interval import Interval
from privmean.inference.status import FAILED, OK

MEAN = "mean"


@dataclass(frozen=True, eq=False)
class GaussianBox:
    """A box with one interval a column, jointly at the level (Sidak 1967, any correlation).

    noise: standard deviation of the privacy noise a column; sampling: a bound on the standard
    deviation of the sample mean a column, from public or paid numbers; assumption: what the
    coverage for the population depends on. A failed release has the whole line.
    """

    estimate: Floats
    noise: Floats
    sampling: Floats
    assumption: str
    noise_target: str
    failed: bool = False

    def column(self, index: int) -> GaussianBox:
        """The intervals of one column for itself."""
        at = slice(index, index + 1)
        return replace(
            self, estimate=self.estimate[at], noise=self.noise[at], sampling=self.sampling[at]
        )

    def errors(self) -> tuple[float, float]:
        """Of one column: the deviation of the noise; that of the sample is bounded, not known."""
        return (math.nan if self.failed else float(self.noise[0])), math.nan

    def interval(self, level: float, target: str | None) -> Interval:
        """For the population mean: sampling and privacy noise."""
        validate.choice("target", MEAN if target is None else target, [MEAN])
        return self._box(level, np.hypot(self.noise, self.sampling), "interval", MEAN)

    def noise_interval(self, level: float) -> Interval:
        """For the same quantity of this very sample: privacy noise only."""
        return self._box(level, self.noise, "noise_interval", self.noise_target)

    def _box(self, level: float, deviation: Floats, kind: str, target: str) -> Interval:
        z = -float(ndtri((1 - sidak_level(level, len(self.estimate))) / 2))
        if self.failed:
            half = np.full(len(self.estimate), np.inf)
            middle = np.zeros(len(self.estimate))
        else:
            half, middle = z * deviation, self.estimate
        parts = {} if self.failed else {"noise": tuple((z * self.noise).tolist())}
        if kind == "interval" and not self.failed:
            parts["sampling"] = tuple((z * self.sampling).tolist())
        return Interval(
            tuple((middle - half).tolist()),
            tuple((middle + half).tolist()),
            level,
            kind=kind,
            target=target,
            assumption=self.assumption if kind == "interval" else "",
            half_widths=parts,
            status=FAILED if self.failed else OK,
        )
