"""Noise of the filtered mean and of the clipped sums around its center, from public numbers.

Every variant has the form: count n' = |C| - t + N(0, 1/m^2) and, where n' >= 1, the mean of the
kept people plus (2 lambda/n') s M^(1/4) g with standard normal g. A calibration holds m, t and the
multiplier s. Source: Dagan, Jordan, Yang, Zakynthinou and Zhivotovskiy (2024); the constants are
derived in docs/proofs/anisotropic.md and are about 14 times smaller than the published ones.
Clipped sums follow, each with less noise and a smaller radius than before. Where people are too
few, the refusal says how many would do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
from scipy.special import ndtri

from privmean.array_types import Floats, Integers
from privmean.bisection import bisect, smallest_int, smallest_real
from privmean.errors import InfeasibleError
from privmean.mechanisms.filtered_mean import (
    CACHED,
    MEAN_STEPS,
    FilterCalibration,
    slices,
    to_lattice,
)
from privmean.privacy.amplification import delta_ratio, inner_epsilon, tail_threshold
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.privacy.gdp import gaussian_mu
from privmean.privacy.privacy_events import Gaussian, PrivacyProfile
from privmean.privacy.profile_events import FilteredMean

BAD_SHARE = 0.1  # share of delta for a count above the true number of kept people
COUNT_SHARES = np.linspace(0.02, 0.95, 120)  # shares of mu tried for the count
COUNT_STEPS = 2.0**24  # the same for the count
STEPS = 2**26  # the clipping radius in lattice steps
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
    mu: float, bad: float, n_guess: float, shares: Iterable[float] = COUNT_SHARES, most: float = 1.0
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
    most: float = 1.0,
) -> FilterCalibration:
    """The calibration of a filtered mean within (epsilon, delta), for `n_guess` public people.

    n_guess only steers utility: privacy holds for any number of people. most: of the people
    that may be taken off the count, so that a center bears some missing. Raises InfeasibleError
    from public numbers.
    """
    inner = inner_epsilon(epsilon, relation)
    behind = delta / delta_ratio(epsilon, inner)
    behind *= 1 - SAFETY
    if behind <= 0:
        raise infeasible(n_guess, epsilon, relation)
    first = gaussian_mu(inner, behind)
    room = lattice_room(first, COUNT_STEPS, 1) + lattice_room(first, MEAN_STEPS, dimension)
    mu = gaussian_mu(inner - room, (1 - BAD_SHARE) * behind * (1 - room)) * (1 - SAFETY)
    tight = tight_count(mu, BAD_SHARE * behind, n_guess, most=most) if mu > 0 else None
    if tight is None:
        raise infeasible(n_guess, epsilon, relation)
    steps = count_lattice(1 / tight.count_mu)
    scale = steps / tight.count_mu
    threshold = tail_threshold(BAD_SHARE * behind, scale)
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
    )
    return FilterCalibration(steps, scale, threshold, multiplier, (loss,))


def gaussian_after(curve: PrivacyProfile, epsilon: float, delta: float, dimension: int) -> float:
    """The largest mu of Gaussian sums of `dimension` numbers that may follow within the budget.

    0 if nothing is left. The sums' sensitivity is at least STEPS lattice steps.
    """
    high = gaussian_mu(epsilon, delta)
    room = lattice_room(high, STEPS / max(high, 1.0), dimension + 1) + SAFETY
    left, allowed = epsilon - room, delta * (1 - room)
    if left <= 0:
        return 0.0
    profile = curve.profile()
    return bisect(lambda mu: profile.with_gaussian(mu, left) <= allowed, 0.0, high, 60)[0]


def centre_parts(persons: int, epsilon: float = 1.0) -> int:
    """A center of one in so many people is as good; pairs of all would take long.

    epsilon: below 1 the center has more people in proportion.
    """
    enough = CENTRE_PERSONS / min(epsilon, 1.0)
    return max(1, int(persons / enough)) if persons > MOST_PAIRED else 1


CLOSE = 0.03
MOST_PERSONS = 10**9
MOST_EPSILON = 100.0
Attempt = Callable[[Budget, int], bool]


def too_few(
    attempt: Attempt, budget: Budget, persons: int, problem: str, others: str
) -> TooFewPeople:
    """The refusal, with numbers. attempt: whether a plan is worth its while at public numbers."""
    assert budget.epsilon is not None
    n = smallest_int(lambda n: attempt(budget, n), persons + 1, most=MOST_PERSONS, within=CLOSE)
    epsilon = smallest_real(
        lambda e: attempt(replace(budget, epsilon=e), persons), budget.epsilon, most=MOST_EPSILON
    )
    more = "no number of people would do" if n is None else f"about {n} people would do"
    if epsilon is not None:
        more += f", or epsilon={epsilon:.3g}"
    return TooFewPeople(problem, f"{more}; {others}")


def clip_to_ball(v: Integers) -> Integers:
    """Each row shortened to norm `STEPS` (2^26), toward zero; the norm holds exactly.

    Rows outside are halved first until their squared norm is an exact double, so that the factor
    depends on the row alone, whatever the order of additions.
    """
    y = v.astype(np.float64)
    limit = float(STEPS) ** 2
    # an exact decision: below 2^53 the sum of squares is exact, above it is far above the limit
    outside = np.flatnonzero(np.einsum("ij,ij->i", y, y) > limit)
    if len(outside) == 0:
        return v.copy()
    long = y[outside]
    spare = 26 - math.ceil(math.log2(max(v.shape[1], 1)) / 2)
    _, exponent = np.frexp(np.abs(long).max(axis=1))
    long = np.trunc(np.ldexp(long, -np.maximum(exponent - spare, 0)[:, None]))
    factor = STEPS / np.sqrt(np.einsum("ij,ij->i", long, long))
    short = np.trunc(long * factor[:, None])
    for shrink in (1 - 2.0**-30, 0.0):
        over = np.einsum("ij,ij->i", short, short) > limit
        short[over] = np.trunc(long[over] * (factor[over] * shrink)[:, None])
    result = v.copy()
    result[outside] = short.astype(np.int64)
    return result


def clipped_sums(x: Floats, centre: Floats, factor: Floats) -> Integers:
    """Sums over rows of clip((x - center) * factor) in lattice steps; a null counts as center.

    factor: lattice steps a unit of each column, public or released like the center. One person
    moves the vector of sums by at most STEPS, or 2 STEPS if replaced, in l2 norm.
    """
    total = np.zeros(x.shape[1], dtype=np.int64)
    for where in slices(x, numbers=CACHED):
        some = x[where]
        with np.errstate(all="ignore"):
            gap = some - centre
        # a person with an infinite or impossible value is nobody's problem but her own
        bad = np.isinf(some).any(axis=1)
        v = to_lattice(gap, factor)
        v[bad] = 0
        total += clip_to_ball(v).sum(axis=0)
    return total


class Powers:
    """Sums and maxima of powers of the standard deviations, kept once computed."""

    def __init__(self, deviations: Floats) -> None:
        ends = float(deviations.min()), float(deviations.max())
        self.total = cache(lambda power: float((deviations**power).sum()))
        self.largest = cache(lambda power: float(max(end**power for end in ends)))
        self.person = cache(self._person)

    def _person(self, own: float, u: float) -> float:
        """The squared distance of a person, exceeded with probability e^-u at most."""
        found = self.total(own) + 2 * math.sqrt(self.total(2 * own) * u)
        return found + 2 * self.largest(own) * u


def clip_radius(
    powers: Powers,
    noise: float,
    centre_exponent: float,
    n_guess: float,
    beta: float,
    exponent: float = 1.0,
) -> float:
    """A radius around a noisy center that holds n_guess people in the metric Sigma^(-exponent/4).

    The center's noise is `noise` times Sigma^(centre_exponent/4) times a standard normal vector.
    Tails of Hsu, Kakade and Zhang (2012) for the people and for the noise.
    """
    u = math.log(n_guess / beta)
    own, shape = 2 - exponent, centre_exponent - exponent
    slack = noise**2 * (2 * math.sqrt(3 * powers.total(2 * shape)) + 6 * powers.largest(shape))
    slack += 4 * noise * math.sqrt(2 * u * powers.largest(own + shape))
    return math.sqrt(powers.person(own, u) + noise**2 * powers.total(shape) + slack)


@dataclass(frozen=True)
class ClipStep:
    """One clipped sum in the metric of Sigma^(-exponent/4).

    mean_mu: of the sum. count_mu, count_steps: of the noisy number of people, if this step buys it
    (0 otherwise), and its lattice steps a person.
    """

    exponent: float
    mean_mu: float
    count_mu: float = 0.0
    count_steps: int = 0

    def events(self, dimension: int, relation: Relation) -> tuple[Gaussian, ...]:
        """The accounting. One person moves the sum by STEPS, or by 2 STEPS if replaced."""
        moved = float(2 * STEPS if relation == REPLACE_ONE else STEPS)
        bill = [Gaussian("clipped sum", moved, moved / self.mean_mu, dimension, neighbors=relation)]
        if self.count_mu:
            steps = float(self.count_steps)
            bill.append(
                Gaussian("count of people", steps, steps / self.count_mu, 1, neighbors=relation)
            )
        return tuple(bill)

    def scale(self, relation: Relation) -> float:
        """Noise of the sum, in lattice steps."""
        return (2 if relation == REPLACE_ONE else 1) * STEPS / self.mean_mu

    def noise(self, radius: float, relation: Relation, persons: float) -> float:
        """Noise of the center that this step gives, in its metric."""
        return self.scale(relation) / STEPS * radius / persons


def expected_chain(
    powers: Powers,
    steps: Sequence[ClipStep],
    noise: float,
    exponent: float,
    relation: Relation,
    n_guess: int,
    beta: float,
) -> tuple[list[float], float]:
    """Radii of the steps and the last noise, if the first center's noise is `noise`."""
    radii = []
    for step in steps:
        radius = clip_radius(powers, noise, exponent, n_guess, beta, step.exponent)
        noise, exponent = step.noise(radius, relation, n_guess), step.exponent
        radii.append(radius)
    return radii, noise


def step_of(radius: float, deviations: Floats, exponent: float) -> Floats:
    """The lattice step along each axis."""
    return np.asarray(radius / STEPS * deviations ** (exponent / 2))
