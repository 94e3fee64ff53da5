"""PySpark against the other homes, as a program: it needs pyspark and a Java runtime.

1. Every question on tables with dirty values, and random questions on random tables: the integers
   of the plain-Python reference. Durations are refused.
2. Releases of every kind of question, by group too: the same on DuckDB, Polars and Spark, where no
   person and no pair of a person and a group reaches the driver. The same in a session that refuses
   to keep frames (`persist`), as serverless ones do.
3. Keys of every type, and of a rule that knows no case.
4. From a Spark table to a number: hostile neighbours before a tape (tests/auditing/filed.py).
5. No message and no release holds a value of the table (tests/marked.py, test_markers.py).

With --connect the session is that of a local Spark Connect server, and the random tables and the
neighbours are left out.

    python tests/data/spark_homes.py [--connect] [--tables N] [--neighbours N]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import random_tables

import privmean as pm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from marked import Marked, leaks, right
from marked import wrong as wrong_calls

MOST_ROWS = 514  # half octaves of both signs, about zero, and nulls
OF_ROWS = ("regression", "variance")  # need a row per person, and say so
RUN = ("provenance", "run", "parent_run", "digest")  # of a record: what only this run has


def frames_of(session):
    """The class of the frames of a session."""
    return type(session.range(1))


@contextmanager
def nothing_kept(session):
    """A session that refuses to keep a frame, as serverless ones do, and says so at once."""
    frames = frames_of(session)

    def refused(self, *given, **named):
        raise RuntimeError("[NOT_SUPPORTED_WITH_SERVERLESS] PERSIST TABLE is not supported")

    original, frames.persist = frames.persist, refused
    try:
        yield
    finally:
        frames.persist = original


@contextmanager
def results_counted(session):
    """Count the rows that every action of a PySpark frame brings to the driver."""
    DataFrame = frames_of(session)
    counted, kept = [], {}

    def wrapped(name, original):
        def action(self, *given, **named):
            result = original(self, *given, **named)
            rows = list(result) if name == "toLocalIterator" else result
            one = name == "first" or (name == "head" and not isinstance(rows, list))
            counted.append((name, 1 if one else len(rows), self.columns))
            return iter(rows) if name == "toLocalIterator" else rows

        return action

    for name in ("collect", "toPandas", "toArrow", "toLocalIterator", "take", "head", "first",
                 "tail", "_collect_as_arrow"):  # fmt: skip
        if hasattr(DataFrame, name):
            kept[name] = getattr(DataFrame, name)
            setattr(DataFrame, name, wrapped(name, kept[name]))
    try:
        yield counted
    finally:
        for name, original in kept.items():
            setattr(DataFrame, name, original)


def differences(people, asked, name: str) -> int:
    """The number of questions that these people answer otherwise than the reference."""
    wrong = 0
    for one in asked:
        found, right = one.ask(people), one.answer()
        if found != right:
            print(f"{name}, {one.name}: {found!s:.200} instead of {right!s:.200}")
            wrong += 1
    return wrong


def dirty(session) -> int:
    generator, wrong = random.Random(4), 0
    for ids, cap in ((range(9), None), (["a", "B", "é", "0", "00"], None), (range(9), 3)):
        made = random_tables.of_rows(random_tables.dirty_rows(ids, 60, generator), cap)
        asked = random_tables.questions(made, generator)
        kind = "string" if isinstance(ids, list) else "long"
        frame = session.createDataFrame(made.rows, f"who {kind}, x0 double, x1 double")
        people = pm.read(frame, person="who", values=["x0", "x1"], **made.options)
        name = f"{kind} ids, cap {cap}"
        wrong += (differ := differences(people, asked, name))
        print(f"{name}: {len(asked)} questions, {differ} differ")
        ends = [ids[0], "zz" if kind == "string" else 1000]
        known = pm.read(frame, person="who", values="x0", roster=ends, **made.options)
        wrong += known.size() != 2
    return wrong


def random_ones(session, tables: int) -> int:
    """Random tables and questions (random_tables.py) of the types that Spark has."""
    wrong = tried = answers = 0
    seed = 0
    while tried < tables:
        seed += 1
        generator = random.Random(seed)
        made = random_tables.table(generator)
        asked = generator.sample(random_tables.questions(made, generator), 5)
        unsigned = any(str(kind).startswith("uint") for kind in made.arrow.schema.types)
        if unsigned or made.rows_of_persons or not made.rows:
            continue
        tried += 1
        frame = session.createDataFrame(made.arrow)
        named = {"person": "who", "values": [f"x{j}" for j in range(made.width)]}
        people = pm.read(frame, **named, **made.options)
        answers += len(asked)
        wrong += differences(people, asked, f"seed {seed}")
    print(f"random tables: {tried}, {answers} answers, {wrong} differ")
    return wrong


def types(session) -> int:
    """Durations are refused, as everywhere; declared types give the bounds of other engines."""
    small = session.sql("SELECT 1 AS who, true AS yes, CAST(1 AS BYTE) AS i8, 2 AS i32, 'a' AS g")
    _, said = pm.Table(small, person="who").public_bounds(("yes", "i8", "i32"), ("g",))
    found = {name: (item.lower, item.upper) for name, item in said.items()}
    if found != {"yes": (0.0, 1.0), "i8": (-128.0, 127.0)}:
        print(f"declared types: {found}")
        return 1
    lengths = pa.array([1, 2], pa.duration("us"))
    frame = session.createDataFrame(pa.table({"who": [1, 2], "x": lengths}))
    try:
        pm.read(frame, person="who", values="x")
    except pm.SchemaError as refusal:
        print(f"durations: {refusal}")
        return 0
    print("durations: read")
    return 1


def generated(folder: Path) -> Path:
    """5000 persons with dirty values and values far beyond 64 bits of the grid."""
    generator = np.random.default_rng(11)
    ids = generator.integers(0, 5000, 40_000)
    x = 7 + generator.normal(0, 1, 5000)[ids] + generator.normal(0, 3, 40_000)
    x[::101], x[1::401], x[2::1009], x[3::1013] = np.nan, np.inf, -1e300, 2.0**31 + 0.3
    frame = pl.DataFrame({"person_id": ids, "value": x, "other": generator.normal(0, 1, 40_000)})
    hole = pl.arange(pl.len()) % 89 == 0
    frame = frame.with_columns(pl.when(~hole).then("value").alias("value"))
    path = folder / "generated.parquet"
    frame.write_parquet(path)
    return path


GROUPS = [f"g{k}" for k in range(6)]


def grouped() -> pl.DataFrame:
    """2500 persons in one to three groups each, with nulls, dirty values and keys not asked for."""
    generator, rows = np.random.default_rng(12), []
    for person in range(2500):
        own = generator.choice(7, generator.integers(1, 4), replace=False)
        for g in own:
            for _ in range(int(generator.integers(1, 3))):
                x = float(5 + 0.4 * g + generator.normal())
                rows.append((person, f"g{g}", int(person % 2), x, float(generator.normal())))
    frame = pl.DataFrame(rows, schema=["who", "key", "arm", "x", "y"], orient="row")
    at = pl.int_range(pl.len())
    return frame.with_columns(
        key=pl.when(at % 31 > 0).then(pl.col("key")),
        x=pl.when(at % 53 > 0).then(pl.when(at % 401 > 0).then(pl.col("x")).otherwise(math.nan)),
        y=pl.when(at % 7 > 0).then(pl.col("y")),
    )


def comparisons():
    """Questions about groups: name -> how a release is made of a source."""
    by = {"person": "who", "by": "key", "epsilon": 2.0}
    arms = {"person": "who", "arms": "arm", "epsilon": 2.0}
    return {
        "one group a person": lambda s, n: pm.mean(s, "x", keys=GROUPS, noise=n, **by),
        "several": lambda s, n: pm.mean(s, "x", keys=GROUPS, max_groups=2, noise=n, **by),
        "other": lambda s, n: pm.mean(
            s, "x", keys=GROUPS[:3], other_group=True, max_groups=2, noise=n, **by
        ),
        "private keys": lambda s, n: pm.mean(s, "x", delta=1e-6, max_groups=2, noise=n, **by),
        "public groups": lambda s, n: pm.mean(
            s, "x", keys=GROUPS, membership="public", max_groups=2, noise=n, **by
        ),
        "two values": lambda s, n: pm.mean(s, ["x", "y"], keys=GROUPS, noise=n, **by),
        "arms": lambda s, n: pm.compare(s, "x", baseline="y", noise=n, **arms),
        "public arms": lambda s, n: pm.compare(s, "x", membership="public", noise=n, **arms),
        "the same persons twice": lambda s, n: pm.compare(s, "x", pair=["g1", "g2"], noise=n, **by),
    }


def releases(session, words: str, listed) -> int:
    """The number of releases that homes make otherwise, or for which rows reached the driver."""
    wrong, frame = 0, grouped()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "groups.parquet"
        frame.write_parquet(path)
        for name, release in listed.items():
            with results_counted(session) as counted:
                sources = session.read.parquet(str(path)), path, frame
                made = (release(source, pm.SimulatedNoise(3)).to_dict() for source in sources)
                found = {json.dumps(timeless(item), sort_keys=True) for item in made}
            rows = max(rows for _, rows, _ in counted)
            personal = [columns for _, _, columns in counted if {"p", "v", "v0"} & set(columns)]
            print(
                f"{words}, {name}: homes {'agree' if len(found) == 1 else 'DIFFER'}, "
                f"{len(counted)} results, at most {rows} rows, {len(personal)} of persons"
            )
            wrong += len(found) != 1
            if name not in OF_ROWS:
                wrong += (rows > MOST_ROWS) + len(personal)
    return wrong


def everything():
    """Questions of every kind: name -> how a release is made of a source."""
    terms = {"person": "who", "epsilon": 2.0, "delta": 1e-6}
    moment = pm.BoundedMoment(order=4, bound=20.0)

    def study(source, noise):
        made = pm.Study(source, noise=noise, **terms)
        made.add("mean", pm.Mean("x"))
        made.add("quantiles", pm.Quantile("x", [0.25, 0.5]))
        made.add("groups", pm.Mean("x", by="key", keys=GROUPS))
        return made.release()

    return {
        "mean": lambda s, n: pm.mean(s, "x", noise=n, **terms),
        "add-remove": lambda s, n: pm.mean(
            s, "x", neighbors="add-remove", n_guess=3000, noise=n, **terms
        ),
        "of records": lambda s, n: pm.mean(
            s, "x", estimand="records", max_records=3, noise=n, **terms
        ),
        "within bounds": lambda s, n: pm.mean(s, "x", bounds=(-50, 50), noise=n, **terms),
        "sub-Gaussian": lambda s, n: pm.mean(
            s, "x", assume=pm.SubGaussian(sd=2.0), noise=n, **terms
        ),
        "moment": lambda s, n: pm.mean(s, "x", assume=moment, noise=n, **terms),
        "two means": lambda s, n: pm.mean(s, ["x", "y"], noise=n, **terms),
        "quantiles": lambda s, n: pm.quantile(s, "x", [0.25, 0.5], noise=n, **terms),
        "variance": lambda s, n: pm.variance(s, "x", noise=n, **terms),
        "curve": lambda s, n: pm.curve(s, "x", time="arm", bins=[0, 1, 2], noise=n, **terms),
        "regression": lambda s, n: pm.regress(s, "x ~ y", noise=n, **terms),
        "study": study,
    }


def timeless(made):
    """A record without what changes from run to run: time, engine and the name of a run."""
    if isinstance(made, dict):
        return {name: timeless(item) for name, item in made.items() if name not in RUN}
    return [timeless(item) for item in made] if isinstance(made, list) else made


def collated(session) -> int:
    """Whether a rule of Spark's (from version 4) that knows no case merges persons or keys."""
    frame = pl.DataFrame({"who": ["a", "A", "b"] * 40, "key": ["k", "K"] * 60, "x": [1.0] * 120})
    at = pl.int_range(120)
    frame = frame.with_columns(who=pl.col("who") + (at // 3).cast(str), x=at.cast(float))
    table = session.createDataFrame(frame.rows(), frame.columns)
    try:
        rule = "CAST({0} AS STRING COLLATE UTF8_LCASE) AS {0}"
        table = table.selectExpr(rule.format("who"), rule.format("key"), "x")
    except Exception:  # a version without such rules
        return 0
    by = {"person": "who", "by": "key", "keys": ["k", "K"], "epsilon": 20.0, "values": "x"}
    found = []
    for source in (table, frame):
        people = pm.read(source, person="who", values="x", roster=["a0", "A0", "z", "Z"])
        made = pm.mean(source, noise=pm.SimulatedNoise(3), **by).to_dict()
        del made["provenance"]  # time and engine
        everybody = pm.read(source, person="who", values="x").size()
        found.append((people.size(), everybody, json.dumps(made, sort_keys=True)))
    same = found[0] == found[1]
    print(f"texts of a rule that knows no case: homes {'agree' if same else 'DIFFER'}")
    return int(not same)


def tables_of_keys():
    """For every type that keys have: its name, a table, and public keys, all of which are in it."""
    whole = np.arange(3000) % 5
    x = whole + np.random.default_rng(3).standard_normal(len(whole))
    day = np.datetime64("2026-01-29") + whole
    kinds = {
        "whole numbers": (whole, [0, 1, 2, 3]),
        # of doubles .5 is no key, and -0.0 is 0
        "doubles": (np.where(whole == 4, 0.5, np.where(whole == 0, -0.0, whole)), [0, 1, 2, 3]),
        "booleans": (whole > 2, [True, False]),
        "dates": (day, [item.item() for item in day[:4]]),
        "text": (np.array(["1", "01", " 1", "", "é"])[whole], ["1", "01", " 1", ""]),
    }
    for name, (column, keys) in kinds.items():
        frame = pl.DataFrame({"who": np.arange(len(x)), "key": column, "x": x})
        here = pl.col("who") % 17 > 0
        yield name, frame.with_columns(key=pl.when(here).then(pl.col("key"))), keys


def by_key(source, keys) -> tuple[str, bool]:
    """A release in words, and whether every key was found."""
    release = pm.mean(
        source, "x", person="who", by="key", keys=keys, epsilon=2.0, noise=pm.SimulatedNoise(3)
    )
    made = release.to_dict()
    del made["provenance"]  # time and engine
    return json.dumps(made, sort_keys=True), bool(np.isfinite(release.estimate).all())


def key_types(session) -> int:
    """The number of types of keys whose release differs between homes."""
    wrong = 0
    for name, frame, keys in tables_of_keys():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "keys.parquet"
            frame.write_parquet(path)
            made = {by_key(s, keys) for s in (session.read.parquet(str(path)), path, frame)}
        ((_, every),) = made if len(made) == 1 else ((None, False),)
        print(f"keys, {name}: homes {'agree' if len(made) == 1 else 'DIFFER'}, all shown: {every}")
        wrong += not every
    return wrong


def neighbours(session, cases: int) -> int:
    """What leaves Spark are whole numbers, and one person's records move them as billed."""
    from auditing import filed

    filed.HOMES["Spark table"] = lambda rows, folder: session.createDataFrame(
        rows, "id string, x double"
    )
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found, boundary = filed.audited("Spark table", cases, Path(folder))
    largest = max(float(item.largest) for item in found.mechanisms.values())
    print(
        f"{found.runs} hostile neighbours: {found.count} violations, largest share of a bill "
        f"{largest:.6g}, {boundary.answers} answers of at most {boundary.rows} rows, "
        f"{len(boundary.others)} no whole numbers, {time.monotonic() - start:.0f} s"
    )
    for violation in found.violations:
        print(violation)
    return found.count + len(boundary.others) + (boundary.rows > filed.MOST_ROWS) + (largest > 1)


def markers(session) -> int:
    """The number of right and wrong calls whose output holds a marker of the table."""
    marked, wrong = Marked(), 0
    frame = session.createDataFrame(pa.table(marked.columns))
    table = pm.Table(frame, person="p")
    rights = [*right(table)]
    calls = [rights[0], rights[2], rights[6], *wrong_calls(table)]
    for number, call in enumerate(calls):
        found = leaks(marked, call)
        if found:
            print(f"call {number} shows {sorted(found)[:5]}")
        wrong += bool(found)
    print(f"markers: {len(calls)} calls, {wrong} show one")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=20, help="random tables to try")
    parser.add_argument("--neighbours", type=int, default=8, help="hostile neighbours to try")
    parser.add_argument("--connect", action="store_true", help="a local Spark Connect server")
    given = parser.parse_args()
    from pyspark.sql import SparkSession

    session = (
        (SparkSession.builder.remote if given.connect else SparkSession.builder.master)("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "OFF" if given.connect else "ERROR")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    start = time.monotonic()
    wrong = dirty(session) + types(session) + key_types(session) + collated(session)
    wrong += releases(session, "groups", comparisons()) + releases(session, "asked", everything())
    with nothing_kept(session):
        wrong += releases(session, "nothing kept", everything())
    if not given.connect:
        wrong += random_ones(session, given.tables) + neighbours(session, given.neighbours)
        wrong += markers(session)
    print(f"{wrong} differences, {time.monotonic() - start:.0f} s")
    session.stop()
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
