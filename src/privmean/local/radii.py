"""How far the persons' values lie from a common point: public recipes for `tau`.

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
    """Values with sub-Gaussian scale `sigma` (for a Gaussian its standard deviation)."""
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
    """Person means of `records` records each: standard deviation `between` persons and `within`.

    The part between persons does not shrink with the number of records; leaving it out clips
    almost everybody. Dependent records: put the square root of the largest eigenvalue of their
    covariance for `within`.
    """
    validate.whole("records", records, least=1)
    variance = validate.nonnegative("between", between) ** 2
    variance += validate.nonnegative("within", within) ** 2 / records
    return math.sqrt(2 * variance * _limit(persons, gamma, dimension))


def tau_bounded_records(
    between: float, lower: float, upper: float, records: int, persons: int, *, gamma: float = 0.05
) -> float:
    """Person means of records in [lower, upper], independent given the person."""
    low, high = validate.bounds("bounds", (lower, upper))
    validate.whole("records", records, least=1)
    limit = _limit(2 * persons, gamma, 1)
    return validate.nonnegative("between", between) * math.sqrt(2 * limit) + (
        high - low
    ) * math.sqrt(limit / (2 * records))
