"""A curve at a few public points: what one response moves, the noise, the bands, the figures."""

import math
from fractions import Fraction

import numpy as np
import pytest

import privmean as pm
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import ClipInterval
from privmean.errors import ArgumentError
from privmean.mechanisms.weighted_sums import WeightedSums, grid_values, whole_weights
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from privmean.privacy.ledger import Ledger
from statistics_kit import assert_mean, assert_rate_at_least, assert_variance

TIMES = np.arange(1, 401) / 400
BOX = ClipInterval(-1.0, 1.5)
VALUES = [1e300, -math.inf, math.inf, math.nan, 1.5, -1.0, 0.25, 0.0, 1.1, -0.4]


def plan(at, bandwidth=0.05, times=TIMES, bounds=(-1.0, 1.5), **budget):
    made = pm.FixedDesign(bounds, bandwidth=bandwidth, at=at)
    return made.plan(Budget(**(budget or {"epsilon": 1.0})), times=times)


@pytest.mark.slow
@pytest.mark.parametrize("at", [(0.3,), (0.3, 0.35), (0.1, 0.5, 0.9)])
def test_one_response_moves_the_sums_within_the_noise_that_is_paid_for(at):
    """In exact integers, over all pairs of extreme values: Laplace and Gaussian loss."""
    laplace, gaussian = plan(at).sums, plan(at, rho=0.5).sums
    worst = [0.0, 0.0]
    for one in VALUES:
        for two in VALUES:
            z = grid_values(np.array([one, two]), BOX)
            first = abs(int(z[0]) - int(z[1])) / BOX.steps
            second = abs(int(z[0]) ** 2 - int(z[1]) ** 2) / BOX.steps**2
            for w in laplace.weights:
                a, b = laplace.noise
                worst[0] = max(worst[0], float(w.sum()) * (first / a + second / b))
                a, b = gaussian.noise
                norm = float((w.astype(float) ** 2).sum())
                worst[1] = max(worst[1], norm * ((first / a) ** 2 + (second / b) ** 2))
    assert worst[0] <= 1 * (1 + 1e-12)
    assert worst[1] <= 2 * 0.5 * (1 + 1e-12)  # mu^2 = 2 rho
    assert worst[0] > 0.99
    assert worst[1] > 0.97  # and nothing is wasted


def test_points_far_apart_have_the_full_budget_each():
    alone, both = plan((0.2,)), plan((0.2, 0.8))
    assert both.noise[0] == pytest.approx(alone.noise[0])
    assert plan((0.2, 0.2)).noise[0] == pytest.approx(2 * alone.noise[0])
    assert sum(loss.pure for loss in both.events) == 1


@pytest.mark.slow
def test_the_noise_is_that_of_the_largest_weight():
    made = plan((0.3,), epsilon=0.5)
    top = made.weights.max()
    assert made.noise[0] == pytest.approx(math.sqrt(2) * 2 * 1.25 * top / 0.5, rel=1e-5)
    zero = np.full(400, 0.25)
    found = [made.release(zero, SimulatedNoise(s)).estimate[0] for s in range(1500)]
    assert_mean(found, 0.25, slack=2.0**-18)
    assert_variance(found, made.noise[0] ** 2, kurtosis=6.0)


def test_sums_are_those_of_the_people_of_one_column():
    """With equal weights the integers are the box sums of any home of people, times the weight."""
    values = np.array([*VALUES, 3.0, 0.7])
    (exact,) = ArrayPersonTable(values[:, None], ("x",)).interval_sums([BOX])
    z = grid_values(values, BOX)
    assert (int(z.sum()), int((z * z).sum())) == (exact.z, exact.zz)
    sums = WeightedSums("points", whole_weights(np.ones((12, 1))), BOX, epsilon=Fraction(1))
    assert sums.reach == 1 << 20


