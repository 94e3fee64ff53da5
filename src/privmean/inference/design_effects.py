"""People who are not independent: how much longer the interval must be.

The variance of a mean of clustered people is a multiple of that of independent ones, the design
effect. It comes from public knowledge (correlation within public groups, an autoregressive
coefficient, a covariance proxy) or, with public groups, from a paid release of the spread between
groups. docs/proofs/intervals.md, section 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import ndtri, stdtrit

from privmean import validate
from privmean.errors import ArgumentError
from privmean.inference.interval import Interval
from privmean.inference.laplace_normal import margin, quantile
from privmean.inference.mean_interval import ClipUnits, NoisySums
from privmean.mechanisms.group_spread import GroupSpread


def grouped_design_effect(sizes: Sequence[int], icc: float) -> float:
    """1 + (sum n_g^2/n - 1) icc for public group sizes and a public intraclass correlation."""
    correlation = validate.number("icc", icc)
    if not 0 <= correlation <= 1:
        raise ArgumentError("icc", icc, "must lie in [0, 1]", "give a number in [0, 1]")
    counts = [validate.whole("sizes", item, least=1) for item in sizes]
    if not counts:
        raise ArgumentError("sizes", sizes, "is empty", "give the size of every group")
    n = sum(counts)
    return 1 + (sum(item**2 for item in counts) / n - 1) * correlation


def autoregressive_design_effect(phi: float) -> float:
    """(1 + phi)/(1 - phi) for people in a line whose correlation at distance k is phi^k."""
    coefficient = validate.number("phi", phi)
    if not -1 < coefficient < 1:
        raise ArgumentError(
            "phi", phi, "must lie between -1 and 1", "give a coefficient such as 0.5"
        )
    return (1 + coefficient) / (1 - coefficient)


def proxy_half_length(sums: NoisySums, *, proxy: float, radius: float, level: float) -> float:
    """Half length from a public covariance proxy of the mean's deviations, without normality.

    proxy: rho with the sample mean of any 1-Lipschitz function of the people's values sub-Gaussian
    of variance proxy 2 rho/n (clipping is 1-Lipschitz). The sampling part holds at half of the
    allowed miss probability, the Laplace part at the other half.
    """
    alpha = 1 - level
    sampling = math.sqrt(2 * validate.positive("proxy", proxy) * math.log(4 / alpha) / sums.n)
    return sampling + radius * quantile(alpha / 4, (sums.value_scale,), 0.0) / sums.n


def grouped_interval(
    sums: NoisySums,
    spread: GroupSpread,
    units: ClipUnits,
    *,
    level: float,
    target: str = "clipped mean",
) -> Interval:
    """Interval for the population of groups, with the released spread in place of the square."""
    alpha = 1 - level
    n = sums.n
    margined = spread.variance(sums.mean) + margin(level) * spread.largest * spread.scale / n
    fewer = float(stdtrit(spread.groups - 1, 1 - alpha / 2) / -ndtri(alpha / 2))
    tau = fewer * math.sqrt(margined / n) / sums.unit
    half = units.radius * sums.unit * quantile(alpha / 2, (1.0,), tau)
    words = "clusters are independent"
    ends = units.about(sums.mean, half)
    return Interval.one(ends, level, target=target, assumption=words, region=units.region)
