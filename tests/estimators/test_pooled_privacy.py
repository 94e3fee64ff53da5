"""One regression for all persons: what a hostile person can move, and what stays whose."""

import dataclasses
import json
import math
from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl
import pytest

import privmean as pm
from estimators.scripted_curator import Scripted
from privmean.data.array_kernels import big_sum
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError
from privmean.estimators.regression.panel import (
    MATRIX_STEPS,
    ROW_STEPS,
    PanelSums,
    Weighting,
    influence_rows,
    lattice_matrices,
    lattice_rows,
    matrix_sizes,
    person_moments,
    transformed,
    triangle,
)
from privmean.estimators.regression.run_pooled import Pooled
from privmean.mechanisms.choices import Choice, Exponential
from privmean.mechanisms.curator import TrustedCurator
from privmean.mechanisms.row_sums import MatrixSums, RowProducts
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.compose import pure_epsilon, total_epsilon, total_rho
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.privacy_events import Selection
from privmean.privacy.profile_events import RowsAndProducts

SHORT = ROW_STEPS // 2
FORMULA = "y ~ a + b + I(a**2) + own(a)"
MONEY = [
    {"epsilon": 3.0}, {"epsilon": 1.0, "delta": 1e-6}, {"epsilon": 8.0, "delta": 1e-9},
    {"rho": 0.3},
]  # fmt: skip


