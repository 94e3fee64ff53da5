"""Quantiles: one cell a person, scores against brute force, intervals, and odd columns."""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import polars as pl
import pytest
from scipy import stats

import privmean as pm
from estimators.made_people import people
from privmean.data.grids import WIDE_GRID
from privmean.data.person_table import ColumnCounts
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError
from privmean.estimators import quantiles
from privmean.estimators.locate import center_step, spread_step
from privmean.estimators.quantile_intervals import MANY, cells_between, zero_edges
from privmean.estimators.quantiles import Quantiles
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.compose import pure_epsilon, total_rho
from statistics_kit import assert_rate_at_least

QUARTILES = (0.25, 0.5, 0.75)


def asked(values, seed, q=QUARTILES, **money):
    """Quantiles of these values, one a person."""
    money = money or {"epsilon": 1.0}
    return pm.quantile(people(values), None, q, noise=SimulatedNoise(seed), **money)


# --- scores and cells: exact laws -----------------------------------------------------------------
HOSTILE = [math.nan, math.inf, -math.inf, 1e300, -1e300, 0.0, 5e-324, 2.0**-40, 3.0, -0.0]


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_one_person_moves_every_answer_by_at_most_its_loss(relation):
    rng = np.random.default_rng(1)
    others = rng.lognormal(0, 1, 40)
    tables = [people(np.append(others, x)) for x in HOSTILE]
    if relation == ADD_REMOVE:
        pairs = [(people(others), x) for x in tables]
    else:
        pairs = list(product(tables, tables))
    budget = Budget(epsilon=20.0, neighbors=relation)
    known = 41 if relation == REPLACE_ONE else None
    plan = Quantiles(QUARTILES).plan(budget, PublicShape.of(1, known, 41))
    largest = {"center": 0, "spread": 0, "histogram": 0}
    edges = zero_edges(MANY.edges_around(1.0, 0.5))
    center, spread = (step(Fraction(1), relation) for step in (center_step, spread_step))
    for one, two in pairs:
        found = {
            "center": center.sensitivity_share(ColumnCounts(one, 0), ColumnCounts(two, 0)),
            "spread": spread.sensitivity_share(
                *(ColumnCounts(x, 0).distances(0.0) for x in (one, two))
            ),
            "histogram": plan.histogram.sensitivity_share(
                *(cells_between(x, edges) for x in (one, two))
            ),
        }
        largest = {name: max(largest[name], *share) for name, share in found.items()}
    assert largest == {"center": 1, "spread": 1, "histogram": 1}


@pytest.mark.parametrize("center", [0.0, 3.0, -7.25, 1e9])
def test_distances_are_counted_alike_in_half_octaves_and_one_by_one(center):
    """Values next to the center count nowhere, in either way."""
    rng = np.random.default_rng(3)
    near = center + abs(center) * 2.0 ** -rng.uniform(0, 40, 200) * rng.choice((-1, 1), 200)
    values = people(np.concatenate([near, HOSTILE, center + np.exp2(rng.integers(-70, 70, 50))]))
    distances = ColumnCounts(values, 0).distances(center)
    found, masses = distances.distribution()
    counts = distances.half_octaves(0.0)
    assert counts.sum() == distances.present == masses.sum()
    grid = WIDE_GRID.edges()
    places = np.maximum(np.searchsorted(grid, found, "left") - 1, 0)
    assert np.array_equal(np.bincount(places, masses, len(grid)), counts[: len(grid)])


def test_everybody_with_a_value_is_in_one_cell():
    rng = np.random.default_rng(2)
    values = np.concatenate([rng.standard_t(2, 500), HOSTILE])
    edges = zero_edges(MANY.edges_around(0.3, 0.7))
    cells = cells_between(people(values), edges)
    assert len(cells) == MANY.cells
    assert cells.min() >= 0
    assert cells.sum() == np.sum(~np.isnan(values))
    kept = values[~np.isnan(values)]
    below = [int(np.sum(kept < edge)) for edge in edges]
    assert np.array_equal(np.cumsum(cells)[:-1], below)


