"""Ids and values given as lists are converted item by item: no record decides for another one."""

from __future__ import annotations

import datetime
import math
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privmean as pm
from privmean.data import list_columns

PEOPLE = 2000
BIG = [2**60 + k for k in range(PEOPLE)]
X = [3.0] * PEOPLE
ODD_IDS = {
    "NaN": math.nan, "none": None, "half": 0.5, "text": "a", "large": 2**70, "list": [1],
    "endless": 10**5000, "bytes": b"x", "array": np.array([]), "truth": True, "NA": pd.NA,
    "NaT": pd.NaT, "day": datetime.date(2020, 1, 1),
}  # fmt: skip


class Hostile(float):
    """A number that cannot be compared or converted."""

    def __float__(self):
        raise RuntimeError("secret")

    __eq__ = __ne__ = __float__


NOTHING = {
    "none": None, "text": "seven", "day": datetime.date(2020, 1, 1), "list": [1.0],
    "array": np.array([1.0]), "duration": np.timedelta64(1), "NA": pd.NA, "complex": 1j,
    "NaN": math.nan, "masked": np.ma.masked, "signal": Decimal("sNaN"), "dict": {},
    "hostile": Hostile(2),
}  # fmt: skip
NUMBERS = {
    "whole": (4, 4.0), "large": (2**70, 2.0**70), "decimal": (Decimal("0.5"), 0.5),
    "fraction": (Fraction(1, 4), 0.25), "truth": (True, 1.0), "text": ("1.5", 1.5),
    "too large": (10**400, math.inf), "less": (-(10**400), -math.inf),
    "single": (np.float32(0.5), 0.5),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD_IDS)
def test_an_odd_id_merges_nobody(odd):
    """2,000 people stay 2,000, and one more where the id is one."""
    ids, values = [*BIG, ODD_IDS[odd]], [*X, 3.0]
    more = odd in ("half", "text", "large", "bytes", "truth", "day")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pm.read({"p": ids, "x": values}, person="p", values="x").size() == PEOPLE + more
        assert pm.read(np.array(values), person=ids).size() == PEOPLE + more


@pytest.mark.slow
@pytest.mark.parametrize("odd", ["NaN", "none"])
@pytest.mark.parametrize("kind", ["polars", "pandas", "nullable array", "arrow", "chunked"])
def test_a_missing_id_of_a_series_merges_nobody(kind, odd):
    ids = [*BIG, None]
    made = {
        "polars": lambda: pl.Series(ids),
        "pandas": lambda: pd.Series(ids, dtype="Int64"),
        "nullable array": lambda: pd.array(ids, dtype="Int64"),
        "arrow": lambda: pa.array(ids),
        "chunked": lambda: pa.chunked_array([ids]),
    }[kind]()
    assert pm.read(np.array([*X, 3.0]), person=made).size() == PEOPLE
    assert pm.read({"p": made, "x": [*X, 3.0]}, person="p", values="x").size() == PEOPLE


@pytest.mark.slow
@pytest.mark.parametrize("odd", NOTHING)
def test_a_value_that_is_none_is_missing(odd):
    assert math.isnan(list_columns.number(NOTHING[odd]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        people = pm.read({"p": [1, 2], "x": [3.0, NOTHING[odd]]}, person="p", values="x")
        found = people.collect().values[:, 0].tolist()
        rows = pm.mean([3.0] * (PEOPLE - 1) + [NOTHING[odd]], bounds=(0, 8), epsilon=1)
    assert sorted(found, key=math.isnan)[0] == 3.0
    assert sum(map(math.isnan, found)) == 1
    assert rows.n == PEOPLE


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_number_of_any_kind_is_a_double(kind):
    item, value = NUMBERS[kind]
    assert list_columns.number(item) == value
    assert list_columns.numbers([item, 1.0]).tolist() == [value, 1.0]


def test_a_number_that_raises_is_missing():
    assert math.isnan(list_columns.number(Hostile(1)))
    assert list_columns.ids([Hostile(1), "a"]).tolist() == ["1", "a"]


def test_ids_are_texts_and_equal_numbers_are_one_person():
    found = list_columns.ids([5, 5.0, "5", np.int64(5), np.float64(5), -0.0, 2**70, 1.5, b"x", "é"])
    assert found.tolist() == ["5"] * 5 + ["0", str(2**70), "1.5", "x", "é"]


def test_rows_are_as_long_as_the_first_one():
    found = list_columns.matrix([[1, 2], [3], None, "x", (4, None), np.array([5.0, 6.0])])
    expected = [[1, 2], [math.nan] * 2, [math.nan] * 2, [math.nan] * 2, [4, math.nan], [5, 6]]
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(list_columns.matrix([1.0, [2.0]]), [1.0, math.nan], equal_nan=True)
    assert list_columns.matrix([]).shape == (0,)


@pytest.mark.slow
@pytest.mark.parametrize("keys", [[1, 2], ["1", "2"], [1.0, 2.0], [1, "2"]])
def test_keys_of_a_list(keys):
    table = {"p": list(range(PEOPLE)), "x": list(np.arange(PEOPLE) % 7.0), "g": keys * 1000}
    table["g"][5] = object()
    found = pm.mean(table, "x", person="p", by="g", keys=[1, 2], epsilon=50)
    assert [row.group for row in found.rows()] == ["1", "2"]
    assert [round(row.n, -1) for row in found.rows()] == [1000, 1000]


@pytest.mark.parametrize("given", [["a"], pd.Series(["a"]), pl.Series(["a"]), pa.array(["a"])])
def test_the_type_of_a_series_is_public_and_a_list_has_none(given):
    frame = {"p": np.arange(1), "x": given}
    if isinstance(given, list):
        assert pm.read(frame, person="p", values="x").size() == 1
        return
    with pytest.raises(pm.SchemaError, match="'x' of type text does not hold numbers"):
        pm.read(frame, person="p", values="x")


@pytest.mark.slow
@pytest.mark.parametrize(
    "roster", [[1, 2, 9], [1.0, 2.0, 9.0], np.array([1.0, 2, 9]), ["1", "2", "9"]]
)
@pytest.mark.parametrize("ids", [[1, 2, 3], [1.0, 2.0, None], ["1", 2, 3.0]])
def test_a_roster_finds_the_ids_of_a_list(ids, roster):
    table = {"p": ids, "x": [3.0, 4.0, 5.0]}
    named = pm.read(table, person="p", values="x", roster=roster).collect().values
    beside = pm.read(np.array(table["x"]), person=ids, roster=roster).values
    for found in (named, beside):
        assert np.array_equal(np.sort(found[:, 0]), [3.0, 4.0, math.nan], equal_nan=True)
    with pytest.raises(pm.ArgumentError, match="must not hold missing ids"):
        pm.read(table, person="p", values="x", roster=[*roster, None])


@pytest.mark.parametrize("odd", [None, "textmark", [1.0], 10**400])
def test_a_response_decides_nothing(odd):
    times = list(np.linspace(0, 1, 40))
    for given in ([0.5] * 39 + [odd], np.array([0.5] * 39 + [odd], dtype=object)):
        assert list_columns.doubles(given).shape == (len(times),)
    with pytest.raises(pm.SchemaError, match="an array of text does not hold numbers"):
        list_columns.doubles(np.array(["textmark"] * 40))
