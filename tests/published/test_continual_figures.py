"""Figures 1 to 3 of Kalinin, Najar, Roth and Lampert (2026), at a few of their points."""

import math

import numpy as np
import pytest

from continual_tables import algorithm_1, joint, naive_tree, withhold
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


def test_figure_3():
    persons, most = 1000, 8
    levels = most.bit_length()
    root = PrefixRoot().variances(persons)
    norm = float(np.linalg.norm(PrefixRoot().column(persons)))
    split = math.sqrt(2 * math.log(1.25 * levels / 1e-6)) * levels
    tree = np.array([int(item).bit_count() for item in range(1, persons + 1)], dtype=float)
    pure = math.sqrt(2) * math.ceil(math.log2(persons + 1)) * levels
    cells = (
        (algorithm_1(BandedInverse(MeanToeplitz(), persons), persons, most), 0.1273, 0.0114),
        (algorithm_1(BandedInverse(PrefixRoot(), 6), persons, most), 0.1347, 0.0219),
        (algorithm_1(Banded(PrefixRoot(), persons), persons, most), 0.1695, 0.0040),
        (naive_tree(persons, most), 1.187, 0.0225),
        (withhold(persons, most, tree, [pure] * levels), 0.458, 0.0406),
        (withhold(persons, most, root, [split * norm] * levels), 0.316, 0.0213),
        (joint(persons, most, PrefixRoot(), 0.0), 0.1201, 0.0081),
        (joint(persons, most, MeanToeplitz(), 0.0), 0.0906, 0.0158),
        (joint(persons, most, PrefixRoot(), 1.0), 0.1697, 0.0069),
    )
    for sd, overall, last in cells:
        assert rmse(sd) == pytest.approx(overall, abs=6e-4 if overall > 0.2 else 6e-5)
        assert sd[-1] == pytest.approx(last, abs=6e-5)
