"""The number of a direction for a vector: exact law, unbiased, nearly as good as PrivUnit."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from privmean.auditing.audit_local import largest_ratio, law_of, share_of
from privmean.local import Tally, ball_round, estimate
from privmean.local.aggregators.ball_law import (
    ball_law,
    candidate_law,
)
from privmean.local.aggregators.tally import directions_of, tally
from privmean.local.clients.randomizers import RANDOMIZERS, closest_set
from privmean.local.vectorized import randomize_many
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import assert_mean

VECTORS = ([1.0, 0.0], [-0.6, 0.8], [0.0, 0.0], [1e200, -1e200], [float("nan"), 1.0], None)
EPSILONS = [Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(4), Fraction(16)]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("favoured", [1, 3, 4])
def test_the_exact_law_of_all_inputs(epsilon, favoured):
    round_ = ball_round(
        1, 2, epsilon=epsilon, persons=9, candidates=8, favoured=(favoured,), seed=bytes(32)
    )
    run = RANDOMIZERS["closest"]
    for nonce in (bytes(16), bytes(range(16))):
        laws = [law_of(run, round_, value, nonce) for value in VECTORS]
        for first, second in combinations(laws, 2):
            assert share_of(largest_ratio(first, second), epsilon) <= 1
        assert all(sum(law.values()) == 1 for law in laws)


def test_always_as_many_are_favoured_whatever_the_heights():
    for heights in ([0.0] * 8, [1.0, -1.0] * 4, [float("inf")] * 8, list(np.linspace(-1, 1, 8))):
        for size in (1, 4, 8):
            found = closest_set(heights, size)
            assert len(set(found)) == size
            assert all(0 <= j < 16 for j in found)
            assert len({j >> 1 for j in found}) == size


@pytest.mark.parametrize(("dimension", "epsilon"), [(2, 1), (3, 6), (20, 2), (20, 8)])
def test_reports_are_unbiased_with_the_law_that_the_server_knows(dimension, epsilon):
    n = 4000
    round_ = ball_round(
        1, dimension, epsilon=epsilon, persons=n, mechanism="closest", candidates=32
    )
    x = np.zeros((n, dimension))
    x[:, 0], x[:, 1] = 0.6, -0.5
    reports = randomize_many(round_, x, epsilon=epsilon, noise=SimulatedNoise(dimension))
    z = directions_of(reports) * ball_law(round_, 0).scale
    for axis, mean in ((0, 0.6), (1, -0.5)):
        assert_mean(z[:, axis], mean)
    unit = np.array([0.6, -0.5]) / np.hypot(0.6, 0.5)
    shrinkage, square = candidate_law(round_.menu[0], dimension, 32, round_.favoured[0])
    height = z[:, :2] @ unit * shrinkage
    assert_mean(height**2, square)
    wrong = ball_law(ball_round(1, dimension, epsilon=epsilon, persons=9, mechanism="ball-bit"), 0)
    with pytest.raises(AssertionError):
        assert_mean(z[:, 0] / ball_law(round_, 0).scale * wrong.scale * 1.3, 0.6)


def test_one_client_sends_what_many_send():
    """The same law by both: the index counts of a fixed nonce."""
    round_ = ball_round(1, 3, epsilon=2, persons=9, candidates=8, seed=bytes(32))
    exact = law_of(RANDOMIZERS["closest"], round_, [1.0, 0.0, 0.0], bytes(16))
    n = 4000
    from privmean.local.vectorized import ball_payload

    payload = ball_payload(
        round_,
        np.tile([1.0, 0.0, 0.0], (n, 1)),
        np.zeros(n, dtype=np.uint16),
        np.zeros((n, 2), dtype=np.uint64),
        SimulatedNoise(5),
    )
    for j in range(8):
        hits = (payload[:, 0] == j).astype(float)
        assert_mean(hits, float(exact.get(bytes([j, 0]), 0)), slack=1e-9)


def test_tallies_kept_without_second_moments_are_still_read():
    round_ = ball_round(1, 3, epsilon=4, persons=200, mechanism="closest")
    x = np.tile([1.0, 0.0, 0.0], (200, 1))
    counted = tally(randomize_many(round_, x, epsilon=4.0, noise=SimulatedNoise(1)))
    old = Tally(round_, counted.counts, counted.sums, counted.squares)
    read = Tally.from_bytes(round_, old.to_bytes())
    assert read.moments is None
    assert counted.merge(read).moments is None
    assert (estimate(read).spread >= estimate(counted).spread).all()
    assert estimate(counted).spread[1] < 0.8 * estimate(read).spread[1]
