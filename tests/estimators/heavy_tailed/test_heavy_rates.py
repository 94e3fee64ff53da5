"""Planned errors follow the published rates in persons, records, dimension and epsilon."""

import itertools
import math

import pytest
from heavy_laws import slope, tails, two_point_bias

from privmean.estimators.heavy_tailed import clipping_rounds as radii
from privmean.estimators.heavy_tailed.clipping_rounds import Problem
from privmean.privacy.gdp import gaussian_mu


def private_error(order, records, strength, exact=True):
    """Error at the planned radius, n epsilon = strength (Laplace), with the exact worst bias."""
    chosen = radii.one_dimension(
        tails(order, records), persons=1000, noise=math.sqrt(8) / strength, offset=0.0
    )
    if not exact:
        return chosen.private
    return math.hypot(two_point_bias(order, records, chosen.radius), chosen.noise)


@pytest.mark.parametrize("order", [2.0, 2.5, 3.0, 4.0])
def test_error_falls_with_the_persons_as_published(order):
    errors = [private_error(order, 1, 10.0**j) for j in (3, 4, 5)]
    for first, second in itertools.pairwise(errors):
        assert slope(first, second, 10) == pytest.approx(-(order - 1) / order, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "first", "last"),
    [(2.0, -0.5, -0.5), (2.5, -0.6, -0.6), (3.0, -0.667, -0.586), (4.0, -0.732, -0.5)],
)
def test_error_falls_with_the_records_and_bends_at_the_crossover(order, first, last):
    few, few_more = private_error(order, 1, 1e4), private_error(order, 8, 1e4)
    many, many_more = private_error(order, 512, 1e4), private_error(order, 4096, 1e4)
    assert slope(few, few_more, 8) == pytest.approx(first, abs=0.02)
    assert slope(many, many_more, 8) == pytest.approx(last, abs=0.02)


def planned(order, records, persons, d, epsilon):
    mu = gaussian_mu(epsilon, 1e-6)
    problem = Problem("gaussian", tails(order, records, d), d, mu, known_weights=0.0)
    return problem.choose(mu, persons, 0.3 / math.sqrt(records)).private


@pytest.mark.parametrize(
    ("order", "records", "rate", "slack"), [(2.25, 1, 0.556, 0.03), (3.0, 1, 0.667, 0.03)]
)
def test_vector_errors_follow_the_rate_in_persons_records_and_dimension(
    order, records, rate, slack
):
    base = planned(order, records, 200_000, 50, 1.0)
    assert slope(base, planned(order, records, 2_000_000, 50, 1.0), 10) == pytest.approx(
        -rate, abs=slack
    )
    assert slope(base, planned(order, 10 * records, 200_000, 50, 1.0), 10) == pytest.approx(
        -rate, abs=slack
    )
    assert slope(base, planned(order, records, 200_000, 500, 1.0), 10) == pytest.approx(
        rate, abs=slack
    )
