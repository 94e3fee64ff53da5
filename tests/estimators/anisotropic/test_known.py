"""Plans and releases for a known covariance."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import statistics_kit
from estimators.made_people import people, spike
from privmean.errors import ArgumentError
from privmean.estimators.anisotropic.anisotropic_mean import (
    AnisotropicMean,
    Candidates,
)
from privmean.estimators.anisotropic.spectrum import (
    FLOOR,
    pair_radius,
    person_covariance,
    spectrum_of,
)
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import planned

BUDGET = Budget(epsilon=1.0, delta=1e-6)


def plan_of(covariance, n, d, budget=BUDGET, relation=REPLACE_ONE, **settings):
    estimator = AnisotropicMean(covariance, **settings)
    return planned(estimator, budget, count=n, dimension=d, relation=relation)


def normal(rng, n, sigma, mean=3.0):
    return rng.normal(size=(n, len(sigma))) * sigma + mean


# --- spectrum and radii --------------------------------------------------------------------------


def test_radius_of_the_spike():
    assert pair_radius(spike(1000), 2000, 0.05) == pytest.approx(10.93, abs=0.005)
    assert pair_radius(spike(100), 1000, 0.05) == pytest.approx(10.60, abs=0.01)


@pytest.mark.parametrize("d", [100, 1000, 10_000])
def test_noise_does_not_grow_with_the_dimension(d):
    """2 lambda s sqrt(sum sigma)/(n - t) = .324, .325, .325 for the spike at n = 2000."""
    plan = plan_of(spike(d) ** 2, 2000, d, relation=ADD_REMOVE, method="average")
    assert plan.noise_error == pytest.approx(0.3247, abs=0.0012)
    # one radius for all columns: proportional to sqrt(d)
    wide = spectrum_of(float((spike(d) ** 2).max()), d)
    sphere = Candidates(replace(BUDGET, neighbors=ADD_REMOVE), wide, 2000, 0.05).average()
    assert sphere.noise_error > math.sqrt(d / 30) * plan.noise_error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("relation", "n"), [(ADD_REMOVE, 2000), (ADD_REMOVE, 8000), (REPLACE_ONE, 8000)]
)
def test_two_phases_are_flat_in_the_dimension(relation, n):
    small, large = (
        planned(AnisotropicMean(spike(d) ** 2), BUDGET, count=n, dimension=d, relation=relation)
        for d in (100, 10_000)
    )
    assert large.error / small.error < 1.1
    assert small.method == large.method == "two-phase"


def test_singular_covariance_is_raised_a_little():
    spectrum = spectrum_of([1.0, 0.0, 0.0], 3)
    assert spectrum.deviations.min() == FLOOR / 3
    plan = planned(AnisotropicMean([1.0, 0.0, 0.0]), BUDGET, persons=2000, dimension=3)
    full = planned(AnisotropicMean([1.0, 1e-6, 1e-6]), BUDGET, persons=2000, dimension=3)
    assert plan.error <= full.error
    x = np.zeros((2000, 3))
    x[:, 0] = np.random.default_rng(3).normal(size=2000)
    x[:, 1], x[:, 2] = 7.0, -1e6
    release = plan.release(people(x), SimulatedNoise(1))
    assert release.estimate[1:] == pytest.approx([7.0, -1e6], abs=1e-3)


@pytest.mark.parametrize(
    "covariance", [[1.0, -1.0], [1.0, 2.0, 3.0], [[1.0, 2.0], [0.0, 1.0]], 0.0, "wide", [np.nan, 1]]
)
def test_covariances_that_cannot_be(covariance):
    with pytest.raises(ArgumentError) as error:
        planned(AnisotropicMean(covariance), BUDGET, persons=2000, dimension=2)
    assert error.value.argument == "covariance"


def test_covariance_of_a_person_keeps_what_persons_differ_by():
    assert person_covariance(1.0, 8.0, 4) == 3.0
    assert np.allclose(person_covariance([1.0, 0.0], [4.0, 4.0], 4), [2.0, 1.0])
    with pytest.raises(ArgumentError):
        person_covariance(1.0, 1.0, 0)


# --- plans ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_auto_takes_the_least_predicted_error():
    sigma = spike(100)
    for persons in (400, 2000, 20_000):
        plans = {
            method: plan_of(sigma**2, persons, 100, Budget(3.0, 1e-6), method=method)
            for method in ("auto", "average", "two-phase")
        }
        best = min(item.error for name, item in plans.items() if name != "auto")
        assert plans["auto"].error == pytest.approx(best, rel=1e-9)


def test_nothing_reads_n_under_add_remove():
    """Same public guess, other numbers of persons: the plan must not know."""
    estimator = AnisotropicMean(spike(20) ** 2)
    plan = planned(estimator, BUDGET, persons=None, n_guess=2000, dimension=20, relation=ADD_REMOVE)
    assert plan.n is None
    rng = np.random.default_rng(5)
    for n in (0, 1, 40, 1500, 4000):
        release = plan.release(people(normal(rng, n, spike(20))), SimulatedNoise(n))
        assert release.n != n or release.failed
        assert release.failed == (n < 200)
        assert "persons" not in release.guarantee.public
    with pytest.raises(ArgumentError, match="n_guess"):
        planned(estimator, BUDGET, n_guess=None, dimension=20, relation=ADD_REMOVE)


# --- releases ------------------------------------------------------------------------------------


def releases(plan, sigma, n, draws, seed=0):
    rng = np.random.default_rng(seed)
    made = [
        plan.release(people(normal(rng, n, sigma)), SimulatedNoise(1000 * seed + k))
        for k in range(draws)
    ]
    assert not any(release.failed for release in made)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
@pytest.mark.parametrize("method", ["average", "two-phase"])
def test_error_is_the_predicted_one(relation, method):
    sigma = spike(12)
    plan = plan_of(sigma**2, 1000, 12, Budget(2.0, 1e-6), relation=relation, method=method)
    made = releases(plan, sigma, 1000, 60)
    # given the noisy count the errors are normal with the released deviations
    scores = [
        (item.estimate - 3) / np.hypot(item.intervals.noise, item.intervals.sampling)
        for item in made
    ]
    statistics_kit.assert_mean(np.ravel(scores), 0.0)
    statistics_kit.assert_variance(np.ravel(scores), 1.0)
    with pytest.raises(AssertionError):
        statistics_kit.assert_variance(2 * np.ravel(scores), 1.0)
    size = [np.sqrt((item.intervals.noise**2).sum()) for item in made]
    statistics_kit.assert_mean(size, plan.noise_error, slack=0.02 * plan.noise_error)


def test_interval_covers_the_population():
    sigma = spike(8)
    plan = planned(AnisotropicMean(sigma**2), Budget(3.0, 1e-5), persons=500, dimension=8)
    rng = np.random.default_rng(8)
    draws, inside = 150, 0
    for k in range(draws):
        release = plan.release(people(normal(rng, 500, sigma)), SimulatedNoise(k))
        box = release.interval(0.9)
        inside += bool(((np.array(box.lower) <= 3) & (np.array(box.upper) >= 3)).all())
        assert set(box.half_widths) == {"noise", "sampling"}
    statistics_kit.assert_rate_at_least(inside, draws, 0.89)


def test_a_matrix_gives_what_its_axes_give():
    rng = np.random.default_rng(9)
    sigma = spike(20)
    axes, _ = np.linalg.qr(rng.normal(size=(20, 20)))
    covariance = axes @ np.diag(sigma**2) @ axes.T
    plan = planned(AnisotropicMean(covariance), BUDGET, persons=2000, dimension=20)
    diagonal = planned(AnisotropicMean(sigma**2), BUDGET, persons=2000, dimension=20)
    assert spectrum_of(np.diag(sigma**2), 20).axes is None
    assert plan.error == pytest.approx(diagonal.error, rel=1e-6)
    x = normal(rng, 2000, sigma, 0.0) @ axes.T + 5
    release = plan.release(people(x), SimulatedNoise(2))
    assert np.linalg.norm(release.estimate - 5) < 4 * plan.error
    assert np.isfinite(release.interval().lower).all()


def test_bottom_is_a_private_failure_with_its_bill():
    """A covariance a million times too small: nobody is anybody's friend."""
    x = normal(np.random.default_rng(10), 2000, np.ones(5))
    for method in ("average", "two-phase"):
        plan = planned(AnisotropicMean(1e-12, method=method), BUDGET, persons=2000, dimension=5)
        release = plan.release(people(x), SimulatedNoise(1))
        assert release.failed
        assert np.isnan(release.estimate).all()
        assert release.guarantee.mechanisms == plan.centre.events
        assert 0 < release.guarantee.spent() <= 1.0 + 1e-9
        assert release.interval().lower == (-math.inf,) * 5
        text = release.summary()
        assert "\nfailed: No estimate was found" in text
        json.dumps(release.to_dict())


def test_progress_is_told_and_ends_at_one():
    seen = []
    plan = planned(AnisotropicMean(1.0), BUDGET, persons=5000, dimension=2)
    x = normal(np.random.default_rng(18), 5000, np.ones(2))
    rows = plan.centre.rows(x)
    assert plan.centre.mechanism().kept(rows, SimulatedNoise(1), seen.append).any()
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_is_shown_on_a_terminal_only(terminal, monkeypatch, capsys):
    import sys

    from privmean.mechanisms.filtered_mean import LONG, shown

    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with shown(2 * LONG) as tell:
        assert (tell is not None) == terminal
        if tell is not None:
            tell(0.5)
    for work in (LONG / 2, None):  # None: the work is private
        with shown(work) as tell:
            assert tell is None
