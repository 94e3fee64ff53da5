"""The last stage of the default mean over records: a ratio of capped sums, and its intervals.

A person counts with weight u = min(records, C)/C. One joint release gives the sums of u z, u^2 z^2,
u, u^2 z and u^2 (z: the person's limited mean in units of the box), so that the sampling variance
of the ratio follows without an assumption. Claim and proof: docs/proofs/default-mean.md, section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from privmean import validate
from privmean.estimators.means.clipped_mean import ClippedMean, TailPart
from privmean.inference.assumptions import assumed, no_undetected, outliers_within
from privmean.inference.interval import Interval
from privmean.inference.mean_interval import limit, no_interval
from privmean.inference.outlier_check import OutlierCheck
from privmean.inference.status import FAILED, MODIFIED_TARGET, OK
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.privacy.budget import Relation

MEAN, CLIPPED = "mean", "clipped mean"
SEEN = 3.0  # noise scales that the sum of weights must exceed


@dataclass(frozen=True)
class RecordIntervals:
    """Intervals of the ratio. reach: what those beyond the limits exceed them by, on average over
    their records, at most (by assumption); nearer: the same beyond the nearer limit, if said.
    check: noisy counts of people beyond, None if they were not counted (then the interval is for
    the clipped mean). clipped: the default target is that."""

    column: ClippedMean
    reach: float
    excess: float
    counted_at: tuple[float, float]
    check: OutlierCheck | None
    design_effect: float
    clipped: bool
    status: str = OK
    nearer: float | None = None

    def interval(self, level: float, target: str | None) -> Interval:
        asked = target or (CLIPPED if self.clipped or self.check is None else MEAN)
        asked = CLIPPED if asked == "clipped" else asked
        validate.choice("target", asked, [MEAN, CLIPPED] if self.check else [CLIPPED])
        if self.status == FAILED:
            return no_interval(level, target=asked, status=FAILED)
        check = self.check
        if asked == CLIPPED or check is None:
            return self._made(level, CLIPPED)
        if check.status == MODIFIED_TARGET:
            return self._made(level, CLIPPED, status=MODIFIED_TARGET, advice=check.advice)
        unit = self.reach / self.column.box.radius
        seen = max(check.beyond, 0.0)
        # people beyond add at most `unit` each to the sum of y, and its square on top of 1
        tail = TailPart(unit * seen, unit * check.beyond_scale, (2 * unit + unit**2) * seen)
        words = f"records of {outliers_within(self.reach, self.nearer)}"
        return self._made(level, MEAN, tail, words, check.status, check.advice)

    def _made(
        self,
        level: float,
        target: str,
        tail: TailPart | None = None,
        words: str = "",
        status: str = OK,
        advice: str = "",
    ) -> Interval:
        brief = ""
        if words and self.check is not None:
            brief = no_undetected(self.check.hidden, self.counted_at)
        ends = self.column.limits(1 - level, self.design_effect, tail)
        below, above = self.column.limits(1 - level, None)
        parts = {"noise": (above - below) / 2}
        if tail is not None:
            parts["clipping allowance"] = self.column.box.radius * tail.bias / self.column.weight
        else:
            ends = limit(*ends, self.column.region)
        return Interval.one(
            ends,
            level,
            target=target,
            assumption=assumed(self.design_effect, words, brief),
            region=self.column.region,
            parts=parts,
            status=status,
            advice=advice,
            short_assumption=assumed(self.design_effect, brief) if brief else "",
        )

    def errors(self) -> tuple[float, float]:
        """Deviations by privacy noise, and by noise and sampling together."""
        if self.status == FAILED:
            return math.nan, math.nan
        return self.column.errors(self.design_effect)

    def noise_interval(self, level: float) -> Interval:
        if self.status == FAILED:
            return no_interval(level, kind="noise_interval", target=CLIPPED, status=FAILED)
        low, high = self.column.limits(1 - level, None)
        return Interval.one(
            (low, high),
            level,
            kind="noise_interval",
            target="clipped mean of these people's records",
            region=self.column.region,
            parts={"noise": (high - low) / 2},
        )


def record_sums(name: str, relation: Relation, epsilon: Fraction) -> ClippedSums:
    """The joint release of the last stage."""
    return ClippedSums(name, relation, epsilon=epsilon, cross=True)


def too_few(column: ClippedMean) -> bool:
    """Whether hardly any records are seen."""
    return column.sums.weight <= SEEN * column.sums.weight_noise