def panel(persons=60, seed=0, hostile=None):
    """Records of persons; the last one's may be given."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 7, persons)
    who = np.repeat(np.arange(persons), size)
    n = len(who)
    a, b = rng.lognormal(0, 1, n), rng.normal(2000, 1, n)
    y = 1e6 + a - 0.5 * (b - 2000) + rng.standard_t(4, n)
    table = {"who": who, "a": a, "b": b, "y": y}
    if hostile is not None:
        kept = who != persons - 1
        count = len(hostile["a"])
        given = {"who": np.full(count, persons - 1), **hostile}
        table = {name: np.concatenate([x[kept], given[name]]) for name, x in table.items()}
    return pl.DataFrame(table)


def records(count, **columns):
    rng = np.random.default_rng(1)
    made = {name: rng.normal(size=count) for name in "aby"}
    return made | {name: np.broadcast_to(x, (count,)) for name, x in columns.items()}


HOSTILE = {
    "huge": records(5, a=1e300, y=-1e300),
    "infinite": records(5, a=math.inf, b=-math.inf),
    "nothing": records(3, y=math.nan),
    "constant": records(4, a=2.0, b=2000.0, y=1e6),
    "collinear": records(6, b=np.arange(6.0) + 2000, a=np.arange(6.0)),
    "one record": records(1),
    "opposite": records(2, a=1e4, y=-1e12),
    "many": records(30_000, a=np.linspace(-9, 9, 30_000), y=np.linspace(9e5, 2e6, 30_000)),
    "zero": records(1, a=0.0, b=0.0, y=0.0),
}


@cache
def people_with(within, hostile):
    """Hundred persons, of whom one has the records of this name."""
    asked = PanelSums("y ~ a + b + I(a**2)" if within else FORMULA, within)
    records = None if hostile is None else HOSTILE[hostile]
    return asked, asked.reduce(pm.Table(panel(100, hostile=records), person="who"))


@pytest.mark.slow
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("money", [{"epsilon": 100.0}, {"rho": 500.0}])
@pytest.mark.parametrize(
    "how", [Weighting(), Weighting(within=True), Weighting(icc=0.5), Weighting(max_records=3)]
)
def test_no_person_moves_an_answer_by_more_than_its_loss(relation, money, how):
    """Every mechanism on the road, replayed for each hostile person at fixed earlier outputs."""
    asked, base = people_with(how.within, None if relation == REPLACE_ONE else "nothing")
    budget = Budget(**money, neighbors=relation)
    # so few persons, with so large a budget, that every question is reached
    plan = Pooled(asked.design, how).plan(budget, PublicShape(asked.names, 100, None))
    largest = {}
    first = Scripted(base)
    plan.run(first)
    for hostile in HOSTILE:
        other = Scripted(people_with(how.within, hostile)[1], first.seen)
        plan.run(other)
        for (one, exact, _), (_, again, _) in zip(first.seen, other.seen, strict=False):
            share = max(one.sensitivity_share(exact, again))
            assert share <= 1, (one, float(share))
            name = type(one).__name__
            largest[name] = max(largest.get(name, Fraction(0)), share)
    assert {"MatrixSums", "RowProducts"} <= set(largest)


def test_matrices_attain_their_sensitivity_and_never_pass_it():
    """Random, rank-one and near-singular matrices: exact integers, sqrt(2) rho and not 2 rho."""
    rng = np.random.default_rng(0)
    q, count = 4, 20_000
    vectors = rng.standard_t(1.5, (3, q, count)) * 10.0 ** rng.uniform(-6, 6, (3, 1, count))
    vectors[1:, :, ::2] = 0  # rank one
    vectors[1, :, 1::4] = vectors[0, :, 1::4] * (1 + 1e-12)  # nearly singular
    w = {(i, j): (vectors[:, i] * vectors[:, j]).sum(axis=0) for i, j in triangle(q)}
    for norm, mu, epsilon in (("l2", 0.5, None), ("l1", None, Fraction(1, 2))):
        found = lattice_matrices(w, 3.0, norm)
        sums = MatrixSums("m", q, MATRIX_STEPS, REPLACE_ONE, mu=mu, epsilon=epsilon)
        rows = [[int(found[at][k]) for at in triangle(q)] for k in range(count)]
        worst = Fraction(0)
        for k in range(0, 600, 2):
            worst = max(worst, *sums.sensitivity_share(rows[k], rows[k + 1]))
        assert worst <= 1
        # orthogonal ranges on the sphere
        ends = [{(i, j): np.zeros(1) for i, j in triangle(q)} for _ in range(2)]
        ends[0][0, 0], ends[1][1, 1] = np.array([9.0]), np.array([9.0])
        one, two = (
            [int(lattice_matrices(x, 3.0, norm)[at][0]) for at in triangle(q)] for x in ends
        )
        assert 0.9999 < float(max(sums.sensitivity_share(one, two))) <= 1
        size = matrix_sizes({at: x.astype(float) for at, x in found.items()}, norm)
        assert np.all(size <= MATRIX_STEPS * (1 + 1e-12))
        assert size.max() > 0.999 * MATRIX_STEPS


def test_a_lattice_matrix_is_near_the_shortened_one():
    rng = np.random.default_rng(1)
    q = 5
    vectors = rng.normal(size=(9, q, 400))
    w = {(i, j): (vectors[:, i] * vectors[:, j]).mean(axis=0) for i, j in triangle(q)}
    found = lattice_matrices(w, 4.0, "l2")
    size = matrix_sizes(w, "l2")
    for at, z in found.items():
        want = w[at] * np.minimum(1, 4.0 / size)
        assert np.abs(z / MATRIX_STEPS * 4.0 - want).max() < 1e-4


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_rows_and_their_products_cost_no_more_together(relation):
    rng = np.random.default_rng(2)
    k = 3
    for norm, settings in (("l2", {"mu": 0.7}), ("l1", {"epsilon": Fraction(1, 3)})):
        sums = RowProducts("r", k, ROW_STEPS, relation, short=SHORT, **settings)
        values = [x * 10.0 ** rng.uniform(-7, 7, 3000) for x in rng.standard_t(1, (k, 3000))]
        whole = np.array(lattice_rows(values, 2.0, norm))
        special = np.zeros((k, 4), dtype=np.int64)
        special[0, 0], special[0, 1], special[1, 2] = ROW_STEPS, -ROW_STEPS, ROW_STEPS
        whole = np.concatenate([special, whole], axis=1)
        answers = [sums.exact(whole[:, [j]]) for j in range(400)]
        nobody = [0] * len(answers[0])
        worst = Fraction(0)
        for i in range(4):
            for j in range(400):
                pair = (answers[j], nobody) if relation == ADD_REMOVE else (answers[i], answers[j])
                worst = max(worst, *sums.sensitivity_share(*pair))
        assert 0.98 < float(worst) <= 1


@pytest.mark.parametrize("settings", [{"mu": 0.7}, {"epsilon": Fraction(1, 3)}])
def test_products_are_of_rows_cut_by_the_mechanism_and_long_rows_are_none(settings):
    sums = RowProducts("r", 2, ROW_STEPS, REPLACE_ONE, short=SHORT, **settings)
    rows = np.array([[ROW_STEPS, -ROW_STEPS, 3, 0], [0, 0, -4, 0]])
    short = sums.cut(rows)
    assert np.array_equal(short[:, 0], -short[:, 1])
    assert np.array_equal(short[:, 2], rows[:, 2])
    assert SHORT - 2 <= short[0, 0] <= SHORT
    assert sums.exact(rows[:, 2:]) == [3, -4, 9, -12, 16]
    longer = rows + np.array([[1], [1]])  # of which the first is too long
    assert sums.exact(longer) == sums.exact(longer[:, 1:])
    for short_norm in (0, ROW_STEPS + 1):
        with pytest.raises(ValueError, match="longer than the rows"):
            RowProducts("r", 2, ROW_STEPS, REPLACE_ONE, short=short_norm, **settings)


def test_products_of_short_rows_are_free_by_grid_and_their_twins_are_not():
    """Joint loss over the square of the rows' radius: 4 is that of the rows alone."""
    r, c = np.linspace(0, 1, 81), np.linspace(-1, 1, 81)
    one, two, cosine = np.meshgrid(r, r, c, indexing="ij")

    def loss(rho, sd):
        p, q = np.minimum(one, rho), np.minimum(two, rho)
        products = p**4 + q**4 - 2 * p**2 * q**2 * cosine**2
        return float((one**2 + two**2 - 2 * one * two * cosine + products / sd**2).max())

    for rho in (1.0, 0.5, 0.25, 0.1):
        assert loss(rho, math.sqrt(2) * rho) == pytest.approx(4, abs=1e-12)
    assert loss(1.0, 1.0) == pytest.approx(4.5, abs=0.01)
    assert loss(0.5, 0.25) == pytest.approx(4.5, abs=0.01)


