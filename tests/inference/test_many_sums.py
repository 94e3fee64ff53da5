"""Ends of many rows at once against one search per row, and what a release computes once."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy import optimize, stats

import privmean as pm
from privmean.estimators.groups import group_release
from privmean.inference import group_table, laplace_normal, mean_interval
from privmean.inference.laplace_normal import (
    allowance_half_lengths,
    allowance_miss,
    bounded_quantiles,
    find_root,
    find_roots,
    quantile,
    quantiles,
    sum_quantile,
    sum_quantiles,
    sum_tail,
    survival,
)
from statistics_kit import allowance_half_length, bounded_quantile

TAILS = [0.45, 0.3, 0.025, 1e-4, 1e-6]


def hostile(rows, width, seed=2):
    """Scales and deviations of any size: equal, nearly equal, none, far apart."""
    rng = np.random.default_rng(seed)
    scales = 10.0 ** rng.uniform(-6, 6, (rows, width)) * (rng.random((rows, width)) < 0.8)
    scales[::7] = scales[::7, :1]
    scales[1::7, 1:] = scales[1::7, :1] * (1 + 1e-4 * rng.random((len(scales[1::7]), width - 1)))
    sd = 10.0 ** rng.uniform(-8, 6, rows) * (rng.random(rows) < 0.8)
    unit = 10.0 ** rng.choice([-100, 0, 100], rows)
    return scales * unit[:, None], sd * unit


def agree(found, one_by_one, unit):
    """To 1e-9 of the number, or of the unit where the number is nothing beside it."""
    expected = np.array(one_by_one)
    assert np.isfinite(expected).all()
    room = 1e-9 * np.maximum(np.abs(expected), 1e-6 * unit)
    assert (np.abs(found - expected) <= room).all(), np.abs(found - expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("tail", TAILS)
def test_quantiles_of_rows_are_those_of_each_row(tail):
    scales, sd = hostile(200, 3)
    kept = (scales.max(axis=1) > 1e-50) & (scales.max(axis=1) < 1e50)  # squares are doubles
    scales, sd = scales[kept], sd[kept]
    one_by_one = [quantile(tail, row.tolist(), float(s)) for row, s in zip(scales, sd, strict=True)]
    agree(quantiles(tail, scales, sd), one_by_one, scales.max(axis=1) + sd)


@pytest.mark.slow
@pytest.mark.parametrize("width", [3, 6])
@pytest.mark.parametrize("tail", TAILS)
def test_sums_of_rows_are_those_of_each_row(tail, width):
    scales, sd = hostile(120, width)
    unit = scales.max(axis=1) + sd
    one_by_one = [sum_quantile(tail, row, float(s)) for row, s in zip(scales, sd, strict=True)]
    agree(sum_quantiles(tail, scales, sd), one_by_one, unit)
    # a brute search on the tail itself, which no search of ours takes part in
    for row in range(0, 120, 10):
        if unit[row] == 0:
            assert one_by_one[row] == 0
            continue
        b, s = scales[row] / unit[row], float(sd[row] / unit[row])
        root = optimize.brentq(lambda x, b=b, s=s: sum_tail(x, b, s) - tail, 0, 60, xtol=1e-12)
        assert one_by_one[row] / unit[row] == pytest.approx(root, rel=1e-5, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("width", [3, 6])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.9999])
def test_rows_with_room_for_a_bias_are_those_of_each_row(level, width):
    scales, sd = hostile(120, width)
    unit = scales.max(axis=1) + sd
    rng = np.random.default_rng(4)
    room = 10.0 ** rng.uniform(-6, 6, 120) * unit
    room[::5], room[1::5] = 0.0, math.inf
    one_by_one = [
        bounded_quantile(level, float(w), row, float(s))
        for w, row, s in zip(room, scales, sd, strict=True)
    ]
    agree(bounded_quantiles(level, room, scales, sd), one_by_one, unit)


def test_known_laws():
    for unit in (1e-140, 1.0, 1e140):  # squares of these are no doubles with digits
        one = np.array([[unit, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
        found = sum_quantiles(0.025, one, np.array([0.0, unit, 0.0])) / unit
        np.testing.assert_allclose(found, [math.log(20), stats.norm.isf(0.025), 0.0], rtol=1e-8)
    assert sum_quantile(0.025, [math.inf, 1.0], 0.0) == math.inf
    assert math.isnan(sum_quantile(0.025, [1.0], math.nan))
    assert sum_quantile(0.5, [1.0], 1.0) == pytest.approx(0.0, abs=1e-6)


def test_a_flat_function_has_a_root_too():
    assert find_root(lambda x: 0.0, 0.0, 1.0) >= 0  # the rule would divide by nothing
    assert find_roots(lambda x, _: 0.0 * x, np.zeros(2), np.ones(2)).shape == (2,)


def test_roots_of_rows_are_those_of_each_row():
    levels = np.array([1e-3, 0.2, 0.7, 0.999])
    scalar = [find_root(lambda x, a=a: math.exp(-x) - a, 0.0, 40.0, 1e-10) for a in levels]
    found = find_roots(
        lambda x, rows: np.exp(-x) - levels[rows], np.zeros(4), np.full(4, 40.0), 1e-10
    )
    np.testing.assert_allclose(found, scalar, rtol=1e-12)


def test_an_equal_scale_keeps_its_tail():
    t = quantiles(0.025, np.ones((1, 3)), np.array([0.5]))[0]
    assert float(survival(t, [1.0, 1.0, 1.0], 0.5)) == pytest.approx(0.025, rel=1e-6)


def release(groups, **more):
    rng = np.random.default_rng(1)
    who = np.arange(4000)
    frame = pl.DataFrame(
        {"who": who, "key": [f"g{g}" for g in who % groups], "x": rng.normal(5, 1, len(who))}
    )
    return pm.mean(
        frame, "x", person="who", by="key", keys=[f"g{g}" for g in range(groups)], epsilon=4.0,
        noise=pm.SimulatedNoise(1), **more,
    )  # fmt: skip


def test_ends_of_a_release_are_searched_once_whatever_shows_it(monkeypatch):
    """A text, rows, a frame, a record and intervals ask for the same rows: however many groups
    there are, the ends of each are searched once per level and target."""
    searched = []
    monkeypatch.setattr(
        group_table,
        "bounded_quantiles",
        lambda level, room, *rest: (
            searched.append(len(room)) or bounded_quantiles(level, room, *rest)
        ),
    )
    for groups in (4, 400):
        made = release(groups)
        shown = int(np.isfinite(made.estimate).sum())
        searched.clear()
        for _ in range(2):
            made.summary(), made.details(), made.to_frame("polars"), made.to_dict()
            repr(made), made.rows(), made.interval(), made.noise_interval()
        assert searched.count(shown) == len(searched) <= 3  # mean, clipped mean, jointly
        made.rows(0.8)
        assert len(searched) <= 4


def test_persons_of_all_groups_take_one_search(monkeypatch):
    searched = []
    monkeypatch.setattr(
        group_release,
        "sum_quantile",
        lambda *given: searched.append(given) or laplace_normal.sum_quantile(*given),
    )
    release(50).to_dict()
    assert len(searched) <= 1


@pytest.mark.slow
def test_what_a_release_keeps_is_bounded():
    made = release(4)
    for level in np.linspace(0.5, 0.99, 200):
        made.rows(float(level)), made.interval(float(level))
    assert len(made._kept) <= 16
    assert len(made.groups._kept) <= 8
    assert made.rows(0.9) == release(4).rows(0.9)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.1, 0.05, 2e-4])
def test_half_lengths_with_allowances_are_those_of_each_row(alpha):
    rng = np.random.default_rng(6)
    tau, rho = np.exp(rng.uniform(-3, 4, 90)), np.exp(rng.uniform(-4, 3, 90))
    tau[::11], rho[::7] = 0.0, 0.0
    scales = np.column_stack([np.ones(90), rng.random((90, 2)) * (rng.random((90, 2)) < 0.5)])
    found = allowance_half_lengths(tau, rho, alpha, scales)
    rows = list(zip(tau.tolist(), rho.tolist(), map(tuple, scales.tolist()), strict=True))
    each = [allowance_half_length(t, r, alpha, b) for t, r, b in rows]
    assert np.abs(found / each - 1).max() < 1e-12
    for (t, r, b), half in list(zip(rows, found.tolist(), strict=True))[::5]:
        root = optimize.brentq(
            lambda h, t=t, r=r, b=b: allowance_miss(h, t, r, b) - alpha, 1e-3, 1e4, xtol=1e-9
        )
        assert half == pytest.approx(root, rel=3e-6)


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
@pytest.mark.parametrize("bounds", [None, (0.0, 100.0)])
def test_ends_of_columns_are_searched_together(neighbors, bounds, monkeypatch):
    """However many columns there are, their ends are searched once per level (with a noisy n at
    each end once more), and are those of each column by itself."""
    searched = []
    monkeypatch.setattr(
        mean_interval,
        "allowance_half_lengths",
        lambda tau, *rest: searched.append(len(tau)) or allowance_half_lengths(tau, *rest),
    )
    values = np.random.default_rng(0).normal(50, 10, (2000, 8))
    more = {} if bounds is None else {"bounds": bounds}
    if neighbors == "add-remove":
        more["n_guess"] = 2000
    made = pm.mean(values, epsilon=20, neighbors=neighbors, noise=pm.SimulatedNoise(3), **more)
    assert made.plan.rationale  # what a plan predicts is found once
    searched.clear()
    rows = made.rows()
    str(made), made.to_dict(), made.interval()
    noisy = sum(item.sums.ratio for item in made.intervals.columns)
    assert searched == [8, *[noisy] * 2 * (noisy > 0)] * 2  # each by itself, and all together
    for j, row in enumerate(rows):
        alone = made.row_interval(j)
        assert (row.lower, row.upper) == pytest.approx((alone.lower[0], alone.upper[0]), rel=1e-12)
