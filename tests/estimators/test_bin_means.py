"""Curves over private times: means by group over public bins, smoothed ones, differences."""

import datetime as dt
import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.cli.app import run
from privmean.data import engines
from privmean.data.group_pairs import ArrayPairTable, GroupWeights
from privmean.data.person_table import ClipInterval
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError
from privmean.estimators.curve_release import CurveIntervals, local_lines
from privmean.estimators.groups.group_means import BinMeans, GroupMeans
from privmean.inference.status import SUPPRESSED
from privmean.mechanisms.group_cells import GroupCells
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.compose import all_dominated, within
from privmean.study.study_file import read_study
from statistics_kit import assert_rate_at_least, combined

EDGES = (0.0, 2.5, 5.0, 10.0)
KEYS = tuple((f"b{j}",) for j in range(7))
MONEY = [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.3}]


def records(persons=800, seed=0):
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(persons), 6)
    t = np.floor(rng.uniform(0, 1000, len(who))) / 100
    y = 1 + 0.2 * t + rng.normal(0, 0.3, persons)[who] + rng.normal(0, 0.2, len(who))
    return {"who": who, "t": t, "y": y}


def pairs_of(values, max_groups, keys=KEYS):
    """Pairs of a matrix of means by bin, NaN for none."""
    person, group = np.nonzero(~np.isnan(values))
    weights = GroupWeights(max_groups, True)
    texts = [key for (key,) in keys]
    found = ArrayPairTable.of(
        person, group, values[person, group], texts, weights, persons=len(values)
    )
    return found


def means_of(rng, persons, bins=7):
    """Means of a person in a random number of bins; a trend over bins."""
    trend = 2 + 0.5 * np.sin(np.arange(bins))
    found = trend + rng.normal(0, 0.5, (persons, 1)) + rng.normal(0, 0.4, (persons, bins))
    return np.where(rng.random(found.shape) < 0.4, found, np.nan)


# --- pairs ----------------------------------------------------------------------------------------
def binned(table, question=None):
    return pm.Table(table, person="who").people(question or pm.Curve("y", "t", EDGES).summary)


def test_bins_hold_each_persons_own_means():
    table = records(60)
    table["y"][5] = np.nan
    found = binned(table).collect()
    for j, (a, b) in enumerate(pairwise(EDGES)):
        inside = (table["t"] >= a) & (table["t"] < b) & np.isfinite(table["y"])
        own = [table["y"][inside & (table["who"] == person)] for person in range(60)]
        wanted = sorted(item.mean() for item in own if len(item))
        np.testing.assert_allclose(np.sort(found.values[0][found.group == j]), wanted, atol=1e-5)
    assert found.keys == (("[0, 2.5)",), ("[2.5, 5)",), ("[5, 10)",))


