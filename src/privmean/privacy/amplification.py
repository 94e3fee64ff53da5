"""Amplification of a mechanism that runs behind a random filter of people.

A filter keeps person j with probability p_j. If neighbors change those probabilities by q_j with
sum at most `influence`, and the mechanism behind the filter is (inner, delta_0)-DP for one added or
removed person among people that are pairwise friends of friends, the whole is (outer, delta)-DP:

    add-remove    outer = influence (e^inner - 1)
    replace-one   outer = influence (e^inner - 1) + inner
    delta = delta_0 (e^outer - 1)/(e^inner - 1)

See docs/proofs/anisotropic.md, steps 3 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from privmean.array_types import Floats
from privmean.bisection import bisect
from privmean.privacy.budget import REPLACE_ONE, Relation

BASIC_INFLUENCE = 2.0
LARGEST_EPSILON = 500.0  # whose exponential, is a double with room to spare


def outer_epsilon(inner: float, relation: Relation, influence: float = BASIC_INFLUENCE) -> float:
    """epsilon of the whole from epsilon of the mechanism behind the filter."""
    outer = influence * math.expm1(inner)
    return outer + inner if relation == REPLACE_ONE else outer


def inner_epsilon(outer: float, relation: Relation, influence: float = BASIC_INFLUENCE) -> float:
    """The largest inner epsilon whose outer epsilon is at most `outer`."""
    if relation != REPLACE_ONE:
        return math.log1p(outer / influence)
    return bisect(lambda inner: outer_epsilon(inner, relation, influence) <= outer, 0.0, outer)[0]


def delta_ratio(outer: float, inner: float) -> float:
    """delta of the whole divided by delta of the mechanism behind the filter."""
    return math.expm1(outer) / math.expm1(inner)


def gaussian_tail(threshold: int, scale: float) -> float:
    """An upper bound on P(Z >= threshold) for discrete Gaussian Z of the given scale.

    The law puts at most e^(1/(24 scale^2)) times the mass of the rounded continuous law on every
    integer (Jensen), so its tail is at most that factor times the normal tail half a step earlier.
    """
    from scipy.special import ndtr

    return float(ndtr(-(threshold - 0.5) / scale)) * math.exp(1 / (24 * scale**2)) * (1 + 1e-12)


def tail_threshold(probability: float, scale: float) -> int:
    """The smallest threshold, up to one step, whose `gaussian_tail` is at most `probability`."""
    from scipy.special import ndtri

    threshold = math.ceil(scale * -float(ndtri(probability)) + 0.5)
    step = max(1, math.ceil(scale * 1e-12))
    while gaussian_tail(threshold, scale) > probability:
        threshold += step
    return threshold


@dataclass(frozen=True, eq=False)
class AmplifiedProfile:
    """A discrete privacy loss law that dominates a mechanism: masses at losses, and at infinity.

    rounding: the part by which masses may be too small.
    """

    losses: Floats
    masses: Floats
    infinite: float
    rounding: float = 1e-9

    def with_gaussian(self, mu: float, epsilon: float) -> float:
        """delta at `epsilon` of this mechanism followed by a mu-GDP Gaussian mechanism.

        The hockey-stick divergence of a product is the mean, over the first loss, of that of the
        second at the epsilon left over; its Gaussian formula holds below zero too.
        """
        from scipy.special import ndtr

        x = epsilon - self.losses
        if mu <= 0:
            second = np.maximum(-np.expm1(x), 0.0)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                second = ndtr(mu / 2 - x / mu) - np.exp(x) * ndtr(-mu / 2 - x / mu)
            # where e^x overflows the second tail has long vanished, and with it the difference
            second = np.where(np.isfinite(second), np.maximum(second, 0.0), 0.0)
        found = self.infinite + float(np.sum(self.masses * second))  # in pairs: many small numbers
        return min(1.0, found * (1 + self.rounding) + 1e-15)


def dominating(delta: Callable[[float], float], points: Sequence[float]) -> AmplifiedProfile:
    """The law dominating any mechanism with delta(epsilon) in both directions, at all `points`.

    The true curve, in e^epsilon, is convex and falls; so it lies below the lower hull of the bounds
    and of their running minimum, and below the chords between the points (Doroshenko, Ghazi,
    Kamath, Kumar and Manurangsi 2022). Below 0 it follows from the other direction.
    """
    epsilons: Floats = np.asarray(points, dtype=np.float64)
    bounds = np.minimum.accumulate([min(1.0, delta(float(item))) for item in epsilons])
    alpha = np.exp(epsilons)
    below = 1 / alpha[:0:-1]
    joined = np.concatenate(([0.0], below, alpha))
    values = np.concatenate(([1.0], 1 - below + below * bounds[:0:-1], bounds))
    hull: list[int] = []
    for k in range(len(joined)):
        while len(hull) >= 2:
            a, b = hull[-2], hull[-1]
            cross = (joined[b] - joined[a]) * (values[k] - values[a])
            if cross > (joined[k] - joined[a]) * (values[b] - values[a]):
                break
            hull.pop()
        hull.append(k)
    x, y = joined[hull], values[hull]
    slopes = np.concatenate((np.diff(y) / np.diff(x), [0.0]))
    masses = np.maximum(np.diff(slopes), 0.0) * x[1:]
    return AmplifiedProfile(np.log(x[1:]), masses, float(y[-1]))
