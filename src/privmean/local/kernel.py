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
from privmean.local.aggregators.scalar import report_values, scalar_law
from privmean.local.descriptor import Round

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """The curve at points `at`: value, and its standard error by sampling and privacy noise.

    The standard error leaves out the bias of smoothing; `bias` bounds it if a Lipschitz constant
    was given (a public assumption). effective: the number of reports that each point rests on.
    """

    at: Floats
    value: Floats
    spread: Floats
    bias: Floats
    effective: Floats
    bandwidth: float
    secure: bool


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
) -> Curve:
    """Smooth reports of a one-coordinate mean round at the points `at`.

    design: the public point of each report, in the order of `reports`. Weights follow an
    Epanechnikov kernel and each level's variance. NaN where no report is near.
    """
    round_ = reports.round
    if len(design) != len(reports) or round_.coordinates != 1:
        raise ArgumentError(
            "design", len(design), "does not match the reports", "give one point a report"
        )
    width = validate.positive("bandwidth", bandwidth)
    middle = (round_.upper[0] + round_.lower[0]) / 2
    half = (round_.upper[0] - round_.lower[0]) / 2
    y = middle + half * report_values(reports)
    laws = [scalar_law(round_, k) for k in range(len(round_.menu))]
    trust = np.array([1 / law.variance for law in laws])[reports.levels]
    order = np.argsort(design, kind="stable")
    x, y, trust = np.asarray(design, dtype=float)[order], y[order], trust[order]
    value, spread, bias, effective = (np.full(len(at), math.nan) for _ in range(4))
    for k, point in enumerate(np.asarray(at, dtype=float)):
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
    return Curve(np.asarray(at, dtype=float), value, spread, bias, effective, width, reports.secure)
