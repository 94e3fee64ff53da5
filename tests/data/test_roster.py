"""A public roster: each person once, whatever way an id is written twice, alike in every home."""

from __future__ import annotations

import datetime
import math

import frame_homes
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privmean as pm


def homes(ids, kind, folder):
    """The same three persons 1, 2, 3 with values 10, 20, 30 in every home."""
    frame = pl.DataFrame({"who": ids, "x": [10.0, 20.0, 30.0]}, schema_overrides={"who": kind})
    found = frame_homes.homes(frame, folder)
    del found["arrays"]  # NumPy has no type for some ids
    lists = {"who": frame["who"].to_list(), "x": frame["x"].to_list()}
    return {**found, "pandas": pd.DataFrame(lists)}


def outcome(source, roster):
    try:
        people = pm.read(source, person="who", values="x", roster=roster)
    except pm.ArgumentError:
        return "refused"
    return people.size(), people.collect().values.tolist()


def same_everywhere(ids, kind, roster, folder, expected):
    found = {
        name: outcome(source, roster)
        for name, source in homes(ids, kind, folder).items()
        if not (name == "pandas" and kind == pl.Float32)
    }
    assert found == dict.fromkeys(found, expected)


TWO = (2, [[10.0], [20.0]])


@pytest.mark.slow
@pytest.mark.parametrize(
    "roster",
    [
        [1, 2],
        [2, 1, 1, 2],
        [1, 1.0, np.int8(1), 2],
        [1, "1", 2, "2"],
        np.array([1, 2, 1]),
        pd.Series([1, 1, 2]),
        pl.Series([2, 2, 1]),
        range(1, 3),
        {1: "a", 2: "b"},
    ],
)
def test_whole_number_ids(roster, tmp_path):
    same_everywhere([1, 2, 3], pl.Int64, roster, tmp_path, TWO)


@pytest.mark.slow
@pytest.mark.parametrize("roster", [["1", "2"], [1, "1", 2], ["1", "1", "2", np.str_("2")]])
def test_text_ids(roster, tmp_path):
    same_everywhere(["1", "2", "3"], pl.String, roster, tmp_path, TWO)


@pytest.mark.slow
def test_ids_that_become_one_in_the_type_of_the_ids(tmp_path):
    same_everywhere([1.0, 2.0, 3.0], pl.Float64, [1, 1.0, 2, "2"], tmp_path, TWO)
    roster = [1.0, 1.0 + 2.0**-40, 2.0]  # one and the same in single precision
    same_everywhere([1.0, 2.0, 3.0], pl.Float32, roster, tmp_path, TWO)
    days = [datetime.date(2020, 1, day) for day in (1, 2, 3)]
    frame = pl.DataFrame({"who": days, "x": [10.0, 20.0, 30.0]})
    for source in (frame, frame.to_arrow()):
        assert outcome(source, [days[0], days[1], days[0]]) == TWO


@pytest.mark.slow
@pytest.mark.parametrize("roster", [[1, 1.5], [True, 2], [1, "one"], [1, 2**70], [1, pd.NA],
                                    [1, float("inf")], b"12", [[1], [2]]])  # fmt: skip
def test_ids_that_fit_no_person_are_refused_everywhere(roster, tmp_path):
    same_everywhere([1, 2, 3], pl.Int64, roster, tmp_path, "refused")


def test_arrays_of_records():
    ids, x = np.array([1, 2, 3]), np.array([10.0, 20.0, 30.0])
    for roster in ([1, 2], [1, "1", 2, 2.0]):
        people = pm.read(x, person=ids, roster=roster)
        assert (people.size(), people.values.tolist()) == TWO
    text = pm.read(x, person=np.array(["1", "2", "3"]), roster=[1, "1", "2"])
    assert (text.size(), text.values.tolist()) == TWO


def test_a_roster_named_twice_counts_each_person_once_in_a_release():
    table = pa.table({"who": [1, 2, 3], "x": [10.0, 20.0, 30.0]})
    twice = pm.read(table, person="who", values="x", roster=[1, 2, 3, "1", "2", "3"])
    assert twice.size() == 3
    assert [twice.split(i, 3).size() for i in range(3)] == [1, 1, 1]


def test_places_follow_the_roster_alone(tmp_path):
    """Parts and pairs of other persons stay as they are when one person's records change."""
    generator = np.random.default_rng(4)
    x = generator.normal(size=31)
    changed = x.copy()
    changed[17] = np.nan
    order = generator.permutation(31)
    places = {}
    for name, values, rows in (
        ("before", x, slice(None)), ("after", changed, slice(None)), ("shuffled", x, order),
    ):  # fmt: skip
        frame = pl.DataFrame({"who": np.arange(31)[rows], "x": values[rows]})
        for source in (frame, frame.to_arrow()):
            people = pm.read(source, person="who", values="x")
            parts = [people.split(i, 4).collect().values[:, 0] for i in range(4)]
            assert [len(part) for part in parts] == [8, 8, 8, 7]
            places.setdefault(name, parts)
            same = zip(parts, places[name], strict=True)
            assert all(np.array_equal(a, b, equal_nan=True) for a, b in same)
    assert all(
        np.array_equal(a, b) for a, b in zip(places["before"], places["shuffled"], strict=True)
    )
    pairs = list(zip(places["before"], places["after"], strict=True))
    moved = [np.flatnonzero(~((a == b) | (np.isnan(a) & np.isnan(b)))) for a, b in pairs]
    assert [m.tolist() for m in moved] == [[], [4], [], []]  # person 17: part 1, place 4


@pytest.mark.parametrize("roster", [["a", None], "abc", 7, [1.5, math.nan]])
def test_a_roster_must_be_a_list_of_ids(roster):
    records = pl.DataFrame({"who": ["a", "b"], "x": [1.0, 2.0]})
    with pytest.raises(pm.ArgumentError, match="roster"):
        pm.read(records, person="who", values="x", roster=roster)
