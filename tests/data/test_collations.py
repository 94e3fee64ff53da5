"""Texts of DuckDB are compared by their bytes, whatever rules a column or the connection has."""

from __future__ import annotations

import ast
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privmean as pm
from privmean.data.group_pairs import GroupWeights
from privmean.data.person_products import ModelRecords
from privmean.data.read_pairs import Difference, Pairs, read_differences, read_pairs
from privmean.data.table import Table

RULES = ["NOCASE", "NOACCENT", "NOCASE.NOACCENT", "de.nocase", "th"]  # to "th", -1 is 1
WAYS = ["column", "default", "view", "json", "enum", "parquet", "csv"]
WORDS = ["abc", "ABC", "äbc", "ÄBC", "a-bc", "b"]  # each rule takes some two of them for one
EDGES = ["2026-01-01", "2026-03-02", "2026-05-05", "2026-08-01"]
SPLIT = GroupWeights(2, True)
N = 60


def arrow():
    """30 persons of two records, in up to two of five groups; the group is one of a person, too."""
    return pa.table(
        {
            "who": [f"{WORDS[i % 6]}{i % 30 // 6}" for i in range(N)],
            "v": np.arange(N, dtype=float),
            "g": [WORDS[(i + i // 30) % 5] for i in range(N)],
            "own": [WORDS[i % 6] for i in range(N)],
            "day": [f"2026-0{1 + i % 7}-0{1 + i % 9}" for i in range(N)],
            "k": pa.array([(-1) ** i * (1 + i % 3) for i in range(N)], pa.int64()),
        }
    )


def relation(way, rule, folder):
    """The table as a relation of a connection in which texts have other rules."""
    table = arrow()
    kinds = {"v": "DOUBLE", "k": "BIGINT"}
    texts = [name for name in table.column_names if name not in kinds]
    connection = duckdb.connect()
    connection.register("given", table)
    if way == "column":
        made = [f"{n} {kinds.get(n, f'VARCHAR COLLATE {rule}')}" for n in table.column_names]
        connection.execute(f"CREATE TABLE t ({', '.join(made)})")
        connection.execute("INSERT INTO t FROM given")
        return connection.table("t")
    connection.execute(f"SET default_collation = '{rule}'")
    if way == "default":
        connection.execute("CREATE TABLE t AS FROM given")
        return connection.table("t")
    if way == "json":
        connection.execute("CREATE TABLE t AS FROM given")
        made = [f"to_json({name})->>'$' AS {name}" for name in texts]
        return connection.sql(f"SELECT * REPLACE ({', '.join(made)}) FROM t")
    if way == "enum":
        listed = ", ".join(f"'{word}'" for word in WORDS)
        return connection.sql(f"SELECT * REPLACE (g::ENUM ({listed}) AS g) FROM given")
    if way == "view":
        return connection.sql("FROM given")
    path = str(folder / f"t.{way}")
    if way == "parquet":
        pq.write_table(table, path)
        return connection.read_parquet(path)
    table.to_pandas().to_csv(path, index=False)
    return connection.read_csv(path, dtype=dict.fromkeys(texts, "VARCHAR"))


def values_of(people):
    return people.size(), np.sort(people.collect().values[:, 0]).tobytes()  # NaN comes last


def pairs_of(source, by, keys, roster=None, weights=SPLIT, **more):
    listed = None if keys is None else tuple((key,) for key in keys)
    asked = Pairs("v", (by,), listed, weights, **more)
    found = read_pairs(asked, Table(source, person="who", roster=roster))
    return found.keys, found.size(), found.members(), found.group_weights()


def products(source, level, **named):
    sign = ast.GtE() if "dates" in named else ast.Eq()
    ((column,),) = named.values()
    tree = ast.Compare(ast.Name(column), [sign], [ast.Constant(level)])
    records = ModelRecords.of(Table(source, person="who"), ["v", column], **named)
    return records.products([[tree]], [1.0]).sums.tolist()


def answers(source):
    roster = ["abc0", "ABC0", "äbc1", "nobody", "NOBODY"]
    return {
        "persons": values_of(pm.read(source, person="who", values="v")),
        "records": values_of(
            pm.read(source, person="who", values="v", estimand="records", max_records=2)
        ),
        "roster": values_of(pm.read(source, person="who", values="v", roster=roster)),
        "private keys": pairs_of(source, "g", None),
        "private keys, one group": pairs_of(source, "g", None, weights=GroupWeights()),
        "keys": pairs_of(source, "g", [*WORDS, "B"]),
        "one key": pairs_of(source, "g", ["abc"], other=True),
        "keys, roster": pairs_of(source, "g", WORDS, roster),
        "whole keys": pairs_of(source, "k", ["-1", "1", "-2", "3"]),
        "private whole keys": pairs_of(source, "k", None),
        "public groups": pairs_of(source, "own", WORDS, weights=GroupWeights(), public=True),
        "pair": values_of(
            read_differences(Difference("v", "g", ("abc", "ABC")), Table(source, person="who"))
        ),
        "levels": products(source, "ABC", texts=("g",)),
        "dates": products(source, EDGES[1], dates=("day",)),
        "sizes": pm.group_sizes(source, person="who", group="own"),
    }


@cache
def of_arrow():
    return answers(arrow())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "rule"),
    [
        (way, rule)
        for way in WAYS
        for rule in RULES
        if rule == "NOCASE" or way == "column" or (way, rule) == ("view", "th")
    ],
)
def test_every_answer_is_that_of_arrow(way, rule, tmp_path):
    expected = of_arrow()
    assert answers(relation(way, rule, tmp_path)) == expected
    assert expected["persons"][0] == 30
    assert expected["roster"][0] == 5


@pytest.mark.parametrize("how", ["column", "connection"])
def test_one_person_s_spelling_is_no_key(how):
    """Groups of few persons are hidden, also where the engine takes them for a larger one."""
    connection = duckdb.connect()
    rule = "COLLATE NOCASE" if how == "column" else ""
    if how == "connection":
        connection.execute("SET default_collation = 'NOCASE'")
    connection.execute(f"CREATE TABLE t (who INT, v DOUBLE, g VARCHAR {rule})")
    connection.execute(
        "INSERT INTO t SELECT i, i % 10, CASE WHEN i = 0 THEN 'ABC' ELSE 'abc' END "
        "FROM range(3000) r(i)"
    )
    release = pm.mean(connection.table("t"), "v", person="who", by="g", epsilon=1, delta=1e-6)
    assert [row.group for row in release.rows()] == ["abc"]


def test_a_comparison_of_arms_that_differ_in_case():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (who INT, v DOUBLE, arm VARCHAR COLLATE NOCASE)")
    connection.execute(
        "INSERT INTO t SELECT i, i % 2, CASE WHEN i % 2 = 0 THEN 'x' ELSE 'X' END "
        "FROM range(4000) r(i)"
    )
    release = pm.compare(
        connection.table("t"), "v", person="who", arms="arm", levels=["x", "X"], epsilon=20
    )
    assert abs(abs(release.effect.estimate) - 1) < 0.1
