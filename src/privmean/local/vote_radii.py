"""How far the people's values lie from a common point: public recipes for `tau`.

Each returns a tau with P(every value within tau) at least 1 - gamma under its assumption. A wrong
tau costs accuracy, never privacy. Source: Roth and Avella-Medina (2025), Section 4.
"""

from __future__ import annotations

import math

from privmean import validate
from privmean.errors import ArgumentError
from privmean.local.exact_coins import signal
from privmean.local.mechanisms import HADAMARD, SKETCH
from privmean.local.round import Round


def _limit(persons: int, gamma: float, dimension: int) -> float:
    validate.whole("persons", persons, least=1)
    validate.fraction("gamma", gamma)
    return math.log(2 * validate.whole("dimension", dimension, least=1) * persons / gamma)


def tau_sub_gaussian(
    sigma: float, persons: int, *, gamma: float = 0.05, dimension: int = 1
) -> float:
    """Return a radius that holds all sub-Gaussian values with probability 1 - gamma.

    Parameters
    ----------
    sigma : float
        Sub-Gaussian scale; for normal values the standard deviation.
    persons : int
        Public n.
    gamma : float, default 0.05
        Probability that any value lies outside.
    dimension : int, default 1
        Number of coordinates.

    Returns
    -------
    float
        The radius, in the unit of the value. A wrong radius costs accuracy, never privacy.

    Notes
    -----
    Source: Roth and Avella-Medina (2025), Section 4.
    """
    return validate.positive("sigma", sigma) * math.sqrt(2 * _limit(persons, gamma, dimension))


def tau_random_effects(
    between: float,
    within: float,
    records: int,
    persons: int,
    *,
    gamma: float = 0.05,
    dimension: int = 1,
) -> float:
    """Return a radius that holds all person means with probability 1 - gamma.

    Parameters
    ----------
    between, within : float
        Standard deviation between people, and of records within a person. If records are dependent:
        root of the largest eigenvalue of their covariance.
    records : int
        Records per person, public.
    persons : int
        Public n.
    gamma : float, default 0.05
        Probability that any value lies outside.
    dimension : int, default 1
        Number of coordinates.

    Returns
    -------
    float
        The radius, in the unit of the value. A wrong radius costs accuracy, never privacy.

    Notes
    -----
    Without the part between people, which no number of records shrinks, most values are clipped.
    Source: Roth and Avella-Medina (2025), Section 4.
    """
    validate.whole("records", records, least=1)
    variance = validate.nonnegative("between", between) ** 2
    variance += validate.nonnegative("within", within) ** 2 / records
    return math.sqrt(2 * variance * _limit(persons, gamma, dimension))


def tau_bounded_records(
    between: float, lower: float, upper: float, records: int, persons: int, *, gamma: float = 0.05
) -> float:
    """Return a radius that holds all person means of bounded independent records.

    Parameters
    ----------
    between : float
        Standard deviation between people.
    lower, upper : float
        Public bounds of the records, which are independent given the person.
    records : int
        Records per person, public.
    persons : int
        Public n.
    gamma : float, default 0.05
        Probability that any value lies outside.

    Returns
    -------
    float
        The radius, in the unit of the value. A wrong radius costs accuracy, never privacy.

    Notes
    -----
    Source: Roth and Avella-Medina (2025), Section 4.
    """
    low, high = validate.bounds("bounds", (lower, upper))
    validate.whole("records", records, least=1)
    limit = _limit(2 * persons, gamma, 1)
    return validate.nonnegative("between", between) * math.sqrt(2 * limit) + (
        high - low
    ) * math.sqrt(limit / (2 * records))


def vote_radius_dependent(
    round_: Round, reports: int, *, rho: float, density: float, beta: float | None = None
) -> float:
    """How far all shares of a vote may be off at once when people depend on each other.

    round_: a vote of one level and one coordinate (equal weights). rho: the log-Sobolev constant
    of the law of all values together (of Gaussian ones the largest eigenvalue of their covariance;
    of independent ones the largest of a person). density: a bound on the density of a value. The
    shares are those of the average of the people's laws. Holds with probability 1 - beta, at
    least. Unlike the radius of an estimate it does not need independent people.

    Source: Roth and Avella-Medina (2025), Lemma 6.3, with the distribution function's bound of
    Bobkov and Gotze (2010); see docs/proofs/local-rounds.md.

    Example:
        >>> from privmean.local import vote_round
        >>> from privmean.local.vote_radii import vote_radius_dependent
        >>> votes = vote_round(-10, 10, 5, epsilon=2, persons=100_000)
        >>> vote_radius_dependent(votes, 100_000, rho=1, density=0.4) < 0.2
        True
    """
    failure = round_.beta if beta is None else validate.fraction("beta", beta)
    if round_.bins is None or len(round_.menu) > 1 or round_.coordinates > 1:
        raise ArgumentError(
            "round_", round_.mechanism, "must be a vote of one level", "use vote_round"
        )
    n = validate.whole("reports", reports, least=1)
    scale = validate.positive("rho", rho) * validate.positive("density", density) ** 2
    return 2 * _distribution_radius(n, scale, failure / 2) + _noise_radius(round_, n, failure / 2)


def _distribution_radius(persons: int, scale: float, beta: float) -> float:
    """The r at which (4/r) exp(-(2/27) n r^3/(rho M^2)) is beta; scale: rho M^2."""

    def excess(r: float) -> float:
        return math.log(4 / r) - 2 / 27 * persons * r**3 / scale - math.log(beta)

    low, high = 1e-9, 1.0
    if excess(high) > 0:
        return 1.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def _noise_radius(round_: Round, reports: int, beta: float) -> float:
    """Given the values the reports are independent: Hoeffding over all bins."""
    assert round_.items is not None
    if round_.mechanism in (HADAMARD, SKETCH):
        width = 2 / signal(round_.menu[0])
    else:
        from privmean.local.aggregators.item_law import item_law

        width = item_law(round_, 0).reach
    return width * math.sqrt(math.log(2 * round_.items / beta) / (2 * reports))
