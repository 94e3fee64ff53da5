"""Every value of every kind of source is a marker, and no output of any call holds one.

Calls are right and wrong ones; outputs are messages with their tracebacks, warnings, log records,
standard output and error, releases in all their forms, ledgers, reports and files of study runs.
A marker that the caller names (a key, say) is none. `spark_homes.py` does the same on Spark.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privmean as pm
from marked import FEW, KEYS, SAID, Marked, leaks, right, said, wrong
from privmean.cli.app import run
from privmean.data import key_columns as keys
from privmean.data import open_source as tables
from privmean.data import read_pairs as pairread
from privmean.data import roster
from privmean.study.run_folder import run_in

MARKED = Marked()
COLUMNS = MARKED.columns
LEVELS = sorted({*COLUMNS["c"], "levelmark99"})  # one that no record has


def arrays():
    return {name: np.array(items) for name, items in COLUMNS.items()}


def frame():
    made = pd.DataFrame(COLUMNS)
    made["c"] = pd.Categorical(COLUMNS["c"], categories=LEVELS)
    made["g"] = made["g"].astype("category")
    made["q"], made["n"] = made["q"].astype("Int64"), made["n"].astype("Int64")
    made["arm"] = made["arm"].astype("boolean")
    made.loc[3, ["x", "n", "t"]] = None
    return made


def polars():
    made = pl.DataFrame(COLUMNS)
    return made.with_columns(pl.col("c").cast(pl.Enum(LEVELS)), pl.col("g").cast(pl.Categorical))


def arrow():
    made = pa.table(COLUMNS)
    for name in ("t", "c", "g"):
        place = made.column_names.index(name)
        made = made.set_column(place, name, made[name].dictionary_encode())
    return made


def relation():
    connection = duckdb.connect()
    connection.register("records", pa.table(COLUMNS))
    listed = ", ".join(f"'{item}'" for item in LEVELS)
    connection.execute(f"CREATE TYPE level AS ENUM ({listed})")
    return connection.sql("SELECT * REPLACE (c::level AS c) FROM records")


def csv(folder, header=True):
    path = folder / f"{'t' if header else 'bare'}.csv"
    pd.DataFrame(COLUMNS).to_csv(path, index=False, header=header)
    return path


def lines(folder):
    path = folder / "t.jsonl"
    rows = zip(*COLUMNS.values(), strict=True)
    path.write_text(
        "".join(
            json.dumps(dict(zip(COLUMNS, row, strict=True)), default=str) + "\n" for row in rows
        )
    )
    return path


def parquet(folder):
    pq.write_table(arrow(), folder / "t.parquet")
    return folder / "t.parquet"


def parts(folder, mixed=False):
    place = folder / ("mixed" if mixed else "parts")
    place.mkdir()
    whole = pa.table(COLUMNS)
    for k in range(3):
        part = whole.slice(k * 200, 200)
        if mixed and k == 2:
            for name, kind in (("x", pa.string()), ("n", pa.decimal128(30, 2)), ("q", pa.string())):
                part = part.set_column(part.column_names.index(name), name, part[name].cast(kind))
        pq.write_table(part, place / f"{k}.parquet")
    return place


def texts(folder):
    place = folder / "texts"
    place.mkdir()
    for k in range(3):
        pd.DataFrame(COLUMNS).iloc[k * 200 : k * 200 + 200].to_csv(place / f"{k}.csv", index=False)
    return place


SOURCES = {
    "arrays": lambda _: arrays(),
    "lists": lambda _: COLUMNS,
    "pandas": lambda _: frame(),
    "pandas of Arrow": lambda _: arrow().to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda _: polars(),
    "lazy": lambda _: polars().lazy(),
    "arrow": lambda _: arrow(),
    "relation": lambda _: relation(),
    "csv": csv,
    "csv without a header": lambda folder: csv(folder, header=False),
    "json lines": lines,
    "parquet": parquet,
    "folder of parquet": parts,
    "folder of types that differ": lambda folder: parts(folder, mixed=True),
    "folder of csv": texts,
}


def tables_of(source):
    """Tables by right and wrong columns of people, and with a roster that does not fit."""
    yield lambda: pm.read(source, person="p", values="t").size()
    yield lambda: pm.read(source, person="x", values="n").size()
    yield lambda: pm.read(source, person="d", values="x").size()
    yield lambda: pm.read(source, person="no such column", values="x").size()
    yield lambda: pm.read(source, person="q", values="x", roster=["nobody", 1.5]).size()
    yield lambda: pm.read(source, person=COLUMNS["p"][:30], values="x").size()
    yield lambda: pm.mean(source, "x", person=COLUMNS["q"][:30], epsilon=1, **SAID)
    yield lambda: pm.group_sizes(source, person="p", group="t")
    yield lambda: pm.group_sizes(source, person="q", group="arm")
    yield lambda: pm.read(source, person="p", values="x", memory_limit="4MB").size()


def bare(source):
    """Calls of a CSV whose first line is a record."""
    for header in (False, None):  # True says that the line is public
        table = pm.Table(source, person="1", header=header)
        yield lambda t=table: pm.mean(t, "3", bounds=(0, 10), epsilon=8, **SAID)
        yield lambda t=table: pm.mean(t, "no such column", bounds=(0, 10), epsilon=8, **SAID)
    yield lambda: pm.mean(pm.Table(source, person="1", header=False), "5", epsilon=8, **SAID)


def study(table, folder, wrong):
    """Studies with a ledger, a report, a run in a folder and its files."""
    made = pm.Study(table, epsilon=20.0, delta=1e-6)
    made.add("level", pm.Mean("x"))
    made.add("groups", pm.Mean("x", by="g", keys=KEYS))
    if wrong:
        made.add("wrong", pm.Mean("t"))
    ledger = pm.Ledger(folder / f"{wrong}.ledger", epsilon=100, delta=1e-5)
    try:
        told = made.release(ledger=ledger, **SAID)
        told.report(str(folder / "report.html"))
        run_in(made, folder / "study", ledger=ledger, **SAID)
    finally:
        logging.getLogger("tests").info("%s %r", list(ledger.entries), ledger)
        ledger.close()
    return told


def written(folder):
    """The texts of all files that calls have left."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes().decode(errors="replace")


