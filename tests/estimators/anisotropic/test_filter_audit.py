"""Neighbours told apart by their releases: a lower bound on epsilon from many runs."""

import numpy as np
import pytest

import statistics_kit
from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import planned

BUDGET = Budget(epsilon=1.5, delta=1e-3)
N, RUNS = 300, 450


class Less(SimulatedNoise):
    """The broken twin: a sixth of the noise."""

    def gaussian(self, size, scale):
        return super().gaussian(size, scale / 6)


def bound(relation, method, source):
    """All others at 0, and one person far out on either side, or there and not there."""
    plan = planned(
        AnisotropicMean(1.0, method=method),
        BUDGET,
        persons=N if relation == REPLACE_ONE else None,
        n_guess=N if relation == ADD_REMOVE else None,
        dimension=1,
        relation=relation,
    )
    extra = relation == ADD_REMOVE
    here = np.zeros((N, 1))
    there = np.zeros((N + extra, 1))
    there[-1] = 1e6  # nobody's friend, and clipped at the rim
    if not extra:
        here[-1] = -1e6

    def draws(x, first):
        people = ArrayPersonTable(x, ("c0",))
        found = [plan.release(people, source(first + k)) for k in range(RUNS)]
        return np.array([item.estimate[0] for item in found])

    a, b = draws(here, 0), draws(there, RUNS)
    cut = np.nanmedian(b)  # the far person pulls the answer up
    hits, other = int((b >= cut).sum()), int((a >= cut).sum())
    return max(
        statistics_kit.epsilon_lower_bound(hits, other, RUNS, BUDGET.delta),
        statistics_kit.epsilon_lower_bound(RUNS - other, RUNS - hits, RUNS, BUDGET.delta),
    )


@pytest.mark.slow
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_releases_tell_no_more_than_promised_and_the_twin_does(relation):
    assert bound(relation, "two-phase", SimulatedNoise) <= BUDGET.epsilon
    assert bound(relation, "two-phase", Less) > BUDGET.epsilon
