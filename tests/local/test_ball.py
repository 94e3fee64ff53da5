"""Means of vectors: constants, unbiased at every dimension, radii, the table of caps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privmean.local.aggregators import ball_law as ball
from privmean.local.aggregators.ball_law import cap_shrinkage, endless_shrinkage
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.round_law import Weighed
from privmean.local.aggregators.tally import directions_of, tally
from privmean.local.clients.client import randomize
from privmean.local.exact_coins import SimulatedEntropy, signal
from privmean.local.reports import decode
from privmean.local.round_builders import ball_round
from privmean.local.vectorized import randomize_many, tally_many
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import assert_mean


def values_of(batch):
    """The vector each report stands for, in units of the radius."""
    scale = np.array([ball.ball_law(batch.round, k).scale for k in range(len(batch.round.menu))])
    return directions_of(batch) * scale[batch.levels][:, None]


@pytest.mark.parametrize("dimension", [1, 2, 5, 50])
def test_reports_are_unbiased(dimension):
    round_ = ball_round(3.0, dimension, epsilon=1, persons=10, mechanism="ball-bit")
    rng = np.random.default_rng(dimension)
    u = rng.normal(size=dimension)
    u /= np.linalg.norm(u)
    n = 8000
    for norm in (0.0, 0.7 * 3, 30.0):
        x = np.tile(norm * u, (n, 1))
        batch = randomize_many(round_, x, epsilon=1, noise=SimulatedNoise(3))
        reports = values_of(batch)
        share = min(norm / 3, 1.0)
        assert_mean(reports @ u, share, slack=1e-6)
        assert np.linalg.norm(reports, axis=1) == pytest.approx(
            ball.ball_law(round_, 0).scale, rel=1e-5
        )
        if dimension > 1:
            side = np.roll(u, 1) - (np.roll(u, 1) @ u) * u
            side /= np.linalg.norm(side)
            assert_mean(reports @ side, 0.0, slack=1e-6)
            # the exact second moment in any direction is B^2/d
            b = ball.ball_law(round_, 0).scale
            assert_mean((reports @ side) ** 2, b * b / dimension, slack=1e-4)
        if norm == 0.7 * 3:  # the printed constant is twice as large: that twin must fail
            with pytest.raises(AssertionError):
                assert_mean(2 * (reports @ u), share, slack=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["ball-bit", "closest"])
def test_scalar_clients_are_unbiased_too(mechanism):
    round_ = ball_round(1.0, 3, epsilon=4, persons=10, mechanism=mechanism)
    entropy = SimulatedEntropy(9)
    reports = [
        decode(randomize(round_, [0.3, 0.0, -0.6], epsilon=4, entropy=entropy)) for _ in range(6000)
    ]
    from privmean.local.aggregators.aggregator import ReportValidator

    batch = ReportValidator(round_).parse(b"".join(item.to_bytes() for item in reports)).batch
    assert len(batch) == 6000
    for j, meant in enumerate((0.3, 0.0, -0.6)):
        assert_mean(values_of(batch)[:, j], meant, slack=1e-6)


def test_nobody_has_no_reports():
    round_ = ball_round(1, 3, epsilon=8, persons=10, mechanism="ball-bit")
    assert estimate(tally_many(round_, np.empty((0, 3)), epsilon=8)).radius == 1
    assert len(randomize_many(round_, np.empty((0, 3)), epsilon=8)) == 0


def test_tiny_huge_and_missing_vectors():
    round_ = ball_round(1e-3, 4, epsilon=8, persons=10, mechanism="ball-bit")
    cases = {
        (5e-324, 0, 0, 0): 0.0,
        (1e300, 1e300, 0, 0): 1.0,
        (math.inf, 0, 0, 0): 1.0,
        (math.nan, 0, 0, 0): 0.0,
        (0, 0, 0, 0): 0.0,
        (1e-3 * (1 + 1e-15), 0, 0, 0): 1.0,
    }
    for value, share in cases.items():
        x = np.tile(np.array(value, dtype=float), (8000, 1))
        reports = values_of(randomize_many(round_, x, epsilon=8, noise=SimulatedNoise(1)))
        u = np.array([1, 1, 0, 0]) / math.sqrt(2) if value[1] else np.array([1, 0, 0, 0])
        assert_mean(reports @ u, share, slack=1e-6)


@pytest.mark.parametrize(
    ("dimension", "first", "second"), [(2, 37.8, 82.6), (20, 99.7, 135.2), (80, 288.4, 290.5)]
)
def test_radius_constants(dimension, first, second):
    """S R^2 at beta .1 for both bounds; the smallest of all is used."""
    round_ = ball_round(1, dimension, epsilon=1, persons=300, beta=0.1, mechanism="ball-bit")
    limit, limit2 = math.log(10), math.log(20)
    k = ball.kappa(dimension)
    r1 = (1 + k) * ball.norm_factor(dimension, limit)
    r2 = (math.sqrt(k * ball.norm_factor(dimension, limit2)) + 1 + math.sqrt(2 * limit2)) ** 2
    assert r1 == pytest.approx(first, abs=0.06)
    assert r2 == pytest.approx(second, abs=0.06)
    n = 10_000_000.0
    s = n * signal(1) ** 2
    assert ball.hemisphere_radius(dimension, 1 / s, 0.1) ** 2 * s == pytest.approx(min(r1, r2))
    law = ball.BallRound(round_, [0])
    for number in (n, 300.0):
        some = np.array([number])
        got = law.radius(Weighed(0, some, 1 / some, np.zeros(dimension)), 0.1) ** 2
        assert got * number * signal(1) ** 2 <= min(r1, r2) * (1 + 2e-3)


@pytest.mark.parametrize(
    ("dimension", "hemisphere", "cap"),
    [
        (10, (69.97, 25.76, 16.08, 14.96), (60.73, 15.90, 4.674, 1.842)),
        (100, (731.9, 269.5, 168.2, 156.5), (630.3, 161.4, 43.82, 13.73)),
        (1000, (7352, 2707, 1689, 1572), (6327, 1616, 435.6, 133.3)),
    ],
)
def test_second_moments_by_the_table(dimension, hemisphere, cap):
    for epsilon, first, second in zip((1, 2, 4, 8), hemisphere, cap, strict=True):
        assert 1 / cap_shrinkage(epsilon, 0.0, dimension) ** 2 == pytest.approx(first, rel=5e-4)
        assert 1 / endless_shrinkage(epsilon, dimension) ** 2 == pytest.approx(second, rel=5e-4)


def test_weights_and_projection():
    round_ = ball_round(1.0, 5, epsilon=[0.5, 4], persons=4000, mechanism="ball-bit")
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    own = rng.choice([0.5, 4.0], 4000)
    answer = estimate(tally_many(round_, x, epsilon=own, noise=SimulatedNoise(2)))
    weights = [item.weight for item in answer.levels]
    assert weights[1] / weights[0] == pytest.approx((signal(4) / signal(0.5)) ** 2)
    total = sum(item.weight * item.reports for item in answer.levels)
    assert total == pytest.approx(1)
    assert np.linalg.norm(answer.value) <= 1 + 1e-12
    assert answer.norm == "l2"
    single = tally(randomize_many(round_, x[:1], epsilon=4.0, noise=SimulatedNoise(3)))
    assert estimate(single).trivial
