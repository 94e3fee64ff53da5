"""The promise itself: exact laws of the integers that are really compared, and an audit."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from privmean.local.clients import randomizers
from privmean.local.clients.randomizers import (
    RANDOMIZERS,
    bit_threshold,
    grid_point,
    window,
)
from privmean.local.exact_coins import WORD, SimulatedEntropy, flip_threshold
from privmean.local.round_builders import ball_round, items_round, mean_round
from privmean.local.vectorized import randomize_many
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import epsilon_lower_bound

GRID = [Fraction(1, 1000), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4), Fraction(16)]
POINTS = [-1.0, -0.7, -1e-300, 0.0, 1e-17, 0.3, 1.0]


def power(epsilon: Fraction) -> mpmath.mpf:
    return mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)


def within(ratio: Fraction, epsilon: Fraction) -> bool:
    with mpmath.workdps(80):
        return mpmath.mpf(ratio.numerator) / ratio.denominator <= power(epsilon)


class Script:
    """Entropy that hands out the given words."""

    secure = False

    def __init__(self, *words):
        self.words = list(words)

    def word(self):
        return self.words.pop(0)

    def bytes(self, size):
        return bytes(size)


@pytest.mark.parametrize("epsilon", GRID)
def test_one_bit_exact(epsilon):
    chances = [Fraction(bit_threshold(epsilon, x), WORD) for x in POINTS]
    for p, q in itertools.product(chances, chances):
        assert within(p / q, epsilon)
        assert within((1 - p) / (1 - q), epsilon)
    # the twin that forgets the clamp and rounds the other way breaks the promise at the ends
    loose = Fraction(flip_threshold(epsilon) - 1, WORD)
    assert not within((1 - loose) / loose, epsilon)


@pytest.mark.parametrize("epsilon", GRID)
def test_piecewise_exact(epsilon):
    law = window(epsilon)
    inside = Fraction(law.threshold, law.width + 1)
    outside = Fraction(WORD - law.threshold, law.outside)
    assert within(inside / outside, epsilon)
    assert inside >= outside
    for x in POINTS:
        for word in (0, WORD - 1):
            start = grid_point((x + 1) / 2 * law.outside, word) - law.size
            assert -law.size <= start
            assert start + law.width <= law.size


def law_of(epsilon: Fraction, items: int, value: int | None):
    """The exact law of a subset report as {bits: probability}."""
    law: dict[tuple[int, ...], Fraction] = {}
    if value is None:
        parts = [law_of(epsilon, items, v) for v in range(items)]
        for part in parts:
            for key, p in part.items():
                law[key] = law.get(key, Fraction(0)) + p / items
        return law
    size = randomizers.subset_size(epsilon, items)
    p = Fraction(randomizers.subset_threshold(epsilon, items), WORD)
    for chosen in itertools.combinations(range(items), size):
        bits = tuple(int(k in chosen) for k in range(items))
        with_own = value in chosen
        ways = math.comb(items - 1, size - 1) if with_own else math.comb(items - 1, size)
        law[bits] = (p if with_own else 1 - p) / ways
    return law


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(3)])
def test_bit_vectors_exact(epsilon):
    laws = [law_of(epsilon, 4, value) for value in (0, 1, 3, None)]
    worst = Fraction(0)
    for p, q in itertools.product(laws, laws):
        assert sum(p.values()) == 1
        assert p.keys() == q.keys()
        worst = max(worst, *(p[key] / q[key] for key in p))
    assert within(worst, epsilon)
    assert not within(worst, epsilon * Fraction(99, 100))


def test_clients_follow_the_enumerated_law():
    round_ = items_round(4, epsilon=1, persons=10, mechanism="subset")
    entropy = SimulatedEntropy(3)
    for value in (1, None):
        law = law_of(Fraction(1), 4, value)
        seen: dict[tuple[int, ...], int] = {}
        draws = 20_000
        for _ in range(draws):
            byte = RANDOMIZERS["subset"](round_, 0, value, bytes(16), entropy)[0]
            bits = tuple((byte >> k) & 1 for k in range(4))
            seen[bits] = seen.get(bits, 0) + 1
        from scipy import stats

        keys = sorted(law)
        expected = np.array([float(law[key]) for key in keys]) * draws
        assert set(seen) <= set(keys)
        got = [seen.get(key, 0) for key in keys]
        assert stats.chisquare(got, expected).pvalue > 1e-6


@pytest.mark.parametrize("mechanism", ["hadamard", "sketch"])
def test_row_bits_exact(mechanism):
    round_ = items_round(50, epsilon=1, persons=100, mechanism=mechanism)
    flip = flip_threshold(Fraction(1))
    rng = np.random.default_rng(0)
    for nonce in (rng.bytes(16) for _ in range(30)):
        for value in (0, 17, 49):
            low, last, first, high = (
                randomizers.row_bit(round_, 0, value, nonce, Script(word))
                for word in (0, flip - 1, flip, WORD - 1)
            )
            assert low == last != first == high
        null = [
            randomizers.row_bit(round_, 0, math.nan, nonce, Script(word))
            for word in (0, WORD // 2 - 1, WORD // 2, WORD - 1)
        ]
        assert null == [b"\x01", b"\x01", b"\x00", b"\x00"]


@pytest.mark.parametrize("dimension", [1, 2, 3, 100])
def test_ball_reports_are_a_sign_behind_one_exact_coin(dimension):
    """Given the direction and the pole, the report is +-(the same bytes), by the coin alone."""
    round_ = ball_round(1, dimension, epsilon=1, persons=10, mechanism="ball-bit")
    flip = flip_threshold(Fraction(1))
    rng = np.random.default_rng(dimension)
    randomizer = RANDOMIZERS["ball-bit"]
    for _ in range(10):
        nonce = rng.bytes(16)
        values = [rng.normal(size=dimension), np.zeros(dimension), [1e200] * dimension, None]
        reports = set()
        for value in values:
            for pole in (0, WORD - 1):
                low, last, first, high = (
                    randomizer(round_, 0, value, nonce, Script(pole, word))
                    for word in (0, flip - 1, flip, WORD - 1)
                )
                assert low == last != first == high
                reports |= {low, high}
        assert len(reports) == 2  # no value can produce other bytes


def test_public_words_do_not_depend_on_the_value():
    round_ = ball_round(1, 5, epsilon=1, persons=10)
    assert len(randomizers.public_words(round_, bytes(16))) == 8 * 6


AUDIT = {
    "one-bit": (-1.0, 1.0, lambda b: b.payload[:, 0] == 1),
    "piecewise": (-1.0, 1.0, lambda b: b.payload.view("<i4")[:, 0] > 18_000),
    "hybrid": (-1.0, 1.0, lambda b: b.payload.view("<i4")[:, 0] > 0),
    "subset": (0, 1, lambda b: b.payload[:, 0] & 3 == 1),
}


def audit(mechanism: str, epsilon: float, draws: int = 40_000) -> float:
    first, second, event = AUDIT[mechanism]
    if mechanism == "subset":
        round_ = items_round(6, epsilon=epsilon, persons=draws, mechanism=mechanism)
    else:
        round_ = mean_round(-1, 1, epsilon=epsilon, persons=draws, mechanism=mechanism)
    noise = SimulatedNoise(7)
    hits = [
        int(event(randomize_many(round_, np.full(draws, v), epsilon=epsilon, noise=noise)).sum())
        for v in (first, second)
    ]
    return max(
        epsilon_lower_bound(hits[0], hits[1], draws),
        epsilon_lower_bound(hits[1], hits[0], draws),
    )


@pytest.mark.parametrize("mechanism", list(AUDIT))
def test_audit_stays_below_epsilon_and_catches_twice_as_much(mechanism):
    assert 0.3 < audit(mechanism, 1.0) <= 1.0
    assert audit(mechanism, 2.0) > 1.0  # a client that spends 2 and says 1 is caught
