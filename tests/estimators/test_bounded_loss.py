"""What the engine hands to a regression is exact, and text in columns is read."""

import ast
import math
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.data.person_products import ModelRecords
from privmean.errors import SchemaError
from privmean.estimators.regression.formula import read_formula

STEPS = (2.0**-20, 2.0**-10, 2.0**-20)


def wild(seed=3, persons=25):
    """Records of all sizes, with missing values, infinities and numbers beyond the grid."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(100, 100 + persons), rng.integers(1, 9, persons))
    n = len(who)
    columns = {name: rng.normal(size=n) * 10.0 ** rng.uniform(-4, 7, n) for name in "aby"}
    for name, bad in zip("aby", (math.inf, -math.inf, math.nan), strict=True):
        columns[name][rng.random(n) < 0.08] = bad
    columns["a"][:4] = 1e300, -1e300, 5e-324, -0.0
    return {"who": who, "t": rng.permutation(n).astype(float), **columns}


def exact_integers(table):
    """The same sums by Python integers, one person at a time, as doubles at the very end."""
    found = []
    for person in np.unique(table["who"]):
        at = np.flatnonzero(table["who"] == person)
        at = at[np.argsort(table["t"][at])]
        rows = []
        for i in at:
            x = [float(table[name][i]) for name in "aby"]
            if any(math.isnan(item) for item in x):
                continue
            limit = [step * 2.0**40 for step in STEPS]
            inside = [min(max(v, -top), top) for v, top in zip(x, limit, strict=True)]
            rows.append([math.floor(v / s + 0.5) for v, s in zip(inside, STEPS, strict=True)])
        row = [float(len(rows))]
        row += [float(sum(z[j] for z in rows)) * STEPS[j] for j in range(3)]
        pairs = [(i, j) for i in range(3) for j in range(i, 3)]
        row += [float(sum(z[i] * z[j] for z in rows)) * (STEPS[i] * STEPS[j]) for i, j in pairs]
        ends = [rows[0], rows[-1]] if rows else []
        row += [float(sum(z[i] * z[j] for z in ends)) * (STEPS[i] * STEPS[j]) for i, j in pairs]
        lags = list(pairwise(rows))
        row += [
            float(sum(b[i] * c[j] + c[i] * b[j] for b, c in lags)) * (STEPS[i] * STEPS[j])
            for i, j in pairs
        ]
        found.append(row)
    return np.array(found)


def engine_integers(source):
    trees = [(ast.Name(name),) for name in "aby"]
    records = ModelRecords.of(pm.Table(source, person="who"), ("a", "b", "y"), time="t")
    made = records.products(trees, STEPS)
    parts = [made.squares, made.ends, made.lags]
    columns = [made.count, *made.sums.T, *(x for part in parts for x in part.values())]
    return np.stack(columns, axis=1)


@pytest.mark.slow
def test_sums_of_products_are_the_same_integers_in_every_engine(tmp_path):
    table = wild()
    exact = exact_integers(table)
    assert np.array_equal(engine_integers(table), exact)
    frame = pl.DataFrame(table)
    assert np.array_equal(engine_integers(frame.lazy()), exact)
    frame.write_parquet(tmp_path / "x.parquet")
    assert np.array_equal(engine_integers(str(tmp_path / "x.parquet")), exact)
    frame.sample(fraction=1.0, shuffle=True, seed=1).write_csv(tmp_path / "x.csv")
    assert np.array_equal(engine_integers(str(tmp_path / "x.csv")), exact)


def rows_of(source, formula):
    model = read_formula(formula)
    question = pm.Regression(
        formula,
        effect="per_person",
        threshold=1e-3,
        min_records=len(model.terms),
        scales={"y": 1.0},
    )
    return pm.Table(source, person="who").people(question.summary).values


@pytest.mark.slow
def test_text_levels_are_those_of_numbers_with_other_names(tmp_path):
    rng = np.random.default_rng(4)
    who = np.repeat(np.arange(100, 130), 12)
    code = rng.integers(0, 3, len(who))
    table = {"who": who, "x": np.round(rng.normal(size=len(who)), 3), "code": code.astype(float)}
    table["y"] = np.round(table["x"] + code + rng.normal(size=len(who)), 3)
    frame = pl.DataFrame({**table, "name": [["north", "o'hara", 'a "b"'][k] for k in code]})
    numbers = rows_of(table, "y ~ x + C(code, levels=[0, 1, 2])")
    formula = "y ~ x + C(name, levels=['north', \"o'hara\", 'a \"b\"'])"
    assert read_formula(formula).names[-1] == 'name[a "b"]'
    assert np.isfinite(numbers[:, 0]).sum() > 10
    frame.write_csv(tmp_path / "x.csv")
    frame.write_parquet(tmp_path / "x.parquet")
    sources = [frame, frame.lazy(), frame.with_columns(pl.col("name").cast(pl.Categorical)).lazy()]
    for source in [*sources, str(tmp_path / "x.csv"), str(tmp_path / "x.parquet")]:
        assert np.array_equal(rows_of(source, formula), numbers, equal_nan=True)
    with pytest.raises(SchemaError, match="does not hold text"):
        rows_of(table, "y ~ x + C(code, levels=['u', 'v'])")


def test_text_where_numbers_should_be_is_a_missing_record(tmp_path):
    lines = ["who,x,y"] + [
        f"{who},{t},{t * 0.5 + who % 3}" for who in range(100, 120) for t in range(5)
    ]
    clean, soiled = tmp_path / "clean.csv", tmp_path / "soiled.csv"
    clean.write_text("\n".join(lines) + "\n")
    soiled.write_text("\n".join([*lines, "103,n/a,1", "104,2,", "105,nan,1", "120,x,y"]) + "\n")
    one, two = rows_of(str(clean), "y ~ x"), rows_of(str(soiled), "y ~ x")
    assert np.array_equal(two[:20], one)
    assert np.isnan(two[20]).all()  # the new person has no usable record, and stays
