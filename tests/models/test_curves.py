"""Mean curves: cells of public times, bins of private times, bands, and one hostile unit."""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.cli.app import run
from privmean.data.person_table import ClipInterval
from privmean.errors import ArgumentError
from privmean.models.joint_quantiles import JointErrors, half_of_sum
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import Budget
from privmean.study.study_file import read_study
from statistics_kit import (
    assert_mean,
    assert_rate,
    assert_rate_at_least,
    assert_rate_at_most,
    assert_variance,
)


class Silence(SimulatedNoise):
    """No noise at all: what the un-noised sums are."""

    def laplace(self, size, scale):
        return np.zeros(size, dtype=np.int64)


TIMES = np.arange(400) / 400


@pytest.mark.parametrize("value", [1e300, -math.inf, math.inf, math.nan, 3.0])
@pytest.mark.parametrize("bandwidth", [0.0, 0.1])
def test_one_response_moves_one_cell_by_at_most_two_radii(value, bandwidth):
    rng = np.random.default_rng(1)
    responses = rng.normal(0, 3, 400)
    plan = pm.FixedDesign((-1.0, 1.5), 8, bandwidth).plan(Budget(epsilon=1.0), times=TIMES)
    other = responses.copy()
    other[123] = value
    gap = plan.release(other, Silence(0)).estimate - plan.release(responses, Silence(0)).estimate
    cell = TIMES[123] * 8 // 1
    largest = 2.5 / 50 * plan.weights[:, int(cell)]  # the width of the box over a cell's responses
    assert np.all(np.abs(gap) <= largest * (1 + 1e-5))
    if not bandwidth:
        assert np.count_nonzero(gap) <= 1


def test_the_noise_of_a_cell_has_the_full_budget():
    plan = pm.FixedDesign((-1.0, 1.0), 4).plan(Budget(epsilon=0.5), times=TIMES)
    assert sum(loss.pure for loss in plan.events) == 0.5
    zero = np.zeros(400)
    found = np.array([plan.release(zero, SimulatedNoise(s)).estimate for s in range(1500)])
    scale = 2 * 1.0 / (0.5 * 100)
    for j in range(4):
        assert_mean(found[:, j], 0.0, slack=2.0**-20)
        assert_variance(found[:, j], 2 * scale**2, kurtosis=6.0)
    assert np.allclose(plan.noise, math.sqrt(2) * scale, rtol=1e-4)


def test_weights_are_public_and_add_up_to_one():
    design = pm.FixedDesign((-1, 1), 10, 0.2, at=(0.0, 0.31, 5.0))
    plan = design.plan(Budget(rho=0.1), times=TIMES)
    assert np.allclose(plan.weights.sum(axis=1), 1)
    assert np.isfinite(plan.weights).all()
    release = plan.release(TIMES, SimulatedNoise(1))
    release.guarantee.require()
    assert release.guarantee.unit == "response"
    assert release.columns == ("0", "0.31", "5")


@pytest.mark.parametrize("budget", [Budget(epsilon=1.0), Budget(rho=0.3)])
@pytest.mark.parametrize("bandwidth", [0.0, 0.1])
def test_bands_hold_the_clipped_curve(budget, bandwidth):
    plan = pm.FixedDesign((-3, 3), 5, bandwidth).plan(budget, times=TIMES)
    truth = np.sin(6 * TIMES)
    cells = truth.reshape(5, 80).mean(axis=1)
    exact = plan.weights @ cells
    rng = np.random.default_rng(2)
    alone, together = 0, 0
    for seed in range(200):
        table = plan.release(truth + rng.normal(0, 0.3, 400), SimulatedNoise(seed)).table(0.9)
        inside = (table.lower <= exact) & (exact <= table.upper)
        alone += int(inside[2])
        together += int(np.all((table.band_lower <= exact) & (exact <= table.band_upper)))
    assert_rate_at_least(alone, 200, 0.9)
    assert_rate_at_least(together, 200, 0.9)