def test_people_by_the_number_of_their_bins_and_their_weights(monkeypatch):
    monkeypatch.setattr(engines, "IN_MEMORY", -1)
    table = records(200)
    question = pm.Curve("y", "t", tuple(np.arange(11.0)))
    engine = binned(table, question.summary)
    memory = engine.collect()
    cells = {(who, int(t)) for who, t in zip(table["who"].tolist(), table["t"], strict=True)}
    own = np.bincount([sum(person == who for person, _ in cells) for who in range(200)])
    wanted = [*own[1:], *[0] * (11 - len(own))]
    assert engine.group_numbers() == memory.group_numbers() == wanted
    for k in (1, 3, 10):
        weights = GroupWeights(k, True)
        one, two = engine.with_weights(weights), memory.with_weights(weights)
        assert one.group_weights() == two.group_weights()
        full = min(k, 10) * weights.parts
        assert max(min(weights.parts, full // m) * m for m in range(1, 11)) <= full
        assert one.members() == 200
        assert sum(one.log_counts(0, 0.0)) == sum(memory.log_counts(0, 0.0))  # masses stay


# --- privacy --------------------------------------------------------------------------------------
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("money", MONEY)
@pytest.mark.parametrize("k", [1, 3, 7, 9])
def test_the_bill_is_that_of_means_by_group(money, relation, k):
    budget = Budget(**money, neighbors=relation)
    known = 3000 if relation == REPLACE_ONE else None
    shape = PublicShape(("y",), known, None if known else 3000)
    for bounds in (None, (0.0, 4.0)):
        curve = BinMeans(KEYS, k, bounds=bounds).plan(budget, shape)
        limits = () if bounds is None else (bounds,)
        groups = GroupMeans(KEYS, GroupWeights(min(k, 7), True), bounds=limits).plan(budget, shape)
        assert curve.events == groups.events
        people = pairs_of(means_of(np.random.default_rng(k), 3000), min(k, 7))
        one, two = (plan.release(people, SimulatedNoise(1)) for plan in (curve, groups))
        assert one.guarantee.mechanisms == two.guarantee.mechanisms
        np.testing.assert_array_equal(one.estimate, two.estimate)


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("money", MONEY)
def test_the_number_of_bins_is_found_within_the_budget(money, relation):
    budget = Budget(**money, neighbors=relation)
    shape = PublicShape(("y",), 3000 if relation == REPLACE_ONE else None)
    plan = BinMeans(KEYS).plan(budget, shape)
    assert within(plan.events, budget)
    people = pairs_of(means_of(np.random.default_rng(3), 3000), 7)
    made = plan.release(people, SimulatedNoise(5))
    assert within(made.guarantee.mechanisms, budget)
    assert made.guarantee.mechanisms[0].name == "bins of a person"
    if "delta" not in money and "rho" not in money:
        assert sum(loss.pure for loss in made.guarantee.mechanisms) <= Fraction(1)
    assert made.diagnostics["bins a person counts fully in"] in (4, 5)
    assert math.isclose(sum(made.shares.values()), 1.0)


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("money", MONEY)
def test_within_public_bounds_the_lines_of_the_plan_cover_any_run(money, relation):
    budget = Budget(**money, neighbors=relation)
    shape = PublicShape(("y",), 300 if relation == REPLACE_ONE else None, 300)
    plan = BinMeans(KEYS, bounds=(0.0, 4.0)).plan(budget, shape)
    assert plan.fixed
    assert not BinMeans(KEYS).plan(budget, shape).fixed
    few = np.where(np.arange(7) == 0, np.ones((300, 7)), np.nan)
    for values in (np.ones((300, 7)), few, np.full((300, 7), np.nan)):
        made = plan.release(pairs_of(values, 7), SimulatedNoise(1))
        assert all_dominated(made.guarantee.mechanisms, plan.events)
        assert within(made.guarantee.mechanisms, budget)


def moved(k, weights_of=None):
    """Parts of a person by which one person in all bins, from one limit to the other, moves the
    exact sums of all bins; and the share of the declared sensitivity of the cells."""
    rng = np.random.default_rng(0)
    others = means_of(rng, 40)
    boxes = [ClipInterval(0.0, 4.0)] * 7
    sums = []
    for value in (-1e300, 1e300):
        people = pairs_of(np.vstack([others, np.full(7, value)]), 7)
        people = people.with_weights(GroupWeights(k, True))
        if weights_of is not None:
            people = replace(people, weight=weights_of(people), _cache={})
        sums.append(people.group_sums(boxes))
    parts = GroupWeights(k, True).parts
    steps = boxes[0].steps
    total = sum(abs(a.wz - b.wz) for a, b in zip(*sums, strict=True))
    step = GroupCells("c", REPLACE_ONE, (steps,) * 7, parts, k, 21, Fraction(1))
    (share,) = step.sensitivity_share(*(step.exact(boxes, item) for item in sums))
    return Fraction(total, 2 * steps * parts), share


@pytest.mark.parametrize("k", [1, 2, 5, 7])
def test_a_person_in_all_bins_moves_all_sums_by_at_most_k(k):
    sums, share = moved(k)
    assert k * 0.98 < sums <= k
    assert 0.98 < share <= 1
    if k < 7:  # a twin with the weight of a full person for people in more than k bins
        sums, share = moved(k, lambda people: np.full(len(people.weight), people.weights.parts))
        assert sums > k
        assert share > 1


# --- points ---------------------------------------------------------------------------------------
AT = (0.5, 1.5, 2.5, 3.5, 4.5)


def test_local_lines_reproduce_lines_and_add_up_to_one():
    at = np.array(AT)
    for used in (np.ones(5, bool), np.array([True, False, True, True, False])):
        weights = local_lines(at, 1.0, used)
        assert np.allclose(weights.sum(axis=1), 1)
        assert np.allclose(weights @ (3 - 2 * at), 3 - 2 * at)
        assert not weights[:, ~used].any()


def released(bins=5, persons=3000, seed=0, **money):
    keys = KEYS[:bins]
    people = pairs_of(means_of(np.random.default_rng(seed), persons, bins), bins, keys)
    plan = BinMeans(keys, bins).plan(Budget(**money), PublicShape(("y",), persons))
    return plan.release(people, SimulatedNoise(seed)).intervals


@pytest.mark.parametrize("bandwidth", [0.0, 1.0])
def test_a_point_is_a_weighted_sum_of_bins_for_any_dependence(bandwidth):
    table = released(epsilon=2.0)
    made = CurveIntervals(table, AT, bandwidth)
    weights = local_lines(np.array(AT), bandwidth, np.ones(5, bool))
    for clipped in (False, True):
        for row, one in zip(weights, made.lines(0.9, clipped=clipped), strict=True):
            two = combined(table, row, 0.9, clipped=clipped)
            for name in ("estimate", "std_error", "lower", "upper", "noise_lower", "noise_upper"):
                assert math.isclose(getattr(one, name), getattr(two, name), rel_tol=1e-6), name
            assert one.status == two.status


@pytest.mark.parametrize("bandwidth", [0.0, 1.0])
def test_an_empty_bin_has_no_estimate_and_no_part_in_the_others(bandwidth):
    table = released(epsilon=2.0)
    gone = np.array([False, True, False, False, False])
    status = tuple(SUPPRESSED if x else y for x, y in zip(gone, table.status, strict=True))
    holed = replace(table, estimate=np.where(gone, np.nan, table.estimate), status=status)
    made = CurveIntervals(holed, AT, bandwidth)
    assert not made.weights[:, 1].any()
    assert [math.isnan(x) for x in made.estimate] == gone.tolist()
    assert made.statuses[1] == SUPPRESSED
    assert SUPPRESSED not in (made.statuses[0], *made.statuses[2:])
    band = made.interval(0.95)
    assert [math.isnan(x) for x in band.lower] == gone.tolist()
    other = replace(holed, sampling=np.where(gone, 1e9, holed.sampling))  # says nothing
    same = CurveIntervals(other, AT, bandwidth)
    for one, two in zip(same.lines(0.9), made.lines(0.9), strict=True):
        np.testing.assert_equal(one, two)


@pytest.mark.slow
@pytest.mark.parametrize("bandwidth", [0.0, 1.0])
@pytest.mark.parametrize("money", [{"epsilon": 1.0}, {"rho": 0.5}])
def test_intervals_and_bands_hold_as_often_as_said(bandwidth, money):
    truth = np.nanmean(means_of(np.random.default_rng(9), 300_000, 5), axis=0)
    truth = local_lines(np.array(AT), bandwidth, np.ones(5, bool)) @ truth
    runs, alone, band = 40, 0, 0
    for seed in range(runs):
        made = CurveIntervals(released(seed=100 + seed, **money), AT, bandwidth)
        alone += sum(x.lower <= y <= x.upper for x, y in zip(made.lines(0.95), truth, strict=True))
        ends = made.interval(0.95)
        band += bool(np.all((np.array(ends.lower) <= truth) & (truth <= np.array(ends.upper))))
    assert_rate_at_least(alone, 5 * runs, 0.95)
    assert_rate_at_least(band, runs, 0.95)


# --- releases -------------------------------------------------------------------------------------


WIDE = (-20.0, -10.0, 0.0, 5.0, 10.0, 11.0, 40.0)  # records lie in [0, 10]


@pytest.fixture(scope="module")
def wide():
    """A table that is reduced once for all settings and seeds."""
    return pm.Table(records(3000), person="who")


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"bounds": (0.0, 4.0), "epsilon": 1.0}, {"bounds": (0.0, 4.0), "rho": 0.5},
        {"bounds": (0.0, 4.0), "epsilon": 1.0, "neighbors": "add-remove", "n_guess": 3000},
        {"epsilon": 4.0}, {"epsilon": 4.0, "delta": 1e-6}, {"epsilon": 4.0, "smooth": 3.0},
    ],
)  # fmt: skip
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
        assert all(math.isnan(rows[j].estimate + rows[j].std_error) for j in empty)
        assert abs(rows[2].n - 2950) < 400
        assert release.status == "suppressed"
        assert not release.failed
        text = release.summary().splitlines()
        gaps = [line.split() for line in text if line.endswith("  a")]
        assert [line[-6:-2] for line in gaps] == [["-"] * 4] * 4
        assert any(line.startswith("a  suppressed: Too few people") for line in text)
        assert release.to_dict()["curve"]["estimate"][0] is None


