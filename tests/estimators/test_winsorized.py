"""Winsorized releases: accuracy as predicted, nulls, failures, dependence on nothing private."""

import json
import math

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.errors import ArgumentError, NoEstimateError
from privmean.estimators.concentration import Bounded, SubGaussian, UnknownScale
from privmean.estimators.winsorized import WinsorizedMean
from privmean.inference.status import FAILED, OK
from privmean.mechanisms import histograms
from privmean.mechanisms.histograms import StableHistogram
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.guarantee import Guarantee
from statistics_kit import (
    assert_mean,
    assert_rate_at_least,
    assert_rate_at_most,
    assert_variance,
    planned,
)

APPROXIMATE = Budget(epsilon=1.0, delta=1e-6)
NORMAL = WinsorizedMean(SubGaussian(1.0))
RANGED = WinsorizedMean(SubGaussian(1.0), range=(-40.0, 60.0))


def people(values, **more):
    x = np.asarray(values, dtype=float)
    x = x[:, None] if x.ndim == 1 else x
    return ArrayPersonTable(x, tuple(f"x{j}" for j in range(x.shape[1])), **more)


def plan(estimator=NORMAL, budget=APPROXIMATE, n=2000, d=1, relation=REPLACE_ONE):
    size = {"persons": n} if relation == REPLACE_ONE else {"n_guess": n}
    return planned(estimator, budget, dimension=d, relation=relation, **size)


