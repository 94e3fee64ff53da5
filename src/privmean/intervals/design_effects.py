"""Persons who are not independent: how much longer the interval must be.

The variance of a mean of related persons is a multiple of that of unrelated ones, the design
effect. It comes from public knowledge (correlation within public groups, an autoregressive
coefficient, a covariance proxy) or, with public groups, from a paid release of the spread between
groups. docs/proofs/intervals.md, section 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from scipy.special import ndtri, stdtrit

from privmean import validate
from privmean.errors import ArgumentError
from privmean.intervals.interval import Interval
from privmean.intervals.laplace_normal import margin, quantile
from privmean.intervals.mean_interval import NoisySums, assumption_words
from privmean.mechanisms.laplace import JointLaplace
from privmean.noise.base import Noise
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.loss import Laplace

GROUP_SHARE = Fraction(1, 5)  # of epsilon for the spread between groups
FEWEST_GROUPS = 20


def grouped_design_effect(sizes: Sequence[int], icc: float) -> float:
    """1 + (sum n_g^2/n - 1) icc for public group sizes and a public intraclass correlation."""
    correlation = validate.number("icc", icc)
    if not 0 <= correlation <= 1:
        raise ArgumentError("icc", icc, "is no intraclass correlation", "give a number in [0, 1]")
    counts = [validate.whole("sizes", item, least=1) for item in sizes]
    if not counts:
        raise ArgumentError("sizes", sizes, "is empty", "give the size of every group")
    n = sum(counts)
    return 1 + (sum(item**2 for item in counts) / n - 1) * correlation


def autoregressive_design_effect(phi: float) -> float:
    """(1 + phi)/(1 - phi) for persons in a line whose correlation at distance k is phi^k."""
    coefficient = validate.number("phi", phi)
    if not -1 < coefficient < 1:
        raise ArgumentError("phi", phi, "is no stationary coefficient", "give it between -1 and 1")
    return (1 + coefficient) / (1 - coefficient)


def proxy_half_length(sums: NoisySums, *, proxy: float, radius: float, level: float) -> float:
    """Half length from a public covariance proxy of the mean's deviations, without normality.

    proxy: rho with the sample mean of any 1-Lipschitz function of the persons' values sub-Gaussian
    of variance proxy 2 rho/n (clipping is 1-Lipschitz). The sampling part holds at half of the
    allowed miss probability, the Laplace part at the other half.
    """
    alpha = 1 - level
    sampling = math.sqrt(2 * validate.positive("proxy", proxy) * math.log(4 / alpha) / sums.persons)
    return sampling + radius * quantile(alpha / 4, (sums.value_scale,), 0.0) / sums.persons


@dataclass(frozen=True)
class GroupSpread:
    """Released spread between public groups: sum over groups of S_g^2/n_g, S_g = sum of z.

    total: noisy sum in units of z^2; scale: its Laplace scale; persons, groups and the largest
    group's size are public.
    """

    total: float
    scale: float
    persons: int
    groups: int
    largest: int
    loss: Laplace

    def variance(self, mean: float) -> float:
        """n times the variance of the mean of z (conservative for unequal groups), at least 0."""
        excess = self.total / self.persons - mean**2
        return max(0.0, self.largest * excess * self.groups / (self.groups - 1))


def group_sensitivity(steps: int, largest: int) -> int:
    """Sensitivity of the sum of floor(S_g^2/n_g), in squared grid steps, under replace-one.

    max(1, 4 - 4/n_g) K^2 for the largest group, and one step for the rounding of one term.
    """
    return math.ceil(steps * steps * max(Fraction(1), 4 - Fraction(4, largest))) + 1


def group_spread(
    group_sums: Sequence[int],
    sizes: Sequence[int],
    *,
    steps: int,
    epsilon: Fraction,
    noise: Noise,
) -> GroupSpread:
    """Release the spread between groups with pure epsilon (its own share, not free).

    group_sums: exact integer sums of z, |z| <= steps, of each group. sizes: public group sizes,
    kept when a person is replaced.
    """
    if len(group_sums) != len(sizes) or len(sizes) < FEWEST_GROUPS:
        raise ArgumentError(
            "sizes",
            len(sizes),
            f"fewer than {FEWEST_GROUPS} groups (or not one sum for each) show no spread",
            "give more groups; with few groups no interval for the population mean exists",
        )
    sensitivity = group_sensitivity(steps, max(sizes))
    scale = sensitivity / epsilon
    exact = sum(s * s // n for s, n in zip(group_sums, sizes, strict=True))
    (total,) = JointLaplace((1,), (sensitivity,), epsilon, REPLACE_ONE).draw([exact], noise)
    return GroupSpread(
        total / steps**2,
        float(scale) / steps**2,
        sum(sizes),
        len(sizes),
        max(sizes),
        Laplace(
            "spread between groups", Fraction(sensitivity), scale, joint=True, relation=REPLACE_ONE
        ),
    )


def grouped_interval(
    sums: NoisySums,
    spread: GroupSpread,
    *,
    middle: float,
    radius: float,
    region: tuple[float, float],
    level: float,
    target: str = "clipped mean",
) -> Interval:
    """Interval for the population of groups, with the released spread in place of the square."""
    alpha = 1 - level
    n = sums.persons
    margined = spread.variance(sums.mean) + margin(level) * spread.largest * spread.scale / n
    fewer = float(stdtrit(spread.groups - 1, 1 - alpha / 2) / -ndtri(alpha / 2))
    tau = fewer * math.sqrt(margined / n) / sums.unit
    half = radius * sums.unit * quantile(alpha / 2, (1.0,), tau)
    center = middle + radius * sums.mean
    return Interval(
        (center - half,),
        (center + half,),
        level,
        target=target,
        assumption=assumption_words(1.0, "").replace("persons", "groups"),
        region=(region,),
    )
