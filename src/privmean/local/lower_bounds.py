"""What no locally private protocol can do better: lower bounds with their constants.

For any epsilon-locally private reports of these people, whatever the mechanism, and any estimate
made of them, some distribution of the values is estimated no better than this. Proofs:
docs/proofs/local-limits.md. Sources: Aliakbarpour, Fallah, Roy and Stevens (2025), Theorems 2.3
and 3.2, here with other constants and at every epsilon; Kairouz, Oh and Viswanath (2014); Barnes,
Chen and Ozgur (2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.errors import ArgumentError
from privmean.local.exact_coins import exact_epsilon
from privmean.local.mechanisms import BALLS, SCALARS
from privmean.local.round import Round


@dataclass(frozen=True)
class Limit:
    """No protocol has a smaller worst root mean square error, nor a smaller radius.

    rmse: of one mean, of a vector (l2), or of one share. radius: with probability 1 - beta no
    protocol's error stays below it for every distribution. Both in units of the values; 0 where
    nothing is proved.
    """

    rmse: float
    radius: float


def lower_bound(round_: Round, epsilons: Sequence[object]) -> Limit:
    """Return the smallest error of any local protocol for the question of a round.

    Parameters
    ----------
    round_ : Round
        The round.
    epsilons : list of float or list of (float, int)
        One epsilon per person, or pairs (epsilon, n).

    Returns
    -------
    Limit
        Root mean square error and radius, in the unit of the value; 0 if nothing is proved.

    Notes
    -----
    Source: docs/proofs/local-limits.md.

    Examples
    --------
    from privmean.local import lower_bound, mean_round

    question = mean_round(-1, 1, epsilon=1, persons=10_000)
    assert round(lower_bound(question, [(1, 10_000)]).rmse, 4) == 0.0214
    """
    pairs = [item if isinstance(item, tuple) else (item, 1) for item in epsilons]
    if not pairs:
        raise ArgumentError(
            "epsilons", 0, "must hold an epsilon above 0", "give one epsilon per person"
        )
    values = np.array([float(exact_epsilon("epsilons", item)) for item, _ in pairs])
    counts = np.array([float(validate.nonnegative("persons", number)) for _, number in pairs])
    beta = round_.beta
    if round_.mechanism in SCALARS:
        low, high = np.array(round_.lower), np.array(round_.upper)
        half = (high - low) / 2
        sigma = np.minimum(np.array(round_.sigma or half) / half, 1.0)
        found = [
            (h * mean_rmse(values, counts, s), h * s * mean_radius(values, counts, beta))
            for h, s in zip(half, sigma, strict=True)
        ]
        worst = np.array(found).max(axis=0)
        return Limit(float(worst[0]), float(worst[1]))
    if round_.mechanism in BALLS:
        assert round_.radius is not None
        assert round_.dimension is not None
        return Limit(
            round_.radius * vector_rmse(values, counts, round_.dimension),
            round_.radius * mean_radius(values, counts, beta),
        )
    assert round_.items is not None
    return Limit(
        mean_rmse(values, counts) / 2,
        max(
            mean_radius(values, counts, beta) / 2, share_radius(values, counts, round_.items, beta)
        ),
    )


def mean_rmse(epsilons: Floats, counts: Floats, sigma: float = 1.0) -> float:
    """For values in [-1, 1] of standard deviation at most sigma.

    Van Trees' inequality over means with a cosine prior, for values -1 and 1: there every private
    report is a blurred randomized response, of information t^2/(1 - t^2 mean^2).
    """
    t = np.tanh(epsilons / 2)
    # all means whose +-1 law has a standard deviation of at most sigma, and values +-sigma
    edge = math.sqrt(max(0.0, 1 - sigma**2))
    return max(
        _van_trees(t, counts, edge if sigma < 1 else -1.0, 1.0),
        sigma * _van_trees(t, counts, -1.0, 1.0),
    )


def _van_trees(t: Floats, counts: Floats, low: float, high: float) -> float:
    nodes, weights = np.polynomial.legendre.leggauss(64)
    prior = weights * np.cos(math.pi * nodes / 2) ** 2
    best = 0.0
    for part in np.geomspace(1e-3, 1.0, 40):
        for middle in {(low + high) / 2, low + part * (high - low) / 2}:
            reach = part * (high - low) / 2
            mean = middle + reach * nodes
            told = counts[:, None] * t[:, None] ** 2 / (1 - (t[:, None] * mean) ** 2)
            total = float((prior * told.sum(axis=0)).sum()) + (math.pi / reach) ** 2
            best = max(best, 1 / total)
    return math.sqrt(best)


def mean_radius(epsilons: Floats, counts: Floats, beta: float) -> float:
    """For values -1 and 1: the largest d such that means d and -d cannot be told apart.

    If prod (1 - d^2 t^2) > 4 beta (1 - beta), no test of reports errs with at most beta on both
    sides.
    """
    t = np.tanh(epsilons / 2)
    wanted = math.log(4 * beta * (1 - beta))
    low, high = 0.0, 1.0
    for _ in range(60):
        d = (low + high) / 2
        if float((counts * np.log1p(-((d * t) ** 2))).sum()) > wanted:
            low = d
        else:
            high = d
    return low


def vector_rmse(epsilons: Floats, counts: Floats, dimension: int) -> float:
    """For vectors of the unit ball, l2: the largest bound over cubes of 1 to `dimension` sides."""
    best = mean_rmse(epsilons, counts)
    told = np.sinh(np.minimum(epsilons, 50.0) / 2) ** 2
    for k in np.unique(np.geomspace(2, max(2, dimension), 60).astype(int)):
        if k > dimension:
            continue
        information = float((counts * np.minimum(told, k)).sum())
        for a in np.linspace(0.05, 0.999, 60):
            square = k / (information / (1 - a * a) + k * (math.pi / a) ** 2)
            best = max(best, math.sqrt(square))
    return best


def share_radius(epsilons: Floats, counts: Floats, items: int, beta: float) -> float:
    """For shares of items, all at once, where everybody answers without waiting for others: Fano's
    inequality over which of them is a little more frequent."""
    information = float(
        (counts * np.minimum(np.sinh(np.minimum(epsilons, 50.0) / 2) ** 2, items - 1)).sum()
    )
    room = (1 - beta) * math.log(items) - math.log(2)
    return min(0.5, math.sqrt(max(0.0, room) / information) / 2)
