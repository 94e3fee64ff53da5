"""Frequencies of items: the sketch's signs to the digit, variances, radii, the projection."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmean.errors import ArgumentError
from privmean.local.aggregators import item_law as items
from privmean.local.aggregators.estimate_round import estimate, item_oracle
from privmean.local.aggregators.item_law import project_to_simplex
from privmean.local.aggregators.tally import bits_of
from privmean.local.aggregators.tally import tally as batch_tally
from privmean.local.exact_coins import signal
from privmean.local.round_builders import items_round, vote_round
from privmean.local.vectorized import randomize_many, tally_many
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import assert_mean, assert_rate_at_most

ALL = ["hadamard", "sketch", "subset"]


@pytest.mark.parametrize(
    ("epsilon", "bit", "subset"),
    [(0.5, 16.67, 15.64), (1, 4.683, 3.673), (2, 1.724, 0.721), (4, 1.076, 0.0739),
     (6, 1.010, 0.00782)],
)  # fmt: skip
def test_variances_by_the_table(epsilon, bit, subset):
    for mechanism, expected in (("hadamard", bit), ("subset", subset)):
        round_ = items_round(1000, epsilon=epsilon, persons=9, mechanism=mechanism)
        assert items.item_law(round_, 0).variance(0.0) == pytest.approx(expected, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ALL)
@pytest.mark.parametrize("epsilon", [0.5, 4])
def test_estimates_are_unbiased_and_have_the_stated_variance(mechanism, epsilon):
    p = np.array([0.5, 0.3, 0.2, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    n, runs = 600, 120
    rng = np.random.default_rng(0)
    noise = SimulatedNoise(8)
    results = []
    for _ in range(runs):
        # a new seed each run: for one seed the sketch has a bias, which is in its radius
        round_ = items_round(12, epsilon=epsilon, persons=n, mechanism=mechanism)
        values = rng.choice(12, n, p=p)
        results.append(estimate(tally_many(round_, values, epsilon=epsilon, noise=noise)).raw)
    raw = np.array(results)
    for v in (0, 2, 5):
        assert_mean(raw[:, v], p[v])
    law = items.item_law(round_, 0)
    if mechanism != "sketch":
        assert n * raw[:, 7].var() == pytest.approx(law.variance(0.0), rel=0.65)


@pytest.mark.parametrize("choice", ["assigned", "chosen"])
def test_rows_by_the_nonce_or_by_the_client(choice):
    round_ = items_round(40, epsilon=4, persons=4000, row_choice=choice)
    values = np.arange(4000) % 40
    answer = estimate(tally_many(round_, values, epsilon=4, noise=SimulatedNoise(1)))
    assert (abs(answer.raw - 1 / 40) <= 5.5 * answer.spread).all()


def test_a_large_sketch_is_like_hadamard():
    n = 3000
    values = np.zeros(n, dtype=int)
    errors = {}
    for mechanism, options in (("hadamard", {}), ("sketch", {"rows": 2**17})):
        errors[mechanism] = []
        for k in range(12):
            round_ = items_round(64, epsilon=1, persons=n, mechanism=mechanism, **options)
            answer = estimate(tally_many(round_, values, epsilon=1, noise=SimulatedNoise(k)))
            errors[mechanism].append(abs(answer.raw[1:]).mean())
    assert np.mean(errors["sketch"]) == pytest.approx(np.mean(errors["hadamard"]), rel=0.22)


def test_the_sketch_is_as_long_as_the_effective_sample_not_its_square():
    for persons, epsilon, most in ((10**5, 0.5, 2**15), (10**6, 1, 2**20)):
        rows = items_round(1000, epsilon=epsilon, persons=persons, mechanism="sketch").rows
        planned = persons * signal(epsilon) ** 2
        assert 4 * planned <= rows <= min(most, 8 * planned)


def test_unknown_items_and_missing_ones():
    round_ = items_round(5, epsilon=8, persons=10, mechanism="subset", other=4)
    values = np.array([7.0] * 3000)
    answer = estimate(tally_many(round_, values, epsilon=8, noise=SimulatedNoise(1)))
    assert answer.raw[4] == pytest.approx(1, abs=0.05)
    round_ = items_round(5, epsilon=8, persons=10, mechanism="hadamard")
    raw = estimate(
        tally_many(round_, np.full(4000, math.nan), epsilon=8, noise=SimulatedNoise(2))
    ).raw
    assert abs(raw).max() < 0.15  # a null counts for no item
    round_ = items_round(5, epsilon=8, persons=10, mechanism="subset")
    raw = estimate(tally_many(round_, np.full(9000, -1), epsilon=8, noise=SimulatedNoise(3))).raw
    assert raw == pytest.approx([0.2] * 5, abs=0.05)  # or plays a uniform item


def test_votes_fall_into_bins_and_end_bins_take_the_rest():
    round_ = vote_round(0.0, 10.0, 5, epsilon=16, persons=100)
    values = np.array([-99.0, 0.0, 1.99, 2.0, 9.99, 10.0, math.inf, math.nan])
    batch = randomize_many(round_, values, epsilon=16, noise=SimulatedNoise(0))
    bits = bits_of(batch)
    assert bits[:7].argmax(axis=1).tolist() == [0, 0, 0, 1, 4, 4, 4]
    from privmean.local.clients.randomizers import item

    assert [item(round_, v, bytes(16)) for v in values] == [0, 0, 0, 1, 4, 4, 4, None]


def test_the_projection_can_double_the_error_and_not_more():
    p = np.array([0.5] + [0.005] * 100)
    raw = np.array([0.49] + [0.015] * 100)
    projected, tau = project_to_simplex(raw)
    assert abs(raw - p).max() == pytest.approx(0.0100)
    assert abs(projected - p).max() == pytest.approx(0.0198, abs=5e-5)
    assert projected.sum() == pytest.approx(1)
    assert abs(projected - p).max() <= 0.01 + abs(tau) + 1e-12


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=2, max_size=30).filter(any), st.data())
def test_projection_error_is_at_most_t_plus_tau(counts, data):
    p = np.array(counts) / sum(counts)
    t = data.draw(st.floats(0, 1))
    moves = data.draw(st.lists(st.floats(-1, 1), min_size=len(counts), max_size=len(counts)))
    raw = p + t * np.array(moves)
    projected, tau = project_to_simplex(raw)
    assert abs(tau) <= t + 1e-9
    assert abs(projected - p).max() <= t + abs(tau) + 1e-9
    assert projected.sum() == pytest.approx(1)
    assert (projected >= 0).all()
    # it is the nearest point: no distribution that differs in two entries is nearer
    inner = raw - projected
    support = projected > 0
    assert np.ptp(inner[support]) <= 1e-9


@pytest.mark.parametrize("mechanism", ["hadamard", "subset"])
def test_approximate_intervals_of_shares(mechanism):
    p = np.array([0.6, 0.3, 0.1, 0, 0, 0, 0, 0])
    rng = np.random.default_rng(4)
    missed, inside = np.zeros(8), np.zeros(8)
    for k in range(60):
        round_ = items_round(8, epsilon=[0.5, 2], persons=1500, mechanism=mechanism)
        values, own = rng.choice(8, 1500, p=p), rng.choice([0.5, 2.0], 1500)
        answer = estimate(tally_many(round_, values, epsilon=own, noise=SimulatedNoise(k)))
        found = answer.interval(0.9)
        missed += (p < found.lower) | (p > found.upper)
        w = np.array([item.weight for item in answer.levels])[(own == 2.0).astype(int)]
        here = np.bincount(values, w, minlength=8)
        narrow = answer.noise_interval(0.9)
        inside += (here < narrow.lower) | (here > narrow.upper)
    for count in (*missed, *inside):
        assert_rate_at_most(int(count), 60, 0.1)


@pytest.mark.parametrize("mechanism", ["hadamard", "sketch"])
def test_single_items_are_those_of_the_estimate(mechanism):
    round_ = items_round(40, epsilon=[0.5, 2], persons=600, mechanism=mechanism)
    own = np.repeat([0.5, 2.0], 300)
    batch = randomize_many(round_, np.arange(600) % 40, epsilon=own, noise=SimulatedNoise(3))
    counted = batch_tally(batch)
    for weights in ("minimax", "uniform", "tested"):
        kept = item_oracle(counted, weights=weights)
        found = estimate(counted, weights=weights).raw
        plain = estimate(counted, weights=weights, project=False)
        assert (plain.value == plain.raw).all()
        if weights != "tested":  # a test for each item, and one for all of them
            assert [kept(v) for v in range(40)] == pytest.approx(found)


def test_items_of_a_huge_domain():
    n = 4000
    round_ = items_round(2**50, epsilon=2, persons=n, mechanism="sketch", rows=2**16)
    items_ = np.where(np.arange(n) < 0.6 * n, 2**49 + 7, np.arange(n))
    oracle = item_oracle(tally_many(round_, items_, epsilon=2, noise=SimulatedNoise(4)))
    sd = 1 / signal(2) / math.sqrt(n)
    assert abs(oracle(2**49 + 7) - 0.6) < 5.5 * sd
    assert all(abs(oracle(v)) < 5.5 * sd for v in (0, 12345, 2**50 - 1))
    with pytest.raises(ArgumentError):
        item_oracle(
            tally_many(items_round(9, epsilon=1, persons=9, mechanism="subset"), [1], epsilon=1)
        )
