"""Every method that is named somewhere is accepted by a question, bare and with a setting."""

import re
from pathlib import Path

import numpy as np
import pytest

import privmean as pm
from cli_runner import shell
from privmean.api.parse_question import ESTIMATORS, EXAMPLES
from privmean.questions.mean import METHODS

API = Path(__file__).resolve().parents[1] / "docs" / "api.md"
MOMENT = pm.BoundedMoment(order=3, bound=2, range=(0, 10))
ASSUMED = {
    "winsorized": ("sub-gaussian sd=2", pm.SubGaussian(sd=2)),
    "bounded": ("0,10", (0.0, 10.0)),
    "heavy-tailed": ("bounded-moment order=3 bound=2 range=0,10", MOMENT),
    "anisotropic": ("covariance 1", pm.Covariance(1.0)),
}
SETTINGS = {
    "default": "target=clipped",
    "winsorized": "failure=0.02",
    "bounded": "design_effect=1.5",
    "heavy-tailed": "beta=0.02",
    "anisotropic": "beta=0.06",
    "magnitudes": "smallest=0.001",
}
BUDGET = {"epsilon": 2.0, "delta": 1e-6}


def listed():
    """The classes that docs/api.md lists for `method=`."""
    part = API.read_text().split("\n## Estimators\n")[1].split("\n##")[0]
    assert "For `method=`" in part
    return re.findall(r"^::: privmean\.(\w+)$", part.split("\n### ")[0], re.MULTILINE)


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    rng = np.random.default_rng(1)
    rows = [f"{i % 3000},{x:.3f}" for i, x in enumerate(rng.normal(3, 0.6, 12_000))]
    path = tmp_path_factory.mktemp("methods") / "ratings.csv"
    path.write_text("student,rating\n" + "\n".join(rows) + "\n")
    return str(path)


def mean(path, *words):
    return shell(
        "mean", path, "--person", "student", "--value", "rating", "--epsilon", "2",
        "--delta", "1e-6", *words,
    )  # fmt: skip


def test_every_estimator_of_the_reference_is_one_of_a_mean():
    made = {
        "DefaultMean": pm.DefaultMean(),
        "BoundedMean": pm.BoundedMean((0, 10)),
        "WinsorizedMean": pm.WinsorizedMean(pm.SubGaussian(sd=2)),
        "HeavyTailedMean": pm.HeavyTailedMean(MOMENT),
        "AnisotropicMean": pm.AnisotropicMean(1.0),
        "PrivateScale": pm.PrivateScale(),
    }
    assert listed() == [name for name in listed() if name in made]
    assert set(listed()) == set(made)
    for estimator in made.values():
        pm.plan(pm.Mean("rating", method=estimator), n=3000, **BUDGET)


def test_every_name_is_known_to_both():
    assert set(METHODS) == {"auto", *ESTIMATORS}
    assert set(SETTINGS) == set(ESTIMATORS)
    assert set(EXAMPLES) < set(ASSUMED)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_bare_name_is_planned_with(name):
    _, assume = ASSUMED.get(name, (None, None))
    plan = pm.plan(pm.Mean("rating", method=name, assume=assume), n=3000, **BUDGET)
    assert plan.events


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("setting", [False, True])
def test_a_name_is_taken_on_the_command_line(ratings, name, setting):
    text, _ = ASSUMED.get(name, (None, None))
    words = [f"{name} {SETTINGS[name]}" if setting else name]
    found = mean(ratings, "--method", *words, *(["--assume", text] if text else []))
    assert found.exit_code == 0, found.stderr
    assert "rating" in found.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_a_method_lacks_is_said_as_an_option(ratings, name):
    for said in (name, f"{name} {SETTINGS[name]}"):
        found = mean(ratings, "--method", said)
        if said == "winsorized":  # finds the scale itself
            assert found.exit_code == 0
            continue
        assert found.exit_code == 2
        assert f"--assume '{EXAMPLES[name]}'" in found.stderr
        assert "(" not in found.stderr.split(";")[-1]


def test_an_example_is_what_the_method_needs(ratings):
    for name, example in EXAMPLES.items():
        found = mean(ratings, "--method", name, "--assume", example)
        assert found.exit_code == 0, (name, found.stderr)


@pytest.mark.parametrize("said", ["magnitudes", "magnitudes target=mean"])
def test_a_regression_takes_names_on_the_command_line(ratings, said):
    found = shell(
        "regress", ratings, "rating ~ 1", "--person", "student", "--effect", "per_person",
        "--epsilon", "2", "--method", said,
    )  # fmt: skip
    assert found.exit_code == 0, found.stderr


@pytest.mark.parametrize("command", ["mean", "regress"])
def test_an_unknown_name_is_refused_with_those_that_are_known(ratings, command):
    words = ["--value", "rating"] if command == "mean" else ["rating ~ 1", "--effect", "per_person"]
    found = shell(
        command, ratings, *words, "--person", "student", "--epsilon", "2", "--method", "magic"
    )
    assert found.exit_code == 2
    assert "--method" in found.stderr
    assert "magnitudes" in found.stderr
    assert "(...)" not in found.stderr


WEIGHTED = ["--assume", ASSUMED["heavy-tailed"][0], "--method"]


@pytest.mark.parametrize("wrong", ["12", "1,2", "max_records", "max_records:x", "cap:3", ""])
def test_weights_are_refused_on_the_command_line(ratings, tmp_path, wrong):
    ledger = str(tmp_path / "book")
    pm.Ledger(ledger, epsilon=3.0, delta=1e-5)
    found = mean(ratings, *WEIGHTED, f"heavy-tailed weights={wrong}", "--ledger", ledger)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "max_records" in found.stderr
    assert "unexpected" not in found.stderr
    assert not pm.Ledger.open(ledger).entries


def test_weights_are_made_of_text(ratings):
    words = ["heavy-tailed weights=max_records:12", "--estimand", "records", "--max-records", "12"]
    found = mean(ratings, *WEIGHTED, *words)
    assert (found.exit_code, found.stderr) == (0, "")
    assert "weighted by a public function of their records" in found.stdout
