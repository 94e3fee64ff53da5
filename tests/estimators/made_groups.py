"""Pairs of people and groups from arrays, and plans of their means."""

import numpy as np

from privmean.data.group_pairs import ArrayPairTable, GroupWeights
from privmean.data.schema import PublicShape
from privmean.estimators.groups.group_means import GroupMeans
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget

ONE = GroupWeights()


def pairs_of(persons=3000, groups=4, seed=2, weights=ONE, spread=0.0, most=1, start=0):
    """People in up to `most` groups, whose means differ by `spread` from `start` on."""
    rng = np.random.default_rng(seed)
    who, place = [], []
    for u in range(persons):
        mine = rng.choice(groups, rng.integers(1, most + 1), replace=False)
        who += [u] * len(mine)
        place += mine.tolist()
    value = start + spread * np.array(place) + rng.standard_normal(len(place))
    keys = [chr(97 + g) for g in range(groups)]
    return ArrayPairTable.of(np.array(who), np.array(place), value, keys, weights)


def one_group_each(place, value):
    """Each person in one group, which the place of a letter names."""
    keys = [chr(97 + g) for g in range(int(place.max()) + 1)]
    return ArrayPairTable.of(np.arange(len(place)), place, value, keys, GroupWeights())


def plan_for(pairs, epsilon=2.0, relation=ADD_REMOVE, *, rho=None, delta=0.0, **said):
    persons = pairs.size() if relation == REPLACE_ONE else None
    money = {"epsilon": epsilon, "delta": delta} if rho is None else {"rho": rho}
    budget = Budget(neighbors=relation, **money)
    return GroupMeans(pairs.keys, pairs.weights, **said).plan(
        budget, PublicShape(pairs.columns, persons)
    )


def released(place, value, seed, epsilon=1.0):
    """The intervals of people of one group each, from a seed."""
    pairs = one_group_each(place, value)
    return plan_for(pairs, epsilon).release(pairs, SimulatedNoise(seed)).intervals
