"""Confidence bands for the noise of a stream."""

import math

import numpy as np
import pytest

from privmean.streams import stream_release as bands
from privmean.streams.strategies import Identity, MeanToeplitz, PrefixRoot
from statistics_kit import assert_rate_at_least


def test_known_factors():
    assert bands.pointwise(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert bands.together(0.95, 1, 8192) == pytest.approx(4.52, abs=0.01)
    assert bands.together(0.95, 1, 8192, 10) == pytest.approx(6.52, abs=0.01)
    # Sidak is a little below the union bound, never above
    assert bands.together(0.95, 1, 8192) < math.sqrt(20.44)
    total = sum((1 - 0.9) * 6 / (math.pi * t) ** 2 for t in range(1, 200_000))
    assert total <= 0.1
    assert bands.together(0.9, 1, None) < bands.together(0.9, 1000, None)


@pytest.mark.parametrize("strategy", [MeanToeplitz(), PrefixRoot(), Identity()])
def test_a_band_holds_at_all_steps_together(strategy):
    n, level, rng = 512, 0.9, np.random.default_rng(2)
    g = np.cumsum(strategy.inverse(n))
    widths = bands.together(level, 1, n) * np.sqrt(np.cumsum(g * g))
    sums = [np.convolve(rng.normal(size=n), g)[:n] for _ in range(400)]
    assert_rate_at_least(sum((np.abs(item) <= widths).all() for item in sums), 400, level)


def test_clamping_never_moves_away_from_a_mean_inside():
    rng = np.random.default_rng(4)
    inside = bands.clamp(rng.normal(size=(200, 3)), 1.0)
    loud = rng.normal(size=(200, 3)) * 3
    clamped = bands.clamp(loud, 1.0)
    assert np.linalg.norm(clamped, axis=1).max() <= 1 + 1e-12
    before = np.linalg.norm(loud - inside, axis=1)
    assert (np.linalg.norm(clamped - inside, axis=1) <= before + 1e-12).all()
