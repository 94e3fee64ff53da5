"""Narrow limits about one value that nearly all persons share, and about values that differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import privmean as pm
from privmean.central.clipping_region import ClippingRegion
from privmean.central.default_bounds import WidenedBounds
from privmean.central.log_histogram import FOUND, Histogram
from privmean.central.point_mass import (
    CHANCE,
    contains_code,
    is_narrow,
    is_one_cell,
    point_mass_value,
)
from privmean.data.grids import LOG_BINS
from privmean.inference.outlier_check import OutlierCheck
from privmean.noise.simulated import SimulatedNoise


def place_of(counts, zero=0.0, lower=-2.0, upper=2.0, origin=1000.0):
    positive = np.zeros(LOG_BINS)
    positive[80 : 80 + len(counts)] = counts  # from 1 on, a half octave each
    seen = Histogram(positive, zero, np.zeros(LOG_BINS), 10.0)
    return ClippingRegion(
        FOUND, origin, origin + lower, origin + upper, 1, 1, 0, 0.0, 10.0, seen=seen
    )


@pytest.mark.parametrize(
    ("counts", "zero", "upper", "alone"),
    [
        ([900.0], 0.0, 2.0, True),
        ([900.0, 39.0], 0.0, 2.0, True),
        ([900.0, 41.0], 0.0, 2.0, False),
        ([900.0, 500.0], 0.0, 1.2, True),  # the second cell begins beyond the limits
        ([900.0], 41.0, 2.0, False),  # the origin's cell is one, too
        ([], 900.0, 2.0, True),
    ],
)
def test_cells_within_the_limits_are_counted(counts, zero, upper, alone):
    assert is_one_cell(place_of(counts, zero, upper=upper)) == alone


def test_without_a_histogram_nothing_shows_that_values_differ():
    place = ClippingRegion(FOUND, 0.0, 1.0, 2.0, 0, 1, 0, 0.0, 1.0)
    assert is_one_cell(place)


@pytest.mark.parametrize(
    ("lower", "upper", "held"),
    [
        (0.9999, 1.0001, True),
        (6.996, 7.004, True),
        (7.001, 7.004, False),
        (7.2499, 7.2501, False),  # of two digits after the point, and 2 % of limits hold one
        (7.24998, 7.25002, True),
        (-40.001, -39.999, True),
        (999.9, 1000.1, False),
        (7.0, 7.0, True),
    ],
)
def test_short_numbers_are_held(lower, upper, held):
    assert contains_code(lower, upper) == held


def test_limits_anywhere_hold_a_short_number_by_chance_in_one_of_a_hundred():
    rng = np.random.default_rng(3)
    widths = 10 ** rng.uniform(-9, -2, 20_000)
    lower = rng.uniform(1, 50, 20_000)
    share = np.mean([contains_code(a, a + w) for a, w in zip(lower, widths, strict=True)])
    assert share < CHANCE  # widths within a decade: .0039 in the mean; this far off by chance: 0


@pytest.mark.parametrize(
    ("origin", "lower", "upper", "told"),
    [
        (0.999998, 0.9999987, 1.0000007, "1"),
        (7.25, 7.24999, 7.25001, "7.25"),
        (1990.0, 1989.8, 1990.3, "1990"),
        (0.0, 0.0, 0.0, "0"),
    ],
)
def test_a_shared_value_is_told_in_the_digits_that_are_known(origin, lower, upper, told):
    place = ClippingRegion("point_mass", origin, lower, upper, 1, 1, 0, 0.0, 10.0)
    assert point_mass_value(place) == told


def test_narrow_is_for_where_limits_are():
    assert is_narrow(999.5, 1000.4)
    assert not is_narrow(999.5, 1000.6)
    assert is_narrow(-1000.4, -999.5)
    assert not is_narrow(-1e-9, 1e-9)


@pytest.mark.parametrize(
    ("lower", "upper", "differ", "one"),
    [
        (1.9999, 2.0001, False, True),
        (1.9999, 2.0001, True, False),
        (2.0 - 1e-9, 2.0 + 1e-9, True, True),  # in the eighth digit, about 2
        (2.01239, 2.01241, False, False),  # about no code
        (2.0123399999, 2.0123400001, False, True),
        (2e9 + 1, 2e9 + 9, False, True),
        (2e9 + 1, 2e9 + 9, True, False),
        (1.9, 2.1, False, False),
    ],
)
def test_two_of_three_signs_make_one_value(lower, upper, differ, one):
    origin = (lower + upper) / 2
    bins = np.full(LOG_BINS, 500.0 if differ else 0.0)
    seen = Histogram(bins, 900.0, bins, 10.0)
    place = ClippingRegion(FOUND, origin, lower, upper, 1, 1, 0, 0.0, 10.0, seen=seen)
    assert WidenedBounds((lower, upper), place).one_value == one


def test_one_value_is_not_said_where_many_certainly_lie_beyond():
    check = OutlierCheck(1000, 200.0, 10.0, 0.0, 5.0, one_value=True)
    assert check.status == "modified_target"
    assert replace(check, beyond=60.0).status == "modified_target"
    assert replace(check, beyond=45.0).status == "point_mass"
    assert not replace(check, beyond=0.0).stands


def releases(values, epsilon, runs):
    table = pa.table({"who": np.arange(values.size), "v": values})
    return [
        pm.mean(table, "v", person="who", epsilon=epsilon, noise=SimulatedNoise(seed))
        for seed in range(runs)
    ]


@pytest.mark.parametrize("persons", [600, 1000])
def test_a_rate_of_99_in_a_hundred_is_not_one(persons):
    """Two releases of three said 1, "ok", with an interval of a millionth."""
    values = np.ones(persons)
    values[: persons // 100] = 0.0
    silent = 0
    for release in releases(values, 1.0, 40):
        row = release.interval()
        silent += release.status == "ok" and not row.lower[0] <= 0.99 <= row.upper[0]
    assert silent <= 14  # 5 and 7 of 40; 32 and 37 before


@pytest.mark.parametrize("center", [1e6, 1e9])
def test_values_that_are_only_far_from_zero_stay_ok(center):
    values = np.random.default_rng(8).normal(center, 1.0, 3000)
    said = [release.status for release in releases(values, 1.0, 12)]
    assert said.count("ok") >= 6
