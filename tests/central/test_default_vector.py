"""Many columns with nothing given: rounds that carry the origins, one bill."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privmean.central.default_mean import DefaultMean
from privmean.central.default_vector import bill, rounds_of
from privmean.noise.simulated import SimulatedNoise
from privmean.people.matrix import MatrixPeople
from privmean.people.reductions import LOG_CELLS
from privmean.privacy.budget import Budget
from privmean.privacy.loss import Gaussian

BUDGET = Budget(epsilon=1.0, delta=1e-6)


class Recorder(SimulatedNoise):
    def __init__(self, seed):
        super().__init__(seed)
        self.calls = []

    def gaussian(self, size, sd):
        self.calls.append((size, float(sd)))
        return super().gaussian(size, sd)


def release(offsets, spreads, persons=10_000, seed=0):
    g = np.random.default_rng(seed)
    x = np.array(offsets) + np.array(spreads) * g.normal(size=(persons, len(offsets)))
    plan = DefaultMean().plan(BUDGET, persons=persons, dimension=len(offsets))
    noise = Recorder(seed)
    people = MatrixPeople(x, tuple(f"c{j}" for j in range(len(offsets))))
    return plan, plan.release(people, noise), noise, x


def test_far_columns_are_found_and_near_ones_are_left_alone():
    offsets = [0.0, 3.0, 1e3, -1e5, 20.0, 0.0]
    spreads = [1.0, 1.0, 1.0, 3.0, 0.01, 1e-3]
    plan, found, noise, x = release(offsets, spreads)
    assert plan.rounds >= 4
    error = np.abs(found.estimate - x.mean(axis=0)) / np.array(spreads)
    assert error.max() < 0.2  # limits in deviations, not in distances from zero
    origins = found.diagnostics["origins"]
    assert origins["c0"] == origins["c5"] == 0.0
    assert abs(origins["c2"] / 1e3 - 1) < 0.02
    assert found.guarantee.verify()
    ran = found.diagnostics["rounds"]
    assert 4 <= ran <= plan.rounds
    assert found.guarantee.mechanisms[:ran] == plan.losses[:ran]
    assert found.guarantee.mechanisms[ran] == plan.losses[-2]
    # every look at a column is one call at the billed deviation
    looks = [sd for size, sd in noise.calls if size == LOG_CELLS]
    billed = [loss.scale for loss in found.guarantee.mechanisms[:-1]]
    assert set(looks) == {float(item) for item in billed}


def test_unrun_rounds_are_not_billed_and_not_spent_elsewhere():
    plan, found, _, _ = release([0.0] * 5, [1.0] * 5)
    assert found.diagnostics["rounds"] == 1 < plan.rounds
    ran = found.guarantee.mechanisms
    assert len(ran) == 3
    assert ran[1].scale == plan.losses[-2].scale
    assert found.shares["rounds (of mu^2)"] == plan.round_part


@pytest.mark.parametrize("rounds", [(0, 0.0), (3, 0.05), (6, 0.02)])
def test_squared_strengths_of_the_bill_add_up(rounds):
    losses = bill(7, 7, 0.3, rounds)
    assert all(isinstance(item, Gaussian) for item in losses)
    total = sum(float(item.sensitivity / item.scale) ** 2 for item in losses)
    assert math.isclose(total, 0.09, rel_tol=1e-9)
    assert len(bill(7, 0, 0.3, rounds, 0)) == 1


def test_rounds_are_bought_only_where_they_can_tell():
    assert rounds_of(100, 2000, 0.24) == (0, 0.0)
    many, part = rounds_of(10, 10_000, 0.24)
    assert many == 6
    assert many * part <= 0.15
    # a window that holds everybody is 4 deviations of its noise above 70 %
    _, part = rounds_of(10, 2000, 0.24)
    sd = math.sqrt(4) * math.sqrt(20) / (0.24 * math.sqrt(part))
    assert math.isclose(0.3 * 2000 / sd, 4.0, rel_tol=1e-9)


def test_a_constant_far_from_zero_is_answered():
    _, found, _, _ = release([1000.0] * 5, [0.0] * 5, persons=20_000)
    assert np.abs(found.estimate / 1000.0 - 1).max() < 1e-3
