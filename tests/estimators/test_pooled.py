"""One regression for all persons: against plain formulas, in odd designs and units, its table."""

import json
import math

import duckdb
import numpy as np
import polars as pl
import pytest

import privmean as pm
from altered_noise import Silence
from estimators.gee_cases import CASES, figures, formula_of, made_panel
from panels import Bank, reference, trial
from privmean.cli.app import run
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.regression.formula import read_formula
from privmean.estimators.regression.panel import PanelSums, Weighting
from privmean.estimators.regression.polynomial_design import design_of
from privmean.estimators.regression.pooled_intervals import eigen
from privmean.estimators.regression.run_pooled import Pooled, Target
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget


def panel(persons=400, seed=0):
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 9, persons)
    who = np.repeat(np.arange(persons), size)
    n = len(who)
    arm = (rng.random(persons) < 0.5).astype(float)[who]
    x = rng.normal(3, 1, n) + rng.normal(0, 1, persons)[who]
    z = rng.integers(0, 3, n).astype(float)
    y = 1 + arm + 0.5 * x - 0.1 * x * x + 0.3 * z
    y = y + rng.normal(0, 1, persons)[who] + rng.normal(0, 1, n)
    return {"who": who, "arm": arm, "x": x, "z": z, "y": y}


def whole(table, formula):
    """The same equation by matrices, a person at a time, with cluster-robust errors."""
    ids = np.unique(table["who"])
    x, z, arm = table["x"], table["z"], table["arm"]
    mean = {person: x[table["who"] == person].mean() for person in ids}
    own = np.array([mean[person] for person in table["who"]])
    columns = {
        "y ~ arm + x": [np.ones(len(x)), arm, x],
        "y ~ arm + x + I(x**2)": [np.ones(len(x)), arm, x, x * x],
        "y ~ x + own(x)": [np.ones(len(x)), x, own],
        "y ~ x + C(z, levels=[0, 1, 2])": [np.ones(len(x)), x, z == 1, z == 2],
        "y ~ arm*x": [np.ones(len(x)), arm, x, arm * x],
        "y ~ 0 + x + z": [x, z],
    }[formula]
    X = np.column_stack(columns).astype(float)
    left, right, parts = 0, 0, []
    for person in ids:
        at = table["who"] == person
        a, y = X[at], table["y"][at]
        left = left + a.T @ a / len(y)
        right = right + a.T @ y / len(y)
        parts.append((a.T / len(y), a, y))
    beta = np.linalg.solve(left, right)
    scores = np.array([w @ (y - a @ beta) for w, a, y in parts])
    bread = np.linalg.inv(left)
    return beta, np.sqrt(np.diag(bread @ scores.T @ scores @ bread))


FORMULAS = ["y ~ arm + x", "y ~ arm + x + I(x**2)", "y ~ x + own(x)",
            "y ~ x + C(z, levels=[0, 1, 2])", "y ~ arm*x", "y ~ 0 + x + z"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("formula", FORMULAS)
def test_without_noise_it_is_the_equation_of_all_persons(formula):
    table = panel()
    beta, error = whole(table, formula)
    release = pm.regress(table, formula, person="who", epsilon=100.0, noise=Silence(0))
    assert np.all(np.abs(release.estimate - beta) <= 0.35 * error)  # what shortening leaves
    assert release.columns == read_formula(formula, own=True).names


def asked_of(name):
    """What `regress` is told, and the weighting of the reference."""
    said = dict(CASES[name])
    icc = said.pop("icc", 0.0)
    how = Weighting(said.get("weights"), icc, said.get("effect") == "within")
    return said | ({"working": pm.Exchangeable(icc)} if icc else {}), how


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_is_what_generalised_estimating_equations_give(name):
    """statsmodels, with cluster-robust errors: the same estimands, and errors to 2 %."""
    made = figures()["made"][name]
    estimate, error = np.array(made["estimate"]), np.array(made["std_error"])
    table, formula, (said, how) = made_panel(), formula_of(name), asked_of(name)
    bank = Bank.of(table["who"], {key: x for key, x in table.items() if key != "who"})
    asked = PanelSums(formula, how.within)
    people = bank.people(asked, np.arange(bank.n))
    beta, spread = reference(people, asked.design, how)
    assert np.allclose(beta, estimate, atol=1e-6)
    assert np.allclose(spread, error, rtol=0.02)
    release = pm.regress(table, formula, person="who", epsilon=100.0, noise=Silence(0), **said)
    assert np.all(np.abs(release.estimate - estimate) < 0.4 * error)  # what shortening leaves
    assert np.all(np.abs(release.std_error / error - 1) < 0.25)
    private = pm.regress(
        table, formula, person="who", epsilon=20.0, noise=SimulatedNoise(1), **said
    )
    low, high = private.conf_int(0.999999).T
    assert np.all((low <= estimate) & (estimate <= high))


def banked(formula, bank, count, budget, seed, noise):
    asked, how = PanelSums(formula, False), Weighting()
    people = bank.people(asked, np.random.default_rng(seed).integers(0, bank.n, count))
    plan = Pooled(asked.design, how).plan(budget, PublicShape(asked.names, count, None))
    return plan.release(people, noise), people, asked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "lost"),
    [("copy", {"x", "copy"}), ("one", {"one"}), ("rare", {"rare"})],
)
def test_what_cannot_be_told_apart_has_no_number_and_the_rest_stays(column, lost):
    bank = trial(5000, np.random.default_rng(3))
    bank.columns["copy"] = bank.columns["x"] * 2.5
    bank.columns["one"] = np.ones(len(bank.columns["x"]))
    bank.columns["rare"] = (np.arange(len(bank.columns["x"])) < 60).astype(float)
    good = 0
    for seed in range(8):
        release, *_ = banked(
            f"y ~ arm + x + {column}", bank, 5000, Budget(epsilon=3.0, delta=1e-6), seed,
            SimulatedNoise(seed),
        )  # fmt: skip
        missing = {
            name for name, value in zip(release.columns, release.estimate, strict=True)
            if math.isnan(value)
        }  # fmt: skip
        rows = {row.term: row for row in release.rows()}
        assert all(math.isnan(rows[name].lower + rows[name].std_error) for name in missing)
        assert all(rows[name].status not in ("ok", "outliers_clipped") for name in missing)
        kept = [row for name, row in rows.items() if name not in missing]
        assert all(row.lower < row.estimate < row.upper for row in kept)
        good += missing == lost
    assert good >= 7


