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
from privmean.inference.clipped_intervals import CLIPPED, MEAN
from privmean.inference.interval import (
    UNDETECTED,
    Interval,
    assumed,
    no_undetected,
    outliers_within,
)
from privmean.inference.mean_interval import limit
from privmean.inference.outlier_check import OutlierCheck
from privmean.inference.status import OK
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.privacy.budget import Relation

SEEN = 3.0  # noise scales that the sum of weights must exceed


@dataclass(frozen=True)
class RecordIntervals:
    """Intervals of the ratio. reach: what those beyond the limits exceed them by, on average over
    their records, at most (by assumption); nearer: the same beyond the nearer limit, if said.
    check: the noisy count of people beyond. clipped: the default target is the clipped mean."""

    column: ClippedMean
    reach: float
    excess: float
    counted_at: tuple[float, float]
    check: OutlierCheck
    design_effect: float
    clipped: bool
    nearer: float | None = None

    def interval(self, level: float, target: str | None) -> Interval:
        asked, check = self._wanted(target), self.check
        if asked == CLIPPED or not check.stands:
            return self._made(level, CLIPPED, *self.standing(target))
        unit = self.reach / self.column.box.radius
        seen = max(check.beyond, 0.0)
        # people beyond add at most `unit` each to the sum of y, and its square on top of 1
        tail = TailPart(unit * seen, unit * check.beyond_scale, (2 * unit + unit**2) * seen)
        words = f"records of {outliers_within(self.reach, self.nearer)}"
        return self._made(level, MEAN, *self.standing(target), tail, words)

    def standing(self, target: str | None = None) -> tuple[str, str]:
        """Status and advice of the interval for a target; of the column, for the default one."""
        if self._wanted(target) == CLIPPED:
            return OK, ""
        return self.check.status, self.check.advice

    def _wanted(self, target: str | None) -> str:
        asked = target or (CLIPPED if self.clipped else MEAN)
        asked = CLIPPED if asked == "clipped" else asked
        return validate.choice("target", asked, [MEAN, CLIPPED])

    def _made(
        self,
        level: float,
        target: str,
        status: str,
        advice: str,
        tail: TailPart | None = None,
        words: str = "",
    ) -> Interval:
        brief = no_undetected(self.check.hidden, self.counted_at) if words else ""
        ends = self.column.limits(1 - level, self.design_effect, tail)
        below, above = self.column.limits(1 - level, None)
        parts = {"noise": (above - below) / 2}
        if tail is not None:
            unit = self.column.box.radius / self.column.weight
            parts["clipping allowance"] = unit * tail.bias
            parts[UNDETECTED] = unit * tail.scale * math.log(1 / (1 - level))
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
        return self.column.errors(self.design_effect)

    def noise_interval(self, level: float) -> Interval:
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
