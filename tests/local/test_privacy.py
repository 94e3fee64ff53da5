"""The promise itself: exact laws of the integers that are really compared, and an audit."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np
import pytest

from privmean.auditing.audit_local import (
    NONCES,
    RANDOMIZED,
    largest_ratio,
    law_of,
    share_of,
)
from privmean.local.clients.randomizers import (
    RANDOMIZERS,
    grid_point,
    public_words,
    takes_piecewise,
    window,
)
from privmean.local.exact_coins import WORD
from privmean.local.round_builders import ball_round, items_round, mean_round
from privmean.local.vectorized import randomize_many
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import epsilon_lower_bound

GRID = [Fraction(1, 1000), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4), Fraction(16)]
POINTS = [-1.0, -0.7, -1e-300, 0.0, 1e-17, 0.3, 1.0]
# of reports on one of thousands of numbers the law is not enumerated: test_piecewise_exact
CASES = {item.name: (item.make, item.inputs) for item in RANDOMIZED if not item.many} | {
    f"ball-bit, {size} columns": (
        partial(ball_round, 1.0, size, persons=10, seed=bytes(32), mechanism="ball-bit"),
        ([3.0] * size, [-3.0] * size, [0.0] * size, [1e200] * size, None),
    )
    for size in (1, 3, 100)
}


@pytest.mark.parametrize("epsilon", GRID)
@pytest.mark.parametrize("name", CASES)
def test_the_exact_law_of_all_inputs(name, epsilon):
    """No two inputs are told apart by more than epsilon, and some by all of it."""
    make, inputs = CASES[name]
    round_ = make(epsilon=epsilon)
    largest = Fraction(0)
    bits = [x for x in NONCES if round_.mechanism != "hybrid" or not takes_piecewise(round_, 0, x)]
    for nonce in bits[:16]:
        laws = [law_of(RANDOMIZERS[round_.mechanism], round_, value, nonce) for value in inputs]
        assert all(sum(law.values()) == 1 for law in laws)
        shares = [share_of(largest_ratio(*pair), epsilon) for pair in combinations(laws, 2)]
        assert max(shares) <= 1
        largest = max(largest, *shares)
    if bits and name != "sketch":  # which has so few rows here that their signs may be equal
        assert largest > 0.999


@pytest.mark.parametrize("epsilon", GRID)
def test_piecewise_exact(epsilon):
    law = window(epsilon)
    inside = Fraction(law.threshold, law.width + 1)
    outside = Fraction(WORD - law.threshold, law.outside)
    assert 0 <= share_of(inside / outside, epsilon) <= 1
    for x in POINTS:
        for word in (0, WORD - 1):
            start = grid_point((x + 1) / 2 * law.outside, word) - law.size
            assert -law.size <= start
            assert start + law.width <= law.size


def test_public_words_do_not_depend_on_the_value():
    round_ = ball_round(1, 5, epsilon=1, persons=10)
    assert len(public_words(round_, bytes(16))) == 8 * 6


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