def test_a_thin_level_is_said():
    bank = trial(6000, np.random.default_rng(3))
    level = np.random.default_rng(5).random(6000)
    size = np.diff(np.r_[bank.starts, len(bank.columns["x"])])
    bank.columns["k"] = np.repeat(
        np.where(level < 0.01, 2.0, np.where(level < 0.4, 1.0, 0.0)), size
    )
    release, *_ = banked(
        "y ~ arm + C(k, levels=[0, 1, 2])", bank, 6000, Budget(epsilon=3.0, delta=1e-6), 1,
        SimulatedNoise(1),
    )  # fmt: skip
    rows = {row.term: row for row in release.rows()}
    assert rows["k[2]"].status == "suppressed"
    assert math.isfinite(rows["k[1]"].estimate)


@pytest.mark.slow
def test_units_do_not_matter():
    """Shifts and factors of columns: the same coefficients, mapped."""
    table = panel(3000, seed=7)
    other = dict(table)
    other["y"] = 1000 * table["y"] + 5e6
    other["x"] = 1e-3 * table["x"] + 2.0
    table, other = (pm.Table(records, person="who") for records in (table, other))
    settings = {"epsilon": 4.0, "delta": 1e-6}
    agree = 0
    for seed in range(5):
        one = pm.regress(table, "y ~ arm + x", noise=SimulatedNoise(seed), **settings)
        two = pm.regress(other, "y ~ arm + x", noise=SimulatedNoise(seed), **settings)
        mapped = two.estimate[1:] / np.array([1000.0, 1e6])
        agree += bool(np.all(np.abs(mapped - one.estimate[1:]) < 4 * one.std_error[1:]))
        assert {row.status for row in two.rows()} <= {"ok", "outliers_clipped", "modified_target"}
    assert agree >= 4


def test_a_calendar_year_and_its_square():
    bank = trial(6000, np.random.default_rng(3))
    release, people, asked = banked(
        "y ~ year + I(year**2)", bank, 6000, Budget(epsilon=3.0, delta=1e-6), 1, SimulatedNoise(1)
    )
    truth, _ = reference(people, asked.design, Weighting())
    low, high = release.conf_int(0.999999).T
    assert np.all((low <= truth) & (truth <= high))
    # each coefficient alone is known badly; the line at 2004, asked for by itself, is known well
    weights = (("Intercept", 1.0), ("year", 2004.0), ("I(year ** 2)", 2004.0**2))
    plan = Pooled(asked.design, Weighting(), (Target("2004", weights),)).plan(
        Budget(epsilon=3.0, delta=1e-6), PublicShape(asked.names, 6000, None)
    )
    line = plan.release(people, SimulatedNoise(1))
    ends = line.intervals.column(0).interval(0.999)
    lower, upper = ends.lower[0], ends.upper[0]
    assert lower < truth @ [1, 2004.0, 2004.0**2] < upper
    assert upper - lower < 2.0


