"""Boolean columns have the bounds 0 and 1 by their declared type, in every source and question."""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sql_tables

import privmean as pm
import statistics_kit
from cli_runner import run
from privmean.data.column_types import PublicBounds
from privmean.data.table import Table
from privmean.estimators.means.bounded import BoundedMeanPlan
from privmean.noise.noise_source import SimulatedNoise

BOOLEAN = PublicBounds("Boolean", 0.0, 1.0)


def columns(size=1200, seed=3):
    """Two records of each person; values near the ends of what their types allow."""
    g = np.random.default_rng(seed)
    n = 2 * size
    low = g.poisson(0.05, n)
    return pl.DataFrame(
        {
            "who": np.repeat(np.arange(size), 2), "yes": g.random(n) < 0.9,
            "rare": g.random(n) < 0.05, "num": g.normal(5, 1, n), "u8": low, "u32": low,
            "i8": 127 - low, "t": np.tile([0.5, 1.5], size),
            "key": np.repeat(g.choice(["a", "b", "c"], size), 2), "part": np.tile(["x", "y"], size),
            "side": np.repeat(np.arange(size) % 2, 2),
        },
        schema_overrides={"u8": pl.UInt8, "u32": pl.UInt32, "i8": pl.Int8},
    )  # fmt: skip


def loud(seed=2, size=400):
    """Few people and much noise: ends that would pass what the types allow."""
    return columns(size, seed)


def test_an_array_of_truth_values_is_bounded():
    x = columns()["yes"].to_numpy()
    release = pm.mean(x, epsilon=1.0, noise=SimulatedNoise(1))
    assert isinstance(release.plan, BoundedMeanPlan)


def test_text_declares_no_type(tmp_path):
    path = tmp_path / "b.csv"
    columns().with_columns(pl.col("yes").cast(pl.Int8)).write_csv(path)
    table = Table(str(path), person="who")
    assert table.public_bounds(("yes",)) == (("yes",), {})
    assert not isinstance(pm.mean(table, "yes", epsilon=1.0).plan, BoundedMeanPlan)


KEYS = {"by": "key", "keys": ["a", "b", "c"]}
ENDS = {"yes": (0.0, 1.0), "u8": (0.0, 255.0), "u32": (0.0, math.inf), "i8": (-128.0, 127.0)}
OF_A_COLUMN = {
    "mean": (pm.mean, {}),
    "over records": (pm.mean, {"estimand": "records", "max_records": 2}),
    "groups": (pm.mean, {**KEYS, "contrasts": ["a - b", "each - rest"]}),
    "private keys": (pm.mean, {"by": "key", "delta": 1e-6}),
    "arms": (pm.compare, {"arms": "side"}),
    "a pair": (pm.compare, {"by": "part", "pair": ("x", "y")}),
    "curve": (pm.curve, {"time": "t", "bins": [0, 1, 2]}),
    "smoothed": (pm.curve, {"time": "t", "bins": [0, 1, 2], "smooth": 0.5}),
    "quantiles": (pm.quantile, {"q": (0.05, 0.5, 0.95)}),
    "variance": (pm.variance, {}),
}
ASKED = {  # what is asked, of which columns, and the one whose ends are looked at
    f"{name}, {column}": (ask, column, said, column)
    for name, (ask, said) in OF_A_COLUMN.items()
    for column in ENDS
} | {
    "rare": (pm.mean, "rare", {}, "yes"),
    "two Boolean columns": (pm.mean, ["yes", "rare"], {}, "yes"),
    "one of two columns": (pm.mean, ["yes", "num"], {}, "yes"),
    "one of four columns": (pm.mean, ["yes", "num", "t", "side"], {"delta": 1e-6}, "yes"),
    "groups, with delta": (pm.mean, "yes", {**KEYS, "delta": 1e-6}, "yes"),
    "groups, shrunk": (pm.mean, "yes", {**KEYS, "shrink": True}, "yes"),
    "weighted groups": (
        pm.mean, "yes", {"by": "part", "keys": ["x", "y"], "max_groups": 2}, "yes",
    ),
    "public groups": (pm.mean, "yes", {**KEYS, "membership": "public"}, "yes"),
    "groups of two values": (pm.mean, ["yes", "rare"], KEYS, "yes"),
    "public arms": (pm.compare, "yes", {"arms": "side", "membership": "public"}, "yes"),
    "clipped by the caller": (pm.mean, "i8", {"bounds": (-40, 140)}, "i8"),
}  # fmt: skip