@pytest.mark.parametrize(("scales", "sd"), [((1.0, 0.6, 0.3), 0.8), ((1.0, 1.0), 0.0)])
def test_a_sum_of_laplace_noises_exceeds_its_half_length_as_often_as_said(scales, sd):
    rng, draws = np.random.default_rng(3), 400_000
    sums = rng.laplace(size=(draws, len(scales))) @ np.array(scales) + sd * rng.normal(size=draws)
    for alpha in (0.5, 0.1, 0.01, 0.001):
        half = half_of_sum(np.array(scales), sd, alpha)
        assert_rate(int(np.sum(np.abs(sums) > half)), draws, alpha)
    rare = half_of_sum(np.array(scales), sd, 1e-5)
    assert_rate_at_most(int(np.sum(np.abs(sums) > rare)), draws, 1e-5)


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_errors_of_all_points_are_inside_as_often_as_said(gaussian, level):
    """Heavily shared cells, where a bound by points would be far too long."""
    at = np.linspace(0, 1, 30)
    weights = np.exp(-0.5 * ((at[:, None] - at[None, :]) / 0.15) ** 2)
    weights /= weights.sum(axis=1, keepdims=True)
    noise, spread = np.linspace(0.1, 1, 30), np.linspace(1, 0.1, 30)
    law = JointErrors(weights, noise, spread, gaussian)
    half = law.together(level)
    assert np.all(half < law.alone(1 - (1 - level) / 30))
    rng, draws = np.random.default_rng(1), 20_000
    drawn = rng.normal(size=(draws, 30)) if gaussian else rng.laplace(size=(draws, 30))
    errors = (noise * drawn + np.sqrt(spread) * rng.normal(size=(draws, 30))) @ weights.T
    held = np.mean(np.all(np.abs(errors) <= half, axis=1))
    slack = 4.9 * np.sqrt(level * (1 - level) * (1 / draws + 1 / 2**14))
    assert abs(held - level) < slack


@pytest.mark.parametrize("bandwidth", [0.0, 0.1])
def test_bands_of_curves_at_public_times_hold_as_often_as_said(bandwidth):
    times = np.linspace(0, 1, 1500)
    plan = pm.FixedDesign((-2.0, 2.0), 8, bandwidth).plan(Budget(epsilon=1.0), times=times)
    means = np.array([np.sin(5 * times[plan.cell == place]).mean() for place in plan.used])
    truth, held, runs = plan.weights @ means, 0, 60
    for seed in range(runs):
        values = np.sin(5 * times) + 0.2 * np.random.default_rng(seed).normal(size=1500)
        band = plan.release(values, SimulatedNoise(seed)).interval()
        held += bool(np.all((np.array(band.lower) <= truth) & (truth <= np.array(band.upper))))
    assert_rate(held, runs, 0.95)


def records(persons=800, seed=0):
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(persons), 6)
    t = np.round(rng.uniform(0, 10, len(who)), 2)
    y = 1 + 0.2 * t + rng.normal(0, 0.3, persons)[who] + rng.normal(0, 0.2, len(who))
    return {"who": who, "t": t, "y": y}


EDGES = (0.0, 2.5, 5.0, 10.0)


def binned_means(table):
    return pm.Table(table, person="who").people(pm.Curve("y", "t", EDGES).summary)


def test_bins_hold_each_persons_own_means():
    table = records(60)
    table["y"][5] = np.nan
    people = binned_means(table)
    for person in range(60):
        for j, (a, b) in enumerate(pairwise(EDGES)):
            at = (table["who"] == person) & (table["t"] >= a) & (table["t"] < b)
            own = table["y"][at & np.isfinite(table["y"])]
            found = people.values[person, j]
            assert math.isnan(found) if len(own) == 0 else abs(found - own.mean()) < 1e-5
    assert people.columns == ("[0, 2.5)", "[2.5, 5)", "[5, 10)")


def test_a_person_in_all_bins_moves_each_by_at_most_its_sensitivity():
    """Cells of private times are not disjoint: every bin moves, and every bin is on the bill."""
    table = records(100)
    hostile = {"who": np.full(9, 7), "t": np.arange(9) + 0.5, "y": np.full(9, 1e300)}
    rest = {name: x[table["who"] != 7] for name, x in table.items()}
    swapped = {name: np.concatenate([rest[name], hostile[name]]) for name in rest}
    box = ClipInterval(0.0, 4.0)
    one, two = (binned_means(item).interval_sums([box] * 3) for item in (table, swapped))
    moved = [abs(a.z - b.z) for a, b in zip(one, two, strict=True)]
    assert all(0 < gap <= 2 * box.steps for gap in moved)
    release = pm.curve(
        swapped, "y", time="t", bins=EDGES, person="who", epsilon=2.0, bounds=(0, 4),
        noise=SimulatedNoise(0),
    )  # fmt: skip
    assert len(release.guarantee.mechanisms) == 3
    assert sum(loss.pure for loss in release.guarantee.mechanisms) == 2


