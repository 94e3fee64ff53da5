"""`mean` with a moment bound: the whole way from an array to the release."""

import numpy as np
import pytest

import privmean as pm


def table(n=1500, d=2):
    return np.random.default_rng(3).standard_normal((n, d)) + 5.0


def test_a_moment_names_the_estimator():
    moment = pm.BoundedMoment(order=(2, 4), bound=(1.0, 1.4))
    release = pm.mean(table(), epsilon=1.0, delta=1e-6, moment=moment, noise=pm.SimulatedNoise(1))
    assert release.estimator.startswith("heavy-tailed")
    assert np.linalg.norm(release.estimate - 5.0) < 1.0
    assert "moment" in release.plan.why
    assert release.guarantee.verify()


def test_a_configured_estimator_is_used_as_it_is():
    moment = pm.BoundedMoment(order=2, bound=1.0, range=(0, 10))
    chosen = pm.HeavyTailed(moment, law="laplace", clipped_count=True)
    release = pm.mean(table(), epsilon=2.0, moment=chosen, noise=pm.SimulatedNoise(1))
    assert "Laplace" in release.estimator
    assert "clipped persons (noisy count)" in release.diagnostics
    cover = pm.PureCover(moment, work=1e6)
    release = pm.mean(table(d=1), epsilon=2.0, moment=cover, noise=pm.SimulatedNoise(1))
    assert "cover" in release.estimator


def test_add_remove_takes_a_public_guess():
    moment = pm.BoundedMoment(order=2, bound=1.0, range=(0, 10))
    release = pm.mean(
        table(d=1),
        epsilon=1.0,
        moment=moment,
        neighbors="add-remove",
        n_design=1000,
        noise=pm.SimulatedNoise(2),
    )
    assert release.persons != 1000
    assert abs(release.persons - 1500) < 100


def test_the_method_needs_its_assumption():
    with pytest.raises(pm.ArgumentError, match="moment"):
        pm.mean(table(), epsilon=1.0, method="heavy-tailed")
