"""Coverage where groups share persons in the worst way, or spread more than the others."""

import numpy as np
import pytest
from scipy import stats

from estimators.made_groups import plan_for, released
from privmean.data.group_pairs import ArrayPairTable, GroupWeights
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import assert_rate_at_least, assert_rate_at_most, combined

DRAWS = 300


@pytest.mark.slow
def test_differences_of_shares_of_a_fixed_total_are_covered():
    """What a person has more of one it has less of the other: within-person correlation -1."""
    rng = np.random.default_rng(11)
    persons, held, apart = 800, 0, 0
    who, place = np.repeat(np.arange(persons), 2), np.tile([0, 1], persons)
    for i in range(DRAWS):
        share = 0.6 + 0.1 * rng.standard_normal(persons)
        value = np.stack([share, 1 - share], axis=1).ravel()
        pairs = ArrayPairTable.of(who, place, value, ["a", "b"], GroupWeights(2, True))
        table = plan_for(pairs, 8.0, target="clipped").release(pairs, SimulatedNoise(i)).intervals
        difference = np.array([1.0, -1.0])
        line = combined(table, difference, 0.95, clipped=True)
        held += line.lower <= 0.2 <= line.upper
        line = combined(table, difference, 0.95, clipped=True, independent=True)
        apart += line.lower <= 0.2 <= line.upper
    assert_rate_at_least(held, DRAWS, 0.93)
    assert_rate_at_most(apart, DRAWS, 0.92)  # what the rule is for


@pytest.mark.slow
@pytest.mark.parametrize("size", [60, 300])
def test_a_group_of_twice_the_usual_spread_is_covered(size):
    rng = np.random.default_rng(size)
    sizes = [size, 1000, 1000, 1000]
    place = np.repeat(np.arange(4), sizes)
    held = said = 0
    for i in range(DRAWS):
        value = rng.standard_normal(len(place)) * np.where(place == 0, 2.0, 1.0)
        line = released(place, value, i).rows(0.95)[0]
        said += line.status not in ("suppressed", "modified_target", "failed")
        held += line.lower <= 0.0 <= line.upper
    assert said >= 0.95 * DRAWS
    assert_rate_at_least(held, said, 0.93)


@pytest.mark.slow
def test_weights_of_a_group_are_never_taken_to_be_those_of_all():
    """Persons who are in no other group weigh 1 there; over all pairs the sum of squared weights is
    a third of the sum of weights, which would cover that row in .75 of the tables."""
    rng = np.random.default_rng(2)
    alone, many, held, short = 600, 600, 0, 0
    who = np.concatenate([np.arange(alone), alone + np.repeat(np.arange(many), 8)])
    place = np.concatenate([np.zeros(alone, dtype=int), np.tile(np.arange(1, 9), many)])
    for i in range(DRAWS):
        value = rng.standard_normal(len(who))
        pairs = ArrayPairTable.of(who, place, value, list("abcdefghi"), GroupWeights(2, True))
        table = plan_for(pairs, 16.0, target="clipped").release(pairs, SimulatedNoise(i)).intervals
        line = table.rows(0.95, clipped=True)[0]
        held += line.lower <= 0.0 <= line.upper
        w = pairs.weight / pairs.weights.parts
        half = 1.96 * np.sqrt((w @ w) / w.sum() / alone)
        short += abs(line.estimate) <= half
    assert_rate_at_least(held, DRAWS, 0.93)
    assert_rate_at_most(short, DRAWS, 0.9)  # what the rule is for


def seeded_tables(law, runs, epsilon=2.0):
    """Tables of releases at fixed seeds. law: groups and values of their persons."""
    for seed in range(runs):
        yield released(*law(np.random.default_rng(seed)), seed, epsilon)


def test_allowances_hold_what_is_cut_off_a_small_group_beside_a_dominant_one():
    def law(rng):
        group = rng.choice(3, 3000, p=[0.95, 0.02, 0.03])
        return group, rng.normal(1.5 * group, 1.0)

    held = []
    for table in seeded_tables(law, 20):
        apart = table.upper[2] - 3.0  # its values are normal about 3
        cut = stats.norm.pdf(apart) - apart * stats.norm.sf(apart)
        held.append(table.above[2] + table.corrected[2] >= cut or table.open_above[2])
    assert np.mean(held) > 0.7, held
