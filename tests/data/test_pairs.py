"""Pairs of persons and groups: the same whole numbers in every home, and what one person can be."""

from __future__ import annotations

import datetime
import math
import random
from fractions import Fraction
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from frame_homes import homes, relation

import privmean as pm
from privmean.data import engines
from privmean.data.grids import LOG_CELLS
from privmean.data.group_pairs import (
    ArrayPairTable,
    CenteredSums,
    GroupWeights,
    pairs_of,
    weights_of,
)
from privmean.data.key_text import by_text, key_texts
from privmean.data.person_table import ClipInterval
from privmean.data.read_pairs import Pairs, read_pairs
from privmean.data.table import Table
from privmean.errors import ArgumentError, SchemaError

KEYS = (("a",), ("b",), ("",), ("ä b",))
BOXES = [
    ClipInterval(-3.0, 7.0),
    ClipInterval(0.1, 0.3),
    ClipInterval(-1e9, 1e9),
    ClipInterval(2.0, 2.0 + 2.0**-30),
]
ALONE, SPLIT = GroupWeights(), GroupWeights(2, True)
ODD = [None, math.nan, math.inf, -math.inf, 0.0, 0.2, 1.5, -2.25, 1e12, 3.0, 6.999]


def table(seed, size=400):
    """Dirty records: persons of several groups, ties, nulls, keys that nobody asked for."""
    draw = random.Random(seed)
    rows = []
    for _ in range(size):
        who = draw.choice([None, *range(40)])
        key = draw.choice(["a", "b", "", "ä b", "A", "a ", "zz", None])
        rows.append((who, key, draw.choice([*ODD, draw.gauss(1, 2)])))
    return rows


