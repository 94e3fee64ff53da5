"""The exponential mechanism with exact probabilities."""

import itertools
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


def test_range_of_the_loss_is_bounded_where_permute_and_flip_is_not():
    """Exact laws: log ratios of neighbours span at most epsilon; permute-and-flip spans more."""
    epsilon = 1.0

    def exponential(scores):
        w = np.exp(epsilon * np.array(scores) / 2)
        return w / w.sum()

    def permute_and_flip(scores):
        keep = np.exp(epsilon * (np.array(scores) - max(scores)) / 2)
        law = np.zeros(len(scores))
        orders = list(itertools.permutations(range(len(scores))))
        for order in orders:
            left = 1.0
            for i in order:
                law[i] += left * keep[i]
                left *= 1 - keep[i]
        return law / len(orders)

    def span(law):
        worst = 0.0
        for scores in itertools.product(range(3), repeat=3):
            for move in itertools.product((-1, 0, 1), repeat=3):
                other = tuple(a + b for a, b in zip(scores, move, strict=True))
                ratio = np.log(law(scores) / law(other))
                worst = max(worst, ratio.max() - ratio.min())
        return worst

    assert span(exponential) <= epsilon + 1e-12
    assert span(permute_and_flip) > epsilon + 0.05


def test_a_distant_item_alone_does_not_loop():
    scores = np.zeros(2000, dtype=np.int64)
    scores[1234] = 10**12
    assert choose(scores, Fraction(1, 100), ExactNoise()) == 1234