def test_only_and_contrasts_have_less_noise():
    formula = "y ~ arm + base + x + year"
    names = PanelSums(formula, False)
    shape, budget = PublicShape(names.names, 4700, None), Budget(epsilon=1.0, delta=1e-6)
    every = Pooled(names.design, Weighting()).plan(budget, shape)
    question = pm.Regression(formula, only=("arm",))
    one = question.estimator(5, None, budget).plan(budget, shape)
    assert one.one_noise < 0.6 * every.one_noise
    assert one.width == 1
    release = pm.ask(
        panel(3000), pm.Regression("y ~ arm + x", contrasts={"both": {"arm": 1, "x": 1}}),
        person="who", epsilon=3.0, noise=SimulatedNoise(1),
    )  # fmt: skip
    assert release.columns == ("both",)
    assert math.isfinite(release.std_error[0])


def test_contrasts_and_predictions_after_the_release():
    table = panel(3000)
    release = pm.regress(
        table, "y ~ arm + x", person="who", epsilon=3.0, delta=1e-6, noise=SimulatedNoise(2)
    )
    made = release.contrast({"arm": 2.0, "x": -1.0})
    assert made.estimate == pytest.approx(2 * release.estimate[1] - release.estimate[2])
    c = np.array([0, 2.0, -1.0])
    assert made.std_error == pytest.approx(math.sqrt(c @ release.covariance() @ c))
    (point,) = release.predict([{"arm": 1, "x": 3.0}])
    assert point.estimate == pytest.approx(release.estimate @ [1, 1, 3.0])
    assert point.lower < point.estimate < point.upper
    with pytest.raises(ArgumentError, match="is not in the release"):
        release.contrast({"z": 1})
    with pytest.raises(ArgumentError, match="points=.x.: is required"):
        release.predict([{"arm": 1}])
    lines = {line.term: line for line in release.table()}
    assert 0 <= lines["x"].p_value <= 1
    far = release.p_value(1)
    assert (far < 0.05) == (not lines["arm"].lower <= 0 <= lines["arm"].upper)
    stored = json.loads(json.dumps(release.to_dict()))
    assert stored["effect"] == "pooled"
    assert len(stored["covariance"]) == 3


