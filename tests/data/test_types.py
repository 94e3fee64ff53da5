"""Column types are public: one answer in every home, or SchemaError, whatever the entries are."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import random

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privmean as pm
from privmean.data import column_types as kinds
from privmean.data.person_table import ClipInterval, L2Ball

D = decimal.Decimal
WHO = [1, 1, 2, 3, 3, 3, 4]
TOP = 2**63 - 1


def sources(x, folder, who=None):
    """Every home that can hold an Arrow column."""
    table = pa.table({"who": who if who is not None else pa.array(WHO), "x": x})
    connection = duckdb.connect()
    found = {"arrow": table, "pandas": table.to_pandas(types_mapper=pd.ArrowDtype)}

    def register():
        connection.register("t", table)
        found["relation"] = connection.table("t")

    def polars():
        found["polars"] = pl.from_arrow(table)
        found["lazy"] = found["polars"].lazy()

    def write():
        pq.write_table(table, folder / "t.parquet")
        found["parquet"] = str(folder / "t.parquet")
        found["scan"] = pl.scan_parquet(found["parquet"])

    for step in (register, polars, write):
        try:
            step()
        except BaseException as error:  # a library's own limits (Polars' panic is no Exception)
            module = type(error).__module__
            assert module.startswith(("duckdb", "_duckdb", "pyo3", "polars", "pyarrow")), error  # noqa: PT017
    return found


def answers(source, resolution=2.0**-36):
    people = pm.read(source, person="who", values="x", resolution=resolution)
    box, ball = ClipInterval(-1e3, 1e3), L2Ball((0.5,), 900.0, 0.01)
    return (
        people.size(),
        people.log_counts(0, 0.0).tolist(),
        dict(sorted(people.uniform_counts(0, 0.25).items())),
        people.interval_sums([box]),
        people.ball_sums(ball),
        people.collect().values.tobytes(),
    )


def outcome(source, resolution=2.0**-36):
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
    "decimal": column(
        [D("9" * 28 + ".12"), D("-0.01"), D("1.05"), D(1), D(2), D(3)], pa.decimal128(38, 2)
    ),
    "whole decimal": column(
        [D("9" * 38), D(2**53 + 1), D(2**54 + 2), D(1), D(2), D(3)], pa.decimal128(38, 0)
    ),
    "dictionary": pa.array([1.5, 2, 3, 4, 5, 6, None]).dictionary_encode(),
    "float16": column([0.1, 65504.0, 6e-8, 1, float("nan"), float("inf")], pa.float16()),
    "uint32": column([2**32 - 1, 0, 1, 1, 2, 3], pa.uint32()),
    "decimal of 32 bits": column(
        [D("9" * 6 + ".12"), D("-0.01"), D("1.05"), D(1), D(2), D(3)], pa.decimal32(8, 2)
    ),
    "decimal of 256 bits": column(
        [D("9" * 28 + ".12"), D("-0.01"), D("1.05"), D(1), D(2), D(3)], pa.decimal256(38, 2)
    ),
}  # fmt: skip
NOT_HELD = {"float16": {"relation"}, "decimal of 256 bits": {"relation", "polars", "lazy"}}


@pytest.mark.slow
@pytest.mark.parametrize("kind", READ)
def test_the_same_integers_in_every_home(kind, tmp_path):
    found = {name: outcome(source) for name, source in sources(READ[kind], tmp_path).items()}
    every = {"arrow", "pandas", "parquet", "scan", "relation", "polars", "lazy"}
    assert set(found) == every - NOT_HELD.get(kind, set())
    assert found["arrow"] != "refused"
    assert found == dict.fromkeys(found, found["arrow"])


@pytest.mark.slow
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
    **{f"duration in {unit}": pa.array(WHO, pa.duration(unit)) for unit in ("s", "ms", "us", "ns")},
    "durations by place": pa.array(WHO, pa.duration("s")).dictionary_encode(),
    "interval": pa.array([pa.MonthDayNano([1, 2, 3])] * 7),
    "time of day": pa.array([datetime.time(1)] * 7),
    "time of day in ms": pa.array([datetime.time(1)] * 7, pa.time32("ms")),
    "time in a zone": pa.array([datetime.datetime(2020, 1, 1)] * 7, pa.timestamp("us", "UTC")),
    "date in ms": pa.array([datetime.date(2020, 1, 1)] * 7, pa.date64()),
    "dates by place": pa.array([datetime.date(2020, 1, 1)] * 7).dictionary_encode(),
    "more than 38 digits": pa.array([D(1)] * 7, pa.decimal256(39, 0)),
    "lists of one length": pa.array([[1.0]] * 7, pa.list_(pa.float64(), 1)),
    "long text": pa.array(["1"] * 7, pa.large_string()),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", REFUSED)
def test_types_that_hold_no_numbers_are_refused_by_schema(kind, tmp_path):
    for name, source in sources(REFUSED[kind], tmp_path).items():
        assert outcome(source) == "refused", name


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["list", "struct", "time of day", "bytes", "duration in s"])
def test_types_that_name_no_person_are_refused_by_schema(kind, tmp_path):
    for name, source in sources(pa.array([1.0] * 7), tmp_path, REFUSED[kind]).items():
        assert outcome(source) == "refused", name


def test_types_that_the_engine_does_not_know_are_refused_by_schema():
    """And do no harm in a column that is not asked for."""
    months = pa.array([pa.MonthDayNano([1, 2, 3])] * 2)
    huge = pa.array([D("9" * 60), D(1)], pa.decimal256(76, 0))
    table = pa.table({"who": [1, 2], "x": months, "y": huge, "z": [3.0, 4.0]})
    with pytest.raises(pm.SchemaError, match="column 'y' has a type"):
        pm.read(table, person="who", values="y")
    with pytest.raises(pm.SchemaError, match="column 'x' of type"):
        pm.read(table, person="who", values="x")
    assert pm.read(table, person="who", values="z").size() == 2
    for values in (pd.period_range("2020", periods=2), pd.arrays.SparseArray([1.0, 0.0]), [1j, 2]):
        frame = pd.DataFrame({"who": [1, 2], "x": values, "z": [3.0, 4.0]})
        with pytest.raises(pm.SchemaError, match="column 'x' has a type"):
            pm.read(frame, person="who", values="x")
        assert pm.read(frame, person="who", values="z").size() == 2


@pytest.mark.slow
def test_a_file_s_durations_are_durations_whoever_wrote_them(tmp_path):
    """Parquet has whole numbers; Arrow's or Spark's metadata say what they are."""
    numbers, odd = pa.array([1, 2]), "x 'é\""
    arrow = pa.table({"who": [1, 2], odd: pa.array([1, 2], pa.duration("s")), "y": numbers})
    pq.write_table(arrow, tmp_path / "[arrow].parquet")
    pl.from_arrow(arrow).write_parquet(tmp_path / "polars.parquet")
    fields = [{"name": odd, "type": "interval day to second"}, {"name": "y", "type": "long"}]
    spark = pa.table({"who": [1, 2], odd: numbers, "y": numbers}).replace_schema_metadata(
        {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"fields": fields})}
    )
    pq.write_table(spark, tmp_path / "spark.parquet")
    many = tmp_path / "many"
    many.mkdir()
    for part in range(2):
        pq.write_table(arrow, many / f"{part}.parquet")
    sources = [*sorted(tmp_path.glob("*.parquet")), many, f"{many}/*.parquet"]
    assert len(sources) == 5
    for source in sources:
        for values in (odd, "*"):
            with pytest.raises(pm.SchemaError, match="does not hold numbers"):
                pm.read(source, person="who", values=values)
        with pytest.raises(pm.SchemaError, match="cannot identify people"):
            pm.read(source, person=odd, values="y")
        assert pm.read(source, person="who", values="y").matrix().tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("key", ["ARROW:schema", "org.apache.spark.sql.parquet.row.metadata"])
def test_metadata_that_cannot_be_read_say_nothing(key, tmp_path):
    """Numbers stay numbers, and nothing is raised."""
    whole = pa.table({"x": pa.array([1], pa.duration("s"))}).schema.serialize().to_pybytes()
    tries = [b"", b"x", b"[]", b"{}", b'{"fields": 3}', b'{"fields": [3]}', b"\xff\xfe"]
    generator = random.Random(9)
    tries += [base64.b64encode(whole[:size]) for size in range(0, len(whole), 7)]
    for _ in range(300):
        place = generator.randrange(len(whole))
        tries.append(base64.b64encode(whole[:place] + b"\xff" + whole[place + 1 :]))
    for value in tries:
        assert all(isinstance(item, str) for item in kinds.durations({key.encode(): value}))
    table = pa.table({"who": [1, 2], "x": [1, 2]}).replace_schema_metadata({key: "nonsense"})
    pq.write_table(table, tmp_path / "t.parquet")
    people = pm.read(tmp_path / "t.parquet", person="who", values="x")
    assert people.matrix().tolist() == [[1.0], [2.0]]


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


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()])
def test_an_infinite_id_is_an_id(kind, tmp_path):
    """As the text `inf` is one in a file; NaN is none."""
    who = pa.array([math.inf, 1, math.nan, -math.inf, None, math.inf], kind)
    found = sources(pa.array([1.0, 2, 4, 8, 16, 5]), tmp_path, who)
    if kind == pa.float64():
        found["text"] = str(tmp_path / "t.csv")
        found["arrow"].to_pandas().to_csv(found["text"], index=False)
        ids, x = found["arrow"]["who"].to_numpy(), found["arrow"]["x"].to_numpy()
        found["named"] = {"who": ids, "x": x}
        everybody = pm.read(x, person=ids).values
        assert sorted(everybody[:, 0]) == [2.0, 3.0, 8.0]
    for source in found.values():
        people = pm.read(source, person="who", values="x")
        assert sorted(people.collect().values[:, 0]) == [2.0, 3.0, 8.0]
        roster = ["inf", "7"] if isinstance(source, str) and "csv" in source else [math.inf, 7]
        values = pm.read(source, person="who", values="x", roster=roster).collect().values
        assert np.array_equal(np.sort(values[:, 0]), [3.0, math.nan], equal_nan=True)


def test_objects_that_cannot_be_shown_say_nothing():
    class Secret:
        def __str__(self):
            raise RuntimeError("secret 123")

    frame = pd.DataFrame({"who": pd.Series([Secret(), 1], dtype=object), "x": [1.0, 2.0]})
    assert pm.read(frame, person="who", values="x").matrix().tolist() == [[2.0]]  # no id, no record


@pytest.mark.slow
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


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pl.LazyFrame])
def test_a_column_named_as_a_question_makes_no_people_of_a_frame(frame):
    """As a frame of Spark Connect, which answers every name with a column."""
    made = frame({"who": [1, 2, 3, 4], "log_counts": [1.0, 2.0, 3.0, 4.0]})
    release = pm.mean(made, "log_counts", person="who", epsilon=9.0, bounds=(0, 5))
    assert release.n == 4


def test_a_frame_that_answers_every_name_is_no_people():
    class Answering:
        def __getattr__(self, name):
            return self

    with pytest.raises(pm.ArgumentError, match="Answering"):
        pm.mean(Answering(), "x", person="who", epsilon=1.0)
