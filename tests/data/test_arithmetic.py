"""The same doubles in every home: no engine may choose how something is divided."""

from __future__ import annotations

import ast
import math
import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import people_reference as reference
import polars as pl
import pyarrow as pa
import pytest
import random_tables

import privmean as pm
from privmean.data import duckdb_engine
from privmean.data import engine_table as frame
from privmean.data import person_products as products
from privmean.data import person_records as records
from privmean.data.array_table import ArrayPersonTable
from privmean.data.grids import quotient
from privmean.data.person_products import GRIDS, ModelRecords, PersonMoments
from privmean.data.person_table import Standardization

ONE_DECIMAL = [k / 10 for k in range(-500, 500)]


def test_integers_fall_into_the_same_bins_everywhere():
    """(-4, 172) in 33 bins: 12 lies on an edge, where another double is another bin."""
    half = 176 / 33 / 2
    x = [k for k in range(-60, 200) for _ in range(3)]
    table = pa.table({"who": range(len(x)), "x": x})
    expected = reference.uniform_counts(map(float, x), half, half - 4)
    for source in (table, pl.from_arrow(table), pl.from_arrow(table).lazy()):
        people = pm.read(source, person="who", values="x")
        for home in (people, people.collect()):
            assert home.uniform_counts(0, half, half - 4) == expected


@pytest.mark.parametrize("step", [0.2, 3.0, 176 / 66, 1e-300, 5e-324, 1e-310, 1e300])
def test_a_quotient_is_near_and_never_out_of_order(step):
    numbers = sorted(random.Random(1).gauss(0, 1) * step * 2.0**k for k in range(-30, 50))
    found = [quotient(x, step) for x in numbers if abs(x) < math.inf]
    assert found == sorted(found)
    for x, q in zip(numbers, found, strict=False):
        if abs(x) > 1e-290:
            assert abs(Fraction(q) / (Fraction(x) / Fraction(step)) - 1) < Fraction(3, 2**53)
    assert quotient(0.0, step) == 0.0
    assert quotient(math.inf, step) == math.inf


def test_a_unit_s_reach_bounds_its_values():
    generator = np.random.default_rng(3)
    for _ in range(200):
        low, high = np.sort(generator.normal(size=2) * 10.0 ** generator.integers(-9, 9))
        scale = abs(generator.normal()) * 10.0 ** generator.integers(-9, 9)
        unit = Standardization(low, high, generator.uniform(low, high), scale)
        x = np.array([[low], [high], [math.inf], [-math.inf], [math.nan], [generator.normal()]])
        values = ArrayPersonTable(x, ("x",)).standardized([unit]).matrix()
        assert np.abs(values).max() == unit.reach


@pytest.mark.slow
@pytest.mark.parametrize("formula", ["x / 0.2", "x / y", "x / (0.1 * 2)", "(x - y) / (y * 2)"])
@pytest.mark.parametrize("rows", [1, 2, 999])
def test_formulas_divide_row_by_row(formula, rows):
    """Also by a literal, and by a column that an engine knows to be the same in all rows."""
    x = (ONE_DECIMAL[503:] * 3)[:rows]  # 0.3 first: 0.3/0.2 is below 1.5, and 0.3 * 5 is not
    y = [0.2] * len(x)
    tree = ast.parse(formula, mode="eval").body
    exact = np.array([eval(formula, {}, {"x": v, "y": 0.2}) for v in x])
    x, y = [*x, None, math.inf, math.nan], [*y, 0.2, 0.2, 0.2]
    table = pa.table({"who": range(len(x)), "x": x, "y": y})
    constant = pl.from_arrow(table).lazy().with_columns(y=pl.lit(0.2))
    for source in (table, pl.from_arrow(table), constant, constant.head(rows)):
        records = ModelRecords.of(pm.Table(source, person="who"), ["x", "y"])
        made = records.products([[tree], []], [1.0, 1.0])
        assert made.sums[:rows, 0].tolist() == np.floor(exact + 0.5)[:rows].tolist()
        assert made.count[rows:].tolist() in ([0.0, 1.0, 0.0], [])


def wild_records(people=300):
    """Values of every size, near zeros and zeros of many people, and some that are missing."""
    rng = np.random.default_rng(5)
    who = np.repeat(np.arange(people), rng.integers(1, 30, people))
    scale = np.exp2(rng.uniform(-50, 45, people))[who]
    x = rng.normal(size=len(who)) * np.where(who % 7 == 0, 1.0, scale)
    x[rng.random(len(x)) < 0.1] = 0.0
    x[who % 11 == 0] = 0.0
    x[rng.random(len(x)) < 0.02] = np.nan
    x[:3] = math.inf, -math.inf, 2.0**-30
    return {"who": [f"p{k:03}" for k in who], "x": x, "y": rng.normal(1e5, 1e3, len(x))}


