"""The published algorithms: their constants, their errors, and their mark on every release."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from privmean.central.concentration import Bounded, SubGaussian, UnknownScale
from privmean.data.array_table import ArrayPersonTable
from privmean.errors import ArgumentError, InfeasibleError
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, Budget
from privmean.privacy.compose import total_epsilon
from privmean.published.winsorized import AsPublished, PublishedHistogram
from statistics_kit import assert_mean, planned

NORMAL = SubGaussian(1.0)


def tau(n, d=1):
    return math.sqrt(2 * math.log(2 * d * n / 0.05))


def plan(n=1000, d=1, epsilon=1.0, delta=1e-6, **settings):
    budget = Budget(epsilon=epsilon, delta=delta)
    return planned(AsPublished(NORMAL, **settings), budget, persons=n, dimension=d)


def people(values):
    x = np.asarray(values, float)
    x = x[:, None] if x.ndim == 1 else x
    return ArrayPersonTable(x, tuple(f"x{j}" for j in range(x.shape[1])))


def test_constants_of_one_column():
    made = plan()
    assert made.facts.radii.half[0] == pytest.approx(tau(1000))
    assert made.facts.radii.tau[0] + made.stages.slack[0] == pytest.approx(3 * tau(1000))
    assert made.noise[0] == pytest.approx(math.sqrt(2) * 12 * tau(1000) / 1000)
    histogram, threshold, mean = made.events
    assert histogram.pure == mean.pure == Fraction(1, 2)
    assert threshold.threshold == 1 + math.ceil(4 * math.log(2 / 1e-6))
    assert isinstance(made.stages.location, PublishedHistogram)
    assert not isinstance(plan(tight=True).stages.location, PublishedHistogram)


@pytest.mark.parametrize("d", [2, 5, 20])
def test_constants_of_several_columns(d):
    """epsilon/sqrt(8 d ln(1/rho)) a column, which is far less than epsilon in truth."""
    made = plan(n=5000, d=d)
    each = 1 / math.sqrt(8 * d * math.log(2 / 1e-6))
    assert float(sum(loss.pure for loss in made.events)) == pytest.approx(d * each)
    assert made.noise[0] == pytest.approx(math.sqrt(2) * 12 * tau(5000, d) / (5000 * each))
    assert sum(loss.added_delta for loss in made.events) == pytest.approx(0.5e-6)
    spent = total_epsilon(made.events, 1e-6)
    assert 0.1 < spent < 0.3


@pytest.mark.parametrize(("n", "epsilon"), [(1000, 1.0), (2000, 0.5)])
def test_mean_squared_error_has_its_closed_form(n, epsilon):
    made = plan(n=n, epsilon=epsilon, delta=1 / n**2)
    rng, noise, half = np.random.default_rng(1), SimulatedNoise(1), made.facts.radii.half[0]
    squares = []
    for _ in range(700):
        center = 100 + rng.uniform(-half, half)
        release = made.release(people(center + rng.standard_normal(n)), noise)
        assert not release.failed
        squares.append((release.estimate[0] - center) ** 2)
    assert_mean(squares, 1 / n + 2 * (12 * tau(n) / (n * epsilon)) ** 2)


def test_small_radius_is_biased_at_a_bin_edge():
    """Radius tau with bins of half width tau: the error does not go away with n."""
    made = plan(n=5000, epsilon=0.1, delta=1 / 5000**2, radius=tau(5000))
    rng, noise, half = np.random.default_rng(2), SimulatedNoise(2), made.facts.radii.half[0]
    squares = []
    for _ in range(200):
        center = 21 * half
        release = made.release(people(center + rng.standard_normal(5000)), noise)
        squares.append((release.estimate[0] - center) ** 2)
    assert 0.14 < np.mean(squares) < 0.19


@pytest.mark.parametrize("d", [1, 3])
def test_split_halves_pay_the_larger_step_only(d):
    made = plan(n=4000, d=d, splitting=True)
    each = 1.0 if d == 1 else 1 / math.sqrt(8 * d * math.log(2 / 1e-6))
    assert float(made.events[0].pure) == pytest.approx(each)
    assert made.stages.location.scale == made.stages.final.epsilon ** (-1) * 2
    # the noise is that of the unsplit algorithm, on half of the persons
    assert made.noise[0] == pytest.approx(math.sqrt(2) * 6 * tau(4000, d) / (2000 * each))
    rng = np.random.default_rng(3)
    values = 50 + 0.5 * rng.standard_normal((4000, d))
    values[0::2] += 1.0  # location half
    release = made.release(people(values), SimulatedNoise(3))
    assert release.guarantee.mechanisms == made.events
    assert np.all(np.abs(release.estimate - values[1::2].mean(axis=0)) < 12 * made.noise[0])
    assert ("corrected" in made.rationale) == (d == 3)


def test_releases_carry_the_mark():
    release = plan().release(people(np.random.default_rng(4).standard_normal(1000)))
    assert "as published, for study" in release.summary()
    assert "as published, for study" in release.to_dict()["estimator"]


def test_small_tables_are_not_refused_and_may_fail():
    made = plan(n=500, epsilon=0.1)
    assert made.stages.failure > 0.5
    release = made.release(people(np.random.default_rng(5).standard_normal(500)), SimulatedNoise(5))
    assert release.status in ("ok", "failed")


def test_refused():
    with pytest.raises(InfeasibleError):
        planned(AsPublished(NORMAL), Budget(epsilon=1.0), persons=1000)
    with pytest.raises(InfeasibleError):
        planned(AsPublished(NORMAL), Budget(rho=1.0), persons=1000)
    budget = Budget(epsilon=1.0, delta=1e-6)
    with pytest.raises(ArgumentError, match="relation"):
        planned(AsPublished(NORMAL), budget, n_guess=1000, relation=ADD_REMOVE)
    for assumption in (Bounded(0.0, 1.0), UnknownScale()):
        with pytest.raises(ArgumentError, match="paper"):
            AsPublished(assumption)
    with pytest.raises(ArgumentError, match="composition theorem"):
        plan(d=100, epsilon=90.0, delta=0.4)
    with pytest.raises(ArgumentError):
        AsPublished(NORMAL, radius=-1.0)