def reference(rows, keys, weights, other=False):
    """Group weights, members, and the pairs (person, group, value, weight, mass) by hand."""
    order = [key[0] for key in by_text(keys)]
    per: dict = {}
    persons = set()
    for who, key, value in rows:
        if who is None:
            continue
        persons.add(who)
        if value is None or math.isnan(value):
            continue
        if key in order:
            place = order.index(key)
        elif other:
            place = len(order)
        else:
            continue
        limited = min(max(value, -(2.0**44)), 2.0**44)
        per.setdefault(who, {}).setdefault(place, []).append(math.floor(limited * 2.0**36 + 0.5))
    pairs = []
    for who, groups in per.items():
        means = {g: float(Fraction(sum(t))) * 2.0**-36 / len(t) for g, t in groups.items()}
        if not weights.split:
            g = min(groups, key=lambda g: (-len(groups[g]), g))
            pairs.append((who, g, means[g], 1, 1))
            continue
        m = len(groups)
        for g in groups:
            w = min(weights.parts, weights.parts * weights.max_groups // m)
            pairs.append((who, g, means[g], w, 1024 // m))
    return len(persons), pairs


def frame_of(rows):
    schema = {"who": pl.Int64, "key": pl.String, "x": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def answers(people):
    """Every question at once."""
    centred = CenteredSums((0, 2), (1.0, -0.5), (0.75, 1e-3))
    return (
        people.size(),
        people.members(),
        people.group_weights(),
        people.log_counts(0, 0.3).tolist(),
        people.half_octave_counts(0, 0.3).tolist(),
        *(people.part_counts(0, sign, 0.25, 2, 16).tolist() for sign in (1, -1)),
        [item.tolist() for item in people.column_counts(0).distribution()],
        people.count_outside(0, -1.0, 2.0),
        people.group_sums(BOXES + BOXES[: len(people.keys) - 4]),
        people.centered_counts(centred).tolist(),
        people.centered_counts(CenteredSums((), (), ())).sum(),
    )


@pytest.mark.slow
@pytest.mark.parametrize("weights", [ALONE, SPLIT, GroupWeights(1, True)])
@pytest.mark.parametrize("other", [False, True])
def test_the_same_integers_in_every_home(tmp_path, weights, other):
    rows = table(3 + other)
    size, pairs = reference(rows, KEYS, weights, other)
    asked = Pairs("x", ("key",), KEYS, weights, other=other)
    people, g, x, w, m = (list(item) for item in zip(*pairs, strict=True))
    plain = ArrayPairTable(
        ("x",), asked.groups, weights, np.array(g), (np.array(x),), np.array(w), np.array(m), size,
        len(set(people)),
    )  # fmt: skip
    wanted = answers(plain)
    by_hand = [sum(w for _, h, _, w, _ in pairs if h == k) for k in range(len(asked.groups))]
    assert plain.group_weights() == by_hand
    named = homes(frame_of(rows), tmp_path)
    del named["arrays"]  # in them a null of a text is a text
    if not other or weights.split:
        named = {name: named[name] for name in ("polars", "relation")}
    for name, source in named.items():
        most = 0 if name == "parquet" else 1 << 22
        with mock.patch.object(engines, "IN_MEMORY", most):
            found = read_pairs(asked, Table(source, person="who"))
        assert isinstance(found, ArrayPairTable) == (name in ("arrow", "pandas"))
        assert answers(found) == wanted, name
        assert answers(found.collect()) == wanted, name


def test_order_of_records_and_other_persons_do_not_matter():
    rows = table(8)
    asked = Pairs("x", ("key",), KEYS, SPLIT)

    def pairs(rows):
        found = read_pairs(asked, Table(frame_of(rows), person="who"))
        return set(found.frame.select("p", "g", "v", "w", "m").collect().to_native().rows())

    whole = pairs(rows)
    assert pairs(rows[::-1]) == whole
    alone = pairs([row for row in rows if row[0] == 7])
    assert alone == {row for row in whole if row[0] == 7}
    assert alone


def test_sums_are_exact_beyond_64_bits():
    size = 1 << 17  # w z^2 near 2^48 each, 2^65 together
    weights = GroupWeights(3, True)
    people = ArrayPairTable(
        ("x",), (("a",),), weights, np.zeros(size, int), (np.full(size, 1e300),),
        np.full(size, 256), np.full(size, 1024), size, size,
    )  # fmt: skip
    box = ClipInterval(1 - 2.0**20, 2.0**20 - 1)
    (sums,) = people.group_sums([box])
    assert sums.wzz == size * 256 * box.steps**2 > 2**64
    frame = pl.DataFrame({"who": range(size), "key": ["a"] * size, "x": [1e300] * size})
    for source in (frame, relation(frame)):
        asked = Pairs("x", ("key",), (("a",),), weights)
        assert read_pairs(asked, Table(source, person="who")).group_sums([box]) == [sums]


def test_weights_and_masses_of_a_person_never_exceed_their_bounds():
    for most in range(1, 41):
        weights = GroupWeights(most, True)
        for groups in range(1, 5001):
            assert groups * weights.weight(groups) <= most * weights.parts
            assert groups * (weights.mass // groups) <= weights.mass
    assert GroupWeights(33, True).parts < GroupWeights(32, True).parts == 256


def test_a_null_drops_the_pair_and_never_the_person():
    rows = [(1, "a", 2.0), (2, "a", None), (3, None, 5.0), (4, "q", 1.0), (5, "b", math.nan)]
    frame = frame_of(rows)
    found = read_pairs(Pairs("x", ("key",), KEYS), Table(frame, person="who"))
    assert (found.size(), found.members()) == (5, 1)
    # a null in another group leaves the weights of the others
    more = frame.vstack(pl.DataFrame({"who": [1], "key": ["b"], "x": [None]}, schema=frame.schema))
    split = Pairs("x", ("key",), KEYS, SPLIT)
    one, two = (read_pairs(split, Table(f, person="who")).group_weights() for f in (frame, more))
    assert one == two


def test_a_roster_says_who_is_there():
    frame = pl.DataFrame({"who": [1, 1, 2, 3], "key": ["a", "b", "a", "a"], "x": [1.0] * 4})
    found = read_pairs(Pairs("x", ("key",), KEYS), Table(frame, person="who", roster=[1, 2, 9]))
    assert (found.size(), found.members()) == (3, 2)


@pytest.mark.slow
def test_keys_have_one_text_in_every_home(tmp_path):
    day = datetime.date(2026, 1, 31)
    columns = {
        "whole": ([1, 2, 10, None], [1, 2, 10], pl.Int64),
        "double": ([1.0, -0.0, 1.5, math.nan], [1, 0], pl.Float64),
        "single": ([1.0, 7.0, math.inf, None], [1, 7], pl.Float32),
        "truth": ([True, False, True, None], [True, False], pl.Boolean),
        "date": ([day, day, datetime.date(1999, 12, 1), None], [day], pl.Date),
        "text": (["1", "01", " 1", ""], ["1", "01", ""], pl.String),
        "level": (["x", "y", "x", None], ["x", "y"], pl.Categorical),
    }
    for name, (values, keys, kind) in columns.items():
        frame = pl.DataFrame(
            {"who": [1, 2, 3, 4], "key": values, "x": [1.0, 2.0, 4.0, 8.0]}
        ).with_columns(pl.col("key").cast(kind))
        texts = key_texts("keys", keys, 1)
        made = homes(frame, tmp_path) | {
            "arrays": {
                "who": np.arange(1, 5), "key": np.array(values, dtype=object),
                "x": frame["x"].to_numpy(),
            }
        }  # fmt: skip
        if name == "date":  # pandas has no dates
            del made["pandas"], made["arrays"]
        seen = {
            home: tuple(
                item.w and item.wz
                for item in read_pairs(
                    Pairs("x", ("key",), texts), Table(s, person="who")
                ).group_sums([ClipInterval(-16.0, 16.0)] * len(texts))
            )
            for home, s in made.items()
        }
        assert len(set(seen.values())) == 1, (name, seen)
        assert all(sum(1 for item in row if item) == len(texts) for row in seen.values()), seen


def test_in_text_files_a_key_is_what_stands_there(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("who,key,x\n1,01,1\n2,1,1\n3,01,1\n4,1.0,1\n")
    asked = Pairs("x", ("key",), (("01",), ("1",), ("1.0",)))
    before = read_pairs(asked, Table(str(path), person="who")).group_weights()
    with path.open("a") as file:
        file.write("5,01a,1\n")
    after = read_pairs(asked, Table(str(path), person="who"))
    assert before == after.group_weights() == [2, 1, 1]
    assert after.size() == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "texts", "persons"),
    [
        (["1", "2"], ["1.0", "2.0", "2", "01", "2.00", ""], [1, 2]),  # as pandas leaves gaps
        (["1.0"], ["1", "1.0", "11.0"], [2]),
        (["1", "1.0"], ["1", "1.0", "1.0"], [1, 2]),  # two keys that are listed
        (["true"], ["True", "TRUE", "true", "tRUE"], [3]),
        (["true", "True"], ["True", "TRUE", "true"], [1, 1]),  # TRUE could be either
        (["0"], ["0.0", "-0", "0"], [2]),
    ],
)
def test_a_key_is_found_in_its_other_spellings(tmp_path, asked, texts, persons):
    path = tmp_path / "t.csv"
    path.write_text("who,key,x\n" + "".join(f"{i},{t},1\n" for i, t in enumerate(texts)))
    pairs = Pairs("x", ("key",), tuple((key,) for key in asked))
    people = read_pairs(pairs, Table(str(path), person="who"))
    found = dict(zip((key[0] for key in people.keys), people.group_weights(), strict=True))
    assert [found[key] for key in asked] == persons


def test_keys_of_python_are_distinct_as_texts():
    assert key_texts("keys", [1, 2.0, True, "a", np.int64(7)], 1) == (
        ("1",), ("2",), ("true",), ("a",), ("7",),
    )  # fmt: skip
    for keys in ([1, "1"], ["a", "a"], [1.0, 1], [True, "true"]):
        with pytest.raises(ArgumentError, match="same key"):
            key_texts("keys", keys, 1)
    for key in (1.5, math.nan, None, b"a", datetime.datetime(2026, 1, 1), 2.0**54):
        with pytest.raises(ArgumentError, match="is not a key"):
            key_texts("keys", [key], 1)
    with pytest.raises(ArgumentError, match="2 columns"):
        key_texts("keys", ["a"], 2)


def test_a_column_of_keys_that_is_not_there_is_named_by_its_own_argument():
    table = pm.Table({"p": [1, 2], "g": ["a", "b"], "y": [1.0, 2.0]}, person="p")
    with pytest.raises(ArgumentError, match="by='h': is not a column"):
        pm.mean(table, "y", by="h", keys=["a", "b"], epsilon=1)
    with pytest.raises(ArgumentError, match="group='h': is not a column"):
        pm.group_sizes({"p": [1, 2], "g": ["a", "b"]}, person="p", group="h")


def test_columns_that_hold_no_keys_are_refused_by_their_type():
    when = pl.DataFrame({"who": [1], "key": [datetime.datetime(2026, 1, 1)], "x": [1.0]})
    for source in (when, when.to_arrow(), pd.DataFrame(when.to_dict(as_series=False))):
        with pytest.raises(SchemaError, match="cannot hold keys"):
            read_pairs(Pairs("x", ("key",), KEYS), Table(source, person="who"))


def test_crossed_keys_match_column_by_column():
    frame = pl.DataFrame(
        {"who": [1, 2, 3, 4], "a": ["x", "x,", "x", None], "b": [1, 2, 2, 1], "x": [1.0] * 4}
    )
    keys = key_texts("keys", [("x", 1), ("x", 2), ("x,", 2)], 2)
    for source in (frame, frame.to_arrow()):
        found = read_pairs(Pairs("x", ("a", "b"), keys), Table(source, person="who"))
        assert dict(zip(found.keys, found.group_weights(), strict=True)) == {
            ("x", "1"): 1, ("x", "2"): 1, ("x,", "2"): 1,
        }  # fmt: skip


def test_settings_of_weights():
    assert weights_of(1, None) == ALONE
    assert weights_of(3, None) == GroupWeights(3, True)
    assert weights_of(1, "split") == GroupWeights(1, True)
    for most, rule in ((2, "most_frequent"), (0, None), (1001, None), (1, "first")):
        with pytest.raises(ArgumentError):
            weights_of(most, rule)
    with pytest.raises(ArgumentError, match="requires a table of records"):
        pairs_of(object())
    with pytest.raises(ValueError, match="one pair a person"):
        ArrayPairTable.of(np.array([0, 0]), np.array([0, 1]), np.ones(2), ["a", "b"], ALONE)
    made = ArrayPairTable.of(
        np.array([0, 0, 1]), np.array([0, 1, 1]), np.ones(3), ["a", "b"], SPLIT
    )
    assert made.group_weights() == [256, 512]
    assert made.log_counts(0, 0.0).shape == (LOG_CELLS,)


HOSTILE_DOUBLES = [0.0, -0.0, 5e-324, -5e-324, 0.1, 1 / 3, 2.0**53 + 2, 1.7976931348623157e308]
HOSTILE_TEXTS = ["", "it's", 'a"b', "a,b", "[x]", "null", "$1", "\\", "\u00e9\U0001f600"]


@pytest.mark.parametrize("own", [True, False])
def test_public_numbers_and_texts_reach_duckdb_unchanged(own):

    from privmean.data.duckdb_engine import Engine
    from privmean.data.engines import EngineStore, fetch, lazy

    engine = Engine() if own else None
    connection = duckdb.connect() if engine is None else engine.connection
    anchor = connection.sql("SELECT 1 AS one")
    home = EngineStore(connection, engine) if own else EngineStore(anchor)
    public = {
        "i": [-(2**63), 2**63 - 1, *range(len(HOSTILE_TEXTS) - 2)],
        "f": [*HOSTILE_DOUBLES, -1.5],
        "t": HOSTILE_TEXTS,
    }
    found = fetch(home.small(public, lazy(anchor)).sort("i"))
    expected = sorted(zip(*public.values(), strict=True))
    assert [(i, f.hex(), t) for i, f, t in found] == [(i, f.hex(), t) for i, f, t in expected]


@pytest.mark.parametrize(
    ("by", "keys", "remedy"),
    [
        ("truth", ["a", True], "true or false"),
        ("truth", [1, 0], "true or false"),
        ("whole", [True, False], "whole numbers"),
        ("double", ["1.5", "0"], "whole numbers"),
        ("day", ["spring"], "dates as 2026-01-31"),
    ],
)
def test_a_key_that_no_column_of_the_type_holds_is_refused(by, keys, remedy):
    """The type is public: nothing is read or spent for a group that nobody can be in."""
    days = [datetime.date(2020, 1, 1 + k % 2) for k in range(40)]
    half = [k % 2 for k in range(40)]
    frame = pl.DataFrame(
        {"p": range(40), "x": half, "truth": half, "whole": half, "double": half, "day": days}
    ).with_columns(pl.col("truth").cast(pl.Boolean), pl.col("double").cast(pl.Float64))
    table = pm.Table(frame, person="p")
    with pytest.raises(ArgumentError, match=f"keys=.*: cannot be in a column of .*Give {remedy}"):
        pm.mean(table, "x", by=by, keys=keys, epsilon=1)
    with pytest.raises(ArgumentError, match="levels='new': cannot be in a column of"):
        pm.compare(table, "x", arms=by, levels=["new", "old"], epsilon=1)
    with pytest.raises(ArgumentError, match="pair='new': cannot be in a column of"):
        pm.compare(table, "x", by=by, pair=["new", "old"], epsilon=1)
