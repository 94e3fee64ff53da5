"""How much weighting gains and what wrong weights lose: exact ratios."""

from __future__ import annotations

import numpy as np
import pytest

from privmean.errors import ArgumentError
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.round_law import level_weights
from privmean.local.exact_coins import signal
from privmean.local.round_builders import ball_round, mean_round
from privmean.local.vectorized import tally_many
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import assert_mean

MIXES = [
    ((0.1, 0.9), (1, 0.1), (8.83, 1.042, 1.001), (8.522, 1.002)),
    ((0.1, 0.99), (4, 0.01), (6.27, 1.95, 1.07), (4.67, 1.14)),
    ((1, 0.5), (8, 0.5), (2.53, 1.52, 1.09), (1.72, 1.18)),
    ((1, 0.9), (8, 0.1), (1.55, 1.34, 1.66), (1.26, 2.27)),
    ((1, 0.99), (8, 0.01), (1.06, 1.04, 2.46), (1.03, 3.80)),
]


def ratio(shares, weights, variances):
    """Variance with these weights over the smallest possible."""
    shares, weights, variances = map(np.array, (shares, weights, variances))
    best = 1 / (shares / variances).sum()
    return (shares * weights**2 * variances).sum() / (shares * weights).sum() ** 2 / best


@pytest.mark.parametrize(("first", "second", "laplace", "bit"), MIXES)
def test_variance_relative_to_the_best(first, second, laplace, bit):
    epsilons = np.array([first[0], second[0]], dtype=float)
    shares = np.array([first[1], second[1]])
    v = 1 + 8 / epsilons**2
    assert ratio(shares, [1, 1], v) == pytest.approx(laplace[0], rel=6e-3)
    assert ratio(shares, 1 / (1 + 1 / epsilons**2), v) == pytest.approx(laplace[1], rel=6e-3)
    assert ratio(shares, epsilons**2, v) == pytest.approx(laplace[2], rel=6e-3)
    c2 = np.array([signal(e) for e in epsilons]) ** -2.0
    assert ratio(shares, [1, 1], c2) == pytest.approx(bit[0], rel=6e-3)
    assert ratio(shares, epsilons**2, c2) == pytest.approx(bit[1], rel=6e-3)
    counts = np.round(shares * 1000).astype(np.int64)
    best, uniform = (level_weights(counts, c2, weights=rule) for rule in ("minimax", "uniform"))
    assert (counts * best).sum() == pytest.approx(1)
    total = (counts * best**2 * c2).sum()
    assert total == pytest.approx(1 / (counts / c2).sum())
    assert (counts * uniform**2 * c2).sum() / total == pytest.approx(bit[0], rel=6e-3)


@pytest.mark.slow
def test_measured_gain_of_weighting():
    """90 % epsilon .1, 10 % epsilon 1: 8.522 for one bit and balls."""
    n, runs = 2000, 250
    own = np.where(np.arange(n) < 0.9 * n, 0.1, 1.0)
    rng = np.random.default_rng(0)
    noise = SimulatedNoise(1)
    for mechanism, expected in (("one-bit", 8.522), ("ball-bit", 8.522)):
        if mechanism == "ball-bit":
            round_ = ball_round(1, 5, epsilon=[0.1, 1], persons=n, mechanism="ball-bit")
            values = np.zeros((n, 5))
        else:
            round_ = mean_round(-1, 1, epsilon=[0.1, 1], persons=n, mechanism=mechanism)
            values = None
        squares, uniform = [], []
        for _ in range(runs if mechanism != "ball-bit" else 80):
            x = rng.choice([-1.0, 1.0], n) if values is None else values
            counted = tally_many(round_, x, epsilon=own, noise=noise)
            squares.append((estimate(counted, weights="minimax").raw ** 2).sum())
            uniform.append((estimate(counted, weights="uniform").raw ** 2).sum())
        gain = np.mean(uniform) / np.mean(squares)
        assert_mean(np.array(uniform) - expected * np.array(squares), 0.0)
        assert gain == pytest.approx(expected, rel=0.5)


def test_weights_are_validated_and_capped():
    round_ = mean_round(-1, 1, epsilon=[0.5, 8], persons=100)
    counted = tally_many(round_, np.zeros(100), epsilon=8, noise=SimulatedNoise(0))
    with pytest.raises(ArgumentError):
        estimate(counted, weights="best")
    with pytest.raises(ArgumentError):
        estimate(counted, beta=0)
    with pytest.raises(ArgumentError):
        estimate(counted, epsilon_cap=-1)
    both = counted.merge(tally_many(round_, np.zeros(100), epsilon=0.5, noise=SimulatedNoise(1)))
    capped = estimate(both, epsilon_cap=0.5)
    assert capped.levels[0].weight == pytest.approx(capped.levels[1].weight)