def exact_moments(table, name):
    """The same from whole numbers of Python."""
    read = []
    for grid in GRIDS:
        step, reach, sums, squares, count = 2.0**grid, 2.0 ** (grid + 40), {}, {}, {}
        for who, x, y, own in zip(*table.values(), table[name], strict=True):
            usable = not (math.isnan(x) or math.isnan(y))
            z = math.floor(min(max(own, -reach), reach) / step + 0.5) if usable else 0
            for found, more in ((sums, z), (squares, z * z), (count, int(usable))):
                found[who] = found.get(who, 0) + more
        listed = [[float(x[who]) for who in sorted(x)] for x in (sums, squares, count)]
        sums, squares, count = map(np.array, listed)
        read.append(PersonMoments.of(sums * step, squares * step * step, count))
    return PersonMoments.by_size(*read)


@pytest.mark.parametrize("engine", ["arrays", "polars", "parquet"])
def test_sizes_of_variables_are_those_of_exact_integers(engine, tmp_path):
    """Also of people whose sums are no whole numbers below 2^53."""
    table = wild_records()
    frame = pl.DataFrame(table)
    frame.write_parquet(tmp_path / "x.parquet")
    source = {"arrays": table, "polars": frame.lazy(), "parquet": tmp_path / "x.parquet"}[engine]
    roster = [*sorted(set(table["who"])), "q"]
    for known in (None, roster):
        records = ModelRecords.of(pm.Table(source, person="who", roster=known), ["x", "y"])
        count, found = records.moments([[ast.Name("x")], [ast.Name("y")]], [])
        assert (count > 0).sum() > 280
        for name, own in zip("xy", found, strict=True):
            exact = exact_moments(table, name)
            n = len(exact.mean)
            assert own.mean[:n].tobytes() == (exact.mean + 0.0).tobytes()
            assert own.square[:n].tobytes() == exact.square.tobytes()
            assert len(own.mean) == n + (known is not None)
            assert np.isnan(own.mean[n:]).all()


@pytest.mark.parametrize("changed", [{"RECORDS": 8.0}, {"MARKS": 1}])
def test_what_is_read_again_is_right_in_any_case(changed, monkeypatch):
    """People of many records, whose count is read again too, and variables of one mark."""
    for name, value in changed.items():
        monkeypatch.setattr(products, name, value)
    table = wild_records()
    records = ModelRecords.of(pm.Table(table, person="who"), ["x", "y"])
    count, found = records.moments([[ast.Name("y")], [ast.Name("x")]], [])
    usable = ~np.isnan(table["x"])
    who = np.array(table["who"])
    assert count.tolist() == [usable[who == item].sum() for item in np.unique(who)]
    for name, own in zip("yx", found, strict=True):
        exact = exact_moments(table, name)
        assert own.mean.tobytes() == (exact.mean + 0.0).tobytes()
        assert own.square.tobytes() == exact.square.tobytes()


def test_variables_that_are_sure_are_not_read_again(monkeypatch):
    read = []
    exact_sums = ModelRecords._exact_sums

    def noted(self, kept, doubtful, columns, *rest):
        read.append([ast.unparse(tree) for (tree,) in columns])
        return exact_sums(self, kept, doubtful, columns, *rest)

    monkeypatch.setattr(ModelRecords, "_exact_sums", noted)
    table = wild_records()
    table["y"] = 2 + np.cos(np.arange(len(table["y"])))
    records = ModelRecords.of(pm.Table(table, person="who"), ["x", "y"])
    records.moments([[ast.Name("y")], [ast.Name("x")]], [])
    assert read == [["x"] * len(GRIDS)]


@pytest.mark.parametrize("question", ["curve", "regression"])
def test_a_file_is_opened_once(question, tmp_path, monkeypatch):
    """For the declared types of its columns too, and for a second reading."""
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(4000), 3)
    x, e = rng.normal(size=(2, len(who)))
    pl.DataFrame({"who": who, "x": x, "y": 1 + x + e}).write_parquet(tmp_path / "x.parquet")
    opened = []
    made = duckdb_engine.Engine.__init__

    def noted(self, *given, **named):
        opened.append(self)
        made(self, *given, **named)

    monkeypatch.setattr(duckdb_engine.Engine, "__init__", noted)
    said = {"person": "who", "epsilon": 4.0, "delta": 1e-6}
    if question == "curve":
        pm.curve(tmp_path / "x.parquet", "y", time="x", bins=[-2, 0, 2], **said)
    else:
        pm.regress(tmp_path / "x.parquet", "y ~ x", **said)
    assert len(opened) == 1