def ends_within(rows, low, high, compared):
    """No number of a row lies where no mean, difference or variance of such values can be."""
    width = high - low
    for row in rows:
        least, most = low, high
        if " - " in row.group or compared:
            least, most = -width, width
        elif row.term in ("variance", "standard deviation"):
            least, most = 0.0, {"variance": width**2 / 4}.get(row.term, width / 2)
        for end in (row.estimate, row.lower, row.upper, row.noise_lower, row.noise_upper):
            assert math.isnan(end) or least <= end <= most, row


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("epsilon", [0.2, 2.0])
def test_no_printed_end_passes_what_a_type_allows(name, epsilon):
    ask, values, said, column = ASKED[name]
    low, high = ENDS[column]
    width = high - low
    for seed in range(3):
        said = said | {"person": "who", "epsilon": epsilon, "noise": SimulatedNoise(seed)}
        try:
            release = ask(columns(400 if column != "yes" else 1200, seed), values, **said)
        except pm.InfeasibleError:
            return
        own = [row for row in release.rows() if row.term not in ("num", "t", "side")]
        ends_within(own, low, high, compared=name.startswith(("public arms", "a pair")))
        for row in own:
            if not math.isnan(row.estimate) and not math.isnan(row.noise_lower):
                assert row.noise_lower <= row.estimate <= row.noise_upper
        ends = release.interval()
        assert len(ends.lower) == len(release.columns)
        for end in (*ends.lower, *ends.upper) if values == column else ():
            assert math.isnan(end) or low - width <= end <= high + width


@pytest.mark.slow
def test_shares_of_groups_hold_their_level():
    """Every row is a mean of values within 0 and 1: nothing rests on tails."""
    runs, held, rows = 150, 0, 0
    shares = {"a": 0.9, "b": 0.5, "c": 0.04}
    g = np.random.default_rng(5)
    for seed in range(runs):
        key = g.choice(list(shares), 1500)
        yes = g.random(1500) < np.array([shares[item] for item in key])
        frame = pl.DataFrame({"who": np.arange(1500), "key": key, "yes": yes})
        release = pm.mean(
            frame, "yes", person="who", by="key", keys=list(shares), epsilon=1.0,
            noise=SimulatedNoise(seed),
        )  # fmt: skip
        for row in release.rows():
            held += row.lower <= shares[row.group] <= row.upper
            rows += 1
            assert row.status == "ok"
        assert "unseen" not in str(release)
    statistics_kit.assert_rate_at_least(held, rows, 0.95)


def test_private_keys_of_a_boolean_column_locate_nothing():
    """One release of all keys, at all of the budget but for the number of people."""
    frame = columns()
    for neighbors in ("add-remove", "replace-one"):
        release = pm.mean(
            frame, "yes", person="who", by="key", epsilon=1.0, delta=1e-6, neighbors=neighbors,
            noise=SimulatedNoise(1),
        )  # fmt: skip
        assert [line.name for line in release.guarantee.mechanisms] == [
            "count of people", "group sums", "group sums: hidden keys",
        ]  # fmt: skip
        assert [line.pure for line in release.plan.events] == [
            line.pure for line in release.guarantee.mechanisms
        ]
        assert release.guarantee.verify()
        assert set(release.columns) == {"a", "b", "c"}
        assert "undetected" not in str(release)
    nobody = pm.mean(
        frame.head(20), "yes", person="who", by="key", epsilon=1.0, delta=1e-6,
        noise=SimulatedNoise(1),
    )  # fmt: skip
    assert nobody.columns == ()
    assert "No group of more than about" in nobody.advice


def test_sampling_deviations_are_those_of_shares():
    """Of one value a person q(1-q)/n; of means of many records what these leave of it."""
    g = np.random.default_rng(6)
    n, share = 20_000, 0.1
    for records, part in ((1, 1.0), (10, 0.1)):
        who = np.arange(n).repeat(records)
        frame = pl.DataFrame(
            {"who": who, "key": (who % 4).astype(str), "yes": g.random(n * records) < share}
        )
        release = pm.mean(
            frame, "yes", person="who", by="key", keys=list("0123"), epsilon=1.0,
            noise=SimulatedNoise(3),
        )  # fmt: skip
        known = (share * (1 - share) * part / (n / 4)) ** 0.5
        assert np.abs(release.groups.sampling / known - 1).max() < 0.05


