"""Uniform words, exact uniform integers and exact coins."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privmean.noise.noise_source import ExactNoise, Noise, SimulatedNoise
from statistics_kit import ALPHA, choice_p_value

SOURCES = [ExactNoise(), SimulatedNoise(4)]
IDS = ["exact", "simulated"]


class Replay(SimulatedNoise):
    """Words given in advance."""

    def __init__(self, words):
        super().__init__(0)
        self.words = list(words)

    def bits64(self, size):
        taken, self.words = self.words[:size], self.words[size:]
        return np.array(taken, dtype=np.uint64)


def test_a_source_without_one_of_the_laws_is_none():
    class Unfinished(Noise):
        def bits64(self, size):
            return np.zeros(size, dtype=np.uint64)

    with pytest.raises(TypeError, match="laplace"):
        Unfinished()


@pytest.mark.parametrize("noise", SOURCES, ids=IDS)
def test_words_are_uniform_in_every_byte_and_bit(noise):
    words = noise.bits64(20_000)
    assert words.dtype == np.uint64
    for byte in words.view(np.uint8).reshape(-1, 8).T:
        assert stats.chisquare(np.bincount(byte, minlength=256)).pvalue >= ALPHA


@pytest.mark.parametrize("noise", SOURCES, ids=IDS)
@pytest.mark.parametrize("bound", [1, 2, 7, 1000, 3 * 2**61, 2**63])
def test_below_is_uniform(noise, bound):
    draws = noise.below(20_000, bound)
    assert draws.min() >= 0
    assert int(draws.max()) < bound
    cells = min(bound, 6)
    law = [Fraction((i + 1) * bound // cells - i * bound // cells, bound) for i in range(cells)]
    edges = [(i + 1) * bound // cells for i in range(cells - 1)]
    index = np.searchsorted(np.array(edges, dtype=np.int64), draws, side="right")
    assert cells == 1 or choice_p_value(index, np.array([float(p) for p in law])) >= ALPHA


def test_below_rejects_exactly_the_words_that_do_not_fall_evenly():
    last = 2**64 - 2**64 % 10 - 1
    assert list(Replay([last + 1, last, 2**64 - 1, 13]).below(2, 10)) == [3, last % 10]
    assert not Replay([]).below(0, 5).size
    for bound in (0, -1, 2**63 + 1):
        with pytest.raises(ValueError, match="bound"):
            Replay([1]).below(1, bound)


@pytest.mark.parametrize("noise", SOURCES, ids=IDS)
def test_certain_coins(noise):
    assert not noise.bernoulli(1000, Fraction(0)).any()
    assert noise.bernoulli(1000, Fraction(1)).all()
    for p in (Fraction(-1, 5), Fraction(6, 5)):
        with pytest.raises(ValueError, match="probability"):
            noise.bernoulli(1, p)


def test_bernoulli_compares_digit_by_digit():
    third = Fraction(1, 3)
    digit = 2**64 // 3  # 1/3 has this digit at every place in base 2^64
    assert list(Replay([digit - 1]).bernoulli(1, third)) == [True]
    assert list(Replay([digit + 1]).bernoulli(1, third)) == [False]
    assert list(Replay([digit, digit, digit - 1]).bernoulli(1, third)) == [True]
    assert list(Replay([digit, digit + 1]).bernoulli(1, third)) == [False]
    # a dyadic probability ends: a tie is not below it
    assert list(Replay([2**63]).bernoulli(1, Fraction(1, 2))) == [False]
    assert list(Replay([2**63 - 1]).bernoulli(1, Fraction(1, 2))) == [True]
    # probabilities finer than any double
    fine = Fraction(1, 2**130)
    assert list(Replay([0, 0, 0]).bernoulli(1, fine)) == [True]
    assert list(Replay([0, 0, 2**62]).bernoulli(1, fine)) == [False]
