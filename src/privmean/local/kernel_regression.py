"""A regression curve from local reports, one round for the whole curve.

Every client reports its response once, clipped to [-R, R]; its design point is public. The server
then smooths the reports at any x (Roth and Avella-Medina 2025, Section 7.3, in the one-round form
of docs/proofs/local-rounds.md). Reports do not depend on x or on the bandwidth, so both may be
chosen afterwards, and as often as wanted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.errors import ArgumentError
from privmean.local.aggregators.estimate_result import ALONE, Heterogeneity, cochran
from privmean.local.aggregators.round_law import CHOICES, FEW, MINIMAX, TESTED, UNIFORM
from privmean.local.aggregators.scalar_law import level_sums, scalar_law
from privmean.local.aggregators.tally import Tally
from privmean.local.round import Round
from privmean.plain_data import plain_tree


@dataclass(frozen=True)
class Curve:
    """The curve at points `at`: value, and its standard error by sampling and privacy noise.

    The standard error leaves out the bias of smoothing. effective: the number of reports that each
    point depends on.
    weights: as asked for; used: "minimax" or "uniform", as the reports were weighted;
    heterogeneity: the test that all levels give the same curve.
    """

    at: Floats
    value: Floats
    spread: Floats
    effective: Floats
    bandwidth: float
    secure: bool
    weights: str = TESTED
    used: str = MINIMAX
    heterogeneity: Heterogeneity = ALONE

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; what is not known is None."""
        names = ("at", "value", "spread", "effective", "bandwidth", "weights")
        test = self.heterogeneity
        return {
            **{name: plain_tree(getattr(self, name)) for name in names},
            "weights_used": self.used,
            "disagreement": test.p_value if test.degrees else None,
            "secure": self.secure,
        }


class _Seen(NamedTuple):
    """What was reported, by rising design point: `reports` of one level at one point, with
    the sum of their values, in [-1, 1] units, and of the squares."""

    x: Floats
    level: Integers
    reports: Floats
    total: Floats
    square: Floats

    @classmethod
    def of(cls, tally: Tally) -> _Seen:
        round_ = tally.round
        if not round_.points:
            raise ArgumentError(
                "tally",
                round_.mechanism,
                "is not a round with design points",
                "make the round with points=",
            )
        used = np.flatnonzero(tally.by_level())
        laws = [scalar_law(round_, k) for k in used.tolist()]
        if not laws:
            return cls(*(np.empty(0, dtype) for dtype in (float, np.int64, float, float, float)))
        parts = level_sums(tally, laws, used.tolist())
        counts, sums, squares = (part.reshape(-1) for part in parts)
        there = counts > 0
        x = np.tile(np.array(round_.points), len(used))[there]
        level = np.repeat(used, len(round_.points))[there]
        seen = cls(x, level, counts[there], sums[there], squares[there])
        return seen.take(np.argsort(x, kind="stable"))

    def take(self, which: Integers | slice) -> _Seen:
        return _Seen._make(part[which] for part in self)

    def near(self, point: float, width: float) -> tuple[_Seen, Floats]:
        """What lies within a bandwidth, and its kernel."""
        first, last = np.searchsorted(self.x, [point - width, point + width])
        here = self.take(slice(int(first), int(last)))
        u = (here.x - point) / width
        return here, np.maximum(1 - u * u, 0.0)

    def mean(self, weight: Floats, largest: Floats) -> tuple[float, float, float]:
        """The weighted mean of the reports, its variance, and the sum of squared weights (of
        weights that add up to 1).

        The variance is the reports' own where there are FEW or more, else that of the `largest`
        a report of its level can have: two equal bits would have none.
        """
        w = weight / (weight * self.reports).sum()
        mean = float(w @ self.total)
        spread = self.square - 2 * mean * self.total + self.reports * mean**2
        if self.reports[w > 0].sum() < FEW:
            spread = self.reports * largest[self.level]
        return mean, float((w * w) @ np.maximum(spread, 0.0)), float((w * w) @ self.reports)


def curve(
    tally: Tally, at: Floats | None = None, *, bandwidth: float, weights: str = TESTED
) -> Curve:
    """Return a smoothed curve from reports of a one-coordinate mean round.

    Parameters
    ----------
    tally : Tally
        The tally of a round with design points.
    at : array, optional
        Points of the curve. Default: those of the round.
    bandwidth : float
        Bandwidth of the Epanechnikov kernel, in units of the points.
    weights : {"tested", "minimax", "uniform"}, default "tested"
        The kernel times minimax weights, or the kernel alone; tested as in `estimate`.

    Returns
    -------
    Curve
        Values and standard errors; NaN where reports are too few.

    Privacy
    -------
    Post-processing of private reports, at no further charge for any bandwidths and points.

    Examples
    --------
    import numpy as np
    from privmean.local import curve, mean_round, tally_many

    points = [k / 10 for k in range(11)]
    round_ = mean_round(0, 1, epsilon=2, persons=5500, points=points)
    place = np.arange(5500) % 11
    tally = tally_many(round_, np.array(points)[place], epsilon=2, points=place)
    found = curve(tally, bandwidth=0.15)
    assert found.value.shape == (11,) and abs(found.value[5] - 0.5) < 0.3
    """
    validate.choice("weights", weights, list(CHOICES))
    round_, seen = tally.round, _Seen.of(tally)
    width = validate.positive("bandwidth", bandwidth)
    points = np.asarray(round_.points if at is None else at, dtype=float)
    test = _agreement(round_, seen, points, width)
    used = weights
    if weights == TESTED:
        used = UNIFORM if test.related else MINIMAX
    largest = np.ones(len(round_.menu))
    for k in np.unique(seen.level).tolist():
        largest[k] = scalar_law(round_, k).variance
    trust = 1 / largest if used == MINIMAX else np.ones(len(round_.menu))
    middle, half = (round_.upper[0] + round_.lower[0]) / 2, (round_.upper[0] - round_.lower[0]) / 2
    value, spread, effective = (np.full(len(points), math.nan) for _ in range(3))
    for k, point in enumerate(points):
        here, kernel = seen.near(float(point), width)
        weight = kernel * trust[here.level]
        if not (weight * here.reports).sum() > 0:
            continue
        mean, variance, squares = here.mean(weight, largest)
        effective[k] = 1 / squares
        spread[k] = half * math.sqrt(variance)
        if variance < 1:  # else any number of the range says as much
            value[k] = middle + half * mean
    return Curve(points, value, spread, effective, width, tally.secure, weights, used, test)


def _agreement(round_: Round, seen: _Seen, points: Floats, width: float) -> Heterogeneity:
    """Whether the levels' own curves agree at every point (Bonferroni over the points).

    A level with fewer than FEW reports near a point is not compared there.
    """
    number = len(round_.menu)
    shape = (number, len(points))
    alone, variances = np.full(shape, math.nan), np.full(shape, math.nan)
    present = np.unique(seen.level).tolist()
    if len(present) < 2:
        return ALONE
    for k, point in enumerate(points):
        here, kernel = seen.near(float(point), width)
        for j in present:
            w = np.where(here.level == j, kernel, 0.0)
            if here.reports[w > 0].sum() >= FEW:
                alone[j, k], variances[j, k], _ = here.mean(w, np.zeros(number))
    variances[variances <= 0] = math.nan
    return cochran(np.where(np.isnan(variances), math.nan, alone), variances, each=True)