@pytest.mark.parametrize(
    ("steps", "short"), [(5, 2), (8, 4), (10, 5), (12, 3), (20, 10), (20, 5), (20, 20)]
)
def test_products_of_truncated_rows_are_free_in_whole_numbers(steps, short):
    """All pairs of rows of two whole numbers: truncation keeps opposite rows opposite."""
    places = range(-steps, steps + 1)
    rows = np.array([(a, b) for a in places for b in places if a * a + b * b <= steps**2]).T
    p = RowProducts("r", 2, steps, REPLACE_ONE, mu=0.5, short=short).cut(rows)
    assert np.all((p * p).sum(axis=0) <= short**2)
    change = ((rows[:, :, None] - rows[:, None, :]) ** 2).sum(axis=0)
    products = np.array([p[0] * p[0], p[1] * p[1], p[0] * p[1], p[0] * p[1]])
    moved = ((products[:, :, None] - products[:, None, :]) ** 2).sum(axis=0)
    joint = change * (2 * short**2) + moved
    assert joint.max() == 4 * steps**2 * (2 * short**2)


def test_a_row_is_the_same_whoever_else_is_there():
    """At fixed earlier outputs: dropped, added and permuted persons change no remaining integer."""
    asked = PanelSums(FORMULA, False)
    units = {name: (0.3, 1.7) for name in asked.design.numeric}
    frame = panel(80)
    rng = np.random.default_rng(5)
    q = len(asked.names) + 1
    rows, residual, targets = rng.normal(size=(q, q)), rng.normal(size=q), rng.normal(size=(3, q))

    def integers(table):
        products = asked.reduce(pm.Table(table, person="who")).again(units)
        w = person_moments(products, asked.design, Weighting(icc=0.3))
        z = lattice_matrices(transformed(w, rows), 2.0, "l2")
        r = lattice_rows(influence_rows(w, residual, targets), 1.5, "l1")
        return np.array([*z.values(), *r])

    whole = integers(frame)
    for kept in ([0], [79], list(range(0, 80, 3)), list(range(1, 80))):
        few = frame.filter(pl.col("who").is_in(kept)).sample(fraction=1.0, shuffle=True, seed=1)
        assert np.array_equal(integers(few), whole[:, kept])