def test_a_regression_takes_its_boolean_variables_as_bounded():
    g = np.random.default_rng(8)
    n = 3000
    flag = g.random(n) < 0.4
    frame = pl.DataFrame({"who": np.arange(n), "y": 2.0 * flag + g.normal(0, 1, n), "flag": flag})
    asked = pm.Regression("y ~ flag").with_public_facts(Table(frame, person="who"))
    assert asked.bounds == {"flag": (0.0, 1.0)}
    given = pm.Regression("y ~ flag", bounds={"flag": (0, 2)})
    assert given.with_public_facts(Table(frame, person="who")).bounds == {"flag": (0, 2)}
    release = pm.regress(frame, "y ~ flag", person="who", epsilon=2.0, noise=SimulatedNoise(2))
    assert release.rows()[1].lower < 2 < release.rows()[1].upper
    response = pm.regress(frame, "flag ~ y", person="who", epsilon=2.0, noise=SimulatedNoise(2))
    assert response.answered


def test_a_study_takes_the_bounds_of_its_boolean_columns():
    study = pm.Study(pm.Table(columns(), person="who"), epsilon=4.0,
                     noise=SimulatedNoise(3))  # fmt: skip
    study.add("yes", pm.Mean("yes"))
    study.add("groups", pm.Mean("yes", by="key", keys=["a", "b", "c"]))
    study.add("trend", pm.Curve("yes", "t", bins=[0, 1, 2]))
    study.add("num", pm.Mean("num"))
    release = study.release()
    for name in ("yes", "groups", "trend"):
        for row in release[name].rows():
            assert 0 <= row.lower <= row.estimate <= row.upper <= 1
    assert isinstance(release["yes"].plan, BoundedMeanPlan)


def test_rare_values_of_a_boolean_column_keep_a_closed_interval():
    """No value can lie beyond 0 and 1, so that few ones are never "at_bound"."""
    yes = np.arange(4000) < 2
    for seed in range(20):
        for said in ({}, {"bounds": (0, 1)}):
            release = pm.mean(yes, epsilon=0.5, noise=SimulatedNoise(seed), **said)
            assert release.status == "ok"
            assert release.answered
            low, high = release.conf_int()[0]
            assert 0 <= low <= high < 0.02


# --- other types ---------------------------------------------------------------------------------


def typed(**more):
    """A schema that several engines can declare: unsigned and small whole numbers, truth values."""
    g = np.random.default_rng(9)
    n = 900
    return pa.table(
        {
            "who": pa.array(np.arange(n)),
            "yes": pa.array(g.random(n) < 0.3),
            "u8": pa.array(g.integers(0, 3, n), pa.uint8()),
            "u32": pa.array(g.integers(0, 3, n), pa.uint32()),
            "i8": pa.array(g.integers(-3, 3, n), pa.int8()),
            "i64": pa.array(g.integers(0, 3, n), pa.int64()),
            "x": pa.array(g.normal(0, 1, n)),
            **more,
        }
    )


def stored(table, folder):
    pl.from_arrow(table).write_parquet(folder / "t.parquet")
    return str(folder / "t.parquet")


def in_a_folder(table, folder):
    for part, rows in (("1", table.slice(0, 500)), ("2", table.slice(500))):
        pl.from_arrow(rows).write_parquet(folder / f"{part}.parquet")
    return str(folder)


ENGINES = {
    "arrow": lambda table, _: table,
    "pandas arrow": lambda table, _: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas nullable": lambda table, _: table.to_pandas().convert_dtypes(),
    "polars": lambda table, _: pl.from_arrow(table),
    "polars lazy": lambda table, _: pl.from_arrow(table).lazy(),
    "duckdb": lambda table, _: duckdb.from_arrow(table),
    "parquet": stored,
    "folder": in_a_folder,
}
VALUES = ("yes", "u8", "u32", "i8", "i64", "x")
SAID = {
    "yes": BOOLEAN, "u8": PublicBounds("UInt8", 0.0, 255.0),
    "u32": PublicBounds("UInt32", 0.0, math.inf), "i8": PublicBounds("Int8", -128.0, 127.0),
}  # fmt: skip


@pytest.mark.parametrize("name", ENGINES)
def test_one_schema_has_the_same_bounds_in_every_engine(name, tmp_path):
    table = Table(ENGINES[name](typed(), tmp_path), person="who")
    assert table.public_bounds(VALUES) == (VALUES, SAID)
    release = pm.mean(table, "yes", epsilon=1.0, noise=SimulatedNoise(1))
    assert release.plan.describe()["bounds"] == [[0.0, 1.0]]


