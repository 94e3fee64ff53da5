"""Statuses of the tail: what two noisy counts say, and how often they are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

import statistics_kit
from privmean.central.default_mean import DefaultMean
from privmean.central.default_outliers import set_outliers_aside
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import ClipInterval
from privmean.inference.outlier_check import (
    OutlierCheck,
    detection_threshold,
    largest_undetected,
    outlier_status,
)
from privmean.inference.status import (
    EXTREME_OUTLIERS,
    MODIFIED_TARGET,
    OUTLIERS_CLIPPED,
    OUTLIERS_UNCHECKED,
)
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import planned


@pytest.mark.parametrize(("persons", "scale"), [(5000, 3.6), (5000, 7.8), (20000, 3.2)])
def test_false_alarms_and_hidden_groups_are_what_they_are_said_to_be(persons, scale):
    draws = 100_000
    noise = np.random.default_rng(1).laplace(0, scale, draws)
    threshold = detection_threshold(persons, scale)

    def statuses(group):
        return sum(x > threshold * scale for x in group + noise)

    statistics_kit.assert_rate(statuses(0), draws, 0.5 * math.exp(-threshold))
    hidden = largest_undetected(threshold, scale)
    statistics_kit.assert_rate(draws - statuses(hidden), draws, 0.1)
    check = OutlierCheck(persons, 0.0, 2 * scale, 0.0, scale)
    assert check.hidden == hidden


def test_threshold_falls_where_few_persons_are_all_there_is_to_see():
    thresholds = [detection_threshold(n, 3.5) for n in (1000, 5000, 9000, 50_000)]
    assert thresholds == sorted(thresholds)
    assert thresholds[0] == 1.3
    assert thresholds[-1] == 3.0
    # in between, a group of .2 % is overlooked in one of ten
    assert largest_undetected(detection_threshold(7000, 3.5), 3.5) == pytest.approx(14.0)


def test_order_of_the_statuses():
    def status(beyond, far, persons=10_000):
        check = OutlierCheck(persons, beyond, 6.0, far, 3.0)
        return check.status

    assert status(0.0, 0.0) == "ok"
    assert status(30.0, 0.0) == OUTLIERS_CLIPPED
    assert status(30.0, 30.0) == EXTREME_OUTLIERS
    assert status(600.0, 30.0) == MODIFIED_TARGET
    assert status(0.0, 0.0, persons=700) == OUTLIERS_UNCHECKED
    assert status(0.0, 0.0, persons=150) == OUTLIERS_UNCHECKED
    assert status(0.0, 8.0, persons=700) == EXTREME_OUTLIERS


def test_a_release_says_what_a_count_shows_from_three_noise_scales_on():
    calm = OutlierCheck(10_000, 17.9, 6.0, 8.9, 3.0)
    assert outlier_status(calm)[0] == "ok"
    assert outlier_status(OutlierCheck(10_000, 18.1, 6.0, 0.0, 3.0))[0] == OUTLIERS_CLIPPED
    assert outlier_status(OutlierCheck(10_000, 0.0, 6.0, 9.1, 3.0))[0] == EXTREME_OUTLIERS
    assert outlier_status(OutlierCheck(10_000, 18.1, 6.0))[0] == OUTLIERS_CLIPPED
    # people beyond a thin tail's part alone are counted
    assert outlier_status(OutlierCheck(10_000, 30.0, 6.0, 0.0, 3.0, between=12.1))[0] == "ok"


def test_a_calm_column_is_warned_of_by_noise_alone_as_often_as_the_page_says():
    draws, g = 200_000, np.random.default_rng(6)
    beyond, far = g.laplace(0, 6.0, draws), g.laplace(0, 3.0, draws)
    said = sum(
        outlier_status(OutlierCheck(10_000, b, 6.0, f, 3.0))[0] != "ok"
        for b, f in zip(beyond.tolist(), far.tolist(), strict=True)
    )
    one = 0.5 * math.exp(-3)
    statistics_kit.assert_rate(said, draws, 1 - (1 - one) ** 2)


def test_thick_advice_tells_people_from_noise():
    seen, hidden = OutlierCheck(2000, 300.0, 60.0), OutlierCheck(2000, 100.0, 60.0)
    assert seen.status == hidden.status == MODIFIED_TARGET
    assert seen.advice == ""
    assert hidden.advice.startswith("The noise hides whether more than 5% of the people lie beyond")


def test_one_count_alone_is_read_with_the_finer_threshold():
    check = OutlierCheck(5000, 0.0, 12.0)
    assert check.threshold == 1.3
    assert OutlierCheck(5000, 16.0, 12.0).status == OUTLIERS_CLIPPED
    assert OutlierCheck(5000, 15.0, 12.0).status == "ok"
    assert OutlierCheck(5000, 16.0, 12.0, 0.0, 5.0).status == "ok"


def test_the_plan_knows_below_what_the_tail_goes_unchecked():
    def described(persons, epsilon):
        return planned(DefaultMean(), Budget(epsilon=epsilon), persons=persons).describe()

    assert described(200, 1.0)["tail check"] == OUTLIERS_UNCHECKED
    assert described(1000, 1.0)["tail check"] == OUTLIERS_UNCHECKED
    assert described(10_000, 0.1)["tail check"] == OUTLIERS_UNCHECKED
    assert described(2000, 1.0)["tail check"] == "ok"
    seen = described(5000, 1.0)["people far beyond who may go undetected"]
    assert described(5000, 0.5)["people far beyond who may go undetected"] > 1.8 * seen


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_far_persons_leave_the_sums(relation):
    box = ClipInterval(-1.0, 2.0)
    near = np.array([-1.0, 0.0, 0.7, 2.0, 5.0, -12.9, 14.0, np.nan])
    far = np.array([-13.1, 14.1, np.inf, -1e300])
    people = ArrayPersonTable(np.concatenate([near, far])[:, None], ("v",))
    apart = set_outliers_aside(people, 0, people.interval_sums([box])[0], box, relation)
    rest = ArrayPersonTable(near[:, None], ("v",)).interval_sums([box])[0]
    assert (apart.far, apart.limits) == (4, (-13.0, 14.0))
    assert apart.sums.z == rest.z
    if relation == REPLACE_ONE:
        assert apart.sums.zz == rest.zz + 4 * box.steps**2
        assert apart.sums.present == rest.present + 4
    else:
        assert (apart.sums.zz, apart.sums.present) == (rest.zz, rest.present)


def statuses(values, epsilon, runs, relation=REPLACE_ONE):
    public = {"persons": len(values)} if relation == REPLACE_ONE else {"persons": None}
    plan = planned(DefaultMean(), Budget(epsilon=epsilon), relation=relation, **public)
    people, noise = ArrayPersonTable(values[:, None], ("v",)), SimulatedNoise(4)
    return [plan.release(people, noise).interval() for _ in range(runs)]


def test_a_few_far_persons_are_seen_and_nobody_is_not():
    g, runs = np.random.default_rng(8), 60
    quiet = g.normal(size=6000)
    loud = np.where(np.arange(6000) < 12, 300.0, quiet)
    seen = [item.status for item in statuses(loud, 1.0, runs)]
    statistics_kit.assert_rate_at_least(sum(item != "ok" for item in seen), runs, 0.8)
    assert seen.count(EXTREME_OUTLIERS) > runs / 2
    calm = [item.status for item in statuses(quiet, 1.0, runs)]
    statistics_kit.assert_rate_at_most(sum(item != "ok" for item in calm), runs, 0.2)
    some = statuses(loud, 1.0, 10, ADD_REMOVE)
    assert sum(item.status != "ok" for item in some) > 5
    plan = planned(DefaultMean(), Budget(epsilon=1.0), persons=None, relation=ADD_REMOVE)
    release = plan.release(ArrayPersonTable(loud[:, None], ("v",)), SimulatedNoise(4))
    assert "left out" in release.interval(target="clipped").assumption
    assert release.to_dict()["interval"]["advice"] == release.interval().advice
