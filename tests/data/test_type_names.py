"""Types in messages are names of a fixed list: their own texts can hold private values."""

from __future__ import annotations

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privmean as pm
from privmean.data import typenames

PEOPLE = 60
KNOWN = (
    set(typenames.CLASSES.values())
    | set(typenames.ARRAYS.values())
    | set(typenames.SQL.values())
    | {"whole numbers", "doubles", "lists", typenames.OTHER}
)


def diagnoses(kind):
    """People with a text column, one value of which only one person has."""
    ids, texts = np.arange(PEOPLE), ["flu"] * (PEOPLE - 1) + ["HIV"]
    base = {"p": ids, "x": ids % 7 * 1.0, "g": ids % 2}
    levels = sorted(set(texts))
    arrow = pa.table(base | {"d": pa.array(texts).dictionary_encode()})
    if kind == "relation":
        connection = duckdb.connect()
        connection.register("records", arrow)
        connection.execute("CREATE TYPE diagnosis AS ENUM ('HIV', 'flu')")
        return connection.sql("SELECT * REPLACE (d::VARCHAR::diagnosis AS d) FROM records")
    return {
        "arrays": lambda: base | {"d": np.array(texts)},
        "objects": lambda: base | {"d": np.array(texts, dtype=object)},
        "pandas": lambda: pd.DataFrame(base | {"d": pd.Categorical(texts)}),
        "polars": lambda: pl.DataFrame(base | {"d": pl.Series(texts, dtype=pl.Enum(levels))}),
        "lazy": lambda: pl.LazyFrame(base | {"d": pl.Series(texts, dtype=pl.Categorical)}),
        "arrow": lambda: arrow,
    }[kind]()


KINDS = ["arrays", "objects", "pandas", "polars", "lazy", "arrow", "relation"]


def study(table):
    study = pm.Study(table, epsilon=2.0)
    study.add("one", pm.Mean("d", assume=(0, 8)))
    return study.release()


CALLS = {
    "mean": lambda t: pm.mean(t, "d", bounds=(0, 8), epsilon=1),
    "read": lambda t: pm.read(t.source, person="p", values="d"),
    "quantile": lambda t: pm.quantile(t, "d", [0.5], epsilon=1),
    "variance": lambda t: pm.variance(t, "d", epsilon=1),
    "regress": lambda t: pm.regress(t, "x ~ d", epsilon=1),
    "levels": lambda t: pm.regress(t, "x ~ C(d, levels=(1, 2))", epsilon=1),
    "curve": lambda t: pm.curve(t, "x", time="d", bins=(0, 1, 2), epsilon=1),
    "before": lambda t: pm.compare(t, "x", arms="g", levels=(0, 1), baseline="d", epsilon=1),
    "keys": lambda t: pm.mean(t, "x", by=("d", "g"), keys=[("cold", "1.5")], epsilon=1),
    "roster": lambda t: pm.mean(
        pm.Table(t.source, person="g", roster=["a"]), "x", bounds=(0, 8), epsilon=1
    ),
    "study": study,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_message_shows_no_category(kind, call):
    with pytest.raises(pm.PrivmeanError) as caught:
        CALLS[call](pm.Table(diagnoses(kind), person="p"))
    assert "HIV" not in str(caught.value)
    assert "flu" not in str(caught.value)


def test_the_length_of_a_text_is_in_no_message():
    said = set()
    for last in ("b", "b" * 23):
        with pytest.raises(pm.PrivmeanError) as caught:
            pm.mean(np.array(["b"] * 10 + [last]), epsilon=1)
        said.add(str(caught.value))
    assert len(said) == 1


def test_every_type_has_a_name_of_the_list():
    days, one = [nw.Date(), nw.Datetime("ns", "UTC"), nw.Time(), nw.Duration()], nw.Int64()
    whole = [nw.Int8(), nw.UInt64(), nw.Int128(), nw.Float32(), nw.Decimal(), nw.Boolean()]
    others = [nw.String(), nw.Categorical(), nw.Enum(["HIV"]), nw.Binary(), nw.Object()]
    nested = [nw.List(one), nw.Array(one, 2), nw.Struct({"HIV": one}), nw.Unknown()]
    found = {typenames.type_name(kind) for kind in (*days, *whole, *others, *nested)}
    assert found <= KNOWN
    assert (
        len(found) == len(set(typenames.CLASSES.values())) + 3
    )  # and whole numbers, doubles, another kind
    arrays = [
        np.dtype(item) for item in ("<U23", "S3", "i1", "f2", "M8[s]", "O", "c16", [("HIV", int)])
    ]
    assert {typenames.array_type_name(kind) for kind in arrays} <= KNOWN
    words = ["ENUM('HIV')", "STRUCT(HIV INTEGER)", "DECIMAL(3,1)", "BIGINT[]", "UHUGEINT",
             "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "UNION(HIV INTEGER)"]  # fmt: skip
    assert {typenames.sql_type_name(kind) for kind in words} <= KNOWN
