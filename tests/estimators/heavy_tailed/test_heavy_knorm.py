"""Exact K-norm noise: its law on the lattice, its coin, and the privacy it claims."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from privmean.mechanisms import noisy_vector as vector
from privmean.noise.noise_source import ExactNoise, SimulatedNoise
from statistics_kit import ALPHA, assert_mean, assert_rate, choice_p_value


def exact_law(scale, reach):
    """All lattice points up to `reach` a coordinate (d = 2) and their probabilities."""
    points = list(itertools.product(range(-reach, reach + 1), repeat=2))
    weight = np.array([math.exp(-vector.norm_above(z) / float(scale)) for z in points])
    return points, weight / weight.sum()


@pytest.mark.slow
@pytest.mark.parametrize("noise", [SimulatedNoise(1), ExactNoise()], ids=["seeded", "exact"])
def test_small_lattice_law(noise):
    scale, draws = Fraction(3, 2), 4000
    points, law = exact_law(scale, 30)
    # pool by the rounded-up norm and by the octant-free first coordinate's sign
    keys = [(min(vector.norm_above(z), 7), int(np.sign(z[0]))) for z in points]
    cells = sorted(set(keys))
    expected = np.zeros(len(cells))
    for key, p in zip(keys, law, strict=True):
        expected[cells.index(key)] += p
    seen = []
    for _ in range(draws):
        z = [int(x) for x in vector.k_norm(noise, 2, scale)]
        seen.append(cells.index((min(vector.norm_above(z), 7), int(np.sign(z[0])))))
    assert choice_p_value(seen, expected) >= ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 5, 12])
def test_lengths_follow_the_gamma_law(d):
    scale, noise = Fraction(2**24), SimulatedNoise(d)
    lengths = [
        np.linalg.norm(vector.k_norm(noise, d, scale).astype(float)) / float(scale)
        for _ in range(600)
    ]
    assert_mean(lengths, d)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(9, 4)])
def test_coin(gamma):
    noise, flips = SimulatedNoise(3), 6000
    heads = sum(vector.exponential_coin(noise, gamma) for _ in range(flips))
    assert_rate(heads, flips, math.exp(-gamma))


def test_proposals_dominate():
    for d in (1, 2, 3, 10, 24):
        for scale in (Fraction(1, 3), Fraction(10**9, 7), Fraction(2**40)):
            proposal = vector.proposal_scale(scale, d)
            assert proposal * proposal >= d * scale * scale
            assert Fraction(float(proposal)) == proposal
    assert 1 / vector.acceptance(vector.LARGEST_DIMENSION) < 520