@pytest.mark.parametrize(
    "settings",
    [{"bounds": (0.0, 5.0)}, {}, {"concentration": pm.SubGaussian(sd=0.7), "delta": 1e-6}],
)
def test_curve_is_within_its_bands(settings):
    release = pm.curve(
        records(3000), "y", time="t", bins=EDGES, person="who", epsilon=3.0, level=0.999999,
        noise=SimulatedNoise(4), **settings,
    )  # fmt: skip
    table = release.table()
    truth = np.array([1.25, 1.75, 2.5])
    assert np.all((table.lower < truth) & (truth < table.upper))
    assert np.all((table.band_lower <= table.lower) & (table.upper <= table.band_upper))
    assert np.all(table.upper - table.lower < 0.5)
    assert table.at.tolist() == [1.25, 3.75, 7.5]
    assert release.to_dict()["curve"]["at"] == [1.25, 3.75, 7.5]
    assert "pointwise\n" in str(release)


def test_plot_draws_both_bands():
    plan = pm.FixedDesign((-1.0, 1.0), 4).plan(Budget(epsilon=5.0), times=TIMES)
    axes = plan.release(TIMES, SimulatedNoise(0)).plot()
    assert len(axes.collections) == 2
    assert len(axes.lines) == 1


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"bins": (1, 1)}, "bins"),
        ({"bins": (3,)}, "bins"),
        ({"bins": 3}, "bins"),
        ({"bounds": (0, 1), "concentration": pm.SubGaussian(sd=1)}, "assume"),
        ({"value": None}, "value"),
    ],
)
def test_arguments_are_checked_before_data(arguments, name):
    kept = {"value": "y", "time": "t", "bins": EDGES, "person": "who", "epsilon": 1.0, **arguments}
    with pytest.raises(ArgumentError) as caught:
        pm.curve("no such file.csv", kept.pop("value"), **kept)
    assert caught.value.argument == name


# --- bins that hold nobody ------------------------------------------------------------------------
WIDE = (-20.0, -10.0, 0.0, 5.0, 10.0, 11.0, 40.0)  # records lie in [0, 10]


@pytest.fixture(scope="module")
def wide():
    """A table that is reduced once for all settings and seeds."""
    return pm.Table(records(3000), person="who")


@pytest.mark.parametrize(
    "settings",
    [
        {"bounds": (0.0, 4.0), "epsilon": 1.0},
        {"bounds": (0.0, 4.0), "rho": 0.5},
        {"bounds": (0.0, 4.0), "epsilon": 1.0, "neighbors": "add-remove", "n_guess": 3000},
        {"epsilon": 4.0},
        {"epsilon": 4.0, "delta": 1e-6},
        {"method": pm.PrivateScale(target="mean"), "epsilon": 4.0},
    ],
)
def test_a_bin_that_holds_nobody_has_no_number(settings, wide):
    for seed in range(6):
        release = pm.curve(wide, "y", time="t", bins=WIDE, noise=SimulatedNoise(seed), **settings)
        found = release.table()
        empty = [0, 1, 4, 5]
        assert [found.status[j] for j in empty] == ["suppressed"] * 4
        for name in ("estimate", "lower", "upper", "band_lower", "band_upper"):
            assert np.isnan(getattr(found, name)[empty]).all()
            assert np.isfinite(getattr(found, name)[[2, 3]]).all()
        noise = release.noise_interval()
        assert np.isnan(np.array([*noise.lower, *noise.upper])[empty]).all()
        rows = release.rows()
        known = "bounds" in settings or "method" in settings or "assume" in settings
        said = "ok" if known else "outliers_unchecked"  # at these budgets nobody counts the tails
        assert [row.status for row in rows][2:4] == [said, said]
        assert all(math.isnan(rows[j].estimate + rows[j].std_error) for j in empty)
        assert abs(rows[2].n - 2950) < 400
        assert release.status == "suppressed"
        assert not release.failed
        text = release.summary().splitlines()
        gaps = [line.split() for line in text if line.endswith("  a")]
        assert [line[-6:-2] for line in gaps] == [["-"] * 4] * 4
        assert any(line.startswith("a  suppressed: Too few people") for line in text)
        assert release.to_dict()["curve"]["estimate"][0] is None


