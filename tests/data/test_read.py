"""`read`: dirty tables, rosters, schemas and arguments."""

from __future__ import annotations

import gzip
import math
import random

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import people_reference as reference
import polars as pl
import pyarrow as pa
import pytest

import privmean as pm
from privmean.data.person_table import ClipInterval


def frame(**columns):
    return pl.DataFrame(columns, strict=False)


def values(people):
    matrix = people.matrix()
    return [[None if math.isnan(v) else v for v in row] for row in matrix.tolist()]


SMALL = frame(who=["b", "a", None, "a", "c"], x=[1.0, 2.0, 100.0, 4.0, None], y=[1, 2, 3, 4, 5])


def test_one_row_a_person_the_mean_of_own_records():
    people = pm.read(SMALL, person="who", values=["x", "y"])
    assert people.columns == ("x", "y")
    assert values(people) == [[3.0, 3.0], [1.0, 1.0], [None, 5.0]]


def test_persons_whose_records_are_all_missing_stay():
    people = pm.read(SMALL, person="who", values="x")
    assert people.size() == 3
    assert people.interval_sums([ClipInterval(0, 10)])[0].present == 2


def test_a_public_roster_adds_null_persons_and_leaves_others_out():
    for source in (SMALL, SMALL.to_arrow(), duckdb.from_arrow(SMALL.to_arrow())):
        people = pm.read(source, person="who", values="x", roster=["z", "a", "a", "c"])
        assert values(people) == [[3.0], [None], [None]]
        weighted = pm.read(
            source, person="who", values="x", roster=("z", "a"), estimand="records", max_records=1
        )
        assert weighted.interval_sums([ClipInterval(0, 10)])[0].w == 1
    ids, x = np.array([3, 1, 3]), np.array([1.0, 2.0, 3.0])
    assert values(pm.read(x, person=ids, roster=range(1, 4))) == [[2.0], [None], [2.0]]


def test_the_estimand_is_chosen_and_the_cap_with_it():
    people = pm.read(SMALL, person="who", values="x", estimand="records", max_records=5)
    assert people.max_records == 5
    assert people.interval_sums([ClipInterval(0, 10)])[0].w == 3
    with pytest.raises(pm.ArgumentError, match="max_records"):
        pm.read(SMALL, person="who", values="x", estimand="records")
    with pytest.raises(pm.ArgumentError, match="max_records"):
        pm.read(SMALL, person="who", values="x", max_records=5)
    with pytest.raises(pm.ArgumentError, match="max_records"):
        pm.read(SMALL, person="who", values="x", estimand="records", max_records=2**21)
    with pytest.raises(pm.ArgumentError, match="estimand"):
        pm.read(SMALL, person="who", values="x", estimand="rows")


def test_the_resolution_is_public_and_a_power_of_two():
    people = pm.read(frame(who=[1], x=[0.3]), person="who", values="x", resolution=0.25)
    assert values(people) == [[0.25]]
    for wrong in (0.1, 0, math.nan, 2.0**200):
        with pytest.raises(pm.ArgumentError, match="resolution"):
            pm.read(SMALL, person="who", values="x", resolution=wrong)


def test_sums_wider_than_64_bits_are_right():
    generator = random.Random(3)
    rows = [(who, generator.choice([1.0, -0.9]) * 10.0 ** generator.randint(0, 12))
            for who in range(3) for _ in range(3000)]  # fmt: skip
    rows += [(9, 1e300)] * 2000
    table = frame(who=[w for w, _ in rows], x=[x for _, x in rows])
    exact = [row for _, row, _ in reference.group(rows)]
    for source in (table, table.to_arrow()):
        assert values(pm.read(source, person="who", values="x")) == exact


def test_tabs_and_compressed_files(tmp_path):
    (tmp_path / "b.tsv").write_text("who\tx y\n1\t2.5\n2\t3\n")
    with gzip.open(tmp_path / "c.csv.gz", "wt") as file:
        file.write("\ufeffwho,x y\n1,2.5\n2,3\n")
    for name in ("b.tsv", "c.csv.gz"):
        assert values(pm.read(tmp_path / name, person="who", values="x y")) == [[2.5], [3.0]]


def test_wildcards_and_near_names():
    table = frame(id=[1], word_a=[1.0], word_b=[2.0], other=["text"], word_frequency=[3.0])
    people = pm.read(table, person="id", values="word_?")
    assert people.columns == ("word_a", "word_b")
    people = pm.read(table, person="id", values=["word_b", "word_*"])
    assert people.columns == ("word_b", "word_a", "word_frequency")
    with pytest.raises(pm.ArgumentError, match="'word_frequency'"):
        pm.read(table, person="id", values="word_freqency")
    with pytest.raises(pm.ArgumentError, match="Did you mean 'id'"):
        pm.read(table, person="ID", values="word_a")
    with pytest.raises(pm.ArgumentError, match="does not match a column"):
        pm.read(table, person="id", values="nothing_*")
    with pytest.raises(pm.SchemaError, match="'other' of type text"):
        pm.read(table, person="id", values="*")


@pytest.mark.parametrize(
    "wanted", [[], ["x", "x"], ["who"], [3], 7, None, [f"x{i}" for i in range(1_000_000)]]
)
def test_columns_that_make_no_sense(wanted):
    with pytest.raises(pm.ArgumentError, match="values"):
        pm.read(SMALL, person="who", values=wanted)


def test_doubled_columns_of_a_table():
    doubled = pd.DataFrame([[1, 2.0, 3.0]], columns=["who", "x", "x"])
    arrow = pa.table([[1], [2.0], [3.0]], names=["who", "x", "x"])
    for source in (doubled, arrow):
        with pytest.raises(pm.SchemaError, match="2 columns are named 'x'"):
            pm.read(source, person="who", values="x")


