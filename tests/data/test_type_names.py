"""Types in messages are names of a fixed list: their own texts can hold private values."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pytest

import privmean as pm
from privmean.data import typenames

KNOWN = (
    set(typenames.CLASSES.values())
    | set(typenames.ARRAYS.values())
    | set(typenames.SQL.values())
    | {"whole numbers", "doubles", "lists", typenames.OTHER}
)


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
