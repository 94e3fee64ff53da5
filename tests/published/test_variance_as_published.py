"""The published searches for a variance: their constants, their figures, their mark."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.errors import ArgumentError, InfeasibleError
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, Budget
from privmean.privacy.compose import total_epsilon
from privmean.published.variance import VarianceAsPublished
from statistics_kit import assert_rate_at_least, planned

SMALL, LARGE = math.sqrt(0.1), 100.0


def people(values):
    return ArrayPersonTable(np.asarray(values, float)[:, None], ("x",))


def plan(method="coinpress", n=10_000, center=300.0, **settings):
    made = VarianceAsPublished(SMALL, LARGE, center, method, **settings)
    return planned(made, Budget(epsilon=1.0, delta=1 / n**2), persons=n)


def found(made, values, seed):
    return float(made.release(people(values), SimulatedNoise(seed)).estimate[0])


@pytest.mark.parametrize("method", ["coinpress", "bisection"])
def test_the_printed_budget(method):
    made = plan(method, n=1000)
    assert made.settings.rounds == 17
    assert float(made.each) == pytest.approx(0.0163, abs=5e-5)
    assert len(made.events) == 34
    # calls cost epsilon' and, for the noise doubled in print, epsilon'/2
    assert float(made.events[0].pure / made.events[1].pure) == 2
    assert total_epsilon(made.events, 1e-6) < 0.5


def test_bisection_as_printed_never_gets_off_its_first_interval():
    """Centre 300, data at 100: no value within sqrt(2) largest deviations."""
    rng = np.random.default_rng(0)
    for seed in range(10):
        values = 100 + rng.standard_normal(6000)
        assert found(plan("bisection", n=6000, gamma=0.1), values, seed) == pytest.approx(LARGE**2)


def test_bisection_refined_first_returns_what_failed():
    """At n = 10000 the answers are 10^4/2^13 and 10^4/2^14, the published 1.22 and 0.61."""
    rng = np.random.default_rng(1)
    made = plan("bisection", gamma=0.1, refine_first=True)
    answers = [found(made, 100 + rng.standard_normal(10_000), s) for s in range(60)]
    assert_rate_at_least(sum(a < 1.3 for a in answers), 60, 0.95)
    assert {round(a, 2) for a in answers if a < 1.3} <= {0.31, 0.61, 1.22}


def test_coinpress_has_the_published_quantiles():
    """5 and 95 % at n = 10000: 0.64 and 1.34."""
    rng = np.random.default_rng(2)
    answers = [found(plan(), 100 + rng.standard_normal(10_000), s) for s in range(150)]
    low, middle, high = np.quantile(answers, [0.05, 0.5, 0.95])
    assert 0.5 < low < 0.78
    assert 0.94 < middle < 1.08
    assert 1.2 < high < 1.5


@pytest.mark.parametrize("method", ["coinpress", "bisection"])
def test_constant_data_stop_within_the_rounds(method):
    made = plan(method, n=100_000, center=40.0)
    release = made.release(people(np.full(100_000, 40.0)), SimulatedNoise(3))
    assert len(release.guarantee.mechanisms) <= 34
    assert 0 < release.estimate[0] < 0.3
    assert "as published" in str(release)
    assert release.interval().upper == (LARGE**2,)


@pytest.mark.parametrize(
    "budget", [Budget(epsilon=1.0), Budget(rho=1.0), Budget(epsilon=1.0, delta=0.0)]
)
def test_it_needs_a_delta(budget):
    with pytest.raises(InfeasibleError):
        planned(VarianceAsPublished(SMALL, LARGE, 0.0), budget, persons=1000)


def test_refused():
    for bad in ({"smallest": 2.0, "largest": 1.0}, {"method": "pair scale"}, {"gamma": 0.0},
                {"center": math.inf}):  # fmt: skip
        with pytest.raises(ArgumentError):
            VarianceAsPublished(**{"smallest": 1.0, "largest": 2.0, "center": 0.0, **bad})
    with pytest.raises(ArgumentError, match="relation"):
        planned(
            VarianceAsPublished(SMALL, LARGE, 0.0),
            Budget(epsilon=1.0, delta=1e-6),
            relation=ADD_REMOVE,
            n_guess=1000,
        )
