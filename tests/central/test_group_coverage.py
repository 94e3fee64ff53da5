"""Coverage where groups share persons in the worst way, or spread more than the others."""

from __future__ import annotations

import numpy as np
import pytest

from kit import assert_rate_at_least, assert_rate_at_most
from privmean.central.groups.estimator import GroupMeans
from privmean.noise.simulated import SimulatedNoise
from privmean.people.pairmatrix import MatrixPairs
from privmean.people.pairs import Weights
from privmean.people.shape import Shape
from privmean.privacy.budget import ADD_REMOVE, Budget

DRAWS = 300


def plan_for(pairs, epsilon, target=None):
    budget = Budget(epsilon=epsilon, neighbors=ADD_REMOVE)
    return GroupMeans(pairs.keys, pairs.weights, target).plan(budget, Shape(pairs.columns))


def test_differences_of_shares_of_a_fixed_total_are_covered():
    """What a person has more of one it has less of the other: within-person correlation -1."""
    rng = np.random.default_rng(11)
    persons, held, apart = 800, 0, 0
    who, place = np.repeat(np.arange(persons), 2), np.tile([0, 1], persons)
    for i in range(DRAWS):
        share = 0.6 + 0.1 * rng.standard_normal(persons)
        value = np.stack([share, 1 - share], axis=1).ravel()
        pairs = MatrixPairs.of(who, place, value, ["a", "b"], Weights(2, True))
        table = plan_for(pairs, 8.0, "clipped").release(pairs, SimulatedNoise(i)).intervals
        difference = np.array([1.0, -1.0])
        line = table.line(difference, 0.95, clipped=True)
        held += line.lower <= 0.2 <= line.upper
        line = table.line(difference, 0.95, clipped=True, independent=True)
        apart += line.lower <= 0.2 <= line.upper
    assert_rate_at_least(held, DRAWS, 0.93)
    assert_rate_at_most(apart, DRAWS, 0.92)  # what the rule is for


@pytest.mark.parametrize("size", [60, 300])
def test_a_group_of_twice_the_usual_spread_is_covered(size):
    rng = np.random.default_rng(size)
    sizes = [size, 1000, 1000, 1000]
    place = np.repeat(np.arange(4), sizes)
    held = said = 0
    for i in range(DRAWS):
        value = rng.standard_normal(len(place)) * np.where(place == 0, 2.0, 1.0)
        pairs = MatrixPairs.of(np.arange(len(place)), place, value, list("abcd"), Weights())
        found = plan_for(pairs, 1.0).release(pairs, SimulatedNoise(i))
        line = found.intervals.row(0, 0.95)
        said += line.status not in ("too few persons", "tail too thick", "failed")
        held += line.lower <= 0.0 <= line.upper
    assert said >= 0.95 * DRAWS
    assert_rate_at_least(held, said, 0.93)


def test_weights_of_a_group_are_never_taken_to_be_those_of_all():
    """Persons who are in no other group weigh 1 there; over all pairs the sum of squared weights is
    a third of the sum of weights, which would cover that row in .75 of the tables."""
    rng = np.random.default_rng(2)
    alone, many, held, short = 600, 600, 0, 0
    who = np.concatenate([np.arange(alone), alone + np.repeat(np.arange(many), 8)])
    place = np.concatenate([np.zeros(alone, dtype=int), np.tile(np.arange(1, 9), many)])
    for i in range(DRAWS):
        value = rng.standard_normal(len(who))
        pairs = MatrixPairs.of(who, place, value, list("abcdefghi"), Weights(2, True))
        table = plan_for(pairs, 16.0, "clipped").release(pairs, SimulatedNoise(i)).intervals
        line = table.row(0, 0.95, clipped=True)
        held += line.lower <= 0.0 <= line.upper
        w = pairs.weight / pairs.weights.parts
        half = 1.96 * np.sqrt((w @ w) / w.sum() / alone)
        short += abs(line.estimate) <= half
    assert_rate_at_least(held, DRAWS, 0.93)
    assert_rate_at_most(short, DRAWS, 0.9)  # what the rule is for
