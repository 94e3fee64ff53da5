"""Confidence bands for the noise of a stream."""

import math

import numpy as np
import pytest

from privmean.noise.noise_source import SimulatedNoise
from privmean.streams import stream_release as bands
from privmean.streams.strategies import Identity, MeanToeplitz, PrefixRoot
from statistics_kit import assert_rate_at_least


def simulated(
    strategy,
    steps: int,
    level: float,
    noise,
    *,
    dimension: int = 1,
    draws: int = 1000,
    first: int = 1,
) -> float:
    """Simultaneous factor for steps `first`.. by simulation of the public law of the noise.

    Correlation over time makes it a quarter to a third narrower than `simultaneous`. The returned
    order statistic is rounded up, so that the expected coverage is at least `level`.
    """
    g = np.cumsum(strategy.inverse(steps))
    norms = np.sqrt(np.cumsum(g * g))
    size = 1 << (2 * steps - 1).bit_length()
    transform = np.fft.rfft(g, size)[:, None]
    largest = np.empty(draws)
    for index in range(draws):
        z = noise.gaussian(steps * dimension, 2.0**30).reshape(steps, dimension) / 2.0**30
        sums = np.fft.irfft(np.fft.rfft(z, size, axis=0) * transform, size, axis=0)[:steps]
        ratio = np.sqrt((sums**2).sum(axis=1)) / norms
        largest[index] = ratio[first - 1 :].max()
    rank = min(draws, math.ceil(level * (draws + 1)))
    return float(np.sort(largest)[rank - 1])


def test_known_factors():
    assert bands.pointwise(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert bands.simultaneous(0.95, 8192) == pytest.approx(4.52, abs=0.01)
    assert bands.simultaneous(0.95, 8192, 10) == pytest.approx(6.52, abs=0.01)
    # Sidak is a little below the union bound, never above
    assert bands.simultaneous(0.95, 8192) < math.sqrt(20.44)
    total = sum((1 - 0.9) * 6 / (math.pi * t) ** 2 for t in range(1, 200_000))
    assert total <= 0.1
    assert bands.open_ended(0.9, 1) < bands.open_ended(0.9, 1000)


@pytest.mark.parametrize(
    ("strategy", "expected"), [(MeanToeplitz(), 3.2), (PrefixRoot(), 3.75), (Identity(), 2.85)]
)
def test_simulated_factor_is_narrower_and_covers(strategy, expected):
    n, level = 512, 0.9
    factor = simulated(strategy, n, level, SimulatedNoise(1), draws=1500)
    assert factor < bands.simultaneous(level, n)
    assert factor == pytest.approx(expected, rel=0.12)
    rng = np.random.default_rng(2)
    g = np.cumsum(strategy.inverse(n))
    norms = np.sqrt(np.cumsum(g * g))
    held = 0
    for _ in range(400):
        sums = np.convolve(rng.normal(size=n), g)[:n]
        held += bool((np.abs(sums) <= factor * norms).all())
    assert_rate_at_least(held, 400, level - 0.03)


def test_simulation_of_rows():
    factor = simulated(Identity(), 64, 0.9, SimulatedNoise(3), dimension=3, draws=400, first=8)
    assert bands.pointwise(0.9, 3) < factor < bands.simultaneous(0.9, 64, 3)


def test_clamping_never_moves_away_from_a_mean_inside():
    rng = np.random.default_rng(4)
    inside = bands.clamp(rng.normal(size=(200, 3)), 1.0)
    loud = rng.normal(size=(200, 3)) * 3
    clamped = bands.clamp(loud, 1.0)
    assert np.linalg.norm(clamped, axis=1).max() <= 1 + 1e-12
    before = np.linalg.norm(loud - inside, axis=1)
    assert (np.linalg.norm(clamped - inside, axis=1) <= before + 1e-12).all()


def test_sampling_radius_holds():
    rng = np.random.default_rng(5)
    means = rng.choice([-1.0, 1.0], size=(2000, 50)).mean(axis=1)
    held = int((np.abs(means) <= bands.sampling_radius(1.0, 0.95, 50)).sum())
    assert_rate_at_least(held, 2000, 0.95)
