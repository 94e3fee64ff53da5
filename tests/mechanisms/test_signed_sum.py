"""The signed sum of two public arms: what a replaced person moves, in exact fractions."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from privmean.data.group_pairs import PairSums
from privmean.errors import InfeasibleError
from privmean.mechanisms.signed_sum import SignedSum
from privmean.noise.simulated import SimulatedNoise
from statistics_kit import assert_mean, assert_variance


def sums_of(values, steps):
    """Sums over persons with these z in quarters of the steps (None: no value)."""
    z = [steps * item // 4 for item in values if item is not None]
    return PairSums(len(z), sum(z), sum(item * item for item in z))


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (1, 3)])
@pytest.mark.parametrize("steps", [4, 2**19 + 4, 2**20])
def test_a_replaced_person_of_either_arm_moves_no_more_than_is_billed(sizes, steps):
    step = SignedSum("signed", Fraction(1, 2), steps, sizes)
    rest = [(1,) * (sizes[0] - 1), (-2,) * (sizes[1] - 1)]
    costs = []
    for arm in (0, 1):
        for one, two in itertools.product((None, *range(-4, 5)), repeat=2):
            tables = []
            for own in (one, two):
                arms = [(own, *rest[0]) if arm == 0 else (0, *rest[0]), rest[1]]
                arms[1] = (own, *rest[1]) if arm == 1 else (0, *rest[1])
                tables.append(step.exact([sums_of(item, steps) for item in arms]))
            (cost,) = step.sensitivity_share(*tables)
            (billed,) = step.events
            assert billed.pure == Fraction(1, 2)
            costs.append(cost)
    assert max(costs) <= 1
    assert max(costs) > 1 - Fraction(1, 10**9)  # attained, but for what is kept for rounding
    if sizes[0] != sizes[1]:  # a scale for the smaller arm would be too little
        wrong = replace(step, sizes=(min(sizes), min(sizes)))
        small = sizes.index(1)
        one, two = (
            step.exact([sums_of((own,) if arm == small else (0,), steps) for arm in (0, 1)])
            for own in (4, -4)
        )
        assert wrong.sensitivity_share(one, two)[0] > 1


def test_the_noise_of_the_difference_is_that_of_the_smaller_arm():
    step = SignedSum("signed", Fraction(2), 2**20 - 3, (40, 160))
    exact = step.exact([PairSums(30, 5 * 2**20, 2**41), PairSums(160, -(2**24), 2**42)])
    drawn = np.array([step.draw(exact, SimulatedNoise(i)) for i in range(4000)])
    unit = 2**20 - 3
    truth = 5 * 2**20 / unit / 40 + 2**24 / unit / 160
    assert_mean(drawn[:, 0], truth)
    assert_variance(drawn[:, 0], 2 * (2 / (2 * 40)) ** 2, kurtosis=6)
    for j, known in ((1, 2**41 / unit**2), (2, 30), (3, 2**42 / unit**2), (4, 160)):
        assert_mean(drawn[:, j], known)
        assert_variance(drawn[:, j], 2 * (4 / 2) ** 2, kurtosis=6)


def test_too_small_an_epsilon_is_refused():
    with pytest.raises(InfeasibleError):
        SignedSum("signed", Fraction(1, 2**52), 8, (1, 1))