def test_rows_of_odd_persons_are_finite_integers_within_the_ball():
    asked = PanelSums(FORMULA, False)
    units = {name: (0.0, 2.0**-20) for name in asked.design.numeric}
    for hostile in HOSTILE.values():
        products = asked.reduce(pm.Table(panel(20, hostile=hostile), person="who")).again(units)
        for how in (
            Weighting(),
            Weighting(within=True),
            Weighting(icc=0.9),
            Weighting(max_records=1),
        ):
            w = person_moments(products, asked.design, how)
            for norm in ("l1", "l2"):
                z = lattice_matrices(w, 1.0, norm)
                size = matrix_sizes({at: x.astype(float) for at, x in z.items()}, norm)
                assert np.all(size <= MATRIX_STEPS * (1 + 1e-12))


def test_persons_without_a_record_change_nothing():
    """10^3 persons whose response is missing: every exact answer of the road is the same."""
    asked = PanelSums(FORMULA, False)
    frame = panel(100)
    empty = pl.DataFrame(
        {"who": np.arange(1000, 2000), "a": 1.0, "b": 2000.0, "y": math.nan}
    ).with_columns(pl.col("who").cast(frame["who"].dtype))
    plan = Pooled(asked.design, Weighting()).plan(
        Budget(epsilon=100.0), PublicShape(asked.names, 100, None)
    )
    first = Scripted(asked.reduce(pm.Table(frame, person="who")))
    plan.run(first)
    second = Scripted(asked.reduce(pm.Table(pl.concat([frame, empty]), person="who")))
    plan.run(second)
    assert len(first.seen) == len(second.seen) == len(plan.events)
    for (_, one, _), (_, two, _) in zip(first.seen, second.seen, strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(two))


# --- the bill -------------------------------------------------------------------------------------
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("money", MONEY)
@pytest.mark.parametrize(
    "formula", ["y ~ a", "y ~ a + b + c", "y ~ a + b + c + d + e", "y ~ 0 + a*b*c + I(a**2)"]
)
def test_the_bill_is_the_budget(money, relation, formula):
    asked = PanelSums(formula, False)
    budget = Budget(**money, neighbors=relation)
    plan = Pooled(asked.design, Weighting()).plan(budget, PublicShape(asked.names, 10**6, None))
    chosen = [x for x in plan.events if isinstance(x, Selection)]
    if plan.parts.law == "laplace":
        assert pure_epsilon(plan.events) == budget.pure_epsilon()
        norms = [x for x in chosen if x.name == "moment norm"]
        assert [x.bounded_range for x in norms] == [False]
        assert isinstance(plan.length.choice, Choice)
        return
    if budget.rho is not None:
        assert 0.999 * budget.rho < total_rho(plan.events) <= budget.rho * (1 + 1e-12)
    else:
        found = total_epsilon(plan.events, budget.delta, grid=False)
        assert 0.998 * budget.epsilon < found <= budget.epsilon * (1 + 1e-9)
    assert all(x.bounded_range for x in chosen)
    assert isinstance(plan.length.choice, Exponential)


@pytest.mark.parametrize("money", MONEY)
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_the_release_bills_what_was_planned_and_draws_nothing_else(money, relation):
    frame = panel(1500, seed=3)
    more = {"n_guess": 1500} if relation == ADD_REMOVE else {}
    release = pm.regress(
        frame, "y ~ a", person="who", neighbors=relation, noise=SimulatedNoise(1), **money, **more
    )
    planned_bill = [x.to_dict() for x in release.plan.events]
    bill = [x.to_dict() for x in release.guarantee.mechanisms]
    assert sorted(map(str, bill)) == sorted(map(str, planned_bill))
    assert release.guarantee.verify()
    assert release.guarantee.neighbors == relation


