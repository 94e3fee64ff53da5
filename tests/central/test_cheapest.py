"""The method that several columns get with nothing given, and the line that says why."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import privmean as pm
from privmean.central.choose_vector_method import ALONE, TOGETHER, WINSORIZED, Cheapest
from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.data.public_shape import PublicShape
from privmean.errors import InfeasibleError
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


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_mean_of_several_columns_says_what_ran_and_why(neighbors):
    x = np.random.default_rng(3).normal([0, 5, 50], [1, 2, 3], (6000, 3))
    guess = {"n_guess": 6000} if neighbors == "add-remove" else {}
    release = pm.mean(x, epsilon=2, neighbors=neighbors, noise=pm.SimulatedNoise(1), **guess)
    assert "cheapest by predicted error" in release.details() or "no other" in release.details()
    assert np.abs(release.estimate - x.mean(axis=0)).max() < 0.5
    assert release.guarantee.verify()
    assert release.to_dict()["plan"]["predicted by method"]
    named = pm.mean(x, epsilon=2, method="default", noise=pm.SimulatedNoise(1))
    assert (
        named.plan.rationale
        == planned(DefaultMean(), Budget(epsilon=2.0), persons=6000, dimension=3).rationale
    )


def test_one_column_is_the_default():
    plan = planned(Cheapest(), PURE, persons=4000)
    assert plan == planned(DefaultMean(), PURE, persons=4000)


def test_a_choice_survives_pickling_and_statuses_of_columns_keep_their_advice():
    plan = planned(Cheapest(), PURE, persons=900, dimension=2)
    assert pickle.loads(pickle.dumps(plan)).predicted == plan.predicted
    assert plan.name == ALONE
    x = np.random.default_rng(1).normal(size=(900, 2))
    interval = plan.release(ArrayPersonTable(x, ("a", "b")), pm.SimulatedNoise(6)).interval()
    assert interval.status == "outliers_unchecked"  # 450 n*epsilon a column
    assert "could go undetected" in interval.advice