STUDY = """
[table]
source = "{source}"
person = "p"
[budget]
epsilon = 4.0
[questions.one]
ask = "mean"
values = ["{value}"]
assume = "0,10"
"""


def command_lines(path, folder):
    """Commands, right and wrong, with the exit status of each."""
    ledger, common = folder / "book", ["--person", "p", "--epsilon", "4"]
    bounds = ["--bounds", "0", "10"]
    yield 0, ["ledger", "create", ledger, "--epsilon", "40"]
    for value, status in (("x", 0), ("t", 2), ("nothing", 2)):
        line = ["mean", path, "--value", value, *bounds, *common]
        yield status, [*line, "--ledger", ledger]
        toml = folder / f"{value}.toml"
        toml.write_text(STUDY.format(source=path, value=value))
        yield status, ["study", "run", toml, "--out", folder / f"{value}.out", "--ledger", ledger]
    yield 0, ["mean", path, "--value", "x", *bounds, "--details", *common]
    yield 0, ["mean", path, "--value", "x", *bounds, "--json", *common]
    yield 0, ["mean", path, "--value", "x", "--by", "g", "--keys", "spring,autumn", *common]
    yield 2, ["mean", path, "--value", "x", "--by", "d", "--keys", "winter", *common]
    yield 3, ["compare", path, "--value", "x", "--arms", "t", *common]
    yield 2, ["regress", path, "--formula", "x ~ t", *common]
    yield 2, ["curve", path, "--value", "x", "--time", "t", "--bins", "0,1,2", *bounds, *common]
    yield 2, ["quantile", path, "--value", "c", "--q", "0.5", *common]
    yield 2, ["variance", path, "--value", "t", *common]
    yield 2, ["mean", path, "--value", "x", "--person", "d d", "--epsilon", "4"]
    yield 0, ["ledger", "show", ledger]


@pytest.fixture
def places(tmp_path):
    """A folder of records, and one of what calls write."""
    for name in ("records", "made"):
        (tmp_path / name).mkdir()
    return tmp_path / "records", tmp_path / "made"


def calls_of(kind, source, folder):
    """The calls of one source, and how many of the first ones make a release."""
    if kind == "csv without a header":
        return [*bare(source)], 1
    table = pm.Table(source, person="p")
    rights = [*right(table)]
    if kind not in WHOLE:  # a release is made in one way, whatever the records came from
        rights = [rights[2], rights[6]]
    else:
        rights.append(lambda: study(table, folder, wrong=False))
    broken = [*wrong(table), *tables_of(source), lambda: study(table, folder, wrong=True)]
    if kind == "folder of types that differ":  # text in one file, numbers in another
        return [*broken, *rights], 0
    return [*rights, *broken], len(rights)


WHOLE = ("arrays", "polars", "parquet")


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_no_output_holds_a_marker(kind, places, capfd):
    records, made = places
    calls, answered = calls_of(kind, SOURCES[kind](records), made)
    found, errors = {}, []
    for number, call in enumerate(calls):
        results, words = said(call)
        found[number] = MARKED.found(results) | MARKED.found(words, FEW)
        if number < answered and ("Error" in words or not results):
            errors.append((number, words))
    printed = capfd.readouterr()
    found["printed"] = MARKED.found(printed.out + printed.err, FEW)
    found["written"] = {item for text in written(made) for item in MARKED.found(text)}
    assert {name: item for name, item in found.items() if item} == {}
    assert errors == []  # else messages alone were searched
    assert kind not in WHOLE or (made / "report.html").exists()


