"""Mean curves at public times: cells, bands, and one hostile unit."""

import math

import numpy as np
import pytest

import privmean as pm
from altered_noise import Silence
from privmean.estimators.curve_release import JointErrors
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from statistics_kit import (
    assert_mean,
    assert_rate,
    assert_variance,
)

TIMES = np.arange(400) / 400


@pytest.mark.parametrize("value", [1e300, -math.inf, math.inf, math.nan, 3.0])
@pytest.mark.parametrize("bandwidth", [0.0, 0.1])
def test_one_response_moves_one_cell_by_at_most_two_radii(value, bandwidth):
    rng = np.random.default_rng(1)
    responses = rng.normal(0, 3, 400)
    plan = pm.FixedDesign((-1.0, 1.5), 8, bandwidth).plan(Budget(epsilon=1.0), times=TIMES)
    other = responses.copy()
    other[123] = value
    gap = plan.release(other, Silence(0)).estimate - plan.release(responses, Silence(0)).estimate
    cell = TIMES[123] * 8 // 1
    largest = 2.5 / 50 * plan.weights[:, int(cell)]  # the width of the box over a cell's responses
    assert np.all(np.abs(gap) <= largest * (1 + 1e-5))
    if not bandwidth:
        assert np.count_nonzero(gap) <= 1


@pytest.mark.slow
def test_the_noise_of_a_cell_has_the_full_budget():
    plan = pm.FixedDesign((-1.0, 1.0), 4).plan(Budget(epsilon=0.5), times=TIMES)
    assert sum(loss.pure for loss in plan.events) == 0.5
    zero = np.zeros(400)
    found = np.array([plan.release(zero, SimulatedNoise(s)).estimate for s in range(1500)])
    scale = 2 * 1.0 / (0.5 * 100)
    for j in range(4):
        assert_mean(found[:, j], 0.0, slack=2.0**-20)
        assert_variance(found[:, j], 2 * scale**2, kurtosis=6.0)
    assert np.allclose(plan.noise, math.sqrt(2) * scale, rtol=1e-4)


def test_weights_are_public_and_add_up_to_one():
    design = pm.FixedDesign((-1, 1), 10, 0.2, at=(0.0, 0.31, 5.0))
    plan = design.plan(Budget(rho=0.1), times=TIMES)
    assert np.allclose(plan.weights.sum(axis=1), 1)
    assert np.isfinite(plan.weights).all()
    release = plan.release(TIMES, SimulatedNoise(1))
    release.guarantee.require()
    assert release.guarantee.unit == "response"
    assert release.columns == ("0", "0.31", "5")


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_errors_of_all_points_are_inside_as_often_as_said(gaussian, level):
    """Heavily shared cells, where a bound by points would be far too long."""
    at = np.linspace(0, 1, 30)
    weights = np.exp(-0.5 * ((at[:, None] - at[None, :]) / 0.15) ** 2)
    weights /= weights.sum(axis=1, keepdims=True)
    noise, spread = np.linspace(0.1, 1, 30), np.linspace(1, 0.1, 30)
    law = JointErrors(weights, noise, spread, gaussian)
    half = law.together(level)
    assert np.all(half < law.alone(1 - (1 - level) / 30))
    rng, draws = np.random.default_rng(1), 20_000
    drawn = rng.normal(size=(draws, 30)) if gaussian else rng.laplace(size=(draws, 30))
    errors = (noise * drawn + np.sqrt(spread) * rng.normal(size=(draws, 30))) @ weights.T
    held = np.mean(np.all(np.abs(errors) <= half, axis=1))
    slack = 4.9 * np.sqrt(level * (1 - level) * (1 / draws + 1 / 2**14))
    assert abs(held - level) < slack


@pytest.mark.slow
@pytest.mark.parametrize("bandwidth", [0.0, 0.1])
def test_bands_of_curves_at_public_times_hold_as_often_as_said(bandwidth):
    times = np.linspace(0, 1, 1500)
    plan = pm.FixedDesign((-2.0, 2.0), 8, bandwidth).plan(Budget(epsilon=1.0), times=times)
    means = np.array([np.sin(5 * times[plan.cell == place]).mean() for place in plan.used])
    truth, held, runs = plan.weights @ means, 0, 60
    for seed in range(runs):
        values = np.sin(5 * times) + 0.2 * np.random.default_rng(seed).normal(size=1500)
        band = plan.release(values, SimulatedNoise(seed)).interval()
        held += bool(np.all((np.array(band.lower) <= truth) & (truth <= np.array(band.upper))))
    assert_rate(held, runs, 0.95)


def test_plot_draws_both_bands():
    plan = pm.FixedDesign((-1.0, 1.0), 4).plan(Budget(epsilon=5.0), times=TIMES)
    axes = plan.release(TIMES, SimulatedNoise(0)).plot()
    assert len(axes.collections) == 2
    assert len(axes.lines) == 1