WAYS = {
    "stable": (NORMAL, APPROXIMATE, REPLACE_ONE, 1),
    "argmax": (RANGED, Budget(epsilon=1.0), REPLACE_ONE, 1),
    "zcdp": (RANGED, Budget(rho=0.2), REPLACE_ONE, 1),
    "bounded": (WinsorizedMean(Bounded(-2.0, 20.0)), Budget(epsilon=1.0), REPLACE_ONE, 1),
    "add-remove": (NORMAL, APPROXIMATE, ADD_REMOVE, 1),
    "add-remove zcdp": (RANGED, Budget(rho=0.2), ADD_REMOVE, 1),
    "columns": (NORMAL, Budget(epsilon=8.0, delta=1e-6), REPLACE_ONE, 4),
    "many columns": (NORMAL, Budget(epsilon=6.0, delta=1e-6), REPLACE_ONE, 12),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_error_is_as_predicted(way):
    """Privacy noise has the predicted variance, no bias, and the intervals hold."""
    estimator, budget, relation, d = WAYS[way]
    n, draws = 2000, 240
    made = plan(estimator, budget, n, d, relation)
    rng, noise = np.random.default_rng(1), SimulatedNoise(1)
    error, covered, noise_covered = [], 0, 0
    for k in range(draws):
        center = 7 + rng.uniform(-4, 4, d)
        data = center + rng.standard_normal((n, d))
        release = made.release(people(data), noise)
        assert release.status == OK
        error.append(release.estimate - data.mean(axis=0))
        if k % 3 == 0:
            inside = release.interval(0.9)
            covered += np.all((inside.lower <= center) & (center <= inside.upper))
            inside = release.noise_interval(0.9)
            sample = data.mean(axis=0)
            noise_covered += np.all((inside.lower <= sample) & (sample <= inside.upper))
    error = np.array(error)
    for j in range(d):
        assert_mean(error[:, j], 0.0)
    scaled = (error / np.array(made.noise)).ravel()
    if relation == REPLACE_ONE:
        assert_variance(scaled, 1.0, kurtosis=6.0)
    else:  # the noisy number of persons adds a little, depending on the centre's place
        assert scaled.std() < 1.35
    assert_rate_at_least(covered, draws // 3, 0.9)
    assert_rate_at_least(noise_covered, draws // 3, 0.9)


@pytest.mark.parametrize("way", WAYS)
def test_the_release_can_be_checked_from_itself(way):
    estimator, budget, relation, d = WAYS[way]
    data = people(7 + np.random.default_rng(2).standard_normal((2000, d)))
    release = plan(estimator, budget, 2000, d, relation).release(data, SimulatedNoise(2))
    stored = json.loads(json.dumps(release.to_dict()))
    again = Guarantee.from_dict(stored["guarantee"])
    assert again.verify()
    assert again.neighbors == relation
    if budget.is_pure:
        assert again.delta == 0
    assert stored["secure"] is False
    assert "SIMULATED" in release.summary()
    assert (release.n == 2000) == (relation == REPLACE_ONE)


@pytest.mark.parametrize("shift", [0.0, 1e6, -3e9])
def test_center_on_a_bin_edge_and_far_away(shift):
    made = plan(n=3000)
    half = made.facts.radii.half[0]
    rng, noise, error = np.random.default_rng(5), SimulatedNoise(5), []
    edge = 2 * half * round(shift / (2 * half)) + half
    for _ in range(150):
        values = edge + rng.standard_normal(3000)
        release = made.release(people(values), noise)
        assert release.status == OK
        error.append(release.estimate[0] - values.mean())
    assert_mean(error, 0.0)
    assert_variance(error, made.noise[0] ** 2, kurtosis=6.0)


# --- nulls and hostile values ---------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("share", [0.02, 0.3])
def test_nulls_do_not_pull_the_estimate(share, relation):
    made = plan(n=3000, relation=relation)
    rng, noise, error = np.random.default_rng(6), SimulatedNoise(6), []
    covered = 0
    for _ in range(120):
        values = 9 + rng.standard_normal(3000)
        values[rng.random(3000) < share] = math.nan
        release = made.release(people(values), noise)
        error.append(release.estimate[0] - np.nanmean(values))
        inside = release.interval(0.9)
        covered += inside.lower[0] <= 9 <= inside.upper[0]
    assert_mean(error, 0.0, slack=0.004)
    assert_rate_at_least(covered, 120, 0.9)


# --- failure --------------------------------------------------------------------------------------
def test_failure_is_an_outcome_and_is_charged_once():
    spread = np.linspace(-1e6, 1e6, 2000)
    release = plan().release(people(spread), SimulatedNoise(9))
    assert release.status == FAILED
    assert math.isnan(release.estimate[0])
    assert [loss.name for loss in release.guarantee.mechanisms] == [
        "histogram",
        "histogram threshold",
    ]
    assert release.guarantee.epsilon == 1.0
    assert release.interval().lower == (-math.inf,)
    assert release.noise_interval().upper == (math.inf,)
    assert "second charge" in " ".join(release.summary().split())
    with pytest.raises(NoEstimateError):
        float(release)


def test_public_fallback():
    spread = np.linspace(-1e6, 1e6, 2000)
    backed = plan(WinsorizedMean(SubGaussian(1.0), fallback=3.0))
    release = backed.release(people(spread), SimulatedNoise(9))
    assert release.status == "outliers_unchecked"
    assert abs(release.estimate[0] - 3) < 15
    assert len(release.guarantee.mechanisms) == len(backed.events)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [9.0, 3.0])
def test_one_column_fails_alone(epsilon):
    """Laplace and Gaussian noise: the other columns are still released."""
    d = 3 if epsilon == 9.0 else 14
    rng = np.random.default_rng(10)
    values = rng.standard_normal((6000, d))
    values[:, 1] = rng.uniform(-1e8, 1e8, 6000)
    made = plan(budget=Budget(epsilon=epsilon, delta=1e-6), n=6000, d=d)
    assert made.stages.kind == ("laplace" if d == 3 else "gaussian")
    release = made.release(people(values), SimulatedNoise(10))
    assert release.status == "not_identified"
    assert release.statuses == tuple(FAILED if j == 1 else "ok" for j in range(d))
    assert np.isnan(release.estimate).tolist() == [j == 1 for j in range(d)]
    inside = release.interval()
    assert inside.lower[1] == -math.inf
    assert inside.lower[0] < 0.2 < inside.upper[0] + 0.4
    assert release.guarantee.verify()


# --- the private number of persons ----------------------------------------------------------------
def test_add_remove_never_asks_for_the_number_of_persons():
    class Roster(ArrayPersonTable):
        def size(self):
            raise AssertionError("the number of persons was read")

    values = 4 + np.random.default_rng(11).standard_normal((1700, 1))
    made = plan(relation=ADD_REMOVE, n=2000)
    data = Roster(values, ("x",))
    release = made.release(data, SimulatedNoise(11))
    release.summary()
    release.to_dict()
    assert abs(release.n - 1700) < 60
    assert abs(release.estimate[0] - values.mean()) < 0.2
    with pytest.raises(AssertionError, match="was read"):
        plan(n=1700).release(data, SimulatedNoise(11))


# --- records, unknown scale -----------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_mean_over_records_differs_from_mean_over_persons(relation):
    """Persons with many records have larger values; each estimand is found by name."""
    rng, noise, n, cap = np.random.default_rng(12), SimulatedNoise(12), 3000, 10
    made = plan(WinsorizedMean(SubGaussian(1.5)), n=n, relation=relation)
    error, covered = [], 0
    for _ in range(80):
        records = rng.integers(1, 21, n)
        values = 5 + rng.standard_normal(n) + (records - 10) / 12
        weight = np.minimum(records, cap)
        release = made.release(
            people(values, counts=records[:, None].astype(np.int64), max_records=cap), noise
        )
        assert release.estimand == "mean, people weighted by records"
        error.append(release.estimate[0] - (weight * values).sum() / weight.sum())
        sizes = np.arange(1, 21)
        target = 5 + np.average((sizes - 10) / 12, weights=np.minimum(sizes, cap))
        inside = release.interval(0.9)
        covered += inside.lower[0] <= target <= inside.upper[0]
        # nobody mistakes one for the other
        assert abs(values.mean() - (weight * values).sum() / weight.sum()) > 0.05
    assert_mean(error, 0.0, slack=0.002)
    assert_rate_at_least(covered, 80, 0.9)


@pytest.mark.parametrize("sd", [0.02, 5.0])
def test_unknown_scale(sd):
    rng, noise = np.random.default_rng(14), SimulatedNoise(14)
    made = plan(WinsorizedMean(UnknownScale()), n=4000)
    error, bound = [], made.predict(sd)["noise"]
    for _ in range(100):
        values = 1e3 * sd + sd * rng.standard_normal(4000)
        release = made.release(people(values), noise)
        error.append(release.estimate[0] - values.mean())
        assert 0.6 * sd < release.diagnostics["scale"][0] < 2 * sd
    assert_mean(error, 0.0)
    assert np.std(error) < 1.8 * bound
    assert np.std(error) > 0.4 * bound


# --- audit ----------------------------------------------------------------------------------------


def test_a_threshold_too_low_cannot_be_billed(monkeypatch):
    honest = histograms.laplace_threshold
    monkeypatch.setattr(histograms, "laplace_threshold", lambda *a: honest(*a) - 1)
    with pytest.raises(ArgumentError, match="tail of the noise"):
        plan().events  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize("twin", [0, 3])
def test_a_lone_person_is_found_with_probability_delta_at_most(twin, monkeypatch):
    """Two tables of two persons that differ in one: outputs that only one of them can give."""
    if twin:
        honest = StableHistogram.draw

        def low(self, counts, noise):
            return honest(self, {k: c + twin for k, c in counts.items()}, noise)

        monkeypatch.setattr(StableHistogram, "draw", low)
    delta, draws, noise = 0.04, 1500, SimulatedNoise(15)
    made = plan(WinsorizedMean(SubGaussian(1.0), share=0.6), Budget(epsilon=2.0, delta=delta), 2)

    def far(values):
        return made.release(people(values), noise).diagnostics["center"][0] > 1e8

    assert not any(far([0.0, 0.0]) for _ in range(300))
    found = sum(far([0.0, 1e9]) for _ in range(draws))
    if twin:
        with pytest.raises(AssertionError):
            assert_rate_at_most(found, draws, delta)
    else:
        assert_rate_at_most(found, draws, delta)
        assert found > 0


@pytest.mark.parametrize("hostile", [math.nan, math.inf, -1e300, 0.0])
@pytest.mark.parametrize("way", ["stable", "argmax", "add-remove", "bounded", "columns"])
def test_hostile_tables_release_something(way, hostile):
    """Tables of one value, of huge values and of nulls only: no exception, defined output."""
    estimator, budget, relation, d = WAYS[way]
    made = plan(estimator, budget, 2000, d, relation)
    release = made.release(people(np.full((2000, d), hostile)), SimulatedNoise(7))
    assert release.status in (OK, FAILED, "at_bound")  # the last of given bounds alone
    assert release.status != "at_bound" or way == "bounded"
    release.summary()
    json.dumps(release.to_dict())
    if hostile == 0.0 and way != "bounded":
        assert np.all(np.abs(release.estimate) < 1)
