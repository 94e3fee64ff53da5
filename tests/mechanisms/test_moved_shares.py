"""What one replaced person costs at mechanisms of streams, filters and choices: at most 1, and 1
is reached; two persons cost more."""

from fractions import Fraction

import numpy as np
import pytest

from privmean.data.person_table import ClipInterval
from privmean.mechanisms.choices import HitsAbove
from privmean.mechanisms.histograms import LocationSearch, StableHistogram
from privmean.mechanisms.noisy_counts import Counting, NoisyQuantile
from privmean.mechanisms.noisy_vector import LatticeSums
from privmean.mechanisms.weighted_sums import WeightedSums
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Gaussian

ONE = Fraction(1)
BASE = np.array([0.5, 0.7, 0.7, 3.0])


def changed(*pairs):
    other = BASE.copy()
    for place, value in pairs:
        other[place] = value
    return other


SUMS = WeightedSums("points", np.array([[3], [3], [1]]), ClipInterval(-1.0, 1.0), epsilon=ONE)
SEARCH = LocationSearch.priced("x", 1.0, ONE, 1e-6)
FLAT = np.array([1.0, 1.0, 0.0])
BLOCK = LatticeSums((Gaussian("block", 10.0, 2.0**22, 3, neighbors="replace-one"),))
CASES = {  # mechanism, exact, one person replaced, two persons replaced
    "quantile": (NoisyQuantile("r", 0.5, Counting(0.1)), BASE, changed((0, 9.0)),
                 changed((0, 9.0), (1, 9.0))),
    "location": (SEARCH, SEARCH.cells(BASE), SEARCH.cells(changed((0, 9.0))),
                 SEARCH.cells(changed((0, 9.0), (1, 99.0)))),
    "hits": (HitsAbove("h", ONE, 2, "", 2.0), np.array([4, 1]), np.array([3, 2]),
             np.array([2, 3])),
    "bin": (StableHistogram.of(ONE, 1e-6, REPLACE_ONE), {1: 5, 2: 1}, {1: 4, 2: 1, 3: 1},
            {1: 3, 2: 1, 3: 2}),
    "block": (BLOCK, [np.array([0, 0, 0])], [np.array([6, 8, 0])], [np.array([12, 16, 0])]),
    "weighted": (SUMS, SUMS.exact(FLAT), SUMS.exact(np.array([-1.0, 1.0, 0.0])),
                 SUMS.exact(np.array([-1.0, -1.0, 0.0]))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_person_costs_no_more_than_the_loss_and_two_do(name):
    mechanism, exact, one, two = CASES[name]
    shares = mechanism.sensitivity_share(exact, one)
    assert len(shares) == len(mechanism.events)
    assert 0 < max(shares) <= 1
    assert all(share == 0 for share in mechanism.sensitivity_share(exact, exact))
    assert max(mechanism.sensitivity_share(exact, two)) > 1