ODD = {
    "no record": {"y": math.nan},
    "constant": {"x": 3.0, "y": 1.0, "arm": 1.0},
    "infinite": {"x": math.inf},
    "tiny": {"x": 1e-300, "y": 1e-300},
    "huge": {"x": 1e300, "y": -1e300},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("effect", ["pooled", "within"])
def test_no_table_breaks_a_release(name, effect):
    table = dict(panel(2000))
    for column, value in ODD[name].items():
        table[column] = np.full(len(table["who"]), value)
    records = pm.Table(table, person="who")
    for money in ({"epsilon": 5.0}, {"rho": 1.0}):
        release = pm.regress(
            records, "y ~ arm + x", effect=effect, noise=SimulatedNoise(1), **money
        )
        assert release.status not in ("ok",)
        assert release.summary()
        assert len(release.rows()) == len(release.columns)
        release.to_dict()


class Vandal(SimulatedNoise):
    """Does something to the file before the first draw: after the charge, before the next look."""

    def __init__(self, change):
        super().__init__(1)
        self.change = change

    def _once(self):
        change, self.change = self.change, lambda: None
        change()

    def laplace(self, size, scale):
        self._once()
        return super().laplace(size, scale)

    def gaussian(self, size, scale):
        self._once()
        return super().gaussian(size, scale)

    def argmax(self, scores, scale):
        self._once()
        return super().argmax(scores, scale)

    def bits64(self, size):
        self._once()
        return super().bits64(size)


def renamed(file, form):
    table = panel(2000)
    return pl.DataFrame({"who": table["who"], "other": table["x"]})


DONE = {
    "gone": lambda file, form: file.unlink(),
    "cut off": lambda file, form: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "no table": lambda file, form: file.write_bytes(b"\x00PAR1\xff" * 9),
    "empty": lambda file, form: file.write_bytes(b""),
    "a folder": lambda file, form: (file.unlink(), file.mkdir()),
    "other columns": lambda file, form: getattr(renamed(file, form), f"write_{form}")(file),
    "other persons": lambda file, form: getattr(pl.DataFrame(panel(900, seed=2)), f"write_{form}")(
        file
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", DONE)
@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("effect", ["pooled", "per_person"])
def test_a_source_that_changes_after_the_charge_is_a_status(tmp_path, change, form, effect):
    """What was paid stays paid, and no exception tells what the second look met."""
    file = tmp_path / f"t.{form}"
    getattr(pl.DataFrame(panel(2000)), f"write_{form}")(file)
    ledger = pm.Ledger(epsilon=5.0)
    release = pm.regress(
        str(file), "y ~ arm + x", effect=effect, person="who", epsilon=5.0, ledger=ledger,
        noise=Vandal(lambda: DONE[change](file, form)),
    )  # fmt: skip
    assert ledger.spent().epsilon == 5
    assert release.status == "failed" or change == "cut off"
    assert np.isnan(release.estimate).all() or change == "cut off"
    assert not any(math.isfinite(row.lower) for row in release.rows()) or change == "cut off"
    assert release.guarantee.verify()
    assert release.summary()


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["pooled", "per_person"])
def test_a_table_that_an_engine_lost_after_the_charge_is_a_status(effect):
    connection, records = duckdb.connect(), pl.DataFrame(panel(2000))
    connection.register("records", records)
    connection.execute("create table t as select * from records")
    release = pm.regress(
        connection.table("t"), "y ~ arm + x", person="who", epsilon=5.0, effect=effect,
        noise=Vandal(lambda: connection.execute("drop table t")),
    )  # fmt: skip
    assert release.status == "failed"


@pytest.mark.slow
def test_too_little_is_refused_before_anything_is_read():
    with pytest.raises(InfeasibleError, match="delta"):
        pm.regress(panel(500), "y ~ arm + x", person="who", epsilon=1.0)
    with pytest.raises(InfeasibleError, match="fewer terms"):
        pm.regress(panel(500), "y ~ arm + x", person="who", epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    "formula", ["y ~ I(x - own(x))", "y ~ own(x):z", "own(y) ~ x", "y ~ own(x + z)", "y ~ own()"]
)
def test_own_means_stand_alone(formula):
    with pytest.raises(ArgumentError):
        pm.Regression(formula)
    with pytest.raises(ArgumentError):
        pm.Regression("y ~ x + own(x)", effect="within")


def test_public_units_save_their_search():
    budget = Budget(epsilon=2.0, delta=1e-6)
    asked = PanelSums("y ~ x", False)
    shape = PublicShape(asked.names, 3000, None)
    every = pm.Regression("y ~ x").estimator(2, None, budget).plan(budget, shape)
    known = pm.Regression("y ~ x", scales={"x": (3, 1)}, bounds={"y": (-9, 9)})
    plan = known.estimator(2, None, budget).plan(budget, shape)
    assert len(every.events) - len(plan.events) == 4
    release = pm.ask(panel(3000), known, person="who", noise=SimulatedNoise(1), epsilon=3.0)
    assert np.isfinite(release.estimate).all()


def test_polynomials_are_built_from_standardized_columns():
    design = design_of(read_formula("y ~ x*z + I(x**2)", own=True), within=False)
    units = {"x": (3.0, 2.0), "z": (1.0, 0.5), "response y": (0.0, 1.0)}
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 50))
    raw = np.column_stack([np.ones(50), x, z, x * x, x * z])
    order = [("Intercept", "x", "z", "I(x ** 2)", "x:z").index(name) for name in design.names]
    a, b = (x - 3) / 2, (z - 1) / 0.5
    standard = np.column_stack([np.ones(50), a, b, a * a, a * b])
    expected = standard[:, order]
    assert np.allclose(raw[:, order] @ design.expansion(units).T, expected)


def test_eigenvectors_of_small_matrices():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 12):
        a = rng.normal(size=(n, n))
        a = a + a.T
        values, vectors = eigen(a)
        assert np.allclose(values, np.linalg.eigvalsh(a))
        assert np.allclose(vectors @ np.diag(values) @ vectors.T, a)
    assert np.array_equal(eigen(np.zeros((3, 3)))[0], np.zeros(3))


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    file = tmp_path / "t.csv"
    pl.DataFrame(panel(3000)).write_csv(file)
    asked = ["regress", str(file), "y ~ arm + x + z", "--person", "who", "--epsilon", "9"]
    assert run([*asked, "--json", "--only", "arm", "--contrast", "x - z: x=1 z=-1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["columns"] == ["arm", "x - z"]
    assert run([*asked, "--effect", "within", "--bounds", "x=-2,8", "--scales", "z=1,1"]) == 0
    assert "Within-person (fixed-effects) regression: " in capsys.readouterr().out
    assert run([*asked, "--weights", "4"]) == 0
    assert "weighted by records, at most 4 each" in capsys.readouterr().out