# --- bills ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("bounds", [None, (-9.0, 9.0)])
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize(
    "money", [{"epsilon": 1.0}, {"epsilon": 0.1}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.3}]
)
def test_the_bill_is_the_budget(money, relation, bounds):
    budget = Budget(**money, neighbors=relation)
    known = 20_000 if relation == REPLACE_ONE else None
    plan = Quantiles(QUARTILES, bounds).plan(budget, PublicShape.of(1, known, 20_000))
    if budget.rho is None:
        assert pure_epsilon(plan.events) == budget.pure_epsilon()
    else:
        assert 0.999 * budget.rho < total_rho(plan.events) <= budget.rho * (1 + 1e-12)
    release = plan.release(people(np.random.default_rng(0).normal(size=20_000)), SimulatedNoise(0))
    assert [x.to_dict() for x in release.guarantee.mechanisms] == [x.to_dict() for x in plan.events]
    assert np.allclose(release.estimate, stats.norm.ppf(QUARTILES), atol=0.3)


# --- answers --------------------------------------------------------------------------------------
@pytest.mark.slow
def test_intervals_cover_and_the_band_holds():
    truth = stats.expon.ppf(QUARTILES)
    inside, band, runs = np.zeros(3, dtype=int), 0, 150
    for seed in range(runs):
        values = np.random.default_rng(seed).exponential(size=3000)
        release = asked(values, seed)
        rows = release.rows()
        inside += [a.lower <= x <= a.upper for a, x in zip(rows, truth, strict=True)]
        held = release.distribution()
        exact = stats.expon.cdf(held.at)
        band += bool(np.all((held.lower <= exact + 1e-9) & (exact <= held.upper + 1e-9)))
    for count in (*inside, band):
        assert_rate_at_least(int(count), runs, 0.93)
    assert inside.sum() < 3 * runs  # and not by being endless


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(4000), np.full(4000, math.nan), np.full(4000, math.inf), np.full(4000, -7.25),
        np.tile([0.0, 1.0], 2000), np.tile([1e300, -1e300], 2000), np.full(4000, 5e-324),
        np.repeat([0.0, math.nan], 2000), np.full(4000, 2.0**39) + np.arange(4000) % 2,
    ],
)  # fmt: skip
@pytest.mark.parametrize("settings", [{"epsilon": 1.0}, {"rho": 0.5}])
def test_no_column_breaks_a_release(values, settings):
    for seed in range(3):
        release = asked(values, seed, **settings)
        assert release.status in ("ok", "failed", "not_identified")
        assert len(release.rows()) == 3
        assert release.summary()
        release.to_dict()
        if np.isnan(values).all():
            assert release.failed


def test_a_point_mass_is_a_number_or_nothing():
    found = []
    for seed in range(30):
        release = asked(np.full(4000, 12.5), seed, 0.5)
        found.append(float(release.estimate[0]))
        assert math.isnan(found[-1]) == release.failed
    assert np.nanmax(np.abs(np.array(found) - 12.5)) < 0.05
    assert np.isfinite(found).sum() > 15


def _zero_or_more(rng, n):
    return np.where(rng.random(n) < 0.8, 0.0, rng.lognormal(3, 0.5, n))