@pytest.mark.parametrize("given", ["rows", "list", "ids"])
def test_no_output_of_arrays_without_names_holds_a_marker(given, capfd):
    x, ids = COLUMNS["x"], COLUMNS["p"]
    calls = {
        "rows": [
            lambda: pm.mean(np.array([x, x]).T, bounds=(0, 10), epsilon=8, **SAID),
            lambda: pm.mean(np.array(COLUMNS["t"]), bounds=(0, 10), epsilon=8, **SAID),
            lambda: pm.mean(np.array(x), person="p", epsilon=8, **SAID),
            lambda: pm.read(np.array(x), values=["a", "b"]).size(),
        ],
        "list": [
            lambda: pm.mean([*x[:-1], "textmark"], bounds=(0, 10), epsilon=8, **SAID),
            lambda: pm.mean(x[:5], bounds=(0, 10), epsilon=0.01, **SAID),
            lambda: pm.mean(x, person=ids[:20], epsilon=1, **SAID),
            lambda: pm.mean(pd.Series(x), bounds=(0, 10), epsilon=1, **SAID),
            lambda: pm.mean(pd.Series(COLUMNS["t"]), person=ids, epsilon=1, **SAID),
        ],
        "ids": [
            lambda: pm.mean(x, person=ids, bounds=(0, 10), epsilon=8, **SAID),
            lambda: pm.read(np.array(x), person=np.array(COLUMNS["q"][:9])).size(),
            lambda: pm.mean(x[:9], person=COLUMNS["q"][:9], bounds=(0, 10), epsilon=0.1, **SAID),
            lambda: pm.read(np.array(x), person=[[1]] * len(x), roster=[1]).size(),
        ],
    }[given]
    found = [leaks(MARKED, call) for call in calls]
    printed = capfd.readouterr()
    assert [*found, MARKED.found(printed.out + printed.err, FEW)] == [set()] * (len(calls) + 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_no_command_prints_a_marker(kind, places, capfd):
    records, made = places
    path, statuses = SOURCES[kind](records), []
    for status, words in command_lines(path, made):
        statuses.append((status, run(list(map(str, words)))))
    printed = capfd.readouterr()
    assert MARKED.found(printed.out) | MARKED.found(printed.err, FEW) == set()
    assert {item for text in written(made) for item in MARKED.found(text)} == set()
    if kind == "parquet":
        assert [(k, pair) for k, pair in enumerate(statuses) if pair[0] != pair[1]] == []


# --- twins: the search finds what is planted ------------------------------------------------------
def raising():
    raise pm.SchemaError("column 'c' has levelmark3")


def chained():
    try:
        raise ValueError(COLUMNS["x"][0])
    except ValueError:
        raise pm.SchemaError("a number cannot be read")  # noqa: B904 - its context is the leak


PLANTED = {
    "a message": raising,
    "a message's context": chained,
    "a warning": lambda: warnings.warn(f"odd value {COLUMNS['x'][9]:.7g}", stacklevel=1),
    "the log": lambda: logging.getLogger("privmean.some").debug("read %s", "textmark9"),
    "a release": lambda: {"rows": [{"group": "keymark3"}]},
    "a number of a release": lambda: {"estimate": COLUMNS["x"][7]},
    "a whole number": lambda: str(COLUMNS["n"][5]),
    "a date": lambda: f"from {COLUMNS['d'][0]}",
}


@pytest.mark.parametrize("where", PLANTED)
def test_a_planted_marker_is_found(where):
    assert leaks(MARKED, PLANTED[where]) != set()


@pytest.mark.parametrize("stream", ["stdout", "stderr", "descriptor"])
def test_a_marker_that_is_printed_is_found(stream, capfd):
    def printing():
        if stream == "descriptor":
            os.write(2, b"thread panicked at idmark7\n")
        else:
            print("idmark7", file=getattr(sys, stream))

    assert leaks(MARKED, printing) == set()
    printed = capfd.readouterr()
    assert MARKED.found(printed.out + printed.err, FEW) == {"idmark7"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arrays", "pandas", "polars", "lazy", "relation"])
def test_types_by_their_own_texts_are_found(kind, monkeypatch, tmp_path):
    """What the messages showed once: the text of a type with all categories."""
    for module in (keys, pairread, roster, tables):
        monkeypatch.setattr(module, "type_name", str)
    table = pm.Table(SOURCES[kind](tmp_path), person="p")
    found = set().union(*(leaks(MARKED, call) for call in wrong(table)))
    assert len(found & set(LEVELS)) >= 7


def test_a_file_that_holds_a_marker_is_found(places):
    (places[1] / "report.html").write_text("<td>textmark12</td>")
    assert [MARKED.found(text) for text in written(places[1])] == [{"textmark12"}]