def test_a_curve_without_any_person_fails():
    table = records(3000)
    release = pm.curve(
        table, "y", time="t", bins=(100, 200, 300), person="who", epsilon=1.0, bounds=(0, 4),
        noise=SimulatedNoise(1),
    )  # fmt: skip
    assert release.failed
    assert np.isnan(release.estimate).all()
    assert "Too few people have a value" in release.advice


def test_a_mean_that_noise_carries_beyond_its_limits_is_not_shown():
    """30 persons at the upper limit: half of the noisy means lie beyond it. Of a bound that a type
    implies nothing is shown; of one that was given nothing is known beyond it."""
    from privmean.estimators.means.clipped_mean import ClippedMean, ClippedMeans
    from privmean.mechanisms.clipped_sum import ColumnSums
    from privmean.models.bin_suppression import BinnedIntervals

    sums = ColumnSums(34.0, 30.0, 30.0, (3.0, 3.0, 3.0), False, "replace-one")
    mean = ClippedMean(ClipInterval(0.0, 4.0), sums, 1000)
    assert mean.estimate == 4.0
    means = ClippedMeans((mean,), 1000, 1.0, "mean", "", ((0.0, 4.0),))
    given = BinnedIntervals(means, (0.0, 4.0))
    assert given.statuses(0.95) == ("at_bound",)
    assert given.shown(np.array([4.0]), 0.95) == [4.0]
    assert given.pointwise(0.95).upper[0] == np.inf
    made = BinnedIntervals(replace(means, declared=True), (0.0, 4.0))
    assert made.statuses(0.95) == ("low_precision",)
    assert np.isnan(made.shown(np.array([4.0]), 0.95)).all()
    assert np.isfinite(made.pointwise(0.95).lower[0])


def test_a_gap_is_drawn_as_a_gap():
    release = pm.curve(
        records(3000), "y", time="t", bins=WIDE, person="who", epsilon=1.0, bounds=(0, 4),
        noise=SimulatedNoise(1),
    )  # fmt: skip
    (line,) = [x for x in release.plot().lines if x.get_label() == "private mean"]
    assert np.isnan(line.get_ydata()[[0, 1, 4, 5]].astype(float)).all()


@pytest.mark.parametrize(
    ("index", "said"), [(1.2, {"outliers_clipped", "modified_target"}), (0, {"ok"})]
)
def test_a_bin_says_how_many_persons_lie_beyond_its_limits(index, said):
    """Means of heavy tails: where persons are left out, the bin says so, and the others do not."""
    rng = np.random.default_rng(2)
    who = np.repeat(np.arange(6000), 2)
    time = np.tile([0.5, 1.5], 6000)
    values = 2 + 0.3 * rng.normal(size=12_000)
    if index:
        values = np.where(time > 1, (1 - rng.random(12_000)) ** (-1 / index), values)
    curve = pm.curve(
        {"id": who, "t": time, "y": values}, "y", time="t", bins=(0, 1, 2), person="id",
        epsilon=20.0, noise=SimulatedNoise(1),
    )  # fmt: skip
    statuses = curve.table().status
    assert statuses[0] == "ok"
    assert statuses[1] in said
    assert np.isfinite(curve.estimate).all()
    assert curve.rows()[1].status == statuses[1]
    if index:
        assert curve.status == statuses[1]
    assert curve.rows()[0].lower < 2 < curve.rows()[0].upper


DATES = ["2020-01-01", "2020-07-01", "2021-01-01", "2022-01-01"]


@pytest.fixture(scope="module")
def dated():
    rng = np.random.default_rng(8)
    days = rng.integers(-30, 800, 1200)
    day = pl.Series(np.datetime64("2020-01-01") + days).cast(pl.Date)
    who = [f"p{k:03}" for k in np.repeat(np.arange(200), 6)]
    return pl.DataFrame({"who": who, "day": day, "n": days * 1.0, "x": rng.normal(3, 1, 1200)})


def binned(source, time="day", bins=DATES):
    asked = pm.Curve("x", time, bins=bins, assume=(0, 6))
    return asked.summary.reduce(pm.Table(source, person="who")).values


