"""Figures 1 and 2 of Kalinin, Najar, Roth and Lampert (2026), at a few of their points."""

import math

import pytest

from privmean.published.continual import (
    BandedInverse,
    best_banded_inverse,
    best_decaying,
    best_toeplitz,
)
from privmean.streams.strategies import Banded, Identity, MeanToeplitz, PrefixRoot
from privmean.streams.toeplitz_matrices import Participation


@pytest.mark.parametrize(
    ("n", "ratios", "best"),
    [
        (64, (1.260, 1.242, 1.009, 1.054), 0.21607),
        (1024, (1.509, 1.398, 1.0372, 1.0367), 0.05674),
        (4096, (1.630, 1.478, 1.053, 1.035), 0.02859),
    ],
)
def test_figure_1(n, ratios, best):
    once = Participation(1, 1)
    least = best_toeplitz(once, n).rmse(once, n)
    assert least == pytest.approx(best, abs=6e-6)
    strategies = (Identity(), PrefixRoot(), best_decaying(once, n), MeanToeplitz())
    for strategy, ratio in zip(strategies, ratios, strict=True):
        assert strategy.rmse(once, n) / least == pytest.approx(ratio, abs=6e-4)


def test_figure_2():
    n = 1024
    p = Participation(16, 64)
    banded = Banded(MeanToeplitz(), 64).rmse(p, n)
    assert banded == pytest.approx(0.23597, abs=6e-6)
    expected = (
        (MeanToeplitz(), 1.105),
        (BandedInverse(MeanToeplitz(), 64), 1.029),
        (best_banded_inverse(MeanToeplitz(), p, n), 1.004),
        (best_banded_inverse(PrefixRoot(), p, n), 1.030),
        (best_decaying(p, n), 0.998),
    )
    for strategy, ratio in expected:
        assert strategy.rmse(p, n) / banded == pytest.approx(ratio, abs=6e-4)


def rmse(sd):
    return math.sqrt(float((sd**2).mean()))
