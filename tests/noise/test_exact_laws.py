"""The integers that are drawn follow the exact laws, and two wrong twins never do.

Each test draws 20 000 integers (10 000 at large scales); a twin whose scale is 30 % off has
a p-value below 1e-30 at these sizes.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privmean.noise import bulk_draws as bulk
from privmean.noise import noise_source
from privmean.noise.noise_source import ExactNoise, SimulatedNoise, double_above
from statistics_kit import ALPHA, assert_law, cdf_p_value, law_p_value

DRAWS = 20_000
TWINS = (Fraction(7, 10), Fraction(13, 10))


PIECE = min(bulk.LEAST.values()) - 1


class Pieces(ExactNoise):
    """Draws in calls so small, and each as if it were the first, that OpenDP answers them."""

    def _drawn(self, size, *law):
        found = []
        for k in range(0, size, PIECE):
            noise_source._before.cache_clear()
            found.append(super()._drawn(min(PIECE, size - k), *law))
        return np.concatenate(found)


class OneByOne(ExactNoise):
    """Draws alone, from tables where these reach."""

    def _drawn(self, size, scale, power, alone):
        if scale > bulk.LARGEST:
            return super()._drawn(size, scale, power, alone)
        table = bulk.table(double_above(scale), power)
        return np.array([table.one(self.bits64) for _ in range(size)])


SOURCES = [ExactNoise(), Pieces(), OneByOne(), SimulatedNoise(1)]
IDS = ["exact", "in pieces", "one by one", "simulated"]


def laplace_pmf(scale):
    a = np.exp(-1 / float(scale))
    return lambda k: (1 - a) / (1 + a) * a ** np.abs(k).astype(float)


def gaussian_pmf(scale):
    k = np.arange(-60 * int(scale + 1), 60 * int(scale + 1) + 1)
    total = np.exp(-((k / scale) ** 2) / 2).sum()
    return lambda k: np.exp(-((k / scale) ** 2) / 2) / total


@pytest.mark.slow
@pytest.mark.parametrize("noise", SOURCES, ids=IDS)
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(22, 7), Fraction(40)])
def test_discrete_laplace_law(noise, scale):
    assert_law(noise.laplace(DRAWS, scale), laplace_pmf(scale))
    for twin in TWINS:
        assert law_p_value(noise.laplace(DRAWS, scale * twin), laplace_pmf(scale)) < ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("noise", SOURCES, ids=IDS)
@pytest.mark.parametrize("scale", [0.6, 2.0, 7.3, 64.5])
def test_discrete_gaussian_law(noise, scale):
    assert_law(noise.gaussian(DRAWS, scale), gaussian_pmf(scale))
    for twin in TWINS:
        assert law_p_value(noise.gaussian(DRAWS, scale * float(twin)), gaussian_pmf(scale)) < ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("noise", SOURCES, ids=IDS)
@pytest.mark.parametrize("scale", [2.0**20, 2.0**20 * 1.7, 2.0**56])
def test_large_scales_on_quantile_grids(noise, scale):
    normal, laplace = stats.norm(scale=scale).ppf, stats.laplace(scale=scale).ppf
    assert cdf_p_value(noise.gaussian(DRAWS // 2, scale), normal) >= ALPHA
    assert cdf_p_value(noise.laplace(DRAWS // 2, Fraction(scale)), laplace) >= ALPHA
    for twin in (0.7, 1 / 1.3):  # the law against which correct draws are 30 % off
        assert (
            cdf_p_value(noise.gaussian(DRAWS // 2, scale), lambda p, t=twin: t * normal(p)) < 1e-6
        )
        draws = noise.laplace(DRAWS // 2, Fraction(scale))
        assert cdf_p_value(draws, lambda p, t=twin: t * laplace(p)) < ALPHA


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_low_bits_are_noise_and_a_float_twin_is_caught(law):
    """Noise made from doubles has empty low bits, which tell what was added to it."""
    scale = 2**56

    def low_bits_p_value(noise):
        draws = getattr(noise, law)(8192, Fraction(scale) if law == "laplace" else float(scale))
        return stats.chisquare(np.bincount(draws & 15, minlength=16)).pvalue

    assert low_bits_p_value(ExactNoise()) >= ALPHA
    assert low_bits_p_value(SimulatedNoise(5)) < ALPHA  # doubles, and marked as not secure


@pytest.mark.parametrize("noise", SOURCES, ids=IDS)
def test_draws_are_independent_of_their_neighbours(noise):
    draws = noise.laplace(DRAWS, Fraction(3)).astype(float)
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 4.9 / np.sqrt(DRAWS)
    assert abs(np.corrcoef(draws[2:], draws[:-2])[0, 1]) < 4.9 / np.sqrt(DRAWS)


def test_only_exact_noise_is_secure():
    assert ExactNoise().secure
    assert not SimulatedNoise(0).secure


def test_a_seed_repeats_the_simulation_and_nothing_repeats_the_real_thing():
    first = SimulatedNoise(3).laplace(50, Fraction(1000))
    assert np.array_equal(first, SimulatedNoise(3).laplace(50, Fraction(1000)))
    draws = [tuple(ExactNoise().laplace(50, Fraction(1000))) for _ in range(2)]
    assert draws[0] != draws[1]
