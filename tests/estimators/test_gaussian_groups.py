"""Gaussian noise in the last stage: bills under rho and delta, intervals, what a person moves."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import privmean as pm
from estimators.made_groups import pairs_of, plan_for
from privmean.data.group_pairs import GroupWeights, PairSums
from privmean.data.person_table import ClipInterval
from privmean.mechanisms.group_cells import GaussianCells
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE

BOXES = [ClipInterval(1.0 - 2.0**20, 2.0**20 - 1), ClipInterval(0.0, 1.0), ClipInterval(-3.0, 7.0)]


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
@pytest.mark.parametrize("budget", [{"rho": 0.5}, {"epsilon": 1.0, "delta": 1e-6}])
def test_the_bill_keeps_the_budget_on_every_path(relation, budget):
    many = pairs_of(groups=14, most=14, weights=GroupWeights(12, True))
    plan = plan_for(many, relation=relation, **budget)
    assert plan.gaussian
    worst = pm.Guarantee.of(plan.budget, relation, plan.events)
    assert worst.verify()
    for seed in range(3):
        release = plan.release(many, SimulatedNoise(seed))
        assert release.guarantee.verify()
        assert release.guarantee.mechanisms[-1].kind == "discrete Gaussian"
        assert release.guarantee.mechanisms[-1].answers == 3 * 14
    assert pm.Guarantee.from_dict(release.guarantee.to_dict()).verify()


def test_the_kind_of_noise_is_chosen_from_public_numbers():
    one = pairs_of(spread=0.2)
    assert not plan_for(one, epsilon=1.0).gaussian
    assert not plan_for(one, epsilon=1.0, delta=1e-6).gaussian
    assert plan_for(one, rho=0.5).gaussian


def test_a_rho_budget_is_worth_more_than_its_pure_epsilon():
    pairs = pairs_of(spread=0.2)
    rho = plan_for(pairs, rho=0.5).release(pairs, SimulatedNoise(1)).intervals
    pure = plan_for(pairs, epsilon=1.0).release(pairs, SimulatedNoise(1)).intervals
    noise = np.sqrt(2 * (pure.scales**2).sum(axis=1))
    assert (rho.normal < 0.8 * noise).all()
    assert not rho.scales.any()
    for g in range(4):
        row = rho.rows(0.95)[g]
        assert row.lower < 0.2 * g < row.upper
        assert row.noise_lower < row.estimate < row.noise_upper


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
@pytest.mark.parametrize("most", [1, 2, 9])
def test_one_person_moves_the_cells_by_mu(relation, most):
    weights = GroupWeights(most, most > 1)
    step = GaussianCells(
        "cells", relation, tuple(b.steps for b in BOXES), weights.parts, min(most, 3), 9, 0.5
    )

    def person(places):
        w = weights.weight(len(places)) if places else 0
        sums = [PairSums()] * 3
        for g, sign in places:
            z = sign * BOXES[g].steps
            sums[g] = PairSums(w, w * z, w * z * z)
        return step.exact(BOXES, sums)

    everyone = [()]
    for size in range(1, (3 if weights.split else 1) + 1):
        for places in itertools.combinations(range(3), size):
            everyone += [
                tuple(zip(places, signs, strict=True))
                for signs in itertools.product((-1, 0, 1), repeat=size)
            ]
    made = [person(item) for item in everyone]
    others = made[:1] if relation == ADD_REMOVE else made
    largest = max(step.sensitivity_share(one, two)[0] for one in made for two in others)
    assert 0.99 < largest <= 1
    if most == 2:
        twin = replace(step, most=1)  # the deviation for a person of one group
        assert max(twin.sensitivity_share(one, two)[0] for one in made for two in others) > 1.5
