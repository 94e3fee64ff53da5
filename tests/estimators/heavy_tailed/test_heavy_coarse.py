"""The coarse centre: what it needs and where it works."""

import math

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.heavy_tailed.coarse_center import CoarseNeeds
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE
from statistics_kit import assert_rate_at_least

FORMS = ("selection", "stable", "gaussian", "gaussian stable")


def found_by(coarse, people, noise):
    return coarse.find(TrustedCurator(people, noise), people)


def needs(n=1000, d=1, spread=1.0, half=100.0, relation=REPLACE_ONE, wide=False):
    return CoarseNeeds(d, n, spread, ((-half, half),) * d, relation, 0.01, wide)


def make(form, n=1000, d=1, **settings):
    facts = needs(n, d, **settings)
    if form == "selection":
        return facts.selection()
    if form == "stable":
        return facts.stable(1e-6)
    return facts.gaussian() if form == "gaussian" else facts.gaussian_stable(2.5e-7)


def people(n, d, seed, center=3.3):
    rng = np.random.default_rng(seed)
    return ArrayPersonTable(rng.standard_normal((n, d)) + center, tuple(f"c{j}" for j in range(d)))


def success(coarse, n, d, runs, seed=0):
    hits = 0
    for run in range(runs):
        found = found_by(coarse, people(n, d, seed + run), SimulatedNoise(run))
        hits += found is not None and math.dist(found, (3.3,) * d) <= coarse.offset
    return hits


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("n", "d"), [(300, 1), (1500, 1), (1500, 5)])
def test_the_planned_budget_is_enough(form, n, d):
    assert_rate_at_least(success(make(form, n, d), n, d, 150), 150, 0.95)


def test_budget_by_need():
    cells = 100
    expected = 2 * math.log(cells / 0.01) / (0.3 * 1000)
    assert float(make("selection").epsilon) == pytest.approx(expected, rel=1e-9)
    assert make("selection", relation=ADD_REMOVE).epsilon < make("selection").epsilon
    assert make("selection", 10_000).epsilon < make("selection").epsilon
    assert make("selection", wide=True).width == 3 * make("selection").width
    assert make("stable", half=1.0).ranges is None


def test_no_dense_histogram_beyond_the_limit():
    assert needs(half=1e9).selection() is None
    assert needs(half=1e9).gaussian() is None
    assert needs(half=1e9).stable(1e-6) is not None
    assert CoarseNeeds(1, 1000, 1.0, None).public() is None


def test_values_outside_the_range_count_at_its_ends():
    coarse = make("selection", half=2.0)
    far = ArrayPersonTable(np.full((1000, 1), 1e30), ("c0",))
    assert found_by(coarse, far, SimulatedNoise(1))[0] == pytest.approx(1.0)


def test_the_middle_of_the_range_needs_no_data():
    coarse = needs(d=2, half=3.0).public()
    assert coarse.events == ()
    assert found_by(coarse, None, SimulatedNoise(0)) == (0.0, 0.0)
    assert coarse.offset == pytest.approx(3 * math.sqrt(2))
