"""Noisy argmax over all public bins: its exact law stays within epsilon, smaller noise does not."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flip_law import permute_and_flip

from privmean.data.array_table import ArrayPersonTable
from privmean.mechanisms.choices import Bins, GaussianArgmax, NoisyArgmax, SeenArgmax
from privmean.noise.noise_source import ExactNoise, SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE
from statistics_kit import assert_rate, assert_rate_at_most


def worst_loss(scale, moves, size=3, top=3):
    found = 0.0
    for counts in itertools.product(range(top + 1), repeat=size):
        law = permute_and_flip(counts, scale)
        for move in moves:
            other = [c + m for c, m in zip(counts, move, strict=True)]
            if min(other) >= 0:
                pairs = zip(law, permute_and_flip(other, scale), strict=True)
                found = max(found, *(abs(math.log(p / q)) for p, q in pairs))
    return found


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_exact_loss(epsilon):
    swaps = [(1, -1, 0), (0, 1, -1), (-1, 0, 1)]
    singles = [(1, 0, 0), (0, 1, 0), (0, 0, -1)]
    swap = NoisyArgmax.of(Fraction(epsilon), REPLACE_ONE)
    single = NoisyArgmax.of(Fraction(epsilon), ADD_REMOVE)
    assert sum(loss.pure for loss in swap.events) == Fraction(epsilon)
    assert sum(loss.pure for loss in single.events) == Fraction(epsilon)
    assert worst_loss(float(swap.scale), swaps) <= epsilon * (1 + 1e-9)
    assert worst_loss(float(single.scale), singles) <= epsilon * (1 + 1e-9)
    # twins: the noise of the other relation, and 10 % less noise
    assert worst_loss(float(single.scale), swaps) > epsilon * 1.01
    assert worst_loss(0.9 * float(swap.scale), swaps, top=6) > epsilon * 1.01


@pytest.mark.parametrize("noise", [SimulatedNoise(2), ExactNoise()], ids=["simulated", "exact"])
def test_drawn_law(noise):
    counts = np.array([3, 0, 2, 3])
    mechanism = NoisyArgmax.of(Fraction(1), REPLACE_ONE)
    law = permute_and_flip(list(counts), 2.0)
    draws = 3000
    hits = np.bincount([mechanism.draw(counts, noise) for _ in range(draws)], minlength=4)
    for hit, p in zip(hits, law, strict=True):
        assert_rate(int(hit), draws, p)


def test_bins_cover_the_range_and_clamp():
    bins = Bins.cover(-10.0, 11.0, 1.5)
    assert bins.number == 7
    assert bins.lower <= -10
    assert bins.center(bins.number - 1) + bins.half >= 11
    values = np.array([-1e300, -np.inf, -10.0, 0.3, 11.0, 1e300, np.inf, np.nan])[:, None]
    counts = ArrayPersonTable(values, ("x",)).uniform_counts(0, bins.half, bins.origin)
    filled = bins.all_counts(counts)
    assert filled.sum() == 7  # all but the null
    assert filled[0] == 3
    assert filled[-1] == 3
    assert bins.all_counts({}).tolist() == [0] * 7
    assert Bins(0.0, 0.5, 4).all_counts({-5: 2, 0: 1, 3: 4, 99: 7}).tolist() == [3, 0, 0, 11]
    index = int(np.argmax(filled[1:-1])) + 1
    assert abs(bins.center(index) - 0.3) <= bins.half


@pytest.mark.parametrize(("relation", "moved"), [(REPLACE_ONE, 2), (ADD_REMOVE, 1)])
def test_gaussian_form(relation, moved):
    mechanism = GaussianArgmax.of(0.4, 3, relation, "argmax")
    assert mechanism.sd == pytest.approx(math.sqrt(3 * moved) / 0.4)
    (loss,) = mechanism.events
    assert loss.mu == pytest.approx(0.4, rel=1e-12)
    assert loss.mu <= 0.4
    assert loss.scale >= 2**20
    counts = np.array([0, 0, 1000, 0])
    assert mechanism.draw(counts, ExactNoise()) == 2
    flat = [mechanism.draw(np.zeros(2, dtype=np.int64), SimulatedNoise(s)) for s in range(2000)]
    assert_rate(sum(flat), 2000, 0.5)


@pytest.mark.parametrize("cells", [1, 40, 3000])
def test_empty_bins_are_not_taken_for_occupied_ones(cells):
    """One time in a hundred at most; a bin that holds what the plan asks for is found."""
    mechanism = SeenArgmax.of(0.4, 3, REPLACE_ONE, "argmax")
    noise, draws = SimulatedNoise(8), 1000
    empty, full = np.zeros(cells, dtype=np.int64), np.zeros(cells, dtype=np.int64)
    full[cells // 2] = math.ceil(3 * mechanism.least(cells))
    seen = sum(mechanism.draw(empty, noise) is not None for _ in range(draws))
    assert_rate_at_most(seen, draws, 0.01)
    assert all(mechanism.draw(full, noise) == cells // 2 for _ in range(50))


def test_neighbours_move_a_seen_argmax_by_its_whole_loss_at_most():
    mechanism = SeenArgmax.of(0.4, 1, REPLACE_ONE, "argmax")
    before, after = np.array([3, 4, 0]), np.array([2, 4, 1])
    (share,) = mechanism.sensitivity_share(before, after)
    assert 1 - 1e-12 <= share <= 1
    assert mechanism.sensitivity_share(before, before) == (0,)
