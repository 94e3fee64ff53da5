"""Budgets at the ends of what is allowed, for means and models: a release, or a refusal in words
that charges nothing."""

import numpy as np
import pytest

import privmean as pm
from privmean.noise.noise_source import SimulatedNoise

ROWS = np.random.default_rng(0).normal(5, 1, size=(800, 2))
BUDGETS = [
    {"epsilon": 1e-6},
    {"epsilon": 1e-6, "delta": 1e-300},
    {"epsilon": 1.0, "delta": 1e-300},
    {"epsilon": 1.0, "delta": 1e-30},
    {"epsilon": 100.0, "delta": 0.49},
    {"rho": 5e-13},
    {"rho": 5000.0},
]
METHODS = {
    "default": {},
    "winsorized": {"method": "winsorized"},
    "bounds": {"bounds": (0, 10)},
    "moment": {"moment": pm.BoundedMoment(order=3, bound=5.0, range=(-100, 100))},
    "line": {"moment": pm.BoundedMoment(order=3, bound=5.0)},
    "anisotropic": {"covariance": 1.0},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::privmean.errors.PrivmeanWarning")  # of a delta above 1/n
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_released_or_refused_in_words(method, budget):
    settings = METHODS[method]
    for columns in (1, 2) if method in ("default", "anisotropic") else (1,):
        table, given = ROWS[:, :columns], dict(settings)
        if "bounds" in given and columns == 2:
            given["bounds"] = [(0, 10), (0, 10)]
        if "covariance" in given:
            given["covariance"] = np.ones(columns)
        for more in ({}, {"neighbors": "add-remove", "n_guess": 800}):
            ledger = pm.Ledger(**budget)
            try:
                release = pm.mean(
                    table, **budget, **given, **more, ledger=ledger, noise=SimulatedNoise(1)
                )
            except (pm.InfeasibleError, pm.ArgumentError):
                assert not ledger.entries
                continue
            assert release.guarantee.verify()
            assert release.status == "failed" or np.all(np.isfinite(release.estimate))


PERSONS = 400
VALUES = np.random.default_rng(0).normal(5, 1, PERSONS)
TABLE = {
    "who": np.repeat(np.arange(PERSONS), 4),
    "t": np.tile(np.arange(4.0), PERSONS),
    "x": np.random.default_rng(1).normal(0, 1, 4 * PERSONS),
    "y": np.random.default_rng(2).normal(0, 1, 4 * PERSONS),
}
EFFECTS = pm.RandomEffects(0.5, 1.0, 10, (40,) * 10, range=(-50, 50))
BINS = {"time": "t", "person": "who", "bins": [0, 2, 4]}
MODELS = {
    "variance": lambda **given: pm.variance(VALUES, within=(0.01, 100.0), **given),
    "regression": lambda **given: pm.regress(
        TABLE, "y ~ x", effect="per_person", person="who", **given
    ),
    "limited regression": lambda **given: pm.regress(
        TABLE, "y ~ x", effect="per_person", person="who", assume=((-5, 5), (-5, 5)), **given
    ),
    "random effects": lambda **given: pm.mean(VALUES, clustering=EFFECTS, **given),
    "curve": lambda **given: pm.curve(TABLE, "y", bounds=(-5, 5), **BINS, **given),
    "curve of any size": lambda **given: pm.curve(TABLE, "y", **BINS, **given),
}


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_released_or_refused_in_words(model, budget):
    ledger = pm.Ledger(**budget)
    try:
        release = MODELS[model](**budget, ledger=ledger, noise=SimulatedNoise(1))
    except (pm.InfeasibleError, pm.ArgumentError):
        assert not ledger.entries
        return
    assert len(ledger.entries) == 1
    assert release.guarantee.verify()
    assert release.status == "failed" or np.all(np.isfinite(release.estimate))