@pytest.mark.parametrize("settings", [{}, {"bounds": (0, 4)}, {"smooth": 50.0, "bounds": (0, 4)}])
def test_a_curve_without_any_person_fails(settings):
    release = pm.curve(
        records(3000), "y", time="t", bins=(100, 200, 300), person="who", epsilon=1.0,
        noise=SimulatedNoise(1), **settings,
    )  # fmt: skip
    assert release.failed
    assert np.isnan(release.estimate).all()
    assert "bin" in release.advice
    assert release.summary()


def test_a_bound_that_nobody_is_seen_away_from_leaves_the_interval_open():
    """Of a bound that was given nothing is known beyond it; a type has no values there."""
    settings = {"time": "t", "bins": EDGES, "person": "who", "epsilon": 1.0}
    release = pm.curve(records(3000), "y", bounds=(10, 20), noise=SimulatedNoise(1), **settings)
    assert {row.status for row in release.rows()} == {"at_bound"}
    assert all(row.lower == -math.inf for row in release.rows())
    assert np.isneginf(release.interval().lower).all()
    assert not release.answered
    flags = {**records(3000), "y": np.ones(18_000, dtype=bool)}
    release = pm.curve(flags, "y", noise=SimulatedNoise(1), **settings)
    assert {row.status for row in release.rows()} == {"ok"}
    assert all(0 <= row.lower <= row.upper <= 1 for row in release.rows())


