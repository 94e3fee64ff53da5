"""The test kit itself: false alarms no more often than stated, and twins that are seen."""

import math

import numpy as np
import pytest
from scipy import stats

from statistics_kit import (
    ALPHA,
    Z,
    assert_law,
    assert_mean,
    assert_rate,
    assert_rate_at_least,
    assert_rate_at_most,
    assert_variance,
    cdf_p_value,
    choice_p_value,
    epsilon_lower_bound,
    law_p_value,
)


def fails(check, *arguments, **more):
    try:
        check(*arguments, **more)
    except AssertionError:
        return True
    return False


def test_one_false_alarm_rate():
    assert ALPHA == 1e-6
    assert math.isclose(2 * stats.norm.sf(Z), ALPHA)


@pytest.mark.parametrize("check", [assert_rate, assert_rate_at_most, assert_rate_at_least])
@pytest.mark.parametrize(("draws", "p"), [(50, 0.5), (300, 0.03), (300, 0.9), (20, 0.001)])
def test_rates_raise_false_alarms_at_most_at_alpha(check, draws, p):
    """Exactly: the binomial mass of all counts that the check refuses."""
    counts = np.arange(draws + 1)
    refused = np.array([fails(check, int(count), draws, p) for count in counts])
    assert stats.binom.pmf(counts[refused], draws, p).sum() <= ALPHA
    assert refused.any() or p < 0.05  # a count of zero may be no evidence


def test_rates_see_twins():
    assert fails(assert_rate, 700, 1000, 0.5)
    assert fails(assert_rate, 300, 1000, 0.5)
    assert fails(assert_rate_at_most, 700, 1000, 0.5)
    assert not fails(assert_rate_at_most, 300, 1000, 0.5)
    assert fails(assert_rate_at_least, 300, 1000, 0.5)
    assert not fails(assert_rate_at_least, 700, 1000, 0.5)


def test_means_and_variances():
    rng = np.random.default_rng(1)
    x = rng.normal(2.0, 3.0, 20_000)
    assert_mean(x, 2.0)
    assert_variance(x, 9.0)
    assert fails(assert_mean, x, 2.2)
    assert not fails(assert_mean, x, 2.2, slack=0.2)
    assert fails(assert_variance, x, 9.0 * 1.3)
    assert fails(assert_variance, x, 9.0 * 0.7)
    heavy = rng.laplace(0, 1, 20_000)
    assert_variance(heavy, 2.0, kurtosis=6.0)


def geometric(k, a=0.7):
    return (1 - a) / (1 + a) * a ** np.abs(k).astype(float)


def two_sided_geometric(rng, size, a=0.7):
    return rng.geometric(1 - a, size) - rng.geometric(1 - a, size)


def test_p_values_of_correct_draws_are_uniform():
    """Kolmogorov-Smirnov on 300 p-values of each kind."""
    rng = np.random.default_rng(2)
    laws = [law_p_value(two_sided_geometric(rng, 2000), geometric) for _ in range(300)]
    grids = [cdf_p_value(rng.normal(size=2000), stats.norm.ppf) for _ in range(300)]
    picks = [
        choice_p_value(rng.choice(3, 2000, p=[0.2, 0.3, 0.5]), [0.2, 0.3, 0.5]) for _ in range(300)
    ]
    for values in (laws, grids, picks):
        assert stats.kstest(values, "uniform").pvalue >= ALPHA


def test_p_values_of_twins_are_nothing():
    rng = np.random.default_rng(3)
    assert law_p_value(two_sided_geometric(rng, 20_000, a=0.6), geometric) < ALPHA
    assert fails(assert_law, two_sided_geometric(rng, 20_000, a=0.78), geometric)
    assert not fails(assert_law, two_sided_geometric(rng, 20_000), geometric)
    assert fails(assert_law, two_sided_geometric(rng, 20_000) + 1, geometric)
    assert cdf_p_value(rng.normal(0, 1.3, 20_000), stats.norm.ppf) < ALPHA
    assert choice_p_value(rng.choice(2, 20_000, p=[0.46, 0.54]), [0.5, 0.5]) < ALPHA


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_the_bound_on_epsilon_is_above_the_truth_at_most_at_alpha(epsilon):
    """Exactly, over all pairs of counts of 80 runs of randomized response."""
    draws = 80
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    counts = np.arange(draws + 1)
    first, second = stats.binom.pmf(counts, draws, p), stats.binom.pmf(counts, draws, 1 - p)
    wrong = sum(
        first[i] * second[j]
        for i in counts
        for j in counts
        if first[i] * second[j] > 1e-12 and epsilon_lower_bound(int(i), int(j), draws) > epsilon
    )
    assert wrong <= ALPHA


def test_the_bound_on_epsilon_uses_delta_and_its_ends():
    assert epsilon_lower_bound(0, 0, 100) == -math.inf
    assert epsilon_lower_bound(100, 100, 100) < 0
    assert epsilon_lower_bound(1000, 0, 1000) > 4
    assert epsilon_lower_bound(500, 100, 1000, delta=0.2) < epsilon_lower_bound(500, 100, 1000)
    assert epsilon_lower_bound(50, 0, 1000, delta=0.1) == -math.inf
