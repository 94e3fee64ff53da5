"""Attacks on a regression by one person, and the exactness of what the engine hands over."""

import ast
import json
import math
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_products import ModelRecords, Products
from privmean.data.person_table import ClipInterval
from privmean.errors import ArgumentError, SchemaError
from privmean.estimators.regression.formula import read_formula
from privmean.estimators.regression.panel import Independence, fit_persons
from privmean.estimators.regression.private_scale import PrivateScale, quantile_scores
from privmean.mechanisms.clipped_sum import Answers
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import planned

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


def billion(value):
    """Sums of a billion equal records (1, 3, value) and a billion (1, 2, -value)."""
    count = 2e9
    squares = {(0, 0): count, (0, 1): 5e9, (1, 1): 13e9, (0, 2): 0.0, (1, 2): value * 1e9}
    squares[2, 2] = 2 * value * value * 1e9
    arrays = {pair: np.array([x]) for pair, x in squares.items()}
    made = Products(np.array([count]), np.array([[count, 5e9, 0.0]]), arrays, {}, {})
    return fit_persons(
        made, working=Independence(), within=False, threshold=0.01, least=3, scales=(1.0,) * 3
    )[0]


ATTACKS = {
    "null": np.full(2, math.nan),
    "huge": np.array([1e300, -1e300]),
    "on the limit": np.array([0.75, -0.75]),
    "inside": np.array([0.1, -0.2]),
    "zero": np.zeros(2),
    **{f"1e9 records, {x:g}": billion(x) for x in (0.5, 1e18, 1e200, math.inf)},
}


@pytest.mark.parametrize("excess", [0.5, 1.0, 2.0])
def test_value_square_number_and_tail_move_within_the_loss(excess):
    """The loss of the joint release for all pairs of hostile persons, in exact integers."""
    rest, box = np.random.default_rng(0).normal(0, 1, (30, 2)), ClipInterval(-0.75, 0.75)
    answers, worst = Answers(REPLACE_ONE, jumps=(excess / 2, excess / 2)), 0.0
    units, multiples = answers.units(box.steps), answers.multiples_at(box.steps)
    sums = {}
    for name, row in ATTACKS.items():
        s = ArrayPersonTable(np.vstack([rest, row]), ("i", "a")).interval_sums([box] * 2)[1]
        exact = answers.integers(box, s)
        sums[name] = [
            x / unit / float(m) for x, unit, m in zip(exact, units, multiples, strict=True)
        ]
    for one in sums.values():
        for two in sums.values():
            worst = max(worst, sum(abs(a - b) for a, b in zip(one, two, strict=True)))
    assert 0.5 < worst <= 1 + 1e-12


@pytest.mark.parametrize("name", ATTACKS)
def test_a_person_added_moves_cells_and_scores_within_the_loss(name):
    """Add-remove: three cells by 1 in all, scores of magnitudes by 4."""
    rest, box = np.random.default_rng(1).normal(0, 1, (30, 2)), ClipInterval(-0.75, 0.75)
    data = [ArrayPersonTable(x, ("i", "a")) for x in (rest, np.vstack([rest, ATTACKS[name]]))]
    cells = []
    for people in data:
        s, k = people.interval_sums([box] * 2)[1], box.steps
        cells.append((
            s.zz + 2 * k * s.z + k * k * s.present,
            2 * (k * k * s.present - s.zz),
            s.zz - 2 * k * s.z + k * k * s.present,
        ))  # fmt: skip
    moved = sum(abs(a - b) for a, b in zip(*cells, strict=True))
    assert moved <= 4 * box.steps**2
    assert moved == (0 if np.isnan(ATTACKS[name][1]) else 4 * box.steps**2)
    plan = planned(PrivateScale(), Budget(epsilon=8.0), relation=ADD_REMOVE, n_guess=30)
    scores = []

    class Watch(SimulatedNoise):
        def argmax(self, values, scale):
            scores.append((np.array(values), scale))
            return 0

    for people in data:
        plan.magnitude(TrustedCurator(people, Watch(0)), 1)
    assert np.abs(scores[0][0] - scores[1][0]).max() <= 4
    assert scores[0][1] == 2 * 4 / plan.each
    assert np.all(quantile_scores(np.zeros(5, dtype=np.int64), 0.0) == 0)


@pytest.mark.slow
def test_add_remove_pays_and_does_not_show_the_number():
    rng = np.random.default_rng(2)
    who = np.repeat(np.arange(1500), 6)
    x = rng.normal(size=len(who))
    table = {"who": who, "x": x, "y": 1 + 0.5 * x + 0.3 * rng.normal(size=len(who))}
    settings = {"person": "who", "neighbors": "add-remove", "noise": SimulatedNoise(3)}
    release = pm.regress(
        table, "y ~ x", effect="per_person", epsilon=4.0, n_guess=1000, level=0.999999, **settings
    )
    assert release.guarantee.neighbors == "add-remove"
    assert "roster" not in str(release.guarantee.public)
    assert sum(loss.pure for loss in release.guarantee.mechanisms) == 4
    assert "(noisy)" in str(release)
    lines = {line.term: line for line in release.table()}
    assert lines["x"].lower < 0.5 < lines["x"].upper
    json.dumps(release.to_dict(), allow_nan=False)
    limits = pm.regress(
        table, "y ~ x", effect="per_person", epsilon=4.0, n_guess=1000, assume=(-2, 2), **settings
    )
    assert limits.guarantee.neighbors == "add-remove"
    with pytest.raises(ArgumentError, match="n_guess"):
        pm.regress(table, "y ~ x", effect="per_person", epsilon=4.0, **settings)
    mean = PrivateScale(target="mean")
    with pytest.raises(ArgumentError, match="target"):
        pm.regress(
            table, "y ~ x", effect="per_person", epsilon=4.0, n_guess=1000, method=mean, **settings
        )
    bins = {"time": "x", "bins": (-1, 0, 1), "bounds": (-3, 3)}
    curve = pm.curve(table, "y", epsilon=4.0, n_guess=1000, **bins, **settings)
    assert curve.guarantee.neighbors == "add-remove"
    assert abs(curve.estimate[1] - 1.23) < 0.3


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