@pytest.mark.slow
def test_people_in_many_bins_count_less_and_the_release_says_so(wide):
    settings = {"time": "t", "bins": tuple(np.arange(11.0)), "epsilon": 2.0}
    release = pm.curve(wide, "y", max_bins=2, noise=SimulatedNoise(1), **settings)
    assert release.estimand == "mean of y by t, people in more than 2 bins weighted less"
    assert "Each person counts in at most 2 bins fully; see max_bins." in str(release)
    assert sum(row.n for row in release.rows()) < 2.2 * 3000
    found = pm.curve(wide, "y", noise=SimulatedNoise(1), **settings)
    k = found.diagnostics["bins a person counts fully in"]
    assert 4 <= k <= 6
    assert f"people in more than {k} bins" in found.estimand
    every = pm.curve(wide, "y", max_bins=10, noise=SimulatedNoise(1), **settings)
    assert every.estimand == "mean of y by t"


def test_clustering_widens_what_sampling_does(wide):
    settings = {"time": "t", "bins": EDGES, "bounds": (0, 4), "epsilon": 2.0}
    one, four = (
        pm.curve(wide, "y", clustering=x, noise=SimulatedNoise(1), **settings) for x in (1, 4)
    )
    squares = [np.square(x.std_error) - np.square(x.noise_sd) for x in (one, four)]
    np.testing.assert_allclose(squares[1], 4 * squares[0], rtol=1e-6)
    assert "design effect 4" in str(four)


