"""A regression curve from local reports, one round for the whole curve.

Every client reports its response once, clipped to [-R, R]; its design point is public. The server
then smooths the reports at any x (Roth and Avella-Medina 2025, Section 7.3, in the one-round form
of docs/proofs/local-rounds.md). Reports do not depend on x or on the bandwidth, so both may be
chosen afterwards, and as often as wanted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.errors import ArgumentError
from privmean.local.aggregators.batch import Batch
from privmean.local.aggregators.relation import ALONE, Heterogeneity, cochran
from privmean.local.aggregators.scalar import report_values, scalar_law
from privmean.local.aggregators.weights import CHOICES, FEW, MINIMAX, TESTED, UNIFORM
from privmean.local.descriptor import Round

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """The curve at points `at`: value, and its standard error by sampling and privacy noise.

    The standard error leaves out the bias of smoothing; `bias` bounds it if a Lipschitz constant
    was given (a public assumption). effective: the number of reports that each point rests on.
    weights: as asked for; used: "minimax" or "uniform", as the reports were weighted;
    heterogeneity: the test that all levels give the same curve.
    """

    at: Floats
    value: Floats
    spread: Floats
    bias: Floats
    effective: Floats
    bandwidth: float
    secure: bool
    weights: str = TESTED
    used: str = MINIMAX
    heterogeneity: Heterogeneity = ALONE


def bandwidth(round_: Round, persons: int, *, sigma: float) -> float:
    """The rate-optimal bandwidth for a Lipschitz curve on [0, 1]: ((sigma^2 + v)/persons)^(1/3).

    sigma: public upper bound of the spread of a response around the curve. v: the variance that
    the weakest level's privacy adds.
    """
    half = (round_.upper[0] - round_.lower[0]) / 2
    noise = scalar_law(round_, 0).noise * half**2
    variance = validate.nonnegative("sigma", sigma) ** 2 + noise
    return float((variance / validate.whole("persons", persons, least=1)) ** (1 / 3))


def curve(
    reports: Batch,
    design: Floats,
    at: Floats,
    *,
    bandwidth: float,
    lipschitz: float | None = None,
    weights: str = TESTED,
) -> Curve:
    """Smooth reports of a one-coordinate mean round at the points `at`.

    design: the public point of each report, in the order of `reports`. weights: an Epanechnikov
    kernel times what each level's reports tell ("minimax"), the kernel alone ("uniform", which
    holds however epsilon and response are related), or the first unless the levels' curves
    disagree at some point ("tested", as in `estimate`). NaN where no report is near.
    """
    validate.choice("weights", weights, list(CHOICES))
    round_ = reports.round
    if len(design) != len(reports) or round_.coordinates != 1:
        raise ArgumentError(
            "design", len(design), "does not match the reports", "give one point a report"
        )
    width = validate.positive("bandwidth", bandwidth)
    middle = (round_.upper[0] + round_.lower[0]) / 2
    half = (round_.upper[0] - round_.lower[0]) / 2
    y = middle + half * report_values(reports)
    order = np.argsort(design, kind="stable")
    x, y, levels = np.asarray(design, dtype=float)[order], y[order], reports.levels[order]
    points = np.asarray(at, dtype=float)
    test = _agreement(round_, x, y, levels, points, width)
    used = weights
    if weights == TESTED:
        used = UNIFORM if test.related else MINIMAX
    trust = np.ones(len(x))
    if used == MINIMAX:
        laws = [scalar_law(round_, k) for k in range(len(round_.menu))]
        trust = np.array([1 / law.variance for law in laws])[levels]
    value, spread, bias, effective = (np.full(len(at), math.nan) for _ in range(4))
    for k, point in enumerate(points):
        first, last = np.searchsorted(x, [point - width, point + width])
        u = (x[first:last] - point) / width
        w = np.maximum(1 - u * u, 0.0) * trust[first:last]
        total = w.sum()
        if total <= 0:
            continue
        w = w / total
        mean = float(w @ y[first:last])
        value[k] = mean
        effective[k] = 1 / float((w * w).sum())
        if last - first > 1:
            spread[k] = math.sqrt(float((w * w) @ (y[first:last] - mean) ** 2))
        if lipschitz is not None:
            bias[k] = lipschitz * width * float(w @ np.abs(u))
    return Curve(points, value, spread, bias, effective, width, reports.secure, weights, used, test)


def _agreement(
    round_: Round,
    x: Floats,
    y: Floats,
    levels: npt.NDArray[np.uint16],
    points: Floats,
    width: float,
) -> Heterogeneity:
    """Whether the levels' own curves agree at every point (Bonferroni over the points).

    x rises. A level with fewer than FEW reports near a point is not compared there.
    """
    number = len(round_.menu)
    shape = (number, len(points))
    alone, variances = np.full(shape, math.nan), np.full(shape, math.nan)
    if len(np.unique(levels)) < 2:
        return ALONE
    for k, point in enumerate(points):
        first, last = np.searchsorted(x, [point - width, point + width])
        near, seen, level = x[first:last], y[first:last], levels[first:last]
        kernel = np.maximum(1 - ((near - point) / width) ** 2, 0.0)
        for j in range(number):
            w = kernel[level == j]
            if np.count_nonzero(w) < FEW:
                continue
            w = w / w.sum()
            alone[j, k] = w @ seen[level == j]
            variances[j, k] = (w * w) @ (seen[level == j] - alone[j, k]) ** 2
    variances[variances == 0] = math.nan
    return cochran(np.where(np.isnan(variances), math.nan, alone), variances, each=True)
