"""The public functions: what they choose, what they refuse, and what they charge."""

from __future__ import annotations

import numpy as np
import pytest

import privmean as pm
from privmean.published import WinsorizedAsPublished


@pytest.fixture(scope="module")
def persons():
    return np.random.default_rng(5).normal(10, 2, 3000)


@pytest.mark.parametrize(
    ("word", "place"),
    [
        ({"beta": 0.1}, "HeavyTailedMean"),
        ({"epsilom": 1.0}, "has no argument 'epsilom'. Did you mean epsilon"),
        ({"contrast": "a - b"}, "has no argument 'contrast'. Did you mean contrasts"),
        ({"zzz": 1}, "has no argument 'zzz'. See help"),
    ],
)
def test_a_word_that_is_none_is_refused_with_a_near_one(persons, word, place):
    with pytest.raises(pm.ArgumentError, match=place):
        pm.mean(persons, epsilon=1, delta=1e-6, **word)


@pytest.mark.slow
def test_settings_reach_the_method(persons):
    def planned(beta):
        heavy = pm.HeavyTailedMean(pm.BoundedMoment(3, 2.0), beta=beta)
        return pm.plan(pm.Mean(method=heavy), n=3000, epsilon=1, delta=1e-6)

    assert planned(0.2).describe() != planned(0.001).describe()
    wide = dict(n=20000, columns=30, epsilon=1, delta=1e-6)
    known = pm.AnisotropicMean(1.0, beta=0.2)
    assert pm.plan(pm.Mean(method=known), **wide).beta == 0.2
    ranged = pm.plan(pm.Mean(method=pm.AnisotropicMean(scale_range=(0.5, 2))), **wide)
    free = pm.plan(pm.Mean(method="anisotropic"), **wide)
    assert ranged.describe() != free.describe()
    for wrong, text in (
        ({"covariance": 1.0, "scale_range": (0.5, 2)}, "is not used where"),
        ({"method": "two-phase"}, "requires a known"),
        ({"covariance": 1.0, "sampled_degrees": 9}, "Leave it out"),
        ({"covariance": 1.0, "method": "noisy-degree"}, "Use method='two-phase'"),
    ):
        with pytest.raises(pm.ArgumentError, match=text):
            pm.AnisotropicMean(**wrong)


@pytest.mark.parametrize(
    "estimator",
    [
        pm.DefaultMean(target="clipped"),
        pm.WinsorizedMean(pm.SubGaussian(sd=2.0)),
        WinsorizedAsPublished(pm.SubGaussian(sd=2.0)),
        pm.HeavyTailedMean(pm.BoundedMoment(3, 3.0)),
        pm.BoundedMean((0, 20)),
        pm.AnisotropicMean(4.0),
    ],
    ids=lambda item: type(item).__name__,
)
def test_an_estimator_stands_for_a_method(persons, estimator):
    release = pm.mean(persons, epsilon=1, delta=1e-6, method=estimator, noise=pm.SimulatedNoise(1))
    assert abs(float(release) - 10) < 1
    planned = pm.plan(pm.Mean(method=estimator), n=3000, epsilon=1, delta=1e-6)
    assert planned.estimator == release.estimator
    with pytest.raises(
        pm.ArgumentError, match=f"not used by the estimator.*{type(estimator).__name__}"
    ):
        pm.mean(persons, epsilon=1, delta=1e-6, method=estimator, bounds=(0, 20))


def test_the_mean_over_records_is_never_a_silent_mean_over_persons():
    rng = np.random.default_rng(6)
    ids = np.repeat(np.arange(1000), rng.integers(1, 9, 1000))
    people = pm.read(
        rng.normal(3, 1, len(ids)), person=ids, values=["x"], estimand="records", max_records=8
    )
    with pytest.raises(pm.ArgumentError, match="mean over records"):
        pm.mean(people, epsilon=1, delta=1e-6, method="anisotropic")
    assert "records" in pm.mean(people, epsilon=1, noise=pm.SimulatedNoise(1)).estimand
    with pytest.raises(pm.ArgumentError, match="BoundedMean.*mean over records"):
        pm.mean(people, epsilon=1, method=pm.BoundedMean((-5, 10)))
    release = pm.mean(people, epsilon=1, bounds=(-5, 10), noise=pm.SimulatedNoise(1))
    assert "records" in release.estimand
    made = pm.WinsorizedMean(pm.Bounded(-5, 10))
    again = pm.mean(people, epsilon=1, method=made, noise=pm.SimulatedNoise(1))
    assert again.estimate == release.estimate


def test_a_ledger_is_charged_the_promise_of_the_plan(persons):
    ledger = pm.Ledger(epsilon=2, delta=1e-6)
    pm.mean(persons, epsilon=1, delta=1e-6, ledger=ledger, noise=pm.SimulatedNoise(1))
    assert float(ledger.spent().epsilon) == 1.0
    assert float(ledger.spent().delta) == 0.0  # the default mean is pure: delta stays unspent
    with pytest.raises(pm.BudgetExceededError):
        pm.mean(persons, epsilon=1.5, ledger=ledger, noise=pm.SimulatedNoise(1))
    assert float(ledger.spent().epsilon) == 1.0


def test_an_interval_of_another_level_is_asked_by_level(persons):
    release = pm.mean(persons, epsilon=1, noise=pm.SimulatedNoise(3))
    wide, narrow = release.interval(0.99), release.interval(0.9)
    assert wide.upper[0] - wide.lower[0] > narrow.upper[0] - narrow.lower[0]
    assert release.interval().level == 0.95
    noise = release.noise_interval()
    assert noise.kind == "noise_interval"
    assert noise.upper[0] - noise.lower[0] < wide.upper[0] - wide.lower[0]
