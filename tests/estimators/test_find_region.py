"""Where a column lies for groups and shared locations: a private center, a histogram about it."""

from fractions import Fraction

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.find_region import (
    ATOM_ONLY,
    FOUND,
    NOBODY,
    center_price,
    find_region,
    tail_share,
)
from privmean.estimators.means.region_mean import SharedLocationQuery, centre_of, spread_of
from privmean.estimators.noise_budget import PureBudgetSpender
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE

G = np.random.default_rng(5)
SPREAD = {
    "about 0": G.normal(size=4000),
    "far from 0": 1e6 + G.normal(size=4000),
    "skewed": np.exp(G.normal(size=4000)),
    "stars": np.repeat([5.0, 4.0, 2.0], [3200, 480, 320]),
}


def found(x, relation=REPLACE_ONE, seed=0, epsilon=1):
    people = ArrayPersonTable(np.asarray(x, float)[:, None], ("value",))
    spender = PureBudgetSpender(Fraction(epsilon), relation)
    curator = TrustedCurator(people, SimulatedNoise(seed))
    share = tail_share(len(x), spender.left)
    place = find_region(curator, 0, len(x), share, spender)
    spent = sum(event.pure for event in curator.events)
    assert spent == spender.total - spender.left
    return place, curator.events


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("name", SPREAD)
def test_limits_hold_nearly_all_and_are_not_far_wider(name, relation):
    x = SPREAD[name]
    for seed in range(5):
        place, events = found(x, relation, seed)
        assert place.outcome == FOUND
        assert len(events) == 2
        inside = (x >= place.lower) & (x <= place.upper)
        assert inside.mean() > 0.97
        assert place.upper - place.lower < 40 * x.std()
        assert np.quantile(x, 0.3) <= place.origin <= np.quantile(x, 0.7)


def test_one_value_is_told_after_a_second_look():
    place, events = found(np.full(3000, 7.0))
    assert (place.outcome, place.origin, place.looks) == (ATOM_ONLY, 7.0, 2)
    assert len(events) == 3


def test_hardly_anybody_with_a_value_is_told():
    x = np.where(np.arange(3000) < 20, 1.0, np.nan)
    assert found(x)[0].outcome in (NOBODY, "failed")


def test_a_shared_location_is_two_lines_whatever_they_show():
    query = SharedLocationQuery.of("value", 4000, Fraction(1))
    assert query is not None
    assert query.center == center_price(4000, Fraction(1))
    assert sum(event.pure for event in query.events) == query.pure == 1 - query.left
    for x in (*SPREAD.values(), np.full(4000, 7.0), np.full(4000, np.nan)):
        people = ArrayPersonTable(np.asarray(x, float)[:, None], ("value",))
        curator = TrustedCurator(people, SimulatedNoise(1))
        place = query.run(curator)
        assert curator.events == query.events
        if place.outcome == FOUND:
            assert place.lower <= centre_of(place) <= place.upper
            assert 0.2 < spread_of(place) / x.std() < 8
    assert SharedLocationQuery.of("value", 500, Fraction(1)) is None