def test_dates_are_the_days_they_are_in_every_home(dated, tmp_path):
    wanted = binned(dated, "n", [0, 182, 366, 731])
    late = dated.with_columns(pl.col("day").cast(pl.Datetime) + pl.duration(hours=23, minutes=59))
    said = late.with_columns(pl.col("day").dt.strftime("%Y-%m-%dT%H:%M"))
    objects = dated.to_pandas()
    objects["day"] = [item.date() for item in objects["day"]]
    homes = [dated, late, said, late.to_pandas(), objects, late.to_arrow(), dated.lazy()]
    for name, frame in (("a.csv", dated), ("b.csv", late), ("c.csv", said)):
        frame.write_csv(tmp_path / name)
        homes.append(str(tmp_path / name))
    late.write_parquet(tmp_path / "t.parquet")
    said.write_ndjson(tmp_path / "t.jsonl")
    for home in (*homes, str(tmp_path / "t.parquet"), str(tmp_path / "t.jsonl")):
        np.testing.assert_array_equal(binned(home), wanted)
    edges = [dt.date(2020, 1, 1), dt.datetime(2020, 7, 1), np.datetime64("2021-01-01"), DATES[3]]
    np.testing.assert_array_equal(binned(dated, bins=edges), wanted)


def test_a_text_that_is_no_date_is_a_missing_time(dated):
    text = dated.with_columns(pl.col("day").cast(pl.String))
    words = ["", "2020", "2020/08/01", "2020-08-0", "2020-08-011", "x2020-08-01", "\x00", None]
    odd = [words[k % len(words)] if k % 6 else "2020-08-01" for k in range(len(text))]
    found = binned(text.with_columns(day=pl.Series(odd)))
    assert np.isnan(found[:, [0, 2]]).all()
    np.testing.assert_allclose(found[:, 1], text["x"].to_numpy()[::6], atol=1e-5)


@pytest.mark.parametrize("by", ["x", "day"])
def test_groups_by_the_value_or_the_time_are_refused(by):
    with pytest.raises(ArgumentError, match=f"by='{by}': is named twice"):
        pm.Curve("x", "day", bins=[0, 1], by=by, levels=(0, 1), assume=(0, 1))


@pytest.mark.parametrize("bins", [[0, "2020-01-01"], ["2020-01-01", "2020-13-01"], "2020-01-01", 5])
def test_edges_of_two_kinds_are_refused(bins):
    with pytest.raises(ArgumentError, match="all numbers or all dates"):
        pm.Curve("x", "day", bins=bins)


def test_a_column_of_the_other_kind_is_refused_before_anything_is_spent(dated):
    with pytest.raises(pm.SchemaError, match="does not hold dates; give bins of numbers"):
        binned(dated, "n")
    with pytest.raises(pm.SchemaError, match="bins of a curve can be dates"):
        binned(dated, "day", [20200101, 20210101])
    aware = dated.with_columns(pl.col("day").cast(pl.Datetime("us", "UTC")))
    with pytest.raises(pm.SchemaError, match="without a zone"):
        binned(aware)


def test_a_curve_over_dates_by_shell_and_file_is_that_of_python(dated, tmp_path, capsys):
    table = tmp_path / "t.csv"
    dated.write_csv(table)
    asked = ["curve", str(table), "--person", "who", "--value", "x", "--time", "day"]
    settings = ["--bins", ",".join(DATES), "--bounds", "0", "6", "--epsilon", "8", "--json"]
    assert run([*asked, *settings]) == 0
    shell = json.loads(capsys.readouterr().out)
    file = tmp_path / "study.toml"
    file.write_text(
        f'[table]\nsource = "{table}"\nperson = "who"\n[budget]\nepsilon = 8.0\n[questions.q]\n'
        'ask = "curve"\nvalue = "x"\ntime = "day"\nassume = "0,6"\n'
        f"bins = [{DATES[0]}, {DATES[1]}, '{DATES[2]}', {DATES[3]}]\n"
    )
    study = read_study(file).release()["q"]
    python = pm.curve(
        dated, "x", person="who", time="day", bins=DATES, bounds=(0, 6), epsilon=8, smooth=90
    )
    assert shell["columns"] == list(study.columns) == [
        "[2020-01-01, 2020-07-01)", "[2020-07-01, 2021-01-01)", "[2021-01-01, 2022-01-01)"
    ]  # fmt: skip
    assert python.columns == ("2020-04-01", "2020-10-01", "2021-07-02")
    assert tuple(shell["curve"]["at"]) == study.at == python.at == (18353.0, 18536.0, 18810.5)
