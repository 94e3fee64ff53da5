"""Private variances by the pair scale: the bill, constant and hostile tables."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import privmean as pm
from estimators.made_people import people
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.moment_variance import PairVariance
from privmean.mechanisms.histograms import DyadicBins
from privmean.noise.noise_source import ExactNoise, SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, Budget
from statistics_kit import assert_rate_at_least, planned


def plan(n=4000, **budget):
    return planned(PairVariance(0.1, 100.0), Budget(**(budget or {"epsilon": 2.0})), persons=n)


def test_bill_is_the_budget():
    made = plan(epsilon=0.9, delta=1e-6)
    assert sum((loss.pure for loss in made.events), Fraction(0)) == Fraction(9, 10)
    assert sum(loss.added_delta for loss in made.events) == 0
    assert sum(loss.rho for loss in plan(rho=0.3).events) <= 0.3


@pytest.mark.parametrize("constant", [40.0, -1e9, 0.0])
def test_constant_data_show_no_spread(constant):
    release = plan().release(people(np.full(4000, constant)), SimulatedNoise(1))
    assert release.guarantee.verify()
    assert release.failed
    assert math.isnan(release.estimate[0])


@pytest.mark.slow
@pytest.mark.parametrize("sd", [0.5, 8.0])
def test_variance_of_normal_values(sd):
    rng, noise, good, covered = np.random.default_rng(2), SimulatedNoise(2), 0, 0
    made = plan(8000)
    for _ in range(60):
        release = made.release(people(90 + sd * rng.standard_normal(8000)), noise)
        good += 0.8 <= release.estimate[0] / sd**2 <= 4.1
        inside = release.interval(0.9)
        covered += inside.lower[0] <= sd**2 <= inside.upper[0]
    assert_rate_at_least(good, 60, 0.95)
    assert_rate_at_least(covered, 60, 0.9)


@pytest.mark.parametrize("hostile", [math.nan, math.inf, 1e300])
def test_hostile_tables(hostile):
    values = np.random.default_rng(5).standard_normal(4000)
    values[::2] = hostile
    release = plan().release(people(values), SimulatedNoise(5))
    json.dumps(release.to_dict())
    assert 0 < release.estimate[0] < math.inf or release.failed
    assert release.failed == math.isnan(hostile)  # pairs without a spread


def test_public_function_and_ledger_arguments():
    values = 3 + 2 * np.random.default_rng(6).standard_normal(3000)
    release = pm.variance(values, within=(0.01, 1e4), epsilon=1.0, noise=ExactNoise())
    assert release.secure
    assert release.diagnostics["sd"] in (2.0, 4.0)
    assert release.guarantee.delta == 0
    assert "variance" in release.summary()
    with pytest.raises(ArgumentError, match="requires a public roster"):
        pm.variance(values, within=(0.01, 1e4), epsilon=1.0, neighbors=ADD_REMOVE)
    with pytest.raises(ArgumentError, match="n_guess"):
        pm.variance(values, within=(0.01, 1e4), epsilon=1.0, n_guess=10)
    with pytest.raises(ArgumentError, match="not one column"):
        pm.variance(np.zeros((100, 2)), within=(0.01, 1e4), epsilon=5.0)
    with pytest.raises(InfeasibleError, match="Provide at least about 100 people"):
        pm.variance(values[:50], within=(0.01, 1e4), epsilon=1.0)


def test_predicted_errors():
    assert plan().predict(3.0)["noise"] == 9 * plan().predict(1.0)["noise"]
    assert DyadicBins.around(0.1, 100.0).number == len(range(-6, 10))


@pytest.mark.parametrize("said", [{}, {"within": (0.1, 10.0)}])
def test_a_printed_variance_names_its_column(said):
    table = pm.Table({"who": np.arange(5000), "wage": np.arange(5000) % 7.0}, person="who")
    found = pm.variance(table, "wage", epsilon=2.0, noise=SimulatedNoise(0), **said)
    assert "Variance of wage between people" in str(found)
    assert "Variance of wage between people" in str(pm.Release.from_dict(found.to_dict()))
