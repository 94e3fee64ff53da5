"""Intervals for a private variance: post-processing, for values close to normal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import ndtr

from privmean.data.person_table import Floats
from privmean.inference.assumptions import INDEPENDENT, NEAR_NORMAL, joined
from privmean.inference.interval import Interval
from privmean.inference.laplace_normal import quantile
from privmean.inference.mean_interval import no_interval
from privmean.inference.status import ASSUMPTION_VIOLATED, FAILED, OK
from privmean.models.variance_rounds import Found, Scope, clip_multiple, levels

ANY = (0.0, math.inf)  # a variance of which nothing is known
NORMAL = joined((INDEPENDENT, NEAR_NORMAL))
NOT_NORMAL = (
    "No normal law fits the tests of coverage: the values are not close to normal. Use "
    "method='moment', which does not assume it."
)


@dataclass(frozen=True)
class VarianceIntervals:
    """One search's intervals. each: epsilon of a call of the last round."""

    method: str
    scope: Scope
    each: Fraction
    found: Found

    def interval(self, level: float, target: str | None = None) -> Interval:
        """For the variance of the law that values come from, if it is close to normal."""
        if self.found.status == FAILED:
            return no_interval(level, bounds=ANY, target="variance")
        ends = self._ends(level, sampling=True)
        refuted = self.method == "bisection" and self._refuted(level)
        return Interval.one(
            ends,
            level,
            target="variance",
            assumption=NORMAL,
            status=ASSUMPTION_VIOLATED if refuted else OK,
            advice=NOT_NORMAL if refuted else "",
        )

    def noise_interval(self, level: float) -> Interval:
        """What privacy noise by itself leaves open (pair scale: as `interval`)."""
        target = "variance as these people show it"
        if self.found.status == FAILED:
            return no_interval(level, bounds=ANY, kind="noise_interval", target=target)
        return Interval.one(
            self._ends(level, sampling=False),
            level,
            kind="noise_interval",
            target=target,
            assumption=NEAR_NORMAL,
        )

    def _ends(self, level: float, *, sampling: bool) -> tuple[float, float]:
        if self.method == "pair scale":
            return self._of_pairs(level)
        if self.method == "coinpress":
            return self._of_moment(level, sampling)
        return self._of_coverage(level, sampling)

    def _of_pairs(self, level: float) -> tuple[float, float]:
        """All deviations under which the bin found could have the largest noisy count.

        Its expected count may fall short of the largest by the noise of two counts and the sampling
        error of their difference.
        """
        ratio = np.geomspace(0.05, 20.0, 2001)  # deviation over the scale found
        edges = 2.0 ** np.arange(-12, 13)
        # mass of (edge/2, edge] times the scale found, for a normal of each deviation
        steps = np.concatenate([[0.0], edges])[None, :] / ratio[:, None]
        mass = 2 * np.diff(ndtr(steps), axis=1)
        pairs = int(self.found.n) // 2
        here, best = mass[:, edges == 1.0][:, 0], mass.max(axis=1)
        scale = 2 / float(self.each)
        some = np.arange(0, len(ratio), 200)
        room = [
            quantile((1 - level) / 2, (scale, scale), math.sqrt(pairs * float(best[k] + here[k])))
            for k in some
        ]
        inside = ratio[(best - here) * pairs <= np.interp(np.arange(len(ratio)), some, room)]
        found = self.found.scale
        return float(inside.min() * found) ** 2, float(inside.max() * found) ** 2

    def _of_moment(self, level: float, sampling: bool) -> tuple[float, float]:
        """The last clipped second moment with its noise; |w| <= beta bounds its sampling error."""
        beta, n = clip_multiple(self.scope.gamma), self.found.n
        noise = beta**2 / (n * float(self.each))
        sd = 0.0
        if sampling:
            # E w^4 <= beta^2 E w^2; three noise scales above the noisy moment
            sd = math.sqrt(beta**2 * (max(self.found.moment, 0.0) + 3 * noise) / n)
        half = quantile((1 - level) / 2, (noise,), sd)
        unit = self.found.scale**2
        # the released center's own error enters squared and only raises the moment
        return unit * max(self.found.moment - half, 0.0), unit * (self.found.moment + half)

    def _of_coverage(self, level: float, sampling: bool) -> tuple[float, float]:
        """All deviations that pass every test, with the estimate and a factor of 2 on each side,
        one step of the search, for laws that are not quite normal; else the public range."""
        low, high = self.scope.smallest**2, self.scope.largest**2
        passing = self._passing(level, sampling)
        if not len(passing):
            return low, high
        found = self.found.variance
        first, last = min(passing[0] ** 2, found / 2), max(passing[-1] ** 2, 2 * found)
        return max(low, float(first)), min(high, float(last))

    def _refuted(self, level: float) -> bool:
        """Whether the tests contradict every normal law."""
        return bool(self.found.seen) and not len(self._passing(level, sampling=True))

    def _passing(self, level: float, sampling: bool) -> Floats:
        """The deviations whose normal law covers what every test from the accepted one on saw, up
        to its noise and sampling error (Bonferroni over all tests), in order."""
        n = self.found.n
        low, high = self.scope.smallest, self.scope.largest
        grid: Floats = np.geomspace(low, high, 2001)
        tests = len(levels(low, high)) + len(self.found.seen)
        sd = 0.5 / math.sqrt(n) if sampling else 0.0
        room = quantile((1 - level) / tests / 2, (1 / (n * float(self.each)),), sd)
        inside = np.full(len(grid), bool(self.found.seen))
        for tested, share in self.found.seen:
            inside &= np.abs(2 * ndtr(math.sqrt(2) * tested / grid) - 1 - share) <= room
        passing: Floats = grid[inside]
        return passing


@dataclass(frozen=True)
class PublicRange:
    """The interval of a search that gives none: the public range of the deviation."""

    smallest: float
    largest: float

    def interval(self, level: float, target: str | None = None) -> Interval:
        return self._made(level, "interval")

    def noise_interval(self, level: float) -> Interval:
        return self._made(level, "noise_interval")

    def _made(self, level: float, kind: str) -> Interval:
        ends = ((self.smallest**2,), (self.largest**2,))
        return Interval(*ends, level, kind=kind, target="variance", assumption="the public range")
