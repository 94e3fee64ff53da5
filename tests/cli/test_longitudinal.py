"""The commands regress, variance and curve: JSON, tables and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import privmean as pm
from privmean.cli.app import run
from privmean.data import duckdb_engine as files
from privmean.data import open_source as tables
from privmean.errors import SchemaError


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(600), 5)
    x = rng.normal(size=3000)
    y = 2 + 0.5 * x + rng.normal(0, 0.3, 3000)
    path = tmp_path_factory.mktemp("data") / "panel.csv"
    lines = [
        f"{w},{t},{a:.4f},{b:.4f}" for w, t, a, b in zip(who, [*range(5)] * 600, x, y, strict=True)
    ]
    path.write_text("who,t,x,y\n" + "\n".join(lines) + "\n")
    return str(path)


REGRESS = ["y ~ x", "--effect", "per_person", "--person", "who", "--epsilon", "5"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [[], ["--fixed-effects"], ["--working", "exchangeable icc=0.2"],
     ["--working", "ar1 phi=0.3", "--time", "t"], ["--scales", "x=2", "--assume", "-3,3"]],
)  # fmt: skip
def test_regress_prints_one_json_object(table, capsys, more):
    assert run(["regress", table, *REGRESS, "--json", *more]) == 0
    found = json.loads(capsys.readouterr().out)
    slope = found["coefficients"][-1]
    assert slope["term"] == "x"
    assert slope["lower"] < slope["estimate"] < slope["upper"]
    assert abs(slope["estimate"] - 0.5) < 0.4
    assert found["guarantee"]["epsilon"] == 5
    assert found["secure"] is True


def test_variance(table, capsys):
    arguments = ["--person", "who", "--value", "x"]
    assert run(["variance", table, *arguments, "--epsilon", "9", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["estimate"][0] == pytest.approx(0.2, rel=0.5)
    more = ["--neighbors", "add-remove"]
    assert run(["variance", table, *arguments, "--epsilon", "9", *more]) == 2
    assert "--n-guess" in capsys.readouterr().err
    more += ["--n-guess", "600", "--json"]
    assert run(["variance", table, *arguments, "--epsilon", "9", *more]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["guarantee"]["neighbors"] == "add-remove"


def test_curve_and_its_picture(table, capsys, tmp_path):
    picture = tmp_path / "curve.svg"
    arguments = ["--person", "who", "--value", "y", "--time", "t", "--bins", "0,2,5"]
    more = ["--epsilon", "4", "--bounds", "0", "4"]
    assert run(["curve", table, *arguments, *more, "--json", "--plot", str(picture)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["curve"]["at"] == [1.0, 3.5]
    assert np.allclose(found["curve"]["estimate"], 2.0, atol=0.2)
    assert picture.read_text().startswith("<?xml")


@pytest.mark.slow
@pytest.mark.parametrize(
    "job",
    [
        ["regress", *REGRESS],
        ["variance", "--person", "who", "--value", "x", "--epsilon", "9"],
        ["curve", "--person", "who", "--value", "y", "--time", "t", "--bins", "0,2,5",
         "--epsilon", "4", "--bounds", "0", "4"],
        ["mean", "--person", "who", "--value", "y", "--epsilon", "4", "--delta", "1e-6",
         "--clustering", "random-effects group=t group_sd=1 within_sd=1 records=5"],
    ],
)  # fmt: skip
def test_what_reading_takes_may_be_limited(table, tmp_path, capsys, monkeypatch, job):
    made = []

    class Recorded(files.Engine):
        def __init__(self, **machine):
            super().__init__(**machine)
            made.append((machine, Path(self.temp_directory).parent))

    monkeypatch.setattr(tables, "Engine", Recorded)
    limits = ["--memory-limit", "300MB", "--threads", "1", "--temp-directory", str(tmp_path)]
    ledger = tmp_path / "ledger.json"
    pm.Ledger(ledger, epsilon=20, delta=1e-5)
    name, *rest = job
    status = run([name, table, *rest, *limits])
    assert status == (2 if "--clustering" in job else 0)  # persons here are in several groups
    # a regression reads its table again after the charge
    assert len(made) == 1 + ("--clustering" in job or name == "regress")
    for machine, spill in made:
        assert (machine["memory_limit"], machine["threads"]) == ("300MB", 1)
        assert spill == tmp_path
    capsys.readouterr()
    assert run([name, table, *rest, "--ledger", str(ledger), "--memory-limit", "much"]) == 2
    assert "is not a size. Give one such as '4GB'" in capsys.readouterr().err
    assert pm.Ledger.open(ledger).entries == ()


@pytest.fixture(scope="module")
def schools(tmp_path_factory):
    rng = np.random.default_rng(1)
    effect = rng.normal(0, 0.5, 40)
    lines = ["who,school,y"]
    for who in range(2000):
        for _ in range(4):
            lines.append(f"{who},s{who % 40},{10 + effect[who % 40] + rng.normal():.4f}")
    path = tmp_path_factory.mktemp("data") / "schools.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


MEAN = ["--person", "who", "--value", "y", "--epsilon", "1", "--delta", "1e-6"]
EFFECTS = "random-effects group=school group_sd=0.5 within_sd=1 records=4"
GROUP = ["--clustering", EFFECTS]


@pytest.mark.slow
def test_mean_of_persons_in_groups(schools, capsys):
    assert run(["mean", schools, *MEAN, *GROUP, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    # 50 persons a group, half of the variance of a person's mean between groups
    assert found["diagnostics"]["design_effect"] == pytest.approx(1 + 49 * 0.5)
    assert found["diagnostics"]["effective_groups"] == 40
    assert found["interval"]["lower"][0] < 10 < found["interval"]["upper"][0]
    assert run(["mean", schools, *MEAN, *GROUP]) == 0
    assert "40 groups (effectively 40)" in " ".join(capsys.readouterr().out.split())
    for more, word in (
        (["--group", "school"], "--clustering"),
        ([*GROUP, "--bounds", "0", "20"], "--clustering"),
        ([*GROUP, "--method", "default"], "--clustering"),
        (["--clustering", "random-effects group=school group_sd=0.5"], "within_sd"),
    ):
        assert run(["mean", "no.csv", *MEAN, *more]) == 2
        assert word in capsys.readouterr().err


def test_sizes_of_groups(schools, tmp_path):
    assert pm.group_sizes(schools, person="who", group="school") == (50,) * 40
    table = {"who": np.array([1, 1, 2, 3]), "g": np.array([7, 7, 7, 8])}
    assert pm.group_sizes(table, person="who", group="g") == (2, 1)
    table["g"] = np.array([7, 8, 7, 8])
    with pytest.raises(SchemaError, match="in several"):
        pm.group_sizes(table, person="who", group="g")
    (tmp_path / "x.csv").write_text("who,g\n1,a\n2,\n")
    with pytest.raises(SchemaError, match="in no group"):
        pm.group_sizes(str(tmp_path / "x.csv"), person="who", group="g")


@pytest.mark.slow
def test_limits_of_coefficients_a_term(table, capsys):
    """One pair for all, one a term, and the same in errors."""
    asked = ["regress", table, *REGRESS[:-1], "8"]
    assert run([*asked, "--assume", "-9,9;-3,3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["interval"]["clip_bounds"] == [[-9.0, 9.0], [-3.0, 3.0]]
    assert run([*asked, "--assume", "-9,9;-3,3;0,1"]) == 2
    assert "3 pairs for 2 terms" in capsys.readouterr().err
    errors = "errors residual_sd=1 between_sd=0.5,0.2 coefficient_bounds=-9,9;-3,3"
    assert run([*asked, "--assume", errors, "--json"]) == 0
    assert run([*asked, "--assume", "1,2;three"]) == 2
