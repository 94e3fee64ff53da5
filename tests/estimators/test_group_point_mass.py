"""Many persons at one value: what limits cut off counts them, and intervals of rates hold."""

import numpy as np
import pytest

from estimators.made_groups import released
from privmean.data.grids import LOG_BINS
from privmean.estimators.find_region import ATOM_ONLY, FOUND, ClippingRegion, Histogram
from privmean.estimators.groups.pooled_tail import PooledTail, point_mass_share
from statistics_kit import assert_rate_at_least, combined

PARTS = [0.4, 0.3, 0.15, 0.1, 0.05]
LEVEL = 0.95


def tail_of(zero, ones, lower=0.0, upper=2.0):
    """Persons at 0, and others even between 1 and 2^.5."""
    positive = np.zeros(LOG_BINS)
    positive[80] = ones
    seen = Histogram(positive, zero, np.zeros(LOG_BINS), 1.0)
    return PooledTail.of(seen, 0.0, lower, upper)


def place_of(zero, scale=10.0, lower=0.7, upper=1.7, origin=0.0):
    seen = Histogram(np.zeros(LOG_BINS), zero, np.zeros(LOG_BINS), scale)
    return ClippingRegion(FOUND, origin, lower, upper, seen=seen)


def rows_of(rate, persons, seed):
    """The intervals of groups of such rates, and their statuses."""
    rng = np.random.default_rng([seed, persons])
    place = rng.choice(5, persons, p=PARTS)
    value = (rng.random(persons) < np.array(rate)[place]).astype(float)
    return released(place, value, seed)


# --- exact sums -----------------------------------------------------------------------------------
def test_what_limits_cut_off_counts_the_heap():
    tail, end = tail_of(900.0, 100.0), 2**0.5
    low, high = np.array([-1.0, 0.0, 0.5, 1.2]), np.array([-0.5, 0.5, 1.0, 1.2])
    values = np.concatenate([np.zeros(900), 1 + (end - 1) * (np.arange(100) + 0.5) / 100])
    down = [np.clip(t - values, 0, None).mean() for t in low]
    up = [np.clip(values - t, 0, None).mean() for t in high]
    assert tail.down(low) == pytest.approx(down, abs=1e-5)
    assert tail.up(high) == pytest.approx(up, abs=1e-5)
    below, above = tail.beyond(low, high)
    assert below == pytest.approx([np.mean(values < t) for t in low], abs=0.002)
    assert above == pytest.approx([np.mean(values > t) for t in high], abs=0.002)
    square = [np.mean(np.clip(values, *ends) ** 2) for ends in zip(low, high, strict=True)]
    assert tail.square(low, high) == pytest.approx(square, abs=1e-5)


# --- rates ----------------------------------------------------------------------------------------
RARE = [0.01, 0.01, 0.01, 0.01, 0.3]
FREQUENT = [0.95, 0.95, 0.95, 0.95, 0.6]
LAST, LESS_FIRST = np.array([0.0, 0.0, 0.0, 0.0, 1.0]), np.array([-1.0, 0.0, 0.0, 0.0, 1.0])


def test_a_heap_stays_where_the_others_move():
    tail = tail_of(900.0, 100.0)
    moved, fixed = np.array([0.2]), np.array([0.0])
    assert tail.down(moved) == pytest.approx([0.9 * 0.2])
    assert tail.down(moved, fixed) == pytest.approx([0.0])
    assert tail.up(np.array([-0.2]), fixed) == pytest.approx(tail.up(np.array([-0.2])) - 0.9 * 0.2)


def test_no_lower_limit_is_put_above_a_heap():
    noise = np.array([1e-4, 0.003, 0.01, 0.03])
    for ones in (20.0, 200.0, 480.0):
        assert (tail_of(1000.0 - ones, ones).choose(noise, 1.5).lower <= 0.01).all()
    assert (tail_of(0.0, 1000.0).choose(noise, 1.5).lower > 0.2).all()


def test_limits_reach_to_an_origin_where_somebody_is_for_certain():
    assert point_mass_share(place_of(60.0)).lower == 0.0
    assert point_mass_share(place_of(60.0)).upper == 1.7
    assert point_mass_share(place_of(60.0, lower=-3.0, upper=-1.0)).upper == 0.0
    for other in (place_of(30.0), place_of(60.0, lower=-1.0)):
        assert point_mass_share(other) == other


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "persons", "weights"),
    [(RARE, 3000, LAST), (RARE, 5000, LAST), (RARE, 3000, LESS_FIRST), (FREQUENT, 3000, LAST)],
)
def test_rows_of_rates_hold_the_rate_of_the_group_that_differs(rate, persons, weights):
    """With the heap left out 5 rows in 6 that said "ok" missed. Contrasts with it, too; and rates
    near one are not told as one."""
    held, told, truth = 0, 0, weights @ rate
    for seed in range(40):
        line = combined(rows_of(rate, persons, seed), weights, LEVEL)
        told += line.status == "ok"
        held += line.status == "ok" and line.lower <= truth <= line.upper
    assert told > 20 or rate is FREQUENT
    assert_rate_at_least(held, told, LEVEL)


@pytest.mark.parametrize(("upper", "outcome"), [(1 + 2.0**-11, ATOM_ONLY), (1 + 2.0**-9, FOUND)])
def test_limits_about_one_value_are_an_atom(upper, outcome):
    """600 persons of rates .99 and .7 had limits of [1, 1]: all rows were "ok", of no width."""
    held = point_mass_share(place_of(0.0, lower=1.0, upper=upper, origin=1.0))
    assert held.outcome == outcome


def test_equal_rates_near_one_are_an_atom_and_not_ones():
    """Before, every row said 1, "ok", with an interval of no width."""
    told, held = 0, 0
    for seed in range(30):
        table = rows_of([0.99] * 5, 1500, seed)
        ok = np.array([item == "ok" for item in table.status])
        rows = [table.rows(LEVEL)[i] for i in np.flatnonzero(ok)]
        told += len(rows)
        held += sum(row.lower <= 0.99 <= row.upper for row in rows)
    assert told - held <= 15  # none of 150 rows


def test_values_far_from_zero_are_no_atom():
    told = 0
    for seed in range(8):
        rng = np.random.default_rng([seed, 7])
        values = rng.normal(1e9, 1.0, 3000)
        table = released(rng.integers(0, 5, 3000), values, seed)
        told += int(np.isfinite(table.estimate).all())
    assert told >= 6
