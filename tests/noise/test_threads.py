"""Noise drawn by several threads at once: nothing fails, nothing is drawn twice."""

import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from privmean.noise import noise_source
from privmean.noise.noise_source import ExactNoise, SimulatedNoise

THREADS = 8


@pytest.fixture
def busy():
    """Threads that change places as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(task, times):
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(task, range(times)))


def test_samplers_are_built_by_many_threads(busy):
    """OpenDP's leave is a switch for the whole process: no thread may take it from another."""
    from opendp import mod

    for sampler in (noise_source._laplace, noise_source._gaussian):
        sampler.cache_clear()
    before = set(mod.GLOBAL_FEATURES)
    noise = ExactNoise()

    def draw(i):
        scale = 3 + i / 7
        return (
            len(noise.laplace(2, Fraction(scale)))
            + len(noise.gaussian(2, scale))
            + noise.argmax(np.array([0, 10**6]), Fraction(scale))
        )

    assert at_once(draw, 120) == [5] * 120
    assert set(mod.GLOBAL_FEATURES) == before


@pytest.mark.parametrize(
    "draw",
    [
        lambda noise: noise.bits64(3),
        lambda noise: noise.laplace(3, Fraction(100_000)),
        lambda noise: noise.gaussian(3, 2.0**30),
        lambda noise: noise.gaussian(3, 5.0),
    ],
    ids=["words", "laplace", "gaussian", "table"],
)
def test_a_simulation_shared_by_threads_draws_each_number_once(busy, draw):
    """The draws of all threads together are those of one thread: none is lost or repeated."""
    alone, shared = SimulatedNoise(5), SimulatedNoise(5)
    expected = sorted(tuple(draw(alone).tolist()) for _ in range(400))
    assert sorted(tuple(part.tolist()) for part in at_once(lambda _: draw(shared), 400)) == expected


def test_exact_words_are_never_repeated(busy):
    words = np.concatenate(at_once(lambda _: ExactNoise().bits64(50), 200))
    assert len(np.unique(words)) == len(words)  # a repeat among 10^4: below 3e-12


def test_small_simulated_scales_keep_their_law_in_threads(busy):
    """Two draws a number, which threads may interleave: still independent differences."""
    noise = SimulatedNoise(3)
    draws = np.concatenate(at_once(lambda _: noise.laplace(500, Fraction(3)), 200))
    ratio = np.exp(-1 / 3)
    variance = 2 * ratio / (1 - ratio) ** 2
    assert abs(draws.mean()) < 6 * np.sqrt(variance / len(draws))  # false alarm 2e-9
    assert abs(draws.var() / variance - 1) < 6 * np.sqrt(5 / len(draws))
