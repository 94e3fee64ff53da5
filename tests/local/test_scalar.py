"""Means of numbers: variances by the table, unbiased reports, weights, radii, poisoning."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.scalar_law import (
    scalar_law,
    window_variance,
)
from privmean.local.aggregators.tally import Tally, int32_of, piecewise_branch, tally
from privmean.local.clients.randomizers import RANDOMIZERS, window
from privmean.local.exact_coins import signal
from privmean.local.round_builders import mean_round
from privmean.local.vectorized import randomize_many, scalar_payload, tally_many
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import Z, assert_mean, assert_rate_at_most

SCALARS = ["one-bit", "piecewise", "hybrid"]


def report_values(batch):
    """The unbiased value in [-1, 1] units that each single report stands for."""
    units = np.array([scalar_law(batch.round, k).units for k in range(len(batch.round.menu))])
    branch = np.zeros(len(batch), dtype=np.int64)
    if batch.round.mechanism == "hybrid":
        branch[:] = piecewise_branch(batch.round, batch.nonces, batch.levels)
    if batch.round.mechanism == "one-bit":
        return (2.0 * batch.payload[:, -1] - 1.0) * units[batch.levels, branch]
    return int32_of(batch) * units[batch.levels, branch]


def a_round(mechanism, epsilon, lower=-1.0, upper=1.0, persons=10_000, **options):
    return mean_round(
        lower, upper, epsilon=epsilon, persons=persons, mechanism=mechanism, **options
    )


@pytest.mark.parametrize("x", [-1.0, -0.3, 0.0, 0.7123, 1.0])
def test_piecewise_moments_by_enumeration(x):
    """E and Var of the integer law itself, not of the formula."""
    law = window(Fraction(2))
    y = np.arange(-law.size, law.size + 1)
    position = (x + 1) / 2 * law.outside
    low = math.floor(position)
    mean = square = 0.0
    for start, part in ((low, 1 - (position - low)), (low + 1, position - low)):
        if part == 0:
            continue
        inside = (y >= start - law.size) & (y <= start - law.size + law.width)
        p = np.where(inside, law.chance / (law.width + 1), (1 - law.chance) / law.outside)
        assert p.sum() == pytest.approx(1, rel=1e-12)
        mean += part * float(p @ y)
        square += part * float(p @ (y.astype(float) ** 2))
    assert mean * law.unit == pytest.approx(x, abs=1e-11)
    variance = (square - mean**2) * law.unit**2
    assert variance == pytest.approx(window_variance(law, x), rel=1e-9)


@pytest.mark.parametrize("mechanism", SCALARS)
@pytest.mark.parametrize("epsilon", [0.001, 0.5, 2, 16])
def test_reports_are_unbiased_inside_at_and_beyond_the_bounds(mechanism, epsilon):
    round_ = a_round(mechanism, epsilon, -2.0, 6.0)
    noise = SimulatedNoise(11)
    for value, meant in ((2.0, 0.0), (3.1, 0.275), (6.0, 1.0), (99.0, 1.0), (-math.inf, -1.0)):
        batch = randomize_many(round_, np.full(20_000, value), epsilon=epsilon, noise=noise)
        samples = report_values(batch)
        assert_mean(samples, meant, slack=1e-6)  # at epsilon 16 a flip is too rare to be seen
        law = scalar_law(round_, 0)
        limit = law.variance * (1 + Z * math.sqrt(12 / 20_000))
        assert samples.var() <= limit  # the law's variance is an upper bound
        assert abs(samples).max() <= law.reach * (1 + 1e-12)


@pytest.mark.parametrize("mechanism", SCALARS)
def test_missing_values_send_a_report_on_the_middle(mechanism):
    round_ = a_round(mechanism, 2, 0.0, 10.0)
    batch = randomize_many(round_, np.full(20_000, math.nan), epsilon=2, noise=SimulatedNoise(3))
    assert_mean(report_values(batch), 0.0)


class Words:
    """Hands out the given words, one by one or as an array."""

    secure = False

    def __init__(self, words):
        self.words = words.tolist()

    def word(self):
        return self.words.pop(0)

    def bits64(self, size):
        return np.array([self.word() for _ in range(size)], dtype=np.uint64)


@pytest.mark.parametrize("mechanism", SCALARS)
def test_scalar_and_vector_clients_agree_word_by_word(mechanism):
    round_ = a_round(mechanism, [0.5, 3], -1.0, 3.0)
    rng = np.random.default_rng(5)
    for value in (*rng.uniform(-2, 4, 96), math.nan, math.inf, -1.0, 3.0):
        level = int(rng.integers(0, 2))
        nonces, words = (rng.integers(0, 2**64, (1, n), dtype=np.uint64) for n in (2, 3))
        levels = np.array([level], dtype=np.uint16)
        many = scalar_payload(round_, np.array([value]), levels, nonces, Words(words[0]))
        alone = RANDOMIZERS[mechanism](
            round_, level, float(value), nonces.tobytes(), Words(words[0])
        )
        assert alone == many.tobytes()


def test_bounds_are_an_affine_map():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 4000)
    first = a_round("one-bit", 1, seed=bytes(32))
    second = a_round("one-bit", 1, 10.0, 14.0, seed=bytes(32))
    one = tally_many(first, x, epsilon=1, noise=SimulatedNoise(1))
    two = tally_many(second, 12 + 2 * x, epsilon=1, noise=SimulatedNoise(1))
    assert (one.sums == two.sums).all()
    a, b = estimate(one), estimate(two)
    assert float(b) == pytest.approx(12 + 2 * float(a))
    assert b.radius == pytest.approx(2 * a.radius)
    assert b.largest_influence == pytest.approx(2 * a.largest_influence)


def test_the_fallback_is_the_middle_and_its_radius():
    round_ = a_round("one-bit", 0.1, 0.0, 10.0)
    answer = estimate(tally_many(round_, [9.0] * 50, epsilon=0.1, noise=SimulatedNoise(0)))
    assert answer.trivial
    assert (float(answer), answer.radius) == (5.0, 5.0)
    empty = estimate(Tally.empty(round_))
    assert (float(empty), empty.radius, empty.reports) == (5.0, 5.0, 0)
    assert empty.effective == 0
    assert "Too few reports" in empty.summary()
    alone = estimate(tally_many(a_round("one-bit", 16), [1.0], epsilon=16, noise=SimulatedNoise(0)))
    assert (alone.reports, alone.trivial) == (1, True)


def test_influence_is_attained_and_never_exceeded():
    round_ = a_round("one-bit", [0.5, 4])
    rng = np.random.default_rng(1)
    own = rng.choice([0.5, 4.0], 300)
    base = randomize_many(round_, rng.uniform(-1, 1, 300), epsilon=own, noise=SimulatedNoise(2))
    before = estimate(tally(base))
    moves = []
    for k in range(300):
        payload = base.payload.copy()
        payload[k] ^= 1
        changed = type(base)(round_, base.nonces, base.levels, payload)
        moves.append(abs(float(estimate(tally(changed)).raw[0] - before.raw[0])))
    assert max(moves) == pytest.approx(before.largest_influence, rel=1e-9)
    assert before.poisoning(10) == pytest.approx(10 * before.largest_influence)


def test_poisoning_by_claimed_levels_and_the_cap():
    """10 000 honest at .5, 100 attackers: claiming 4 buys weight, a cap takes it back."""
    low, high = signal(0.5), signal(4)
    round_ = a_round("one-bit", [0.5, 4], persons=10_100)
    tally_ = Tally.empty(round_)
    tally_.counts[:] = [10_000, 100]
    tally_.sums[:, 0] = [0, 100]
    weighted = estimate(tally_, weights="minimax")
    assert float(weighted.raw[0]) == pytest.approx(100 * high / (10_000 * low**2 + 100 * high**2))
    assert float(estimate(tally_, weights="uniform").raw[0]) == pytest.approx(0.0103, abs=5e-5)
    assert float(estimate(tally_, epsilon_cap=0.5).raw[0]) == pytest.approx(0.0103, abs=5e-5)


def test_many_coordinates_are_answered_one_a_client():
    rng = np.random.default_rng(2)
    n = 30_000
    values = rng.uniform(-1, 1, (n, 3)) * [0.1, 1, 1] + [0.5, 0, -0.2]
    round_ = mean_round([0, -1, -2], [1, 1, 2], epsilon=2, persons=n)
    counted = tally_many(round_, values, epsilon=2, noise=SimulatedNoise(6))
    answer = estimate(counted)
    assert answer.value.shape == (3,)
    assert counted.reports == n
    truth = np.clip(values, [0, -1, -2], [1, 1, 2]).mean(axis=0)
    assert (abs(answer.raw - truth) <= 5 * answer.spread).all()
    assert answer.radii[2] == pytest.approx(2 * answer.radii[1], rel=0.05)


def test_a_seeded_client_is_marked_everywhere():
    round_ = a_round("one-bit", 1)
    counted = tally_many(round_, np.zeros(5000), epsilon=1, noise=SimulatedNoise(1))
    answer = estimate(counted)
    assert not answer.secure
    assert "SIMULATED" in answer.summary()
    assert answer.to_dict()["warning"]
    secure = tally_many(round_, np.zeros(50), epsilon=1)
    assert estimate(secure).secure
    assert not secure.merge(counted).secure


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", SCALARS)
def test_approximate_intervals_cover_their_targets(mechanism):
    """interval: the population; noise_interval: the mean of these very persons."""
    rng = np.random.default_rng(9)
    noise = SimulatedNoise(9)
    round_ = a_round(mechanism, [1, 4], 0.0, 10.0, persons=800)
    missed = missed_noise = 0
    for _ in range(120):
        x = rng.beta(2, 5, 800) * 10
        own = rng.choice([1.0, 4.0], 800)
        answer = estimate(tally_many(round_, x, epsilon=own, noise=noise))
        low, high = answer.interval(0.9).lower[0], answer.interval(0.9).upper[0]
        missed += not low <= 20 / 7 <= high
        inner = answer.noise_interval(0.9)
        w = np.where(own == 1.0, answer.levels[0].weight, answer.levels[1].weight)
        missed_noise += not inner.lower[0] <= w @ x <= inner.upper[0]
        assert high - low <= 2.000001 * answer.raw_radius
    assert_rate_at_most(missed, 120, 0.1)
    assert_rate_at_most(missed_noise, 120, 0.1)
    with pytest.raises(ValueError, match="level"):
        answer.interval(1.5)
