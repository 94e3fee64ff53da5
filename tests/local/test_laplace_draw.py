"""The client's Laplace noise: exact thresholds, exact privacy, and the same work for all sizes."""

from __future__ import annotations

import decimal
import struct
from fractions import Fraction

import numpy as np
import pytest

from privmean.local import mean_round, randomize
from privmean.local.aggregators.report_validation import laplace_limit
from privmean.local.clients import laplace_draw as laplace
from privmean.local.clients.laplace_draw import BITS, GUARD, magnitude, noise_law, noisy
from privmean.local.clients.scalar_randomizers import laplace_scale
from privmean.local.entropy import SimulatedEntropy
from privmean.local.exact_coins import power_of_e
from statistics_kit import assert_mean

EPSILONS = [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(3), Fraction(16)]
STEPS = 4


def thresholds(law):
    """How many of the 2^256 numbers give a magnitude of at least j, for every j."""
    digits = len(law.powers)
    result = [1 << BITS]
    for j in range(1, 1 << digits):
        product = law.first
        for digit, power in zip(format(j, f"0{digits}b"), law.powers, strict=True):
            product = product * power >> GUARD if digit == "1" else product
        result.append(min(1 << BITS, -(-product >> (GUARD - BITS))))
    return result


def report_law(law, point):
    """Probabilities of all clamped reports of a grid point, exactly."""
    counts = [*thresholds(law), 0]
    result: dict[int, Fraction] = {}
    for size in range(len(counts) - 1):
        chance = Fraction(counts[size] - counts[size + 1], 1 << BITS)
        for sign in (1, -1):
            y = min(max(point + sign * size, -law.limit), law.limit)
            result[y] = result.get(y, Fraction(0)) + chance / 2
    return result


def log_ratio(first, second):
    ratio = max(first[y] / second[y] for y in first)
    with decimal.localcontext() as context:
        context.prec = 120
        return (decimal.Decimal(ratio.numerator) / decimal.Decimal(ratio.denominator)).ln()


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_every_report_of_every_pair_of_grid_points(epsilon):
    law = noise_law(Fraction(2 * STEPS) / epsilon, STEPS)
    laws = [report_law(law, point) for point in (-STEPS, -1, 0, STEPS)]
    limit = power_of_e(epsilon).ln()
    for first in laws:
        assert sum(first.values()) == 1
        assert all(chance > 0 for chance in first.values())
        for second in laws:
            assert first.keys() == second.keys()  # nothing only one of them can send
            assert log_ratio(first, second) <= limit
    assert log_ratio(laws[0], laws[-1]) > limit * (1 - decimal.Decimal(2) ** -60)


def test_without_the_shaved_epsilon_the_promise_would_not_be_kept(monkeypatch):
    monkeypatch.setattr(laplace, "SHAVED", Fraction(2**64 + 1, 2**64))
    law = noise_law.__wrapped__(Fraction(2 * STEPS), STEPS)
    first, second = report_law(law, -STEPS), report_law(law, STEPS)
    assert log_ratio(first, second) > 1


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), *EPSILONS])
def test_the_search_finds_the_threshold(epsilon):
    law = noise_law(Fraction(2 * STEPS) / epsilon, STEPS)
    digits = len(law.powers)
    dice = np.random.default_rng(1)
    for j in dice.integers(1, 1 << digits, 40).tolist():
        product = law.first
        for digit, power in zip(format(j, f"0{digits}b"), law.powers, strict=True):
            product = product * power >> GUARD if digit == "1" else product
        edge = -(-product >> (GUARD - BITS))
        if 0 < edge < 1 << BITS:
            assert magnitude(law, edge - 1) >= j
            assert magnitude(law, edge) < j
    assert magnitude(law, 0) == (1 << digits) - 1
    assert magnitude(law, (1 << BITS) - 1) == 0


def test_law_and_a_wrong_twin():
    scale = Fraction(16)
    law, entropy = noise_law(scale, 8), SimulatedEntropy(5)
    draws = np.array([noisy(law, 3, entropy) for _ in range(20_000)]) - 3
    q = float(np.exp(-1 / 16))
    for j in (0, 1, -1, 20):
        assert_mean((draws == j).astype(float), (1 - q) / (1 + q) * q ** abs(j), slack=1e-9)
    assert_mean(draws, 0.0)
    assert_mean(draws.astype(float) ** 2, 2 * q / (1 - q) ** 2)
    with pytest.raises(AssertionError):
        assert_mean(draws.astype(float) ** 2, 2 * 15.0**2)


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(16)])
@pytest.mark.parametrize("grid_bits", [4, 12, 20])
def test_every_draw_does_the_same_steps_and_fits_the_report(epsilon, grid_bits):
    round_ = mean_round(
        -1, 1, epsilon=epsilon, persons=100, mechanism="laplace", grid_bits=grid_bits
    )
    law = noise_law(laplace_scale(round_, epsilon), 2**grid_bits)
    taken = []

    class Counted(SimulatedEntropy):
        def bytes(self, size):
            taken.append(size)
            return super().bytes(size)

        def word(self):
            taken.append(8)
            return super().word()

    words = set()
    for seed in range(20):
        taken.clear()
        y = noisy(law, -(2**grid_bits), Counted(seed))
        words.add(tuple(taken))
        assert abs(y) <= law.limit < 2**31
        struct.pack("<i", y)
    assert words == {(32, 8)}  # the same entropy whatever comes out
    report = randomize(round_, 1.0, epsilon=epsilon, entropy=SimulatedEntropy(1))
    assert abs(struct.unpack("<i", report[42:46])[0]) <= max(law.limit, laplace_limit(round_, 0))