def test_objects_are_text_whatever_they_are():
    objects = pd.DataFrame({"who": [1, 2], "x": pd.Series([1.5, "2"], dtype=object)})
    with pytest.raises(pm.SchemaError, match="'x' of type text"):
        pm.read(objects, person="who", values="x")


@pytest.mark.slow
def test_kinds_of_ids_and_numbers():
    table = pd.DataFrame(
        {
            "float": [2.0, math.nan, 1.0, 2.0],
            "category": pd.Categorical(["b", None, "a", "b"], categories=["b", "a"]),
            "object": pd.Series([2, None, "1", "2"], dtype=object),
            "day": pd.to_datetime(["2020-01-02", None, "2020-01-01", "2020-01-02"]),
            "flag": [True, False, True, False],
            "small": np.array([1, 2, 3, 5], dtype=np.uint8),
        }
    )
    for person in ("float", "category", "object", "day"):
        for source in (table, nw.from_native(table)):
            assert values(pm.read(source, person=person, values=["flag", "small"])) == [
                [1.0, 3.0],
                [0.5, 3.0],
            ]


@pytest.mark.parametrize("persons", [0, 1])
def test_empty_tables_and_one_person(tmp_path, persons):
    table = frame(who=[1], x=[2.5]).head(persons)
    table.write_parquet(tmp_path / "t.parquet")
    for source in (table, table.lazy(), table.to_arrow(), str(tmp_path / "t.parquet")):
        people = pm.read(source, person="who", values="x")
        assert people.size() == persons
        assert people.log_counts(0, 0.0).sum() == persons
        assert people.interval_sums([ClipInterval(0, 10)])[0].present == persons
        assert people.pair_counts(0, -5, 5).sum() == 0
        assert people.matrix().shape == (persons, 1)
        assert people.split(0, 2).size() == persons


def test_arrays():
    grid = np.arange(6.0).reshape(3, 2)
    people = pm.read(grid)
    assert people.matrix() is grid
    assert people.columns == ("value_0", "value_1")
    assert pm.read(np.array([1, 2, 3]), values="age").columns == ("age",)
    masked = np.ma.masked_values([1.0, -9.0, 3.0], -9.0)
    assert values(pm.read(masked)) == [[1.0], [None], [3.0]]
    people = pm.read(np.array([1.0, 2.0, 4.0]), person=np.array(["b", "a", "b"]))
    assert values(people) == [[2.0], [2.5]]
    weighted = pm.read(np.array([1.0, math.nan]), estimand="records", max_records=3)
    assert weighted.interval_sums([ClipInterval(0, 4)])[0].w == 1


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (np.array(["1", "2"]), {}),
        (np.array([1.0, None], dtype=object), {}),
        (np.zeros((2, 2, 2)), {}),
        (np.zeros(3), {"person": np.array([1, 2])}),
        (np.zeros(2), {"person": np.array([1j, 2])}),
        (np.zeros(2), {"values": ["a", "b"]}),
        (np.zeros(2), {"roster": [1, 2]}),
        ({"x": [1]}, {"person": "x", "values": "x"}),
        (SMALL, {"values": "x"}),
        (SMALL, {"person": ["who"], "values": "x"}),
    ],
)
def test_sources_and_arguments_that_are_refused(source, options):
    with pytest.raises((pm.ArgumentError, pm.SchemaError)):
        pm.read(source, **options)


def test_an_array_has_no_column_of_persons():
    with pytest.raises(
        pm.ArgumentError,
        match="person='who': is not a column, because an array has no names.* array of ids",
    ):
        pm.mean(np.zeros(3), person="who", epsilon=1)


def test_an_engine_s_own_message_never_reaches_the_caller(tmp_path):
    table = duckdb.sql("SELECT 'secret-name' AS who, error('secret value 12345')::DOUBLE AS x")
    with pytest.raises(pm.SchemaError) as caught:
        pm.read(table, person="who", values="x")
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_people_do_not_show_their_rows():
    table = frame(who=["secret-name"], x=[12345.5])
    for people in (
        pm.read(table, person="who", values="x"),
        pm.read(table.to_arrow(), person="who", values="x", estimand="records", max_records=77),
        pm.read(np.array([12345.5]), estimand="records", max_records=77),
    ):
        assert "12345" not in repr(people)
        assert "secret" not in repr(people)


def test_nothing_is_left_in_the_caller_s_database(tmp_path):
    path = tmp_path / "own.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t AS SELECT i % 5 AS who, i AS x FROM range(20) AS r(i)")
        people = pm.read(connection.table("t"), person="who", values="x")
        assert people.split(1, 2).size() == 2
        del people
        tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        assert tables == [("t",)]


def test_the_machine_may_be_limited(tmp_path):
    source = frame(who=list(range(1000)), x=[1.0] * 1000).to_arrow()
    people = pm.read(
        source, person="who", values="x", memory_limit="200MB", threads=1, temp_directory=tmp_path
    )
    assert people.size() == 1000
    del people
    assert list(tmp_path.iterdir()) == []
    wrong = [{"threads": 0}, {"temp_directory": "/nowhere"}, {"temp_directory": 3}, {"progress": 2}]
    wrong += [{"memory_limit": size} for size in ("much", "0GB", "1KB", "2MB")]
    for option in wrong:
        with pytest.raises(pm.ArgumentError, match=next(iter(option))):
            pm.read(source, person="who", values="x", **option)
