"""What an attacker can tell apart, with broken twins that the same attack must expose."""

from dataclasses import replace

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.heavy_tailed import BoundedMoment, HeavyTailedMean
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from statistics_kit import epsilon_lower_bound, planned

RUNS = 1200
EPSILON = 2.0
PURE = Budget(epsilon=EPSILON)
WITH_DELTA = Budget(epsilon=EPSILON, delta=1e-3)
MOMENT = BoundedMoment(2, 1.0, 1, range=(-8, 8))


def neighbours(n, d):
    """Everybody at 0 but one person, who is far up or far down."""
    rows = [np.zeros((n, d)) for _ in range(2)]
    rows[0][0], rows[1][0] = 1e6, -1e6
    return [ArrayPersonTable(item, tuple(f"c{j}" for j in range(d))) for item in rows]


def proved(release_one, pair, threshold, delta=0.0):
    """A lower confidence bound on epsilon from the sign of the estimate beyond `threshold`."""
    hits = []
    for seed, people in enumerate(pair):
        noise = SimulatedNoise(seed)
        hits.append(sum(release_one(people, noise) > threshold for _ in range(RUNS)))
    return epsilon_lower_bound(hits[0], hits[1], RUNS, delta)


class Quieter(SimulatedNoise):
    """A broken source: the noise of sums is a fifth of what is asked for."""

    def laplace(self, size, scale):
        return super().laplace(size, scale / 5)

    def gaussian(self, size, scale):
        return super().gaussian(size, scale / 5)


def total(release):
    return float(release.estimate.sum())


CASES = {
    "one column": (HeavyTailedMean(MOMENT, start="public"), PURE, 1, 40),
    "Gaussian rounds": (
        HeavyTailedMean(MOMENT, start="public", law="gaussian", rounds=1), WITH_DELTA, 2, 120,
    ),
    "K-norm rounds": (HeavyTailedMean(MOMENT, start="public", law="k-norm", rounds=1), PURE, 2,
    120),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_releases_stay_below_their_claim_and_a_quiet_twin_does_not(name):
    estimator, budget, d, n = CASES[name]
    plan = planned(estimator, budget, persons=n, dimension=d)
    pair = neighbours(n, d)

    def one(people, noise):
        return total(plan.release(people, noise))

    def quiet(people, noise):
        twin = noise if isinstance(noise, Quieter) else QUIET.setdefault(id(noise), Quieter(9))
        return total(plan.release(people, twin))

    QUIET: dict[int, Quieter] = {}
    # the noise alone decides the sign; a threshold at one noise scale is more telling
    scale = float(np.std([one(pair[0], SimulatedNoise(s)) for s in range(60)]))
    assert proved(one, pair, scale, budget.delta) <= EPSILON
    assert proved(quiet, pair, scale / 5, budget.delta) > EPSILON


@pytest.mark.slow
def test_three_times_the_billed_epsilon_would_be_caught():
    plan = planned(CASES["one column"][0], PURE, persons=40)
    larger = replace(plan.common, budget=Budget(epsilon=3 * EPSILON))
    twin = replace(plan, epsilon=3 * plan.epsilon, common=larger)
    pair = neighbours(40, 1)

    def loud(people, noise):
        return total(twin.release(people, noise))

    scale = float(np.std([loud(pair[0], SimulatedNoise(s)) for s in range(60)]))
    assert proved(loud, pair, scale) > EPSILON
