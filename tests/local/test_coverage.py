"""Radii hold at their level for every mechanism, on mixes of epsilon and shapes of data."""

from __future__ import annotations

import numpy as np
import pytest

from privmean.local.aggregators.estimate_round import estimate
from privmean.local.round_builders import ball_round, items_round, mean_round
from privmean.local.vectorized import tally_many
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import assert_rate_at_most

MIXES = [((0.1, 1.0), (0.9, 0.1)), ((0.5, 2.0, 6.0), (0.4, 0.4, 0.2)), ((1.0, 8.0), (0.5, 0.5))]
RUNS, BETA = 50, 0.1


def shapes(rng, n):
    """(values, mean) of values on [-1, 1]: two points, uniform, skewed, constant."""
    yield np.where(rng.uniform(size=n) < 0.65, 1.0, -1.0), 0.3
    yield rng.uniform(-1, 1, n), 0.0
    yield 2 * rng.beta(0.3, 3, n) - 1, 2 * 0.3 / 3.3 - 1
    yield np.full(n, 0.4), 0.4


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["one-bit", "piecewise", "hybrid"])
@pytest.mark.parametrize("mix", MIXES)
def test_radii_of_means(mechanism, mix):
    n = 500
    rng = np.random.default_rng(1)
    noise = SimulatedNoise(2)
    round_ = mean_round(-1, 1, epsilon=list(mix[0]), persons=n, mechanism=mechanism, beta=BETA)
    misses = np.zeros((4, 3), dtype=int)
    for _ in range(RUNS):
        own = rng.choice(mix[0], n, p=mix[1])
        for k, (values, mean) in enumerate(shapes(rng, n)):
            counted = tally_many(round_, values, epsilon=own, noise=noise)
            for j, weights in enumerate(("minimax", "uniform", "tested")):
                answer = estimate(counted, weights=weights)
                misses[k, j] += abs(float(answer) - mean) > answer.radius
    for count in misses.flat:
        assert_rate_at_most(int(count), RUNS, BETA)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["ball-bit", "closest"])
@pytest.mark.parametrize("dimension", [1, 2, 20])
@pytest.mark.parametrize("mix", MIXES)
def test_radii_of_vector_means(mechanism, dimension, mix):
    if mechanism == "closest" and dimension == 1:
        dimension = 3
    n = 400
    rng = np.random.default_rng(3)
    noise = SimulatedNoise(4)
    epsilons = list(mix[0])
    round_ = ball_round(2.0, dimension, epsilon=epsilons, persons=n, mechanism=mechanism, beta=BETA)
    misses = 0
    for _ in range(25):
        own = rng.choice(mix[0], n, p=mix[1])
        values = np.zeros((n, dimension))
        values[:, 0] = rng.choice([-2.0, 2.0], n, p=[0.2, 0.8])
        truth = np.zeros(dimension)
        truth[0] = 1.2
        answer = estimate(tally_many(round_, values, epsilon=own, noise=noise))
        misses += np.linalg.norm(answer.value - truth) > answer.radius
    assert_rate_at_most(misses, 25, BETA)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["hadamard", "sketch", "subset"])
@pytest.mark.parametrize("mix", MIXES)
def test_radii_of_frequencies(mechanism, mix):
    n, d = 800, 30
    rng = np.random.default_rng(5)
    noise = SimulatedNoise(6)
    zipf = 1 / np.arange(1, d + 1)
    laws = [zipf / zipf.sum(), np.eye(d)[0] * 0.9 + 0.1 / d, np.full(d, 1 / d)]
    misses = np.zeros(3, dtype=int)
    for _ in range(20):
        round_ = items_round(d, epsilon=list(mix[0]), persons=n, mechanism=mechanism, beta=BETA)
        own = rng.choice(mix[0], n, p=mix[1])
        for k, p in enumerate(laws):
            values = rng.choice(d, n, p=p)
            answer = estimate(tally_many(round_, values, epsilon=own, noise=noise))
            off = abs(answer.raw - p) > answer.raw_radius
            misses[k] += bool(off.any() or (abs(answer.value - p) > answer.radii).any())
    for count in misses:
        assert_rate_at_most(int(count), 20, BETA)
