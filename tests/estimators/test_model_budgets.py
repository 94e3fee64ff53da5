"""Budgets at the ends of what is allowed, for every model: a release, or a refusal in words that
charges nothing."""

from __future__ import annotations

import numpy as np
import pytest

import privmean as pm
from privmean.noise.simulated import SimulatedNoise

BUDGETS = [
    {"epsilon": 1e-6},
    {"epsilon": 1e-6, "delta": 1e-300},
    {"epsilon": 1.0, "delta": 1e-30},
    {"epsilon": 1.0, "delta": 1e-300},
    {"epsilon": 100.0, "delta": 0.49},
    {"rho": 5e-13},
    {"rho": 5000.0},
]
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
def test_released_or_refused_in_words(model, budget):
    ledger = pm.Ledger(**budget)
    try:
        release = MODELS[model](**budget, ledger=ledger, noise=SimulatedNoise(1))
    except (pm.InfeasibleError, pm.ArgumentError):
        assert not ledger.entries
        return
    assert len(ledger.entries) == 1
    assert release.guarantee.verify()
    assert release.status == "failed" or np.all(np.isfinite(release.estimate))
