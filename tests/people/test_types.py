"""Column types are public: one answer in every home, or SchemaError, whatever the entries are."""

from __future__ import annotations

import datetime
import decimal
import json
import random

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privmean as pm
from privmean.people.reductions import Ball, Box

D = decimal.Decimal
WHO = [1, 1, 2, 3, 3, 3, 4]
TOP = 2**63 - 1


def sources(x, folder, who=None):
    """Every home that can hold an Arrow column."""
    table = pa.table({"who": who if who is not None else pa.array(WHO), "x": x})
    connection = duckdb.connect()
    pq.write_table(table, folder / "t.parquet")
    found = {"parquet": str(folder / "t.parquet"), "arrow": table}
    found["pandas"] = table.to_pandas(types_mapper=pd.ArrowDtype)
    try:
        connection.register("t", table)
        found["relation"] = connection.table("t")
        found["polars"] = pl.from_arrow(table)
        found["lazy"] = found["polars"].lazy()
    except BaseException as error:  # an engine's own limits (a panic of Polars is no Exception)
        assert type(error).__module__.startswith(("duckdb", "_duckdb", "pyo3", "polars"))  # noqa: PT017
    return found


def answers(source, resolution=2.0**-40):
    people = pm.read(source, person="who", values="x", resolution=resolution)
    box, ball = Box(-1e3, 1e3), Ball((0.5,), 900.0, 0.01)
    return (
        people.size(),
        people.log_counts(0, 0.0).tolist(),
        dict(sorted(people.uniform_counts(0, 0.25).items())),
        people.box_sums([box]),
        people.ball_sums(ball),
        people.collect().values.tobytes(),
    )


def outcome(source, resolution=2.0**-40):
    try:
        return answers(source, resolution)
    except pm.SchemaError:
        return "refused"


def column(values, kind):
    return pa.array([*values, None], kind)


GENERATOR = random.Random(8)
WIDE = [D(GENERATOR.randrange(10 ** GENERATOR.randint(17, 38))) for _ in range(400)]
READ = {
    "int64": column([TOP, -TOP - 1, TOP, 2**53 + 1, -(2**53) - 1, 3], pa.int64()),
    "uint64": column([2**64 - 1, 0, 2**63, 2**63 + 1025, 2, 3], pa.uint64()),
    "int8": column([127, -128, 1, 1, 2, 3], pa.int8()),
    "float32": column([0.1, 3.4e38, 1e-40, 1, float("nan"), float("inf")], pa.float32()),
    "float64": column([1e300, -1e300, 1e300, 5e-324, float("nan"), float("inf")], pa.float64()),
    "far": column([1e300, 1e300, -1e300, 1.7e308, float("-inf"), -0.0], pa.float64()),
    "bool": column([True, False, True, None, False, True], pa.bool_()),
    "decimal": column([D("9" * 28 + ".12"), D("-0.01"), D("1.05"), D(1), D(2), D(3)],
                      pa.decimal128(38, 2)),
    "whole decimal": column([D("9" * 38), D(2**53 + 1), D(2**54 + 2), D(1), D(2), D(3)],
                            pa.decimal128(38, 0)),
    "dictionary": pa.array([1.5, 2, 3, 4, 5, 6, None]).dictionary_encode(),
}  # fmt: skip


@pytest.mark.parametrize("kind", READ)
def test_the_same_integers_in_every_home(kind, tmp_path):
    found = {name: outcome(source) for name, source in sources(READ[kind], tmp_path).items()}
    assert len(found) == 6
    assert found["arrow"] != "refused"
    assert found == dict.fromkeys(found, found["arrow"])


@pytest.mark.parametrize("scale", [0, 3])
def test_wide_decimals_are_read_alike_to_the_last_bit(scale, tmp_path):
    """Doubles nearest to 38 digits: a cast that rounds twice would differ in one of forty."""
    values = pa.array([item.scaleb(-scale) for item in WIDE], pa.decimal128(38, scale))
    who = pa.array(range(len(WIDE)))
    exact = np.array([[float(item.as_py())] for item in values])
    for source in sources(values, tmp_path, who).values():
        people = pm.read(source, person="who", values="x", resolution=2.0**50)
        rounded = np.floor(exact / 2.0**50 + 0.5) * 2.0**50
        assert people.collect().values.tobytes() == rounded.tobytes()


