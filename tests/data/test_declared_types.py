"""Boolean columns have the bounds 0 and 1 by their declared type, in every source and question."""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sql_tables

import privmean as pm
import statistics_kit
from privmean.central.bounded import BoundedMeanPlan
from privmean.data.column_types import PublicBounds
from privmean.data.table import Table
from privmean.noise.simulated import SimulatedNoise

SIZE = 1200
BOOLEAN = PublicBounds("Boolean", 0.0, 1.0)


def columns(share=0.9, size=SIZE, seed=3):
    g = np.random.default_rng(seed)
    n = 2 * size
    return {
        "who": np.repeat(np.arange(size), 2), "yes": g.random(n) < share, "num": g.normal(5, 1, n),
        "rare": g.random(n) < 0.05, "t": np.tile([0.5, 1.5], size),
        "key": np.repeat(g.choice(["a", "b", "c"], size), 2),
        "side": np.repeat(np.arange(size) % 2, 2),
        "part": np.tile(["x", "y"], size),
    }  # fmt: skip


def parquet(folder):
    path = folder / "b.parquet"
    pl.DataFrame(columns()).write_parquet(path)
    return str(path)


def folder_of(folder):
    (folder / "parts").mkdir()
    frame = pl.DataFrame(columns())
    frame[:SIZE].write_parquet(folder / "parts" / "1.parquet")
    frame[SIZE:].write_parquet(folder / "parts" / "2.parquet")
    return str(folder / "parts")