@pytest.mark.parametrize("engine", sql_tables.ENGINES)
def test_an_sql_table_says_what_its_types_exclude(engine):
    lacking = sql_tables.missing(engine)
    if lacking:
        pytest.skip(lacking)
    # these engines spell small types in their own ways: what they declare is what counts
    made = sql_tables.put(engine, typed().select(["who", "yes", "i64", "x"]))
    table = Table(made, person="who")
    assert table.public_bounds(("yes", "i64", "x"))[1] == {"yes": BOOLEAN}
    release = pm.mean(table, "yes", epsilon=1.0, noise=SimulatedNoise(1))
    assert isinstance(release.plan, BoundedMeanPlan)
    sql_tables.drop(engine, made)


def test_whole_numbers_of_numpy_declare_nothing():
    """One missing value makes doubles of them, and doubles have no bounds."""
    plain = {name: typed()[name].to_numpy() for name in ("who", *VALUES)}
    for source in (plain, pd.DataFrame(plain)):
        assert Table(source, person="who").public_bounds(VALUES)[1] == {"yes": BOOLEAN}
    assert Table(plain["u8"]).public_bounds(None) == (("0",), {})


LETTERS = ["a", "b", "c"]


def view_of_categories(words):
    frame, link = pd.DataFrame({"who": range(3), "g": pd.Categorical(words)}), duckdb.connect()
    link.register("frame", frame)
    return link.sql("SELECT * FROM frame")  # DuckDB calls this column an ENUM


CATEGORIES = {
    "pandas": lambda words: pd.DataFrame({"who": range(3), "g": pd.Categorical(words)}),
    "pandas, ordered": lambda words: pd.DataFrame(
        {"who": range(3), "g": pd.Categorical(words, ordered=True)}
    ),
    "pandas object": lambda words: pd.DataFrame({"who": range(3), "g": np.array(words, object)}),
    "arrow": lambda words: pa.table({"who": range(3), "g": pa.array(words).dictionary_encode()}),
    "arrow, ordered": lambda words: pa.table(
        {"who": range(3), "g": pa.DictionaryArray.from_arrays([0, 1, 2], words, ordered=True)}
    ),
    "duckdb": view_of_categories,
    "polars": lambda words: pl.DataFrame(
        {"who": range(3), "g": pl.Series(words, dtype=pl.Categorical)}
    ),
}


@pytest.mark.parametrize("name", CATEGORIES)
def test_categories_that_follow_from_the_records_are_no_public_fact(name):
    table = Table(CATEGORIES[name](LETTERS), person="who")
    assert table.public_bounds((), ("g",)) == ((), {})


def enumerated(size=900, seed=4):
    g = np.random.default_rng(seed)
    group = g.choice(["north", "south"], size)
    kind = pl.Enum(["north", "south", "islands"])
    return pl.DataFrame(
        {
            "who": np.arange(size), "y": g.normal(size=size) + (group == "south"),
            "yes": g.random(size) < 0.4, "region": pl.Series(group, dtype=kind),
            "side": pl.Series(g.choice(["l", "r"], size), dtype=pl.Enum(["l", "r"])),
            "t": g.uniform(0, 2, size),
        }
    )  # fmt: skip


def in_duckdb(frame):
    found = duckdb.connect()
    found.register("raw", frame.cast({"region": pl.String, "side": pl.String}).to_arrow())
    found.sql("CREATE TYPE region AS ENUM ('north', 'south', 'islands')")
    found.sql("CREATE TYPE side AS ENUM ('l', 'r')")
    found.sql(
        "CREATE TABLE t AS SELECT * REPLACE (region::region AS region, side::side AS side) FROM raw"
    )
    return found.table("t")


ENUMS = {"polars": lambda frame: frame, "lazy": lambda frame: frame.lazy(), "duckdb": in_duckdb}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENUMS)
def test_keys_of_an_enum_may_be_left_out(name):
    source = ENUMS[name](enumerated())
    asked = {"person": "who", "epsilon": 2.0, "noise": SimulatedNoise(1)}
    left_out = pm.mean(source, "y", by="region", **asked)
    asked["noise"] = SimulatedNoise(1)
    given = pm.mean(source, "y", by="region", keys=["north", "south", "islands"], **asked)
    assert left_out.columns == ("north", "south", "islands")
    assert left_out.rows() == given.rows()
    assert "region is declared Enum: the categories are the keys" in left_out.assumptions
    crossed = pm.mean(source, "y", by=["region", "side"], **asked)
    assert len(crossed.columns) == 6
    study = pm.Study(pm.Table(source, person="who"), epsilon=2.0, neighbors="replace-one",
                     noise=SimulatedNoise(1))  # fmt: skip
    study.add("by region", pm.Mean("y", by="region"))
    assert study.release()["by region"].columns == left_out.columns


