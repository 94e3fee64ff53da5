"""The method that several columns get with nothing given, and the line that says why."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import privmean as pm
from privmean.data.array_table import ArrayPersonTable
from privmean.data.schema import PublicShape
from privmean.errors import InfeasibleError
from privmean.estimators.means.choose_vector_method import (
    ALONE,
    TOGETHER,
    WINSORIZED,
    Cheapest,
    predicted_half,
)
from privmean.estimators.means.default_mean import DefaultMean
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.guarantee import Guarantee
from statistics_kit import planned

MIXED, PURE = Budget(epsilon=1.0, delta=1e-6), Budget(epsilon=1.0)


@pytest.mark.parametrize(
    ("budget", "persons", "dimension", "name"),
    [
        (MIXED, 4000, 2, ALONE),
        (MIXED, 4000, 10, TOGETHER),
        (MIXED, 100_000, 50, TOGETHER),
        (PURE, 4000, 5, ALONE),
    ],
)
def test_choice_from_public_numbers(budget, persons, dimension, name):
    plan = planned(Cheapest(), budget, persons=persons, dimension=dimension)
    assert plan.name == name
    assert plan.predicted[name] == min(plan.predicted.values())
    assert plan.predict(2.0)["rmse"] == plan.inner.predict(2.0)["rmse"]
    assert Guarantee.of(budget, REPLACE_ONE, plan.events).verify()
    assert name in plan.rationale
    assert plan.describe()["predicted by method"] == plan.predicted


def test_candidates_that_the_numbers_rule_out_are_left_out():
    five, hidden = PublicShape.of(5, 4000), PublicShape.of(5, None, 4000)
    assert TOGETHER not in Cheapest().candidates(PURE, five)  # needs delta
    assert TOGETHER not in Cheapest().candidates(replace(MIXED, neighbors=ADD_REMOVE), hidden)
    assert ALONE not in Cheapest().candidates(MIXED, PublicShape.of(5, 1000))
    first = Cheapest(DefaultMean(target="mean")).candidates(MIXED, PublicShape.of(2, 4000))
    assert WINSORIZED not in first  # it has no interval for the mean
    with pytest.raises(InfeasibleError):
        planned(Cheapest(), PURE, persons=500, dimension=5)


def test_a_choice_survives_pickling_and_statuses_of_columns_keep_their_advice():
    plan = planned(Cheapest(), PURE, persons=900, dimension=2)
    assert pickle.loads(pickle.dumps(plan)).predicted == plan.predicted
    assert plan.name == ALONE
    x = np.random.default_rng(1).normal(size=(900, 2))
    interval = plan.release(ArrayPersonTable(x, ("a", "b")), pm.SimulatedNoise(6)).interval()
    assert interval.status == "outliers_unchecked"  # 450 n*epsilon a column
    assert "could go undetected" in interval.advice


def test_a_pure_plan_of_several_columns_says_what_delta_or_bounds_would_give():
    def said(**budget):
        return planned(Cheapest(), Budget(**budget), persons=4700, dimension=3).rationale

    words = said(epsilon=3.0)
    told = words.split("privacy: ")[1]
    now, delta, bounds = (float(part.split()[0]) for part in told.split(", "))
    assert 1 < bounds < delta < now < 2
    assert "for the clipped mean with delta=1e-06" in said(epsilon=1.0)
    assert "half-width" not in said(epsilon=3.0, delta=1e-6)
    assert "half-width" not in said(rho=1.0)
    alone = planned(Cheapest(), Budget(epsilon=3.0), persons=4700).rationale
    assert "half-width" not in alone
    added = Budget(epsilon=3.0, neighbors="add-remove")
    words = planned(Cheapest(), added, n_guess=4700, dimension=3).rationale
    assert "delta" not in words
    assert "with bounds 7 standard deviations apart" in words


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_half_width_that_a_plan_predicts_is_about_that_of_calm_columns(epsilon, neighbors):
    """Normal columns; the median of 20 releases. Limits are half octaves, so that it is rough."""
    g, n = np.random.default_rng(3), 4700
    x = 5 + g.normal(size=(n, 3))
    budget = Budget(epsilon=epsilon, neighbors=neighbors)
    plan = planned(Cheapest(), budget, count=n, dimension=3)
    halves = []
    for seed in range(20):
        made = plan.release(ArrayPersonTable(x, ("a", "b", "c")), pm.SimulatedNoise(seed))
        halves += [(row.upper - row.lower) / 2 for row in made.rows()]
    measured = float(np.median(halves)) * n**0.5 / 1.96
    assert 0.6 < predicted_half(plan.inner) / measured < 1.6


def test_bounds_of_the_width_that_is_meant_give_the_half_width_that_is_said():
    g, n = np.random.default_rng(3), 4700
    x = np.clip(g.normal(size=(n, 3)), -3.5, 3.5)
    plan = planned(Cheapest(), Budget(epsilon=1.0), persons=n, dimension=3)
    bounded = planned(pm.BoundedMean((-3.5, 3.5)), Budget(epsilon=1.0), persons=n, dimension=3)
    made = bounded.release(ArrayPersonTable(x, ("a", "b", "c")), pm.SimulatedNoise(1))
    half = np.median([(row.upper - row.lower) / 2 for row in made.rows()]) * n**0.5 / 1.96
    assert predicted_half(plan.inner, bounded=True) == pytest.approx(half, rel=0.04)


def test_details_list_the_parts_of_every_half_width():
    x = 5 + np.random.default_rng(3).normal(size=(4700, 3))
    for columns in (x, x[:, 0]):
        made = pm.mean(columns, epsilon=3, noise=pm.SimulatedNoise(1))
        said = " ".join(str(made.details()).split())
        assert "Parts of the half-widths:" in said
        for j in range(len(made.columns)):
            parts = made.row_interval(j).half_widths
            assert set(parts) == {"noise", "sampling", "clipping allowance", "undetected outliers"}
            words = ", ".join(f"{name} {half[0]:.2g}" for name, half in parts.items())
            assert f"{made.columns[j]}: {words}" in said
    bounded = pm.mean(x, assume=(0, 10), epsilon=3, noise=pm.SimulatedNoise(1))
    assert "Parts of" not in str(bounded.details())
