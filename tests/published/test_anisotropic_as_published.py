"""The published algorithms for many columns: their constants and steps."""

import math
from fractions import Fraction

import numpy as np
import pytest

import privmean as pm
import statistics_kit
from estimators.made_people import people, spike
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean
from privmean.mechanisms.histograms import top_bin
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, Budget
from privmean.published import AnisotropicAsPublished
from privmean.published.anisotropic import (
    group_pairs,
    group_variances,
    groups_above,
    kth_largest,
    likeliest,
    published_radius,
    top_columns,
    variance_bins,
    variance_of,
)
from statistics_kit import planned

BUDGET = Budget(epsilon=1.0, delta=1e-6)


def found_in(histogram, values):
    return variance_of(top_bin(histogram.draw(variance_bins(values), SimulatedNoise(1))))


@pytest.mark.parametrize("name", ["VarianceAsPublished", "PureCover"])
def test_a_name_that_moved_says_where_to(name):
    with pytest.raises(AttributeError, match=f"privmean.published.{name}"):
        getattr(pm, name)
    with pytest.raises(ArgumentError, match="privmean.published.AnisotropicAsPublished"):
        AnisotropicMean(method="published")


def test_where_the_published_constants_are_not_proved_they_do_not_run():
    with pytest.raises(InfeasibleError, match="add-remove"):
        planned(AnisotropicAsPublished(1.0), BUDGET, persons=3000, dimension=2)
    with pytest.raises(ArgumentError, match="replace-one"):
        planned(AnisotropicAsPublished(), BUDGET, n_guess=3000, dimension=2, relation=ADD_REMOVE)
    with pytest.raises(InfeasibleError, match="delta"):
        planned(
            AnisotropicAsPublished(1.0), Budget(epsilon=1.0), n_guess=3000, dimension=2,
            relation=ADD_REMOVE,
        )  # fmt: skip


def test_the_published_radius():
    assert published_radius(spike(1000), 2000, 0.05) == pytest.approx(12.67, abs=0.005)


def test_published_constants_fail_half_the_time_at_their_limit():
    """t = 500.1 at epsilon = 1: about 500 persons come through half of the time."""
    plan = planned(
        AnisotropicAsPublished(1.0), BUDGET, n_guess=600, dimension=1, relation=ADD_REMOVE
    )
    x = np.zeros((500, 1))
    failed = sum(plan.release(people(x), SimulatedNoise(k)).failed for k in range(200))
    # the count fails below one person: noise above t + 1 - 500 persons, about one in two
    statistics_kit.assert_rate(failed, 200, 1 - 0.5 * math.exp(-(500.126 + 1 - 500) / 21))


def test_pairs_a_group():
    assert [group_pairs(d) for d in (10, 100, 1000, 10_000)] == [30, 50, 72, 95]


def test_group_variances_estimate_variances():
    sigma = np.array([1.0, 0.1, 10.0])
    x = np.random.default_rng(11).normal(size=(6000, 3)) * sigma + 7
    v = group_variances(x, 30)
    assert v.shape == (100, 3)
    for j in range(3):
        statistics_kit.assert_mean(v[:, j], sigma[j] ** 2)
    y = x.copy()
    y[123] = np.inf
    assert (group_variances(y, 30) != v).any(axis=1).sum() == 1


def test_histogram_returns_a_variance_within_four():
    histogram = likeliest(Fraction(1), 1e-6)
    rng = np.random.default_rng(12)
    for truth in (1e-8, 0.9, 1.1, 5e6):
        values = truth * rng.chisquare(50, size=400) / 50
        found = found_in(histogram, values)
        assert truth / 4 <= found <= 4 * truth
    assert found_in(histogram, np.zeros(400)) == 0.0
    assert found_in(histogram, np.geomspace(1e-9, 1e9, 20)) is None


def test_columns_in_order_miss_the_largest():
    """Why the published choice is for study: it stops at the first k above a low level."""
    x = np.random.default_rng(13).normal(size=(9600, 6))
    x[:, 5] *= 1000
    v = group_variances(x, 48)
    level = found_in(likeliest(Fraction(1), 1e-6), kth_largest(v, 3)) / 16
    hits = top_columns(3, Fraction(2), len(v))
    assert hits.draw(groups_above(v, level), SimulatedNoise(1)).tolist() == [0, 1, 2]
