"""The bounded mean: no location step, exact bills, coverage, both relations."""

import math
from fractions import Fraction

import numpy as np
import pytest

import statistics_kit
from privmean.data.array_table import ArrayPersonTable
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.means.bounded import BoundedMean
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.compose import pure_epsilon
from statistics_kit import planned


class OnlySums:
    """People that refuse every question but their public number and the box sums."""

    def __init__(self, x):
        self.inner = ArrayPersonTable(x, tuple(f"c{j}" for j in range(x.shape[1])))
        self.columns, self.max_records = self.inner.columns, None

    def size(self):
        return self.inner.size()

    def interval_sums(self, boxes):
        return self.inner.interval_sums(boxes)


def uniform(seed, n=1000, d=1):
    return np.random.default_rng(seed).random((n, d)) * 4 + 1


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_bounds_skip_the_location_and_leave_delta_unspent(relation):
    x = uniform(1)
    plan = planned(
        BoundedMean((1, 5)), Budget(epsilon=0.7, delta=1e-6), persons=1000, relation=relation
    )
    release = plan.release(OnlySums(x), SimulatedNoise(0))
    assert release.guarantee.delta == 0
    assert pure_epsilon(release.guarantee.mechanisms) == Budget(epsilon=0.7).pure_epsilon()
    assert abs(float(release) - x.mean()) < 0.1
    interval = release.interval()
    assert interval.target == "mean within bounds"
    assert interval.clip_bounds == ((1.0, 5.0),)
    with pytest.raises(ArgumentError):
        release.interval(target="mean")


@pytest.mark.slow
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize(("n", "epsilon"), [(200, 0.1), (1000, 1.0)])
def test_coverage_of_the_mean_within_bounds(relation, n, epsilon):
    runs = 400 if relation == REPLACE_ONE else 150
    plan = planned(BoundedMean((0, 1)), Budget(epsilon=epsilon), persons=n, relation=relation)
    g = np.random.default_rng(2)
    hits = 0
    for _ in range(runs):
        x = g.beta(2, 5, (n, 1))
        interval = plan.release(OnlySums(x), SimulatedNoise(g)).interval(0.95)
        low, high = interval.lower[0], interval.upper[0]
        assert 0 <= low <= high <= 1 or interval.status == "at_bound"
        hits += interval.lower[0] <= 2 / 7 <= interval.upper[0]
    statistics_kit.assert_rate_at_least(hits, runs, 0.94)


def test_add_remove_plans_do_not_depend_on_persons():
    plans = [
        planned(BoundedMean((0, 1)), Budget(epsilon=1.0), persons=n, relation=ADD_REMOVE)
        for n in (None, 5, 10**6)
    ]
    assert plans[0] == plans[1] == plans[2]
    release = plans[0].release(OnlySums(uniform(3) / 5), SimulatedNoise(1))
    assert abs(release.n - 1000) < 60
    with pytest.raises(ArgumentError, match="n_guess is required"):
        plans[0].predict(1.0)


def test_many_columns_take_gaussian_noise_where_it_is_less():
    x = uniform(4, d=12)
    pure = planned(BoundedMean((1, 5)), Budget(epsilon=1.0), persons=1000, dimension=12)
    mixed = planned(
        BoundedMean((1, 5)), Budget(epsilon=1.0, delta=1e-6), persons=1000, dimension=12
    )
    assert pure.sums.mu is None
    assert mixed.sums.mu > 0
    assert mixed.predict(1.0)["privacy_noise"] < pure.predict(1.0)["privacy_noise"]
    for plan in (pure, mixed):
        release = plan.release(OnlySums(x), SimulatedNoise(5))
        assert release.guarantee.verify()
        assert release.guarantee.spent() <= 1 + 1e-9
        assert release.guarantee.spent() >= 0.999
    few = planned(BoundedMean((1, 5)), Budget(epsilon=1.0, delta=1e-6), persons=1000, dimension=2)
    assert few.sums.mu is None
    rho = planned(BoundedMean([(1, 5)] * 12), Budget(rho=0.2), persons=1000, dimension=12)
    assert rho.release(OnlySums(x), SimulatedNoise(6)).guarantee.verify()


@pytest.mark.parametrize("dimension", [1, 12])
def test_nulls_that_are_seen_are_left_out(dimension):
    x = uniform(7, d=dimension)
    x[:500, 0] = np.nan
    plan = planned(
        BoundedMean((1, 9)), Budget(epsilon=4.0, delta=1e-6), persons=1000, dimension=dimension
    )
    errors = [
        plan.release(OnlySums(x), SimulatedNoise(s)).estimate[0] - np.nanmean(x[:, 0])
        for s in range(40)
    ]
    assert abs(np.mean(errors)) < 0.25
    assert abs((np.nanmean(x[:, 0]) + 5) / 2 - np.nanmean(x[:, 0])) > 0.9  # if they counted


def test_wrong_bounds_are_refused_by_name():
    for bad in ((5, 1), (1,), "ab", (0, math.inf), 3):
        with pytest.raises(ArgumentError, match="bounds"):
            BoundedMean(bad)
    with pytest.raises(ArgumentError, match="one pair for each"):
        planned(BoundedMean([(0, 1), (0, 2)]), Budget(epsilon=1.0), persons=10, dimension=3)


@pytest.mark.slow
def test_noise_scale_is_that_of_the_width():
    """Error of fixed data: Laplace of scale width/(n epsilon)."""
    x = uniform(8, n=100)
    plan = planned(BoundedMean((1, 5)), Budget(epsilon=1.0), persons=100)
    people, noise = OnlySums(x), SimulatedNoise(9)
    errors = np.array([plan.release(people, noise).estimate[0] for _ in range(4000)]) - x.mean()
    statistics_kit.assert_mean(errors, 0.0, slack=1e-5)
    statistics_kit.assert_variance(errors, 2 * (4 / 100) ** 2, kurtosis=6.0)
    assert plan.events[0].pure == Fraction(1)


def test_noise_that_fills_the_bounds_is_refused_before_anything_is_spent():
    plan = BoundedMean((0.0, 1.0)).plan
    for persons in (1, 5):
        with pytest.raises(InfeasibleError, match="at least 6 people, or a larger epsilon"):
            plan(Budget(epsilon=1.0), PublicShape(("x",), persons))
    made = plan(Budget(epsilon=1.0), PublicShape(("x",), 6))
    assert 1.96 * made.sums.value_sd <= 6  # in units of the radius: its interval is no longer


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
@pytest.mark.parametrize(
    ("bounds", "side"), [((0, 100), "upper bound 100"), ((10_000, 20_000), "lower bound 10000")]
)
def test_values_in_other_units_than_the_bounds_are_said_to_be_at_one(bounds, side, neighbors):
    x = np.random.default_rng(3).normal(5000, 300, (2000, 1))
    budget = Budget(epsilon=1.0, neighbors=neighbors)
    public = 2000 if neighbors == "replace-one" else None
    missed = 0
    for seed in range(200):
        for given in (bounds, (0, 10_000)):
            plan = planned(BoundedMean(given), budget, persons=public)
            release = plan.release(ArrayPersonTable(x, ("v",)), SimulatedNoise(seed))
            told = release.status == "at_bound"
            assert told == (f"away from the {side}." in release.advice)
            assert not told or given == bounds
            missed += given == bounds and not told
    statistics_kit.assert_rate_at_most(missed, 200, 0.007)
