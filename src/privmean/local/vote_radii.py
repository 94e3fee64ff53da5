"""How far the people's values lie from a common point: public recipes for `tau`.

Each returns a tau with P(every value within tau) at least 1 - gamma under its assumption. A wrong
tau costs accuracy, never privacy. Source: Roth and Avella-Medina (2025), Section 4.
"""

from __future__ import annotations

import math

from privmean import validate


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
