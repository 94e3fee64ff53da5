"""Agarwal et al. (2024): scores of sensitivity one, directions, blocks of people, refusals."""

import itertools
import math

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.heavy_tailed.clipping_bias import BoundedMoment
from privmean.noise.noise_source import ExactNoise
from privmean.privacy.budget import ADD_REMOVE, Budget
from privmean.privacy.compose import Parallel
from privmean.privacy.gdp import gaussian_mu
from privmean.published.person_level import (
    RADIUS_BITS,
    PureCover,
    ThreadedMean,
    costs,
    directions,
    scores,
)
from statistics_kit import planned

P = 1 << RADIUS_BITS
MOMENT = BoundedMoment(4, 1.316, 10, range=(-5, 5))


def brute_force(z, threshold):
    """Fewest persons to set to +P until the sum reaches n * threshold."""
    n = len(z)
    for r in range(n + 1):
        for chosen in itertools.combinations(range(n), r):
            if sum(P if i in chosen else z[i] for i in range(n)) >= n * threshold:
                return r
    return n


def test_greedy_cost_is_the_least_cost():
    rng = np.random.default_rng(1)
    for n in range(1, 9):
        z = rng.integers(-P, P + 1, (n, 6))
        threshold = int(rng.integers(P // 20, P // 3))
        greedy = costs(z, threshold)
        assert [brute_force(list(z[:, j]), threshold) for j in range(6)] == greedy.tolist()


@pytest.mark.parametrize("d", [1, 2, 3])
def test_one_person_moves_a_score_by_at_most_one(d):
    rng = np.random.default_rng(d)
    moved = 0
    for _ in range(60):
        rows = rng.standard_normal((8, d)) * 0.5
        points = rng.uniform(-1, 1, (20, d))
        other = rows.copy()
        other[rng.integers(8)] = rng.standard_normal(d) * rng.choice([0.1, 1.0, 100.0, np.inf])
        change = scores(rows, points, 1.0, P // 6) - scores(other, points, 1.0, P // 6)
        assert np.abs(change).max() <= 1
        moved += int(np.abs(change).sum())
    assert moved > 0


def test_directions_cover_the_sphere():
    rng = np.random.default_rng(0)
    for d in (1, 2, 3):
        u = rng.standard_normal((50_000, d))
        u /= np.linalg.norm(u, axis=1)[:, None]
        assert (u @ directions(d).T).max(axis=1).min() >= 7 / 8
        assert np.linalg.norm(directions(d), axis=1) == pytest.approx(1.0)


def test_good_points_beat_bad_ones_by_the_proved_margin():
    rng = np.random.default_rng(2)
    n, alpha = 400, 0.25
    radius = 8 * alpha
    rows = 0.3 * rng.standard_normal((n, 2))
    threshold = math.ceil(2 * alpha / radius * P)
    good = scores(rows, np.array([[0.0, 0.0], [alpha, 0.0]]) * 0.99, radius, threshold)
    around = 4 * alpha * directions(2)
    bad = scores(rows, around * 1.01, radius, threshold)
    assert good.min() >= n * alpha / (4 * radius)
    assert bad.max() == 0


def people(n, d, seed=0, center=0.4):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) / math.sqrt(10) + center
    return ArrayPersonTable(rows, tuple("abc"[:d]))


def test_exact_noise_and_nulls():
    rows = people(300, 2).values.copy()
    rows[3] = np.nan
    rows[5] = (np.inf, -np.inf)
    plan = planned(PureCover(MOMENT, work=5e6), Budget(epsilon=2.0), persons=300, dimension=2)
    release = plan.release(ArrayPersonTable(rows, ("a", "b")), ExactNoise())
    assert release.secure
    assert np.isfinite(release.estimate).all()


def test_what_cannot_work_is_refused_before_data():
    pure = Budget(epsilon=1.0)
    for method, persons, dimension in (
        (PureCover(MOMENT), 1000, 4),
        (PureCover(MOMENT), 20, 2),
        (PureCover(BoundedMoment(4, 1.0, 10)), 1000, 1),
        (PureCover(MOMENT, proof=True, work=1e6), 20_000, 3),
    ):
        with pytest.raises(InfeasibleError):
            planned(method, pure, persons=persons, dimension=dimension)
    with pytest.raises(ArgumentError):
        planned(PureCover(MOMENT), pure, persons=None, dimension=1, relation=ADD_REMOVE)
    proved = planned(PureCover(MOMENT, proof=True), pure, persons=4000, dimension=1)
    assert proved.radius >= 8 * proved.accuracy


# --- blocks ---------------------------------------------------------------------------------------
WITH_DELTA = Budget(epsilon=1.0, delta=1e-6)


def test_every_person_is_in_one_block_at_the_whole_budget():
    plan = planned(ThreadedMean(MOMENT), WITH_DELTA, persons=6001, dimension=6)
    (loss,) = plan.events
    assert isinstance(loss, Parallel)
    # the calibration leaves a quarter of delta to thresholds
    assert gaussian_mu(1.0, 0.7e-6) < loss.mu <= gaussian_mu(1.0, 1e-6)
    assert len(range(0, 6001, 3)) + sum(plan.sizes) == 6001
    assert len(plan.sizes) == len(plan.rounds) == ThreadedMean(MOMENT).layers(6) + 1
    zcdp = planned(ThreadedMean(MOMENT), Budget(rho=0.5), persons=6001, dimension=6)
    assert zcdp.events[0].rho == pytest.approx(0.5, rel=1e-6)


def test_layers_grow_with_the_double_logarithm_of_the_columns():
    found = [ThreadedMean(MOMENT).layers(d) for d in (1, 4, 16, 10_000)]
    assert found == sorted(found)
    assert found[0] == found[1] == 1
    assert found[-1] <= 3


def test_blocks_that_cannot_be_are_refused():
    for budget in (Budget(epsilon=1.0), Budget(epsilon=1.0, delta=0.0)):
        with pytest.raises(InfeasibleError, match="delta"):
            planned(ThreadedMean(MOMENT), budget, persons=6000, dimension=2)
    with pytest.raises(InfeasibleError, match="too small"):
        planned(ThreadedMean(MOMENT), WITH_DELTA, persons=60, dimension=2)
    with pytest.raises(ArgumentError, match="relation"):
        planned(ThreadedMean(MOMENT), WITH_DELTA, n_guess=6000, relation=ADD_REMOVE)
    with pytest.raises(ArgumentError, match="moment"):
        ThreadedMean(2.0)
