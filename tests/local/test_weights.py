"""How much weighting gains and what wrong weights lose: exact ratios."""

from __future__ import annotations

import numpy as np
import pytest

from privmean.errors import ArgumentError
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.round_law import level_weights
from privmean.local.exact_coins import signal
from privmean.local.round_builders import mean_round
from privmean.local.vectorized import tally_many
from privmean.noise.noise_source import SimulatedNoise

MIXES = [
    ((0.1, 0.9), (1, 0.1), 8.522),
    ((0.1, 0.99), (4, 0.01), 4.67),
    ((1, 0.5), (8, 0.5), 1.72),
    ((1, 0.99), (8, 0.01), 1.03),
]


@pytest.mark.parametrize(("first", "second", "gain"), MIXES)
def test_variance_relative_to_the_best(first, second, gain):
    c2 = np.array([signal(first[0]), signal(second[0])]) ** -2.0
    counts = np.round(np.array([first[1], second[1]]) * 1000).astype(np.int64)
    best, uniform = (level_weights(counts, c2, weights=rule) for rule in ("minimax", "uniform"))
    assert (counts * best).sum() == pytest.approx(1)
    total = (counts * best**2 * c2).sum()
    assert total == pytest.approx(1 / (counts / c2).sum())
    assert (counts * uniform**2 * c2).sum() / total == pytest.approx(gain, rel=6e-3)


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
