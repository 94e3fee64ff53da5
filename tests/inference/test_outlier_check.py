"""Statuses of the tail: what a noisy count says, and how often it is wrong."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import statistics_kit
from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.inference.clipped_intervals import CLIPPED, MEAN, ColumnIntervals
from privmean.inference.mean_interval import ClippingBiasBound, NoisySums
from privmean.inference.outlier_check import OutlierCheck
from privmean.inference.status import MODIFIED_TARGET, OUTLIERS_CLIPPED, OUTLIERS_UNCHECKED
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import planned


@pytest.mark.parametrize(("persons", "scale"), [(5000, 3.6), (5000, 7.8), (20000, 3.2)])
def test_false_alarms_and_hidden_groups_are_what_they_are_said_to_be(persons, scale):
    draws = 100_000
    noise = np.random.default_rng(1).laplace(0, scale, draws)

    def statuses(group):
        return sum(OutlierCheck(persons, x, scale).beyond_seen for x in group + noise)

    statistics_kit.assert_rate(statuses(0), draws, 0.5 * math.exp(-3))
    hidden = OutlierCheck(persons, 0.0, scale).hidden
    statistics_kit.assert_rate(draws - statuses(hidden), draws, 0.1)


def test_order_of_the_statuses():
    def status(beyond, persons=10_000):
        return OutlierCheck(persons, beyond, 6.0).status

    assert status(0.0) == "ok"
    assert status(17.9) == "ok"
    assert status(18.1) == OUTLIERS_CLIPPED
    assert status(600.0) == MODIFIED_TARGET
    assert status(0.0, persons=690) == OUTLIERS_UNCHECKED
    assert status(0.0, persons=150) == OUTLIERS_UNCHECKED


@pytest.mark.parametrize("beyond", [0.0, 18.1, 600.0])
def test_a_clipped_mean_that_was_asked_for_depends_on_no_count_of_outliers(beyond):
    sums = NoisySums(1000.0, 2000.0, 5000, 4.0, 8.0)
    check = OutlierCheck(5000, beyond, 6.0)
    made = ColumnIntervals(sums, allowance=ClippingBiasBound(beyond, 6.0, 1.0), check=check)
    assert made.standing() == (check.status, check.advice)
    for asked, default in (("clipped", MEAN), (None, CLIPPED)):
        made = replace(made, default=default)
        assert made.standing(asked) == ("ok", "")
        assert made.interval(0.95, asked).status == "ok"


@pytest.mark.parametrize(("scale", "seen"), [(6.0, OUTLIERS_CLIPPED), (30.0, MODIFIED_TARGET)])
def test_an_interval_for_something_else_says_so(scale, seen):
    """Where the mean needs a sharper count than there is, the status is one of the target."""
    check = OutlierCheck(5000, 4 * scale, scale, unchecked_part=0.01, checked=True)
    made = ColumnIntervals(
        NoisySums(1000.0, 2000.0, 5000, 4.0, 8.0),
        allowance=ClippingBiasBound(4 * scale, scale, 1.0),
        check=check,
    )
    interval = made.interval(0.95, None)
    assert interval.status == made.standing()[0] == seen
    assert interval.target == ("mean" if seen == OUTLIERS_CLIPPED else "clipped mean")
    assert ("could go undetected" in interval.advice) == (seen == MODIFIED_TARGET)


def test_a_calm_column_is_warned_of_by_noise_alone_as_often_as_the_page_says():
    draws, g = 200_000, np.random.default_rng(6)
    found = [OutlierCheck(5000, x, 6.0).status for x in g.laplace(0, 6.0, draws).tolist()]
    statistics_kit.assert_rate(sum(item != "ok" for item in found), draws, 0.5 * math.exp(-3))


def test_thick_advice_tells_people_from_noise():
    seen, hidden = OutlierCheck(2000, 300.0, 60.0), OutlierCheck(2000, 100.0, 60.0)
    assert seen.status == hidden.status == MODIFIED_TARGET
    assert seen.advice == ""
    assert hidden.advice.startswith("The noise hides whether more than 5% of the people lie beyond")


def test_the_plan_knows_below_what_the_tail_goes_unchecked():
    def described(persons, epsilon):
        return planned(DefaultMean(), Budget(epsilon=epsilon), persons=persons).describe()

    assert described(200, 1.0)["tail check"] == OUTLIERS_UNCHECKED
    assert described(700, 1.0)["tail check"] == OUTLIERS_UNCHECKED
    assert described(7000, 0.1)["tail check"] == OUTLIERS_UNCHECKED
    assert described(1200, 1.0)["tail check"] == "ok"
    words = "people outside the limits who may go undetected"
    assert described(5000, 0.5)[words] > 1.8 * described(5000, 1.0)[words]


def statuses(values, epsilon, runs, relation=REPLACE_ONE):
    public = {"persons": len(values)} if relation == REPLACE_ONE else {"persons": None}
    plan = planned(DefaultMean(), Budget(epsilon=epsilon), relation=relation, **public)
    people, noise = ArrayPersonTable(values[:, None], ("v",)), SimulatedNoise(4)
    return [plan.release(people, noise).interval() for _ in range(runs)]


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_a_group_beyond_the_limits_is_seen_and_nobody_is_not(relation):
    g, runs = np.random.default_rng(8), 40
    quiet = g.normal(size=6000)
    loud = np.where(np.arange(6000) < 40, 300.0, quiet)
    seen = [item.status for item in statuses(loud, 1.0, runs, relation)]
    statistics_kit.assert_rate_at_least(sum(item != "ok" for item in seen), runs, 0.8)
    calm = [item.status for item in statuses(quiet, 1.0, runs, relation)]
    statistics_kit.assert_rate_at_most(sum(item != "ok" for item in calm), runs, 0.3)
