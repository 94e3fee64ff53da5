"""Thresholds to the digit, coins by their exact laws, vectorised coins equal to scalar ones."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from privmean.errors import ArgumentError
from privmean.local.exact_coins import (
    WORD,
    SimulatedEntropy,
    SystemEntropy,
    below,
    exact_epsilon,
    flip_threshold,
    odds_threshold,
)
from privmean.local.vectorized import below_each, below_many
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import ALPHA

GRID = [Fraction(1, 1000), Fraction(1, 3), Fraction(1, 2), *map(Fraction, (1, 2, 4, 8, 16))]


@pytest.mark.parametrize("epsilon", GRID)
def test_thresholds_against_another_arithmetic(epsilon):
    with mpmath.workdps(120):
        power = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        assert flip_threshold(epsilon) == int(mpmath.ceil(mpmath.mpf(WORD) / (1 + power)))
        flip = flip_threshold(epsilon)
        assert mpmath.mpf(WORD - flip) / flip <= power < mpmath.mpf(WORD - flip + 1) / (flip - 1)
        for favoured, other in ((1, 1), (3, 7), (1000, 9), (1, 2**30)):
            n = odds_threshold(epsilon, favoured, other)
            wanted = power * favoured / other
            assert mpmath.mpf(n) / (WORD - n) <= wanted < mpmath.mpf(n + 1) / (WORD - n - 1)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, 0.0009, 16.1, "x", None, True])
def test_epsilon_is_a_decimal_within_the_range(bad):
    assert exact_epsilon("epsilon", 0.1) == Fraction(1, 10)
    with pytest.raises(ArgumentError):
        exact_epsilon("epsilon", bad)


@pytest.mark.parametrize("bound", [1, 2, 3, 1000, 2**64, 3 * 2**70])
def test_below_is_uniform(bound):
    entropy = SimulatedEntropy(bound)
    draws = [below(entropy, bound) for _ in range(4000)]
    assert min(draws) >= 0
    assert max(draws) < bound
    cells = min(bound, 7)
    seen = np.bincount([x * cells // bound for x in draws], minlength=cells)
    sizes = [(-(-bound * (k + 1) // cells)) - (-(-bound * k // cells)) for k in range(cells)]
    expected = np.array([4000 * (size / bound) for size in sizes])
    assert cells == 1 or stats.chisquare(seen, expected).pvalue > ALPHA


def test_system_entropy_is_secure_and_not_repeating():
    entropy = SystemEntropy()
    assert entropy.secure
    assert not SimulatedEntropy(0).secure
    words = {entropy.word() for _ in range(100)}
    assert len(words) == 100
    assert len(entropy.bytes(16)) == 16


def test_vector_integers_equal_scalar_ones():
    class Words:
        secure = False

        def __init__(self, words):
            self.words = list(words)

        def word(self):
            return int(self.words.pop(0))

    noise = SimulatedNoise(1)
    words = noise.bits64(500)
    for bound in (1, 3, 1000, 2**32 - 5):
        some = [below(Words(words[k : k + 1]), bound) for k in range(500)]

        class Fixed:
            def bits64(self, size):
                return words[:size]

        assert below_many(Fixed(), 500, bound).tolist() == some


def test_each_number_below_its_own_bound():
    noise = SimulatedNoise(2)
    bounds = np.arange(40_000) % 9 + 1
    draws = below_each(noise, bounds)
    assert (draws < bounds).all()
    seen = np.bincount(draws[bounds == 7], minlength=7)
    assert stats.chisquare(seen).pvalue > ALPHA