def test_under_add_remove_the_number_of_persons_is_not_read():
    """One person less: the same mechanisms with the same noise, whatever is in the table."""
    asked = PanelSums("y ~ a", False)
    budget = Budget(epsilon=2.0, delta=1e-6, neighbors=ADD_REMOVE)
    plan = Pooled(asked.design, Weighting()).plan(budget, PublicShape(asked.names, None, 1500))
    bills = []
    for persons in (1500, 1499):
        frame = panel(1500, seed=3).filter(pl.col("who") < persons)
        curator = TrustedCurator(asked.reduce(pm.Table(frame, person="who")), SimulatedNoise(0))
        outcome = plan.run(curator)
        bills.append([x.to_dict() for x in curator.events])
        assert outcome.n is None
    assert bills[0] == bills[1]


def line_of(relation, mu=0.7, order=3):
    (line,) = RowProducts("r", order, ROW_STEPS, relation, mu=mu, short=SHORT).events
    return line


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("order", [1, 2, 5])
def test_the_price_of_rows_and_products_is_recomputed_from_their_noise(relation, order):
    """Products with a double too little noise are paid for apart: the stored bill is refused."""
    line = line_of(relation, order=order)
    assert isinstance(line, RowsAndProducts)
    assert 0.999999 * line.mu < line.recomputed <= line.mu
    assert line.short == SHORT
    with pytest.raises(ArgumentError, match="short"):
        dataclasses.replace(line, short=line.radius + 1)
    promise = Guarantee(relation, (line,), rho=line.rho)
    assert promise.verify()
    assert Guarantee.from_dict(json.loads(json.dumps(promise.to_dict()))).verify()
    # the least noise that is free, found exactly
    least = math.sqrt(2) * SHORT * line.rows * (1 - 1e-13)
    while Fraction(least) ** 2 < 2 * Fraction(SHORT) ** 2 * Fraction(line.rows) ** 2:
        least = math.nextafter(least, math.inf)
    off = SHORT * line.rows  # exact: the radius is a power of two
    fine = dataclasses.replace(line, products=least, off=off if order > 1 else least)
    changes = [{"products": math.nextafter(least, 0)}, {"rows": line.rows * (1 - 3e-9)}]
    if order > 1:
        changes.append({"off": math.nextafter(off, 0)})
    if relation == REPLACE_ONE:
        assert fine.mu == line.mu
    for change in changes:
        worse = dataclasses.replace(fine, **change)
        assert worse.recomputed >= fine.recomputed
        forged = Guarantee(relation, (worse,), rho=line.rho)
        if relation == REPLACE_ONE:
            assert worse.mu > line.mu
            assert not forged.verify()
            assert not Guarantee.from_dict(json.loads(json.dumps(forged.to_dict()))).verify()
    for worse in (
        dataclasses.replace(line, products=line.products / 2, off=line.off / 2),
        dataclasses.replace(line, short=None),  # products of rows that were not cut
    ):
        assert not Guarantee(relation, (worse,), rho=line.rho).verify()


def test_the_formula_of_one_relation_does_not_serve_the_other():
    """Noise as free products have it, but scaled for one person added: rows alone are paid."""
    (line,) = RowProducts("r", 2, ROW_STEPS, REPLACE_ONE, mu=0.7, short=SHORT).events
    rows = line.rows / 2  # mu of the rows alone, if a person may come or go
    low = dataclasses.replace(
        line, rows=rows, products=line.products / 2, off=line.off / 2, neighbors=ADD_REMOVE
    )
    assert low.recomputed == pytest.approx(0.7 * math.sqrt(1.125))
    assert not Guarantee(ADD_REMOVE, (low,), rho=0.7**2 / 2).verify()
    other = dataclasses.replace(line_of(ADD_REMOVE), neighbors=REPLACE_ONE)
    assert not Guarantee(
        REPLACE_ONE, (other,), rho=other.sensitivity**2 / other.scale**2 / 2
    ).verify()


def test_sums_of_many_rows_do_not_overflow():
    values = np.full(3_000_000, 2**40, dtype=np.int64)
    assert big_sum(values) == 3_000_000 * 2**40