def test_an_enum_of_postgresql_lists_its_keys():
    lacking = sql_tables.missing("postgres")
    if lacking:
        pytest.skip(lacking)
    link = sql_tables.connection("postgres")
    frame = enumerated()
    plain = pa.table(
        frame.select("who", "y", pl.col("region").cast(pl.String)).to_dict(as_series=False)
    )
    made = sql_tables.put("postgres", plain)
    try:
        link.raw_sql("CREATE TYPE regions AS ENUM ('north', 'south', 'islands')")
        name = made.get_name()
        link.raw_sql(f'ALTER TABLE "{name}" ALTER region TYPE regions USING region::regions')
        stored = link.table(name)
        asked = {"person": "who", "by": "region", "epsilon": 2.0, "noise": SimulatedNoise(1)}
        assert pm.mean(stored, "y", **asked).columns == ("north", "south", "islands")
        with pytest.raises(pm.ArgumentError, match="Write the keys"):
            pm.mean(stored, "y", keys=["north", "sooth"], **asked)
        # what a query makes of a column is not the column of the table
        assert Table(stored.filter(stored.y > 0), person="who").public_bounds((), ("region",)) == (
            (), {},
        )  # fmt: skip
    finally:
        sql_tables.drop("postgres", made)
        link.raw_sql('DROP TYPE IF EXISTS "Region\'s"')


SPELL = "write the keys as the type has them"
WRONG = {
    "keys": (pm.mean, "y", {"by": "region", "keys": ["north", "sooth"]}, SPELL),
    "crossed": (pm.mean, "y", {"by": ["region", "side"], "keys": [("north", "x")]}, SPELL),
    "levels": (pm.compare, "y", {"arms": "region", "levels": ["north", "East"]}, SPELL),
    "arms": (pm.compare, "y", {"arms": "side"}, "name the two arms"),
    "pair": (pm.compare, "y", {"by": "region", "pair": ["north", "west"]}, SPELL),
    "curve": (
        pm.curve, "y", {"time": "t", "bins": [0, 1, 2], "by": "side", "levels": ["l", "right"]},
        SPELL,
    ),
    "formula": (pm.regress, "y ~ C(region, levels=['north', 'soth'])", {}, SPELL),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("source", ENUMS)
def test_keys_that_the_type_does_not_list_are_refused_before_the_charge(name, source, tmp_path):
    ask, value, said, remedy = WRONG[name]
    ledger = pm.Ledger(tmp_path / "ledger", epsilon=4.0)
    with pytest.raises(pm.ArgumentError, match=f"(?i){remedy}") as refused:
        ask(ENUMS[source](enumerated()), value, person="who", epsilon=1.0, ledger=ledger, **said)
    assert "Nothing was charged" in str(refused.value)
    assert "islands" not in str(refused.value)  # no message holds a category
    assert not ledger.entries


def test_levels_of_a_formula_are_compared_with_the_type(tmp_path):
    ledger = pm.Ledger(tmp_path / "ledger", epsilon=4.0)
    formula = "y ~ C(region, levels=['north', 'soth'])"
    with pytest.raises(pm.ArgumentError, match="Write the keys"):
        pm.regress(enumerated(), formula, person="who", epsilon=1.0, ledger=ledger)
    assert not ledger.entries


def test_a_lower_bound_changes_no_estimate_inside_it():
    """Bounds of a wide type are no clipping bounds: the default mean is what it is without them."""
    frame = loud(size=3000).with_columns(pl.col("u32") + 5)
    plain = frame.with_columns(pl.col("u32").cast(pl.Float64))
    for said in ({}, {"by": "key", "keys": ["a", "b"]}):
        made = [
            pm.mean(item, "u32", person="who", epsilon=1.0, noise=SimulatedNoise(3), **said)
            for item in (frame, plain)
        ]
        assert made[0].rows() == made[1].rows()
        assert made[0].plan.events == made[1].plan.events
    for item in (frame, plain):
        study = pm.Study(pm.Table(item, person="who"), epsilon=2.0, noise=SimulatedNoise(3))
        study.add("level", pm.Mean("u32"))
        study.add("middle", pm.Quantile("u32"))
        assert [look.column for look in study.plan().shared_locations] == ["u32"]


def test_plans_print_what_they_took_from_types():
    table = pm.Table(loud(), person="who")
    release = pm.mean(table, "u8", epsilon=1.0, noise=SimulatedNoise(1))
    said = "u8 is declared UInt8: values in [0, 255]"
    assert said in str(release)
    assert said in " ".join(str(release.plan).split())
    assert said in release.guarantee.public
    study = pm.Study(table, epsilon=2.0, noise=SimulatedNoise(1))
    study.add("level", pm.Mean("u32"))
    assert "u32 is declared UInt32: values at least 0" in " ".join(str(study.plan()).split())
    groups = pm.mean(table, "u8", by="key", keys=["a", "b"], epsilon=1.0, noise=SimulatedNoise(1))
    assert said in " ".join(str(groups).split())


# --- types that a caller declares of a text file -------------------------------------------------


def written(folder, form):
    frame = loud().with_columns(
        yes=pl.Series(np.tile(["true", "False", "1", "0", "yes", "7"], 200)[:800]),
        net=pl.Series(np.tile([3, -2], 400)),
    )
    path = folder / f"t.{form}"
    (frame.write_csv if form == "csv" else frame.write_ndjson)(path)
    return str(path)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_types_of_text_files_are_those_that_the_caller_declares(form, tmp_path):
    path = written(tmp_path, form)
    said = {"yes": "boolean", "net": "unsigned"}
    table = pm.Table(path, person="who", types=said)
    unsigned = PublicBounds("UInt64", 0.0, math.inf)
    found = table.public_bounds(("yes", "net", "u8"))[1]
    assert found == {"yes": BOOLEAN, "net": unsigned}
    assert pm.Table(path, person="who", types=["yes=boolean"]).public_bounds(("yes",))[1] == {
        "yes": BOOLEAN
    }
    # a value that its type excludes is missing
    people = pm.read(path, person="who", values=["yes", "net"], types=said)
    yes, net = people.matrix().T
    assert set(yes[~np.isnan(yes)].tolist()) <= {0.0, 0.5, 1.0}
    assert set(net[~np.isnan(net)].tolist()) == {3.0}


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"other": "boolean"}, "is not a column of the table"),
        ({"yes": "float"}, "is not a column with its type"),
        (["yes"], "is not a column with its type"), ("yes=boolean", "does not name columns"),
        (["yes=boolean", "yes=unsigned"], "has two types"),
    ],
)  # fmt: skip
def test_types_that_cannot_be_meant_are_refused(said, problem, tmp_path):
    with pytest.raises(pm.ArgumentError, match=problem):
        pm.read(written(tmp_path, "csv"), person="who", values="yes", types=said)


