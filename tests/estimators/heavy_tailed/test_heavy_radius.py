"""The private radius: exact loss of the search, and what it buys."""

import math
from fractions import Fraction

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.heavy_tailed.coarse_center import (
    RadiusSearch,
    search_ball,
    search_one_column,
)
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.noise_source import SimulatedNoise


def laplace(scale, reach):
    k = np.arange(-reach, reach + 1)
    p = np.exp(-np.abs(k) / scale)
    return k, p / p.sum()


def stop_law(counts, level, scale, reach=60):
    """Exact law of where the search stops (last entry: nowhere), discrete Laplace everywhere."""
    k, p = laplace(scale, reach)
    survive = np.cumsum(p[::-1])[::-1]  # P(noise >= k)
    law = np.zeros(len(counts) + 1)
    for noise, mass in zip(k, p, strict=True):
        open_ = mass
        for j, count in enumerate(counts):
            # stops if count + query noise <= level + noise
            start = level + noise - count + 1
            above = 1.0 if start <= -reach else (0.0 if start > reach else survive[start + reach])
            law[j] += open_ * (1 - above)
            open_ *= above
        law[-1] += open_
    return law


def worst_loss(scale):
    worst = 0.0
    for counts in ([3, 2, 1], [5, 2, 0], [4, 4, 4], [6, 1, 1]):
        for drop in range(1, 2 ** len(counts)):
            other = [c + ((drop >> j) & 1) for j, c in enumerate(counts)]
            if sorted(other, reverse=True) != other:
                continue
            a, b = stop_law(counts, 2, scale), stop_law(other, 2, scale)
            worst = max(worst, np.abs(np.log(a / b)).max())
    return worst


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_exact_loss_of_the_search_is_within_epsilon(epsilon):
    # the counts of persons outside growing balls all move the same way, each by at most one
    assert worst_loss(2 / epsilon) <= epsilon + 1e-9


def test_half_the_noise_is_caught():
    assert worst_loss(0.5) > 1.0


class Recorder(SimulatedNoise):
    def __init__(self):
        super().__init__(0)
        self.scales = []

    def laplace(self, size, scale):
        self.scales.append(scale)
        return super().laplace(size, scale)


def test_the_search_draws_what_it_bills():
    search = RadiusSearch((1.0, 2.0, 4.0), 5, Fraction(1, 2))
    noise = Recorder()
    rows = np.random.default_rng(0).standard_normal((300, 2))
    found = search.find(TrustedCurator(ArrayPersonTable(rows, ("a", "b")), noise), (0.0, 0.0))
    assert set(noise.scales) == {Fraction(4)}
    assert search.events[0].pure == Fraction(1, 2)
    assert found in (2.0, 4.0, None)


def test_searches_are_capped_and_skipped_by_public_rules():
    assert search_one_column(1.0, 3.0, 5, Fraction(1, 5)) is None
    found = search_one_column(1.0, 3.0, 5000, Fraction(1, 5))
    assert max(found.candidates) < 3.0
    assert found.outside == math.ceil(10 * math.log(72 / 0.05))
    ball = search_ball(10.0, 25.0, 5000, Fraction(1, 5), 300.0)
    assert ball.outside == 300
    assert max(ball.candidates) < 25.0