REPEATING = {
    "0 or 1": (lambda rng, n: (rng.random(n) < 0.4) * 1.0, (0, 0, 1)),
    "nearly all 5": (
        lambda rng, n: np.where(rng.random(n) < 0.9, 5, rng.normal(5, 3, n)), (5,) * 3),
    "ratings": (lambda rng, n: rng.choice(5, n, p=[0.05, 0.1, 0.3, 0.35, 0.2]) + 1.0, (3, 4, 4)),
    "zeros": (_zero_or_more, (0, 0, 0)),
    "whole, dense": (lambda rng, n: np.round(rng.normal(100.3, 6, n)), (96, 100, 104)),
    "whole, a lattice of the cells": (
        lambda rng, n: np.round(rng.normal(100.3, 16, n)), (89, 100, 111)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", REPEATING)
@pytest.mark.parametrize("persons", [1000, 20_000])
def test_intervals_hold_the_value_that_many_persons_have(name, persons):
    draw, truth = REPEATING[name]
    plan = Quantiles(QUARTILES).plan(Budget(epsilon=1.0), PublicShape.of(1, persons))
    held, shown = np.zeros(3, dtype=int), np.zeros(3, dtype=int)
    for seed in range(40):
        values = draw(np.random.default_rng(seed), persons)
        release = plan.release(people(values), SimulatedNoise(seed))
        one = release.intervals.alone(0.95)
        there = np.isfinite(release.estimate)
        shown += there
        held += there & (np.array(one.lower) <= truth) & (truth <= np.array(one.upper))
        inside = (release.estimate >= one.lower) & (release.estimate <= one.upper)
        assert np.all(inside | ~there)
    assert np.all(shown >= 35)
    for count, number in zip(held, shown, strict=True):
        assert_rate_at_least(int(count), int(number), 0.93)


def test_on_a_grid_too_fine_to_show_intervals_hold_to_within_one_step_and_say_so():
    plan = Quantiles(QUARTILES).plan(Budget(epsilon=1.0), PublicShape.of(1, 20_000))
    held, runs = np.zeros(3, dtype=int), 60
    for seed in range(runs):
        values = np.round(np.random.default_rng(seed).normal(100.3, 40, 20_000))
        release = plan.release(people(values), SimulatedNoise(seed))
        one = release.intervals.alone(0.95)
        low, high = np.array(one.lower), np.array(one.upper)
        held += (low - 1 <= (73, 100, 127)) & (high + 1 >= (73, 100, 127))
        for said in (one, release.interval(), release.noise_interval()):
            assert "off by one step if values lie on a grid too fine to detect" in said.assumption
    for count in held:
        assert_rate_at_least(int(count), runs, 0.95)


def test_where_values_repeat_the_standard_error_is_no_longer_than_the_interval_says():
    prices = np.random.default_rng(5).choice([11.77, 13.97, 14.37, 14.96, 30.0], 20_000)
    for row in asked(prices, 1, (0.1, 0.5), epsilon=2.0).rows():
        assert 0 < row.std_error <= (row.upper - row.lower) / (2 * 1.95)


def test_smooth_columns_do_not_pay_for_those_that_repeat():
    lengths = []
    for seed in range(40):
        values = np.random.default_rng(seed).normal(size=4700)
        release = asked(values, seed)
        one = release.intervals.alone(0.95)
        lengths.append(np.subtract(one.upper, one.lower))
    assert np.all(np.median(lengths, axis=0) < 0.1)  # order statistics alone: .072 to .078


def _wild(neighbors, part, runs):
    """Of releases about 3,000 persons of whom this part has a value: shown, and far off."""
    n, wild, shown = 3000, 0, 0
    budget = Budget(epsilon=1.0, neighbors=neighbors)
    known = n if neighbors == REPLACE_ONE else None
    plan = Quantiles(QUARTILES).plan(budget, PublicShape.of(1, known, n))
    for seed in range(runs):
        values = np.full(n, math.nan)
        values[: int(part * n)] = np.random.default_rng([seed, 1]).normal(100, 5, int(part * n))
        noise = SimulatedNoise(np.random.default_rng([seed, 2]))
        found = plan.release(people(values), noise).estimate
        shown += not np.isnan(found).all()
        wild += bool(np.nanmax(np.abs(found - 100)) > 30) if not np.isnan(found).all() else 0
    return shown, wild


@pytest.mark.slow
@pytest.mark.parametrize(
    ("neighbors", "few", "enough"), [(REPLACE_ONE, 0.12, 0.3), (ADD_REMOVE, 0.07, 0.2)]
)
def test_where_too_few_have_a_value_for_the_choices_nothing_is_shown(
    neighbors, few, enough, monkeypatch
):
    assert _wild(neighbors, few, 40)[1] == 0
    assert _wild(neighbors, enough, 20) == (20, 0)
    monkeypatch.setattr(quantiles, "FOUND", {neighbors: 0.0})  # the twin
    monkeypatch.setattr(quantiles, "SIDE", math.inf)
    assert _wild(neighbors, few, 40)[1] >= 1


@pytest.mark.parametrize("values", [
    np.random.default_rng(0).normal(size=4000) * 1e300, np.tile([2.0**44, -(2.0**45)], 2000),
    np.where(np.arange(4000) % 4, 1e200, 0.0) * np.tile([1, -1], 2000),
])  # fmt: skip
@pytest.mark.parametrize("settings", [{"epsilon": 1.0}, {"rho": 0.5}])
def test_values_beyond_the_public_range_are_no_estimates(values, settings):
    for seed in range(5):
        release = asked(values, seed, **settings)
        assert release.failed
        assert np.isnan(release.estimate).all()
        assert "2^44" in release.advice


def test_a_quantile_anywhere_in_a_wide_cell_is_not_shown():
    """40 % at 0, 30 % at 7, 20 % at 30 and 10 % at 365: the last two are in cells of which one end
    is many times as far out as the other, where numbers were up to 20 times too large."""
    values = np.repeat([0.0, 7.0, 30.0, 365.0], [1000, 750, 500, 250])
    for seed in range(6):
        made = pm.quantile(values, q=(0.5, 0.9, 0.97), epsilon=1, noise=pm.SimulatedNoise(seed))
        median, *far = made.rows()
        assert (median.estimate, median.status) == (7, "ok")
        for row in far:
            assert row.status == "not_identified"
            assert math.isnan(row.estimate)
        given = pm.quantile(
            values, q=(0.97,), bounds=(0, 365), epsilon=1, noise=pm.SimulatedNoise(seed)
        )
        (row,) = given.rows()
        assert row.status == "not_identified" or row.lower <= 365 <= row.upper <= 365
    smooth = np.random.default_rng(1).lognormal(0, 1, 2500)
    made = pm.quantile(smooth, q=(0.01, 0.5, 0.99), epsilon=1, noise=pm.SimulatedNoise(1))
    assert {row.status for row in made.rows()} == {"ok"}


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_a_spread_that_is_noise_gives_no_number(value):
    """Most people have one value: the spread is that of the few others, was found anywhere, and the
    99 % quantile was a number of its size, with "ok" or beside an open end."""
    rng = np.random.default_rng(5)
    for seed in range(12):
        values = np.where(rng.random(1000) < 0.02, value + 1, value)
        made = pm.quantile(values, q=(0.5, 0.99), epsilon=1, noise=pm.SimulatedNoise(seed))
        median, far = made.rows()
        assert median.status == "ok"
        assert median.estimate == pytest.approx(value)
        assert math.isnan(far.estimate) or value <= far.estimate < value + 8


def test_many_zeros_do_not_hide_the_others():
    rng = np.random.default_rng(8)
    values = np.where(rng.random(20_000) < 0.8, 0.0, rng.lognormal(3, 0.5, 20_000))
    release = asked(values, 2, (0.5, 0.9))
    assert abs(release.estimate[0]) < 0.2
    assert abs(release.estimate[1] - np.quantile(values, 0.9)) < 2


@pytest.mark.parametrize(
    "q",
    [
        (), (0.0,), (1.0,), (0.5, 0.25), (0.5, 0.5), "half", (math.nan,), None, (True,), 25, True,
        {0.25, 0.5}, {"a": 0.5}, 0.5j, object(), np.array(2.0), (Fraction(1, 2), None),
    ],
)  # fmt: skip
def test_what_is_no_part_of_one_is_refused(q):
    with pytest.raises(ArgumentError, match="^q(=| is required)"):
        pm.Quantile("y", q)


@pytest.mark.parametrize(
    "q",
    [
        0.25, Fraction(1, 4), Decimal("0.25"), np.float32(0.25), np.float64(0.25), np.array(0.25),
        [Decimal("0.25")], np.array([0.25]), pl.Series([0.25]), (x / 4 for x in (1,)),
    ],
)  # fmt: skip
def test_a_part_of_one_may_be_a_number_of_any_type(q):
    assert pm.Quantile("y", q).q == (0.25,)