REFUSED = {
    "list": pa.array([[1.0], [2.0, 3.0], [], None, [1.0], [1.0], [1.0]]),
    "empty lists": pa.array([[]] * 7, pa.list_(pa.float64())),
    "struct": pa.array([{"a": 1}] * 7),
    "text": pa.array(["1", "2", "x", None, "", "1e5", "inf"]),
    "numbers in text": pa.array(["1"] * 7),
    "date": pa.array([datetime.date(2020, 1, 1)] * 7),
    "time": pa.array([datetime.datetime(2020, 1, 1)] * 7),
    "bytes": pa.array([b"1"] * 7),
    "map": pa.array([[("a", 1)]] * 7, pa.map_(pa.string(), pa.int64())),
    "nothing": pa.nulls(7),
    "words": pa.array(["a"] * 7).dictionary_encode(),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_types_that_hold_no_numbers_are_refused_by_schema(kind, tmp_path):
    for name, source in sources(REFUSED[kind], tmp_path).items():
        assert outcome(source) == "refused", name


@pytest.mark.parametrize("kind", ["list", "struct", "time of day", "bytes"])
def test_types_that_name_no_person_are_refused_by_schema(kind, tmp_path):
    ids = {**REFUSED, "time of day": pa.array([datetime.time(1)] * 7)}[kind]
    for name, source in sources(pa.array([1.0] * 7), tmp_path, ids).items():
        assert outcome(source) == "refused", name


def test_types_that_the_engine_does_not_know_are_refused_by_schema():
    """And do no harm in a column that is not asked for."""
    half = pa.array(np.array([1, 2], dtype=np.float16))
    huge = pa.array([D("9" * 60), D(1)], pa.decimal256(76, 0))
    table = pa.table({"who": [1, 2], "x": half, "y": huge, "z": [3.0, 4.0]})
    for name in ("x", "y"):
        with pytest.raises(pm.SchemaError, match=f"column '{name}' has a type"):
            pm.read(table, person="who", values=name)
    assert pm.read(table, person="who", values="z").size() == 2
    for values in (pd.period_range("2020", periods=2), pd.arrays.SparseArray([1.0, 0.0]), [1j, 2]):
        frame = pd.DataFrame({"who": [1, 2], "x": values, "z": [3.0, 4.0]})
        with pytest.raises(pm.SchemaError, match="column 'x' has a type"):
            pm.read(frame, person="who", values="x")
        assert pm.read(frame, person="who", values="z").size() == 2


@pytest.mark.parametrize("kind", ["Int64", "UInt64", "Float64", "Float32", "boolean", "Int8"])
def test_nullable_types_of_pandas(kind):
    numbers = [1, None, 0, 1, 1]
    frame = pd.DataFrame({"who": pd.array([1, 1, 2, None, 3], "Int64")})
    frame["x"] = pd.array([None if v is None else bool(v) for v in numbers] if kind == "boolean"
                          else numbers, kind)  # fmt: skip
    people = pm.read(frame, person="who", values="x")
    assert people.collect().values.tolist() == [[1.0], [0.0], [1.0]]


def test_missing_ids_of_every_kind_are_dropped():
    ids = pd.Series(["a", None, "a", np.nan, pd.NA, "nan", 1], dtype=object)
    frame = pd.DataFrame({"who": ids, "x": np.arange(1.0, 8.0)})
    people = pm.read(frame, person="who", values="x")
    assert people.collect().values.tolist() == [[7.0], [2.0], [6.0]]  # "1", "a", "nan"


def test_objects_that_cannot_be_shown_say_nothing():
    class Secret:
        def __str__(self):
            raise RuntimeError("secret 123")

    frame = pd.DataFrame({"who": pd.Series([Secret(), 1], dtype=object), "x": [1.0, 2.0]})
    assert pm.read(frame, person="who", values="x").matrix().tolist() == [[2.0]]  # no id, no record


def test_upper_and_lower_case_name_different_columns(tmp_path):
    columns = {"who": [1, 2], "WHO": [1.0, 2.0], "Who": [3.0, 4.0]}
    found = [pd.DataFrame(columns), pa.table(columns), pl.DataFrame(columns)]
    lines = tmp_path / "t.jsonl"
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    csv = tmp_path / "t.csv"
    csv.write_text("who,WHO,Who\n1,1.0,3.0\n2,2.0,4.0\n")
    for source in (*found, csv, lines):
        for name in ("WHO", "Who"):
            try:
                people = pm.read(source, person="who", values=name)
            except (pm.SchemaError, pm.ArgumentError):
                assert source is lines  # refused, never the wrong one
                continue
            assert people.collect().values[:, 0].tolist() == columns[name], (source, name)
    pq.write_table(found[1], tmp_path / "t.parquet")
    with pytest.raises((pm.SchemaError, pm.ArgumentError)):
        pm.read(tmp_path / "t.parquet", person="who", values="Who")