def test_a_table_that_has_types_takes_none(tmp_path):
    for source in (loud(), stored(typed(), tmp_path)):
        with pytest.raises(pm.ArgumentError, match="types"):
            pm.read(source, person="who", values="u8", types={"u8": "boolean"})


def test_commands_and_study_files_declare_types(tmp_path, capsys):
    path = written(tmp_path, "csv")
    told = ["--person", "who", "--value", "yes", "--epsilon", "2"]
    assert run(["mean", path, *told, "--types", "yes=boolean"]) == 0
    assert "yes is declared Boolean: values in [0, 1]" in " ".join(capsys.readouterr().out.split())
    assert run(["mean", path, *told, "--types", "yes=bool"]) == 2
    assert "boolean, unsigned" in capsys.readouterr().err
    (tmp_path / "study.toml").write_text(
        f"""
        [table]
        source = "{path}"
        person = "who"
        types = ["yes=boolean"]
        [budget]
        epsilon = 2.0
        [questions.share]
        ask = "mean"
        values = ["yes"]
        """
    )
    assert run(["study", "plan", str(tmp_path / "study.toml")]) == 0
    assert "yes is declared Boolean: values in [0, 1]" in " ".join(capsys.readouterr().out.split())


def test_many_columns_of_one_type_are_one_sentence():
    frame = pl.DataFrame({"who": range(900), **{f"x{j}": [1, 2, 3] * 300 for j in range(6)}})
    frame = frame.with_columns(pl.col("^x.*$").cast(pl.UInt8))
    release = pm.mean(frame, "x*", person="who", epsilon=4.0, noise=SimulatedNoise(1))
    assert "6 columns are declared UInt8: values in [0, 255]" in release.assumptions