def table(persons=4000):
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(persons), 3)
    arm = (np.arange(persons) % 2)[who]
    time = rng.uniform(0, 5, len(who))
    y = 2 + 0.2 * time + 0.5 * arm + rng.normal(0, 0.5, len(who))
    return pl.DataFrame(
        {"who": who, "t": time, "y": y, "arm": arm, "name": np.where(arm == 1, "new", "old")}
    )


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [None, (0.0, 6.0)])
@pytest.mark.parametrize(("by", "levels"), [("arm", (0, 1)), ("name", ("old", "new"))])
def test_a_difference_of_two_curves(by, levels, bounds):
    said = {"time": "t", "bins": (0, 1, 2, 3, 4, 5), "person": "who", "bounds": bounds}
    made = pm.curve(
        table(), "y", **said, by=by, levels=levels, smooth=1.0, epsilon=4.0, delta=1e-6,
        noise=SimulatedNoise(1),
    )  # fmt: skip
    assert made.at == AT
    assert f"Difference of the mean of y by t, {by} {levels[1]} - {levels[0]}\n" in str(made)
    shown = made.table()
    assert np.all((shown.lower < 0.5) & (shown.upper > 0.5))
    assert np.all(shown.band_upper - shown.band_lower > shown.upper - shown.lower)
    assert np.all(shown.upper - shown.lower < 0.6)
    assert made.guarantee.verify()


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bins", [[0, "2020-01-01"], ["2020-01-01", "2020-13-01"], "2020-01-01", 5])
def test_edges_of_two_kinds_are_refused(bins):
    with pytest.raises(ArgumentError, match="all numbers or all dates"):
        pm.Curve("x", "day", bins=bins)


# --- dates ----------------------------------------------------------------------------------------
DATES = ["2020-01-01", "2020-07-01", "2021-01-01", "2022-01-01"]


@pytest.fixture(scope="module")
def dated():
    rng = np.random.default_rng(8)
    days = rng.integers(-30, 800, 1200)
    day = pl.Series(np.datetime64("2020-01-01") + days).cast(pl.Date)
    who = [f"p{k:03}" for k in np.repeat(np.arange(200), 6)]
    return pl.DataFrame({"who": who, "day": day, "n": days * 1.0, "x": rng.normal(3, 1, 1200)})


def pairs(source, time="day", bins=DATES):
    """Bins and values of all pairs, in one order."""
    found = binned(source, pm.Curve("x", time, bins=bins).summary).collect()
    return sorted(zip(found.group.tolist(), found.values[0].tolist(), strict=True))


@pytest.mark.slow
def test_dates_are_the_days_they_are_in_every_home(dated, tmp_path):
    wanted = pairs(dated, "n", [0, 182, 366, 731])
    assert len(wanted) > 400
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
        assert pairs(home) == wanted
    edges = [dt.date(2020, 1, 1), dt.datetime(2020, 7, 1), np.datetime64("2021-01-01"), DATES[3]]
    assert pairs(dated, bins=edges) == wanted


def test_a_text_that_is_no_date_is_a_missing_time(dated):
    text = dated.with_columns(pl.col("day").cast(pl.String))
    words = ["", "2020", "2020/08/01", "2020-08-0", "2020-08-011", "x2020-08-01", "\x00", None]
    odd = [words[k % len(words)] if k % 6 else "2020-08-01" for k in range(len(text))]
    found = pairs(text.with_columns(day=pl.Series(odd)))
    assert {place for place, _ in found} == {1}
    wanted = np.sort(text["x"].to_numpy()[::6])
    np.testing.assert_allclose([value for _, value in found], wanted, atol=1e-5)


def test_a_column_of_the_other_kind_is_refused_before_anything_is_spent(dated):
    with pytest.raises(pm.SchemaError, match="does not hold dates; give bins of numbers"):
        pairs(dated, "n")
    with pytest.raises(pm.SchemaError, match="bins of a curve can be dates"):
        pairs(dated, "day", [20200101, 20210101])
    aware = dated.with_columns(pl.col("day").cast(pl.Datetime("us", "UTC")))
    with pytest.raises(pm.SchemaError, match="without a zone"):
        pairs(aware)


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


def test_noise_intervals_of_points_lie_within_those_of_all_whatever_was_corrected():
    g = np.random.default_rng(8)
    who, time = np.repeat(np.arange(2000), 3), np.tile([0, 1, 2], 2000)
    table = pm.Table({"who": who, "t": time, "y": g.normal(size=6000)}, person="who")
    options = {"time": "t", "bins": [0, 1, 2, 3], "neighbors": "replace-one"}
    made = pm.curve(table, "y", epsilon=2, noise=pm.SimulatedNoise(1), **options).intervals
    made = replace(made, table=replace(made.table, corrected=np.full(3, 5.0)))
    rows, every = made.lines(0.95, clipped=not made.table.counted), made.noise_interval(0.95)
    for row, lower, upper in zip(rows, every.lower, every.upper, strict=True):
        assert lower < row.noise_lower < row.noise_upper < upper
