"""Noise of the filtered mean: how large, and what is taken off the count.

Every variant has the form: count n' = |C| - t + N(0, 1/m^2) and, where n' >= 1, the mean of the
kept people plus (2 lambda/n') s M^(1/4) g with standard normal g. A calibration holds m, t and the
multiplier s. Source: Dagan, Jordan, Yang, Zakynthinou and Zhivotovskiy (2024); the constants are
derived in docs/proofs/anisotropic.md and are about 14 times smaller than the published ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import ndtri

from privmean.errors import InfeasibleError
from privmean.mechanisms.filtered.filtered_noise import MEAN_STEPS, FilterCalibration
from privmean.privacy.amplification import (
    BASIC_INFLUENCE,
    delta_ratio,
    inner_epsilon,
    tail_threshold,
)
from privmean.privacy.budget import Relation
from privmean.privacy.gdp import gaussian_mu
from privmean.privacy.loss_distribution import PrivacyProfile
from privmean.privacy.profile_events import FilteredMean

BAD_SHARE = 0.1  # share of delta for a count above the true number of kept people
COUNT_SHARES = np.linspace(0.02, 0.95, 120)  # shares of mu tried for the count
COUNT_STEPS = 2.0**24  # the same for the count
CLIP_STEPS = 2**26  # the clipping radius in lattice steps
MOST_PAIRED = 30_000  # people up to which all pairs are compared
CENTRE_PERSONS = 10_000  # people of a center beyond that, at epsilon 1 or more
SAFETY = 1e-9  # relative room for the rounding of doubles in the formulas


def count_lattice(deviation: float) -> int:
    """Lattice steps a person (a power of two) for count noise of `deviation` people."""
    return int(2 ** max(0, math.ceil(math.log2(COUNT_STEPS / deviation))))


@dataclass(frozen=True)
class TightCount:
    """m, t and s of the tight calibration, before they are put on lattices."""

    count_mu: float
    offset: float
    multiplier: float


def tight_count(
    mu: float,
    bad: float,
    n_guess: float,
    shares: Iterable[float] = COUNT_SHARES,
    most: float = 1.0,
) -> TightCount | None:
    """The split of `mu` between count and mean with the least noise at `n_guess` people.

    most: the largest share of the people that may be taken off the count.
    """
    z = -float(ndtri(bad))
    best: tuple[float, TightCount] | None = None
    for share in shares:
        count_mu = float(share) * mu
        offset = z / count_mu
        if offset >= min(most * n_guess, n_guess - 1):
            continue
        multiplier = 1 / math.sqrt(mu**2 - count_mu**2)
        noise = multiplier * n_guess / (n_guess - offset)
        if best is None or noise < best[0]:
            best = noise, TightCount(count_mu, offset, multiplier)
    return None if best is None else best[1]


def lattice_room(mu: float, steps: float, answers: int) -> float:
    """Room for the lattice of Gaussian noise of at least `steps`: in epsilon, and of delta."""
    return answers * (12 + mu) ** 2 / (6 * steps**2)


class TooFewPeople(InfeasibleError):
    """More people or a larger epsilon would do."""


def infeasible(n_guess: float, epsilon: float, relation: str) -> TooFewPeople:
    return TooFewPeople(
        f"a filtered mean at epsilon={epsilon:g} needs more than {n_guess:g} people "
        f"({relation}): its count alone would fail",
        "use more people, a larger epsilon or delta, or another estimator",
    )


def calibrate(
    epsilon: float,
    delta: float,
    n_guess: float,
    relation: Relation,
    *,
    dimension: int = 1,
    bad: float = BAD_SHARE,
    most: float = 1.0,
    influence: float = BASIC_INFLUENCE,
    slip: float = 0.0,
) -> FilterCalibration:
    """The calibration of a filtered mean within (epsilon, delta), for `n_guess` public people.

    n_guess only steers utility: privacy holds for any number of people. most: of the people
    that may be taken off the count, so that a center bears some missing. influence and slip belong
    to the filter (see `privacy.amplification`). Raises InfeasibleError from public numbers.
    """
    inner = inner_epsilon(epsilon, relation, influence + slip)
    behind = (delta - (1 + math.exp(epsilon)) * slip) / delta_ratio(epsilon, inner)
    behind *= 1 - SAFETY
    if behind <= 0:
        raise infeasible(n_guess, epsilon, relation)
    first = gaussian_mu(inner, behind)
    room = lattice_room(first, COUNT_STEPS, 1) + lattice_room(first, MEAN_STEPS, dimension)
    mu = gaussian_mu(inner - room, (1 - bad) * behind * (1 - room)) * (1 - SAFETY)
    tight = tight_count(mu, bad * behind, n_guess, most=most) if mu > 0 else None
    if tight is None:
        raise infeasible(n_guess, epsilon, relation)
    steps = count_lattice(1 / tight.count_mu)
    scale = steps / tight.count_mu
    threshold = tail_threshold(bad * behind, scale)
    mean_mu = 1 / tight.multiplier
    multiplier = 1 / (mean_mu - math.sqrt(dimension) / MEAN_STEPS)
    loss = FilteredMean(
        "filtered mean",
        epsilon=Fraction(epsilon),
        neighbors=relation,
        count_sensitivity=steps,
        count_scale=scale,
        threshold=threshold,
        mean_mu=mean_mu,
        mean_scale=MEAN_STEPS,
        answers=dimension,
        influence=influence,
        slip=slip or None,
    )
    return FilterCalibration(steps, scale, threshold, multiplier, (loss,))


def gaussian_after(curve: PrivacyProfile, epsilon: float, delta: float, dimension: int) -> float:
    """The largest mu of Gaussian sums of `dimension` numbers that may follow within the budget.

    0 if nothing is left. The sums' sensitivity is at least CLIP_STEPS lattice steps.
    """
    low, high = 0.0, gaussian_mu(epsilon, delta)
    room = lattice_room(high, CLIP_STEPS / max(high, 1.0), dimension + 1) + SAFETY
    left, allowed = epsilon - room, delta * (1 - room)
    if left <= 0 or curve.delta_at(epsilon) >= delta:
        return 0.0
    profile = curve.profile()
    for _ in range(60):
        middle = (low + high) / 2
        if profile.with_gaussian(middle, left) <= allowed:
            low = middle
        else:
            high = middle
    return low


def centre_parts(persons: int, epsilon: float = 1.0) -> int:
    """A center of one in so many people is as good; pairs of all would take long.

    epsilon: below 1 the center has more people in proportion.
    """
    enough = CENTRE_PERSONS / min(epsilon, 1.0)
    return max(1, int(persons / enough)) if persons > MOST_PAIRED else 1
