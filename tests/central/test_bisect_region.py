"""One part of known limits, chosen by the persons in it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from privmean.central.bisect_region import RegionBisection
from privmean.central.default_mean import DefaultMean
from privmean.central.pure_budget import PureBudgetSpender
from privmean.data.array_table import ArrayPersonTable
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import planned

FEW = RegionBisection(levels=3, shifts=4, narrow=2.0)
G = np.random.default_rng(4)
X = np.append(1.5, G.uniform(-1, 5, 200))


class Asked(TrustedCurator):
    def ask(self, mechanism, exact):
        self.last = mechanism, exact
        return super().ask(mechanism, exact)


def asked(x, places=FEW, limits=(0.0, 4.0), relation=REPLACE_ONE, price=Fraction(1)):
    curator = Asked(ArrayPersonTable(np.asarray(x, float)[:, None], ("v",)), SimulatedNoise(1))
    found = places.choose(curator, 0, limits, price, PureBudgetSpender(Fraction(2), relation))
    return *curator.last, found


def test_a_person_moves_scores_by_one_and_the_bill_says_what_that_costs():
    mechanism, exact, _ = asked(X)
    seen = set()
    for value in (math.nan, math.inf, -1e300, -1e-9, 0.0, 1e-9, 1.1, 2.0, 3.999, 4.0, 4.1):
        moved = asked(np.append(value, X[1:]))[1] - exact
        assert abs(moved).max() <= 1
        seen |= {int(moved.max() - moved.min())}
        gone = asked(X[1:], relation=ADD_REMOVE)[1] - asked(X, relation=ADD_REMOVE)[1]
        assert set(gone) <= {0, -1}
    assert 2 in seen
    assert mechanism.scale == 2
    assert mechanism.events[0].pure == 1
    assert asked(X, relation=ADD_REMOVE)[0].scale == 1


@pytest.mark.parametrize("places", [FEW, RegionBisection(8, 2, 1.1), RegionBisection(0, 4, 2.0)])
def test_scores_are_the_persons_in_each_part_and_what_is_public(places):
    _, exact, _ = asked(X, places)
    parts = [
        (4 * (k - moved / places.shifts) / 2**level, 4 / 2**level, level)
        for level in range(places.levels + 1)
        for moved in range(places.shifts if level else 1)
        for k in range(2**level)
    ]
    assert len(parts) == len(exact)
    for (first, size, level), score in zip(parts, exact, strict=True):
        held = int(((first < X) & (first + size >= X)).sum())
        assert score == held + round(places.narrow * level * 2)


def test_the_fullest_narrow_part_is_chosen_where_noise_is_small():
    first, last, level = asked(G.normal(2.9, 0.01, 1000), price=Fraction(2))[2]
    assert first < 2.87
    assert last > 2.93
    assert level == 3


def test_few_persons_far_out_are_narrowed_and_what_most_share_keeps_the_others():
    """Years of deviation 10 were left in limits of 150 to 1200; stars in those of "5" alone."""
    widths, beyond = [], []
    for seed in range(30):
        g = np.random.default_rng(seed)
        plan = planned(DefaultMean(), Budget(epsilon=0.5), persons=900)
        years = ArrayPersonTable(g.normal(1990, 10, (900, 1)), ("v",))
        low, high = plan.release(years, SimulatedNoise(g)).diagnostics["limits"]
        widths.append(high - low)
        stars = g.choice([5.0, 4.0, 3.0, 2.0, 1.0], (900, 1), p=[0.8, 0.12, 0.04, 0.02, 0.02])
        low, high = plan.release(ArrayPersonTable(stars, ("v",)), SimulatedNoise(g)).diagnostics[
            "limits"
        ]
        beyond.append(((stars < low) | (stars > high)).mean())
    assert np.median(widths) < 120
    assert np.mean(np.asarray(beyond) > 0.15) < 0.5


def test_a_choice_that_left_a_group_behind_is_taken_back_to_where_both_are():
    """Two years, of which most persons have one: a first choice holds both, a second only one."""
    held = 0
    for seed in range(30):
        g = np.random.default_rng(seed)
        plan = planned(DefaultMean(), Budget(epsilon=0.5), persons=1180)
        years = np.where(g.random((1180, 1)) < 0.35, 2010.0, 1990.0)
        told = plan.release(ArrayPersonTable(years, ("v",)), SimulatedNoise(g)).diagnostics
        low, high = told["limits"]
        assert high - low < 500
        held += low < 1990 and high > 2010
    assert held > 20
