"""The pair scale: one person moves one pair, and the scale found is the scale of the bulk."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from estimators.made_people import people
from privmean.errors import ArgumentError
from privmean.mechanisms.histograms import DyadicBins, PairScale
from privmean.noise.noise_source import ExactNoise, SimulatedNoise
from statistics_kit import assert_rate_at_least, epsilon_lower_bound

EXTREMES = [1e300, -1e300, math.inf, -math.inf, math.nan, 0.0, 1e-300]


@pytest.mark.parametrize("n", [2, 7, 10])
def test_one_person_moves_at_most_two_counts_by_one(n):
    rng = np.random.default_rng(n)
    values = rng.standard_normal(n)
    values[1] = math.nan
    before = people(values).pair_counts(0, -12, 12)
    assert before.sum() == n // 2
    moved = 0
    for i in range(n):
        for extreme in EXTREMES:
            other = values.copy()
            other[i] = extreme
            change = np.abs(people(other).pair_counts(0, -12, 12) - before)
            assert change.max() <= 1
            moved = max(moved, int(change.sum()))
    assert moved == 2


def test_loss_of_both_laws():
    bins = DyadicBins(-5, 5)
    (loss,) = PairScale.of(Fraction(1, 4), bins).events
    assert (loss.pure, loss.cells_changed) == (Fraction(1, 4), 2)
    (loss,) = PairScale.gaussian(0.3, bins, 6).events
    assert loss.mu == pytest.approx(0.3, rel=1e-12)
    assert loss.mu <= 0.3
    assert loss.answers == 12


def test_found_scale_of_normal_values():
    """The bin found is the modal one, up to bins that the noise (deviation 2.8) cannot tell."""
    step = PairScale.of(Fraction(1), DyadicBins.around(2.0**-10, 2.0**10))
    rng, noise, good = np.random.default_rng(3), SimulatedNoise(3), 0
    edges = 2.0 ** np.arange(-12, 13)
    for sd in (0.01, 1.0, 3.7, 300.0):
        expected = 1000 * np.diff(stats.norm.cdf(np.append(0, edges) / sd))
        near = edges[expected >= expected.max() - 50]
        assert set(near) <= set(edges[(edges > 0.6 * sd) & (edges < 2.5 * sd)])
        for _ in range(50):
            found = step.draw(step.exact(people(1e3 + sd * rng.standard_normal(1000)), 0), noise)
            good += found in near
    assert_rate_at_least(good, 200, 0.999)
    values = rng.standard_normal((4000, 1))
    gaussian = PairScale.gaussian(1.0, DyadicBins(-10, 10), 1)
    assert gaussian.draw(gaussian.exact(people(values[:, 0]), 0), ExactNoise()) in (1.0, 2.0)


def test_constant_values_find_the_smallest_bin():
    step = PairScale.of(Fraction(2), DyadicBins(-6, 6))
    assert step.draw(step.exact(people([3.25] * 600), 0), SimulatedNoise(0)) == 2.0**-6


def test_empty_bins_carry_noise():
    """With no pairs at all every bin is possible: noise is on all of them."""
    step = PairScale.of(Fraction(1), DyadicBins(0, 3))
    found = {step.draw(step.exact(people([1.0]), 0), SimulatedNoise(s)) for s in range(80)}
    assert found == {1.0, 2.0, 4.0, 8.0}


@pytest.mark.parametrize("pair", [(3.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (1.0, math.inf)])
def test_refused_ranges(pair):
    with pytest.raises(ArgumentError):
        DyadicBins.around(*pair)


@pytest.mark.parametrize(("scale", "caught"), [(2, False), (1, True)])
def test_distinguishing_on_noisy_counts(scale, caught):
    """Two counts move in opposite directions; half the noise is caught."""
    noise, draws = SimulatedNoise(7), 40_000
    law = [noise.laplace(draws, Fraction(scale)) for _ in range(4)]
    hits = int(np.sum((1 + law[0] >= 1) & (law[1] <= 0)))
    other = int(np.sum((law[2] >= 1) & (1 + law[3] <= 0)))
    assert (epsilon_lower_bound(hits, other, draws) > 1.0) == caught
