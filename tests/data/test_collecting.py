"""Rows never leave an engine without a word, and the word is public."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.data import engine_table as frame
from privmean.data import engines
from privmean.data.person_table import collect_rows


def table(persons):
    ids = np.arange(2 * persons) % persons
    return pl.DataFrame({"who": ids, "x": ids % 7.0, "y": ids % 3.0})


@pytest.mark.parametrize("home", ["polars", "duckdb"])
def test_the_size_is_told_before_rows_leave_an_engine(caplog, monkeypatch, home):
    caplog.set_level("INFO", "privmean")
    source = table(1000) if home == "polars" else table(1000).to_arrow()
    people = pm.read(source, person="who", values=["x", "y"])
    assert collect_rows(people, size_is_public=True).shape == (1000, 2)
    assert "1000 people x 2 columns (0.0 MB) are taken into memory" in caplog.text
    assert {record.levelname for record in caplog.records} == {"INFO"}  # not shown: nothing left
    monkeypatch.setattr(type(people), "elsewhere", True)
    caplog.clear()
    collect_rows(people, size_is_public=True)
    assert "1000 people x 2 columns (0.0 MB) leave the engine for memory" in caplog.text
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_a_private_number_of_persons_is_not_told(caplog):
    caplog.set_level("INFO", "privmean")
    told = set()
    for persons in (10, 1000):
        caplog.clear()
        collect_rows(pm.read(table(persons), person="who", values=["x", "y"]), size_is_public=False)
        told.add(caplog.text)
    (text,) = told
    assert "2 columns (16 bytes a person)" in text


def test_rows_in_memory_leave_nothing(caplog):
    assert collect_rows(pm.read(np.ones((5, 2))), size_is_public=True).shape == (5, 2)
    assert caplog.text == ""


@pytest.mark.parametrize("home", ["polars", "duckdb"])
def test_collected_rows_keep_nulls_counts_and_the_order_of_the_roster(home):
    who = np.array([7, 3, 7, 5, 3, 9])
    columns = {"who": who, "x": [1.0, 2.0, 4.0, np.nan, 2.5, -0.0], "y": [np.nan] * 5 + [1e300]}
    source = pl.DataFrame(columns) if home == "polars" else pl.DataFrame(columns).to_arrow()
    people = pm.read(source, person="who", values=["x", "y"], estimand="records", max_records=9)
    found = people.collect()
    nan = np.nan
    expected = [[2.25, nan], [nan, nan], [2.5, nan], [0.0, 2.0**44]]
    assert np.array_equal(found.values, expected, equal_nan=True)
    assert found.values.flags.c_contiguous
    assert found.counts.tolist() == [[2, 0], [0, 0], [2, 0], [1, 1]]
    assert pm.read(source, person="who", values="y", roster=[]).collect().values.shape == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_a_method_that_needs_the_rows_says_so(caplog, neighbors):
    caplog.set_level("INFO", "privmean")
    people = pm.read(table(4000), person="who", values=["x", "y"])
    known = {"n_guess": 4000} if neighbors == "add-remove" else {}
    pm.mean(
        people, epsilon=1.0, delta=1e-6, neighbors=neighbors, covariance=np.eye(2) * 5,
        method="anisotropic", noise=pm.SimulatedNoise(1), **known,
    )  # fmt: skip
    assert ("4000 people" in caplog.text) == (neighbors == "replace-one")
    assert "this method needs the rows themselves" in caplog.text


def test_a_method_of_reductions_is_silent(caplog):
    people = pm.read(table(4000), person="who", values=["x", "y"])
    pm.mean(people, epsilon=1.0, delta=1e-6, noise=pm.SimulatedNoise(1))
    assert caplog.text == ""


@pytest.mark.slow
@pytest.mark.parametrize("home", ["polars", "duckdb", "relation"])
@pytest.mark.parametrize("columns", [["x"], ["x", "y"]])
def test_only_aggregates_leave_an_engine(monkeypatch, home, columns):
    generator = np.random.default_rng(5)
    ids = np.arange(12_000) % 3000
    source = pl.DataFrame({"who": ids, "x": generator.normal(5, 2, 12_000), "y": ids % 7.0})
    if home == "duckdb":
        source = source.to_arrow()
    if home == "relation":
        connection = duckdb.connect()
        connection.register("records", source.to_arrow())
        source = connection.table("records")
    seen = []

    def counting(frame_of_engine):
        found = engines.fetch(frame_of_engine)
        seen.append((len(found), frame_of_engine.collect_schema().names()))
        return found

    monkeypatch.setattr(frame, "fetch", counting)
    monkeypatch.setattr(frame, "fetch_columns", None)  # how rows leave: not asked for here
    monkeypatch.setattr(engines, "IN_MEMORY", -1)  # one of our own hands over few rows
    people = pm.read(source, person="who", values=columns)
    budget = {"epsilon": 2.0, "delta": 1e-6, "noise": pm.SimulatedNoise(2)}
    pm.mean(people, **budget)
    pm.mean(people, **budget, neighbors="add-remove", n_guess=3000)
    pm.mean(people, **budget, concentration=pm.SubGaussian(sd=3.0))
    pm.mean(people, **budget, moment=pm.BoundedMoment(order=4, bound=10.0))
    assert len(seen) > 4
    assert max(rows for rows, _ in seen) <= 514  # half octaves
    assert not [names for _, names in seen if {"p", "v0", "v1", "i"} & set(names)]