SOURCES = {
    "numpy": lambda _: columns(),
    "pandas": lambda _: pd.DataFrame(columns()),
    "pandas nullable": lambda _: pd.DataFrame(columns()).astype({"yes": "boolean"}),
    "pandas arrow": lambda _: pd.DataFrame(columns()).astype({"yes": "bool[pyarrow]"}),
    "polars": lambda _: pl.DataFrame(columns()),
    "polars lazy": lambda _: pl.DataFrame(columns()).lazy(),
    "arrow": lambda _: pa.table(columns()),
    "duckdb": lambda _: duckdb.from_arrow(pa.table(columns())),
    "parquet": parquet,
    "folder": folder_of,
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_boolean_column_is_bounded_in_every_source(name, tmp_path):
    table = Table(SOURCES[name](tmp_path), person="who")
    assert table.public_bounds(("yes", "num")) == (("yes", "num"), {"yes": BOOLEAN})
    release = pm.mean(table, "yes", epsilon=1.0, noise=SimulatedNoise(1))
    assert isinstance(release.plan, BoundedMeanPlan)
    assert release.plan.describe()["bounds"] == [[0.0, 1.0]]
    (row,) = release.rows()
    assert 0 <= row.lower <= row.noise_lower <= row.estimate <= row.noise_upper <= row.upper <= 1
    assert "unseen" not in str(release)


def test_an_array_of_truth_values_is_bounded():
    x = columns()["yes"][:SIZE]
    release = pm.mean(x, epsilon=1.0, noise=SimulatedNoise(1))
    assert isinstance(release.plan, BoundedMeanPlan)


@pytest.mark.parametrize("engine", sql_tables.ENGINES)
def test_an_sql_table_is_bounded(engine):
    lacking = sql_tables.missing(engine)
    if lacking:
        pytest.skip(lacking)
    made = sql_tables.put(engine, pa.table(columns()).select(["who", "yes", "num"]))
    table = Table(made, person="who")
    assert table.public_bounds(("yes", "num"))[1] == {"yes": BOOLEAN}
    release = pm.mean(table, "yes", epsilon=1.0, noise=SimulatedNoise(1))
    assert isinstance(release.plan, BoundedMeanPlan)
    sql_tables.drop(engine, made)


def test_text_declares_no_type(tmp_path):
    path = tmp_path / "b.csv"
    pl.DataFrame(columns()).with_columns(pl.col("yes").cast(pl.Int8)).write_csv(path)
    table = Table(str(path), person="who")
    assert table.public_bounds(("yes",)) == (("yes",), {})
    assert not isinstance(pm.mean(table, "yes", epsilon=1.0).plan, BoundedMeanPlan)


KEYS = {"by": "key", "keys": ["a", "b", "c"]}
QUESTIONS = {
    "mean": (pm.mean, "yes", {}),
    "rare": (pm.mean, "rare", {}),
    "over records": (pm.mean, "yes", {"estimand": "records", "max_records": 2}),
    "two Boolean columns": (pm.mean, ["yes", "rare"], {}),
    "one of two columns": (pm.mean, ["yes", "num"], {}),
    "one of four columns": (pm.mean, ["yes", "num", "t", "side"], {"delta": 1e-6}),
    "groups": (pm.mean, "yes", {**KEYS, "contrasts": ["a - b", "each - rest"]}),
    "groups, with delta": (pm.mean, "yes", {**KEYS, "delta": 1e-6}),
    "groups, shrunk": (pm.mean, "yes", {**KEYS, "shrink": True}),
    "weighted groups": (pm.mean, "yes", {"by": "part", "keys": ["x", "y"], "max_groups": 2}),
    "public groups": (pm.mean, "yes", {**KEYS, "membership": "public"}),
    "private keys": (pm.mean, "yes", {"by": "key", "delta": 1e-6}),
    "groups of two values": (pm.mean, ["yes", "rare"], KEYS),
    "arms": (pm.compare, "yes", {"arms": "side"}),
    "public arms": (pm.compare, "yes", {"arms": "side", "membership": "public"}),
    "a pair": (pm.compare, "yes", {"by": "part", "pair": ("x", "y")}),
    "curve": (pm.curve, "yes", {"time": "t", "bins": [0, 1, 2]}),
    "smoothed curve": (
        pm.curve,
        "yes",
        {"time": "t", "bins": [0, 1, 2], "smooth": 0.5, "bounds": (0, 1)},
    ),
    "quantiles": (pm.quantile, "yes", {"q": (0.25, 0.5)}),
    "variance": (pm.variance, "yes", {}),
}
LIMITS = {"variance": (0.0, 0.25), "standard deviation": (0.0, 0.5)}


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("epsilon", [0.2, 2.0])
def test_no_printed_end_passes_the_bounds(name, epsilon):
    ask, value, said = QUESTIONS[name]
    table = pl.DataFrame(columns())
    for seed in range(3):
        try:
            release = ask(
                table, value, person="who", epsilon=epsilon, noise=SimulatedNoise(seed), **said
            )
        except pm.InfeasibleError:
            return
        for row in release.rows():
            if row.term in ("num", "t", "side"):
                continue
            low, high = LIMITS.get(row.term, (0.0, 1.0))
            if " - " in row.group or name in ("public arms", "a pair"):
                low = -1.0
            ends = (row.estimate, row.lower, row.upper, row.noise_lower, row.noise_upper)
            for end in ends:
                assert math.isnan(end) or low <= end <= high, (row, seed)
            if not math.isnan(row.estimate) and not math.isnan(row.noise_lower):
                assert row.noise_lower <= row.estimate <= row.noise_upper
        assert len(release.interval().lower) == len(release.columns)


def test_shares_of_groups_hold_their_level():
    """Every row is a mean of values within 0 and 1: nothing rests on tails."""
    runs, held, rows = 150, 0, 0
    shares = {"a": 0.9, "b": 0.5, "c": 0.04}
    g = np.random.default_rng(5)
    for seed in range(runs):
        key = g.choice(list(shares), 1500)
        yes = g.random(1500) < np.array([shares[item] for item in key])
        frame = pl.DataFrame({"who": np.arange(1500), "key": key, "yes": yes})
        release = pm.mean(
            frame, "yes", person="who", by="key", keys=list(shares), epsilon=1.0,
            noise=SimulatedNoise(seed),
        )  # fmt: skip
        for row in release.rows():
            held += row.lower <= shares[row.group] <= row.upper
            rows += 1
            assert row.status == "ok"
        assert "unseen" not in str(release)
    statistics_kit.assert_rate_at_least(held, rows, 0.95)


def test_a_regression_takes_its_boolean_variables_as_bounded():
    g = np.random.default_rng(8)
    n = 3000
    flag = g.random(n) < 0.4
    frame = pl.DataFrame({"who": np.arange(n), "y": 2.0 * flag + g.normal(0, 1, n), "flag": flag})
    asked = pm.Regression("y ~ flag").with_public_facts(Table(frame, person="who"))
    assert asked.bounds == {"flag": (0.0, 1.0)}
    given = pm.Regression("y ~ flag", bounds={"flag": (0, 2)})
    assert given.with_public_facts(Table(frame, person="who")).bounds == {"flag": (0, 2)}
    release = pm.regress(frame, "y ~ flag", person="who", epsilon=2.0, noise=SimulatedNoise(2))
    assert release.rows()[1].lower < 2 < release.rows()[1].upper
    response = pm.regress(frame, "flag ~ y", person="who", epsilon=2.0, noise=SimulatedNoise(2))
    assert response.answered


def test_a_study_takes_the_bounds_of_its_boolean_columns():
    study = pm.Study(pm.Table(pl.DataFrame(columns()), person="who"), epsilon=4.0,
                     noise=SimulatedNoise(3))  # fmt: skip
    study.add("yes", pm.Mean("yes"))
    study.add("groups", pm.Mean("yes", by="key", keys=["a", "b", "c"]))
    study.add("trend", pm.Curve("yes", "t", bins=[0, 1, 2]))
    study.add("num", pm.Mean("num"))
    release = study.release()
    for name in ("yes", "groups", "trend"):
        for row in release[name].rows():
            assert 0 <= row.lower <= row.estimate <= row.upper <= 1
    assert isinstance(release["yes"].plan, BoundedMeanPlan)


def test_rare_values_of_a_boolean_column_keep_a_closed_interval():
    """No value can lie beyond 0 and 1, so that few ones are never "at_bound"."""
    yes = np.arange(4000) < 2
    for seed in range(20):
        for said in ({}, {"bounds": (0, 1)}):
            release = pm.mean(yes, epsilon=0.5, noise=SimulatedNoise(seed), **said)
            assert release.status == "ok"
            assert release.answered
            low, high = release.conf_int()[0]
            assert 0 <= low <= high < 0.02