@pytest.mark.slow
@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"rho": 0.3}])
def test_bands_hold_the_clipped_curve(budget):
    made = plan((0.2, 0.5, 0.8), 0.1, bounds=(-3, 3), **budget)
    truth = np.sin(6 * TIMES)
    exact = made.weights @ truth
    rng = np.random.default_rng(2)
    alone, together = 0, 0
    for seed in range(200):
        release = made.release(truth + rng.normal(0, 0.3, 400), SimulatedNoise(seed))
        table = release.table(0.9)
        alone += int((table.lower[1] <= exact[1]) & (exact[1] <= table.upper[1]))
        together += int(np.all((table.band_lower <= exact) & (exact <= table.band_upper)))
    release.guarantee.require()
    assert release.guarantee.unit == "response"
    assert_rate_at_least(alone, 200, 0.9)
    assert_rate_at_least(together, 200, 0.9)


@pytest.mark.parametrize(("n", "epsilon", "reference"), [(16000, 0.1, 0.0075), (4000, 1.0, 0.0076)])
def test_one_point_has_the_reference_error(n, epsilon, reference):
    """Errors AR(1) with coefficient 0.5 around sin(2 pi x)/2: noise, sampling and bias in closed
    form, within two standard errors (0.0009 each) of the reference."""
    times = np.arange(1, n + 1) / n
    width = max((3 / n) ** (1 / 3), math.sqrt(math.sqrt(3) / (n * epsilon)))
    bound = 0.5 + math.sqrt(2 * math.log(2 * n / 0.05))
    made = plan((0.3,), width, times, (-bound, bound), epsilon=epsilon)
    w = made.weights[0]
    covariance = [float(w[k:] @ w[: n - k]) * 0.5**k for k in range(60)]
    sampling = covariance[0] + 2 * sum(covariance[1:])
    bias = float(w @ np.sin(2 * math.pi * times) - math.sin(0.6 * math.pi)) / 2
    assert made.noise[0] ** 2 + sampling + bias**2 == pytest.approx(reference, abs=2 * 0.0009)


def test_missing_and_arguments():
    values = np.full(400, math.nan)
    assert abs(plan((0.3,), epsilon=50.0).release(values, SimulatedNoise(1)).estimate[0] - 0.25) < 1
    with pytest.raises(ArgumentError, match="cells"):
        pm.FixedDesign((-1, 1))
    with pytest.raises(ArgumentError, match="at"):
        pm.FixedDesign((-1, 1), at=(0.3,))
    with pytest.raises(ArgumentError, match="responses"):
        plan((0.3,)).release(np.zeros(3))


# --- one charge, one bill -------------------------------------------------------------------------


RESPONSES = np.sin(6 * TIMES)
SETTINGS = [{"cells": 5}, {"cells": 5, "bandwidth": 0.1, "at": (0.2,)},
            {"bandwidth": 0.05, "at": (0.3, 0.7)}]  # fmt: skip
BUDGETS = [pm.Budget(epsilon=1.0), pm.Budget(rho=0.3)]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda item: item.describe())
def test_one_charge_one_bill_one_level(settings, budget):
    plan = pm.FixedDesign((-1.0, 1.0), **settings).plan(budget, times=TIMES)
    ledger = Ledger(epsilon=3.0) if budget.rho is None else Ledger(rho=1.0)
    release = plan.release(RESPONSES, SimulatedNoise(1), ledger=ledger, level=0.8)
    (entry,) = ledger.entries
    assert entry.unit == release.guarantee.unit == "response"
    assert release.guarantee.mechanisms == plan.events
    assert release.interval().level == 0.8
    assert release.to_dict()["provenance"]["ledger"]["number"] == 1
    assert len(release.columns) == len(release.rows()) == len(plan.points)
    assert plan.predict(1.0)["rmse"] > 0


def test_nothing_is_charged_for_responses_that_do_not_fit():
    plan = pm.FixedDesign((-1.0, 1.0), cells=5).plan(BUDGETS[0], times=TIMES)
    ledger = Ledger(epsilon=1.0)
    with pytest.raises(pm.ArgumentError, match="responses"):
        plan.release(RESPONSES[1:], ledger=ledger)
    assert list(ledger.entries) == []
    plan.release(RESPONSES, ledger=ledger)
    with pytest.raises(pm.BudgetExceededError):
        plan.release(RESPONSES, ledger=ledger)
