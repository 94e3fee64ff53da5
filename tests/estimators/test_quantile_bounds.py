"""Quantiles that their bounds cut off say so; those that bounds hold are as they were."""

import json
import math

import numpy as np
import pytest

import privmean as pm
from privmean.noise.noise_source import SimulatedNoise

VALUES = np.random.default_rng(0).lognormal(2.5, 0.4, 3000)  # a median of 11.9
QUARTILES = (0.25, 0.5, 0.75)
CUT = "at_bound"


def asked(values, bounds, q=QUARTILES, seed=0, **terms):
    table = pm.Table({"who": np.arange(len(values)), "x": values}, person="who")
    money = {"epsilon": 1.0} | terms
    return pm.quantile(table, "x", q, bounds=bounds, noise=SimulatedNoise(seed), **money)


@pytest.mark.slow
@pytest.mark.parametrize("terms", [{}, {"epsilon": None, "rho": 0.5}, {"neighbors": "add-remove"}])
def test_a_quantile_beyond_its_bound_is_not_shown_and_its_interval_is_open(terms):
    if "neighbors" in terms:
        terms = terms | {"n_guess": 3000}
    found = asked(VALUES, (0, 10), **terms)
    assert found.status == CUT
    assert "About 6" in found.advice  # 69 %, less those in the cell of the bound
    assert "Give bounds that hold the values" in found.advice
    low, middle, high = found.rows()
    assert abs(low.estimate - np.quantile(VALUES, 0.25)) < 0.4
    assert low.status == "ok"
    assert math.isfinite(low.upper)
    for row in (middle, high):
        assert math.isnan(row.estimate)
        assert math.isnan(row.std_error)
        assert (row.lower, row.upper, row.status) == (10, math.inf, CUT)
    assert found.interval().upper[1:] == (math.inf, math.inf)
    assert CUT in str(found)
    stored = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert stored["rows"][1]["estimate"] is None
    assert [x for x in pm.verify(stored).problems if "simulated" not in x] == []


def test_the_same_on_the_other_side():
    found = asked(30 - VALUES, (20, 30))
    assert [row.status for row in found.rows()] == [CUT, CUT, "ok"]
    assert [row.lower for row in found.rows()][:2] == [-math.inf, -math.inf]


def test_an_end_beyond_the_bound_is_open_where_persons_were_seen_there():
    found = asked(VALUES, (0, 12.05), q=(0.5,))
    (row,) = found.rows()
    assert row.status == CUT
    assert row.lower < 11.9
    assert row.upper == math.inf


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [(0, 5), (50, 90), (0, 10)])
def test_where_nothing_stands_the_advice_names_the_bounds(bounds):
    found = asked(VALUES, bounds, q=(0.5, 0.75))
    assert found.status == "failed"
    assert "beyond the bounds" in found.advice
    assert "too few" not in found.advice


def test_few_persons_with_a_value_are_still_few():
    values = np.where(np.arange(3000) < 30, VALUES, np.nan)
    found = asked(values, (0, 5))
    assert found.status == "failed"
    assert "Too few people have a value" in found.advice


@pytest.mark.slow
def test_bounds_that_hold_the_values_are_no_news():
    """Values at a bound, and few persons beyond a quantile, are none beyond."""
    zeros = np.where(np.arange(3000) < 1800, 0.0, VALUES)
    alarms = 0
    for seed in range(60):
        for values, bounds, q in (
            (VALUES, (0, 60), (0.01, 0.5, 0.99)),
            (VALUES, (VALUES.min(), VALUES.max()), (0.05, 0.5, 0.95)),
            (zeros, (0, 60), (0.25, 0.5, 0.9)),
            (np.random.default_rng(seed).uniform(size=3000), (0, 1), (0.01, 0.99)),
        ):
            alarms += CUT in [row.status for row in asked(values, bounds, q, seed).rows()]
    assert alarms <= 6  # of 240
    found = asked(zeros, (0, 60), (0.25, 0.5))
    assert found.status == "ok"
    assert np.allclose(found.estimate, 0, atol=1e-3)


def test_what_is_assumed_of_bounds_is_said():
    given, found = asked(VALUES, (0, 60)), asked(VALUES, None)
    words = "values lie in [0, 60] (values outside count as the nearer bound)"
    for text in (given.interval().assumption, str(given), given.details()):
        assert words in " ".join(text.split())
    assert "values lie in" not in found.details()
