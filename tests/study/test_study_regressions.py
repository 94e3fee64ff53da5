"""Regressions in a study file: limits a term, bounds of variables, and what they come to."""

from __future__ import annotations

import numpy as np
import pytest

import privmean as pm
from privmean.cli.app import run
from privmean.study.study_file import read_study

FILE = """
[study]
name = "slopes"
audience = "the board"
[table]
source = "panel.csv"
person = "who"
[budget]
epsilon = 8.0
delta = 1e-6
[questions.own]
ask = "regression"
formula = "y ~ x"
effect = "per_person"
assume = "-9,9;-3,3"
[questions.all]
ask = "regression"
formula = "y ~ x"
bounds = {x = [-4, 4], y = [-5, 15]}
[questions.told]
ask = "regression"
formula = "y ~ x"
scales = ["x=0,1", "y=5,1"]
contrasts = "rise: x=2"
"""


def write(place, text=FILE, persons=3000):
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(persons), 6)
    x = rng.normal(0, 1, len(who))
    y = np.repeat(rng.normal(5, 1, persons), 6) + 0.5 * x + rng.normal(0, 0.3, len(who))
    lines = [f"{a},{b:.4f},{c:.4f}" for a, b, c in zip(who, x, y, strict=True)]
    (place / "panel.csv").write_text("\n".join(["who,x,y", *lines]) + "\n")
    (place / "study.toml").write_text(text)


@pytest.mark.slow
def test_limits_a_term_and_bounds_a_variable(tmp_path, monkeypatch, capsys):
    """Each is what the same question gives in Python, and none of them is searched for."""
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    study = read_study("study.toml")
    own, everybody, told = (study.questions[name].question for name in ("own", "all", "told"))
    assert own == pm.Regression("y ~ x", effect="per_person", assume=((-9.0, 9.0), (-3.0, 3.0)))
    for asked in (everybody, told):
        assert not asked.estimator(2, None, pm.Budget(epsilon=1.0)).searched
    assert run(["study", "run", "study.toml", "--out", "made"]) == 0, capsys.readouterr().err
    for name, term, truth in (("own", "x", 0.5), ("all", "x", 0.5), ("told", "rise", 1.0)):
        rows = (tmp_path / "made" / f"{name}.csv").read_text().splitlines()
        line = next(row for row in rows if row.split(",")[0] == term)
        numbers = dict(zip(rows[0].split(","), line.split(","), strict=True))
        assert abs(float(numbers["estimate"]) - truth) < 0.1


@pytest.mark.parametrize(
    "line",
    ['assume = "-9,9;-3,3;0,1"', 'assume = "1,2;three"', 'bounds = "x=-4,4"', "contrasts = [1]"],
)
def test_limits_that_do_not_fit_are_refused_before_anything_is_read(line, tmp_path, monkeypatch):
    said = FILE.replace('effect = "per_person"\nassume = "-9,9;-3,3"', line)
    if line.startswith("assume"):
        said = FILE.replace('assume = "-9,9;-3,3"', line)
    write(tmp_path, said, persons=3)
    (tmp_path / "panel.csv").unlink()
    monkeypatch.chdir(tmp_path)
    assert run(["study", "plan", "study.toml"]) == 2


WRONG = """
[table]
source = "panel.csv"
person = "who"
[budget]
epsilon = 8.0
[questions.level]
ask = "mean"
values = "y"
[questions.groups]
ask = "mean"
values = "y"
by = "z"
keys = "a,b"
"""


def test_plan_and_run_name_the_question_and_speak_as_the_file_does(tmp_path, monkeypatch, capsys):
    write(tmp_path, WRONG, 300)
    monkeypatch.chdir(tmp_path)
    told = []
    for command in (["plan", "study.toml"], ["run", "study.toml", "--out", "made"]):
        assert run(["study", *command]) == 2
        told.append(capsys.readouterr().err)
    assert told[0] == told[1]
    assert told[0].startswith("privmean: groups.by='z': is not a column of the table")
    assert "header = true" in told[0]
    assert "under [table]" in told[0]
    assert "=True" not in told[0]
    assert "delimiter=" not in told[0]
