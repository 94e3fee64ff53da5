"""The exponential mechanism with exact probabilities."""

from fractions import Fraction

import numpy as np
import pytest

import statistics_kit
from privmean.mechanisms.choices import choose
from privmean.noise.noise_source import ExactNoise, SimulatedNoise


@pytest.mark.parametrize("unit", [Fraction(1, 3), Fraction(5, 2)])
def test_law_of_one_choice(unit):
    scores = np.array([0, 3, 1, 3])
    noise, draws = SimulatedNoise(1), 6000
    counts = np.bincount([choose(scores, unit, noise) for _ in range(draws)], minlength=4)
    weight = np.exp(float(unit) * (scores - 3))
    for count, p in zip(counts, weight / weight.sum(), strict=True):
        statistics_kit.assert_rate(int(count), draws, float(p))


def test_a_distant_item_alone_does_not_loop():
    scores = np.zeros(2000, dtype=np.int64)
    scores[1234] = 10**12
    assert choose(scores, Fraction(1, 100), ExactNoise()) == 1234