@pytest.mark.parametrize("engine", ["arrays", "polars"])
def test_sums_of_products_beyond_doubles_are_exact_integers(engine):
    table = wild_records(100)
    source = {"arrays": table, "polars": pl.DataFrame(table)}[engine]
    records = ModelRecords.of(pm.Table(source, person="who"), ["x", "y"])
    found = records.products([[ast.Name("x")], [ast.Name("y")]], [2.0**-20, 2.0**-20])
    exact = {}
    for who, x, y in zip(*table.values(), strict=True):
        usable = not (math.isnan(x) or math.isnan(y))
        z = [
            math.floor(min(max(v, -(2.0**20)), 2.0**20) * 2.0**20 + 0.5) if usable else 0
            for v in (x, y)
        ]
        more = (*z, z[0] * z[0], z[0] * z[1], z[1] * z[1])
        exact[who] = [a + b for a, b in zip(exact.get(who, [0] * 5), more, strict=True)]
    rows = np.array([[float(item) for item in exact[who]] for who in sorted(exact)])
    made = np.column_stack([found.sums * 2.0**20, *(x * 2.0**40 for x in found.squares.values())])
    assert np.array_equal(made, rows)


@pytest.mark.parametrize("asked", ["moments", "products"])
def test_a_file_that_changes_before_it_is_read_again_is_refused(tmp_path, monkeypatch, asked):
    """The error says nothing of how many people there are, or had to be read again."""
    path, many = tmp_path / "x.parquet", 40
    frame = pl.DataFrame({"who": range(many), "x": [3.0 * 2.0**30] * many})
    frame.write_parquet(path)
    records = ModelRecords.of(pm.Table(path, person="who"), ["x"])
    fetched = ModelRecords._fetched

    def changed(self, people, **how):
        found = fetched(self, people, **how)
        frame.head(17).write_parquet(path)
        return found

    monkeypatch.setattr(ModelRecords, "_fetched", changed)
    given = ([[ast.Name("x")]], []) if asked == "moments" else ([[ast.Name("x")]], [1.0])
    with pytest.raises(pm.SchemaError, match="changed while it was read") as refused:
        getattr(records, asked)(*given)
    assert not set("0123456789") & set(str(refused.value))


def test_means_of_persons_with_as_many_records_each():
    """The number of records is one value for all persons, and still divides."""
    x = [v for v in ONE_DECIMAL for _ in range(49)]
    who = [k for k in range(len(ONE_DECIMAL)) for _ in range(49)]
    table = pa.table({"who": who, "x": x})
    exact = np.array([reference.person_value([v] * 49)[0] for v in ONE_DECIMAL])
    for source in (table, pl.from_arrow(table), pl.from_arrow(table).lazy()):
        people = pm.read(source, person="who", values="x")
        assert people.matrix()[:, 0].tobytes() == exact.tobytes()


@pytest.mark.parametrize("module", [frame, products, records])
def test_engines_are_asked_to_divide_in_one_place_only(module):
    """Elsewhere an inverse is made in Python, and engines multiply."""
    tree = ast.parse(Path(module.__file__).read_text())
    found = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name != "divided":
            found += [
                node for node in ast.walk(function)
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
            ]  # fmt: skip
    for node in found:
        assert ast.unparse(node.left) in ("1", "1.0", "0.25"), ast.unparse(node)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_tables_in_every_home(seed, tmp_path):
    """`benchmarks/fuzz_homes.py` tries thousands."""
    generator = random.Random(seed)
    table = random_tables.table(generator)
    asked = random_tables.questions(table, generator)
    which = ("numpy", ("array", "arrow", "relation", "parquet")[seed % 4], "polars")
    assert not random_tables.mismatches(table, generator.sample(asked, 8), tmp_path, which)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_random_tables_in_memory_and_polars(seed, tmp_path):
    generator = random.Random(seed)
    table = random_tables.table(generator)
    asked = random_tables.questions(table, generator)
    assert not random_tables.mismatches(table, asked, tmp_path, ("numpy", "lazy"))
