"""A setting that would be ignored is refused, in words, before anything is read or spent."""

import json
import re

import numpy as np
import pytest

import privmean as pm
from privmean import streams
from privmean.cli.app import run
from privmean.errors import ArgumentError
from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean
from privmean.estimators.concentration import Bounded
from privmean.estimators.regression.private_scale import PrivateScale
from privmean.privacy.budget import ADD_REMOVE
from statistics_kit import planned

MIXED = pm.Budget(epsilon=1.0, delta=1e-6)
MADE = {
    "method": [
        lambda: AnisotropicMean(method="average"),
        lambda: AnisotropicMean(method="two-phase"),
    ],
    "beta": [lambda: AnisotropicMean(beta=0.1)],
    "scale_range": [
        lambda: AnisotropicMean(1.0, scale_range=(0.1, 10)),
    ],
    "range": [lambda: pm.WinsorizedMean(Bounded(0, 1), range=(0, 1))],
    "gamma": [lambda: pm.WinsorizedMean(Bounded(0, 1), gamma=0.05)],
    "share": [lambda: pm.WinsorizedMean(Bounded(0, 1), share=0.5)],
    "recenter": [lambda: pm.WinsorizedMean(Bounded(0, 1), recenter=0.0)],
    "fallback": [lambda: pm.WinsorizedMean(Bounded(0, 1), fallback=0.5)],
    "excess_ratio": [lambda: PrivateScale(excess_ratio=2.0)],
}


@pytest.mark.parametrize(("name", "make"), [(k, f) for k, items in MADE.items() for f in items])
def test_a_setting_without_effect_is_refused_when_it_is_said(name, make):
    with pytest.raises(ArgumentError) as found:
        make()
    assert found.value.argument == name
    assert re.search("not used|is |requires ", found.value.problem)
    assert found.value.remedy


def test_a_guess_of_a_public_number_is_refused_in_every_place():
    known = AnisotropicMean(1.0, n_guess=99)
    with pytest.raises(ArgumentError, match="n_guess=99"):
        planned(known, MIXED, persons=2000, dimension=3)
    with pytest.raises(ArgumentError, match="n_guess=99"):
        planned(known, MIXED, n_guess=2000, dimension=3, relation=ADD_REMOVE)
    guess = AnisotropicMean(1.0, n_guess=2000)
    plan = planned(guess, MIXED, dimension=3, relation=ADD_REMOVE)
    same = planned(guess, MIXED, n_guess=2000, dimension=3, relation=ADD_REMOVE)
    assert plan.n_guess == same.n_guess == 2000
    rows = np.zeros((2000, 3))
    ledger_free = pm.Budget(epsilon=1.0, delta=1e-6)
    with pytest.raises(ArgumentError, match="n_guess=99"):
        pm.mean(rows, epsilon=ledger_free.epsilon, delta=1e-6, method=known)


def test_rounds_of_one_column_are_refused_where_there_is_one_sum():
    moment = pm.BoundedMoment(3, 1.0, range=(-10, 10))
    with pytest.raises(ArgumentError, match="rounds=3"):
        planned(pm.HeavyTailedMean(moment, rounds=3), pm.Budget(epsilon=1.0), persons=2000)
    one = planned(pm.HeavyTailedMean(moment, rounds=1), pm.Budget(epsilon=1.0), persons=2000)
    assert one.error > 0
    several = pm.HeavyTailedMean(moment, rounds=2, law="gaussian")
    plan = planned(several, MIXED, persons=4000)
    assert len(plan.schedule.rounds) == 2


def test_a_share_of_a_location_step_has_one():
    estimator = pm.WinsorizedMean(pm.SubGaussian(sd=1.0), range=(-3, 3), share=0.3)
    plan = planned(estimator, pm.Budget(epsilon=1.0), persons=3000)
    assert plan.stages.location is not None
    assert dict(plan.stages.shares)["location"] == pytest.approx(0.3)


# --- from the command line -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("ignored") / "t.csv"
    values = np.random.default_rng(1).standard_t(5, (1500, 6)) / 1.3
    head = ",".join(["id", *(f"v{j}" for j in range(6))])
    lines = [",".join([str(i), *(f"{x:.4f}" for x in row)]) for i, row in enumerate(values)]
    path.write_text("\n".join([head, *lines]) + "\n")
    return str(path)


def call(capsys, *arguments):
    status = run(list(arguments))
    said = capsys.readouterr()
    return status, said.out, said.err


def mean(table, columns, *more):
    values = [word for j in range(columns) for word in ("--value", f"v{j}")]
    return ["mean", table, "--person", "id", *values, "--epsilon", "1", *more]


MOMENT = "bounded-moment order=3 bound=2"


def test_pure_epsilon_and_a_public_range_from_the_command_line(capsys, table):
    """The headline of bounded moments: no delta, a public range."""
    ranged = [*mean(table, 1), "--assume", f"{MOMENT} range=-10,10"]
    status, out, err = call(capsys, *ranged)
    assert (status, err) == (0, "")
    assert "epsilon = 1 (pure DP)" in out
    assert "heavy-tailed mean, one column" in out
    status, out, err = call(capsys, *mean(table, 1), "--assume", MOMENT)
    assert status == 2
    assert "range=LOWER,UPPER" in err
    assert "Pass delta=1e-6" in err
    # the advice, followed to the letter
    advised = f"{MOMENT} range=LOWER,UPPER".replace("LOWER,UPPER", "-10,10")
    assert call(capsys, *mean(table, 1), "--assume", advised)[0] == 0


@pytest.mark.slow
def test_the_private_radius_from_the_command_line(capsys, table):
    for said, expected in (("true", True), ("false", False)):
        arguments = [
            *mean(table, 6, "--delta", "1e-6", "--json"),
            *["--assume", MOMENT, "--method", f"heavy-tailed private_radius={said}"],
        ]
        status, out, err = call(capsys, *arguments)
        assert (status, err) == (0, "")
        assert json.loads(out)["plan"]["private radius"] is expected
    pure = [*mean(table, 1, "--json"), "--assume", f"{MOMENT} range=-10,10"]
    status, out, _ = call(capsys, *pure, "--method", "heavy-tailed private_radius=true")
    assert status == 0
    shares = json.loads(out)["budget_shares"]
    assert shares["private radius"] == pytest.approx(0.15)


def test_several_facts_of_a_moment_and_a_plan_from_the_command_line(capsys):
    words = "bounded-moment order=2,4 bound=1,1.5 records=4 range=-10,10"
    arguments = ["plan", "--n", "3000", "--epsilon", "1", "--assume", words]
    status, out, err = call(capsys, *arguments)
    assert (status, err) == (0, "")
    assert "bound on a moment" in out
    status, out, err = call(capsys, *arguments, "--method", "heavy-tailed rounds=3")
    assert status == 2
    assert "rounds=3" in err


STREAM = {"max_participations": 1, "min_separation": 1, "steps": 16, "epsilon": 1.0, "delta": 1e-6}


@pytest.mark.parametrize("given", [0, -5, 1.5])
def test_persons_of_a_search_are_a_number_of_persons(given):
    """0 was replaced by the usual number, and the others were taken."""
    with pytest.raises(ArgumentError, match="search_persons"):
        streams.plan(search_persons=given, **STREAM)


@pytest.mark.slow
def test_a_public_region_needs_no_search():
    with pytest.raises(ArgumentError, match="search_persons=40: requires a radius"):
        streams.plan(search_persons=40, bounds=(0.0, 1.0), **STREAM)
    assert streams.plan(search_persons=40, **STREAM).search.n == 40


def test_an_empty_word_is_not_a_word_left_out(capsys):
    with pytest.raises(ArgumentError, match="neighbors=''"):
        pm.mean(np.ones(2000), epsilon=1.0, neighbors="")
    words = ["--max-participations", "1", "--min-separation", "1", "--steps", "16"]
    assert run(["stream", "plan", *words, "--goal", ""]) == 2
    assert "goal" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--assume", "sub-gaussian sd=1 sd=9"], ["--scales", "x=1", "--scales", "x=9"]]
)
def test_what_is_said_twice_is_refused(tmp_path, capsys, words):
    """The first of two was left out."""
    question = ["mean", "--value", "x"] if words[0] == "--assume" else ["regress", "y ~ x"]
    name, *rest = question
    table = str(tmp_path / "none.csv")
    assert run([name, table, *rest, "--person", "p", "--epsilon", "1", *words]) == 2
    assert "Set it once" in capsys.readouterr().err


@pytest.mark.parametrize(
    "said", [{"arms": "a"}, {"arms": "a", "membership": "public"}, {"by": "g", "pair": ("x", "y")}]
)
def test_a_slope_of_no_earlier_value_is_refused(said, tmp_path, capsys):
    with pytest.raises(ArgumentError, match="baseline_slope=2.0: requires baseline"):
        pm.Compare("y", baseline_slope=2.0, **said)
    assert pm.Compare("y", arms="a", baseline="x", baseline_slope=2.0).baseline_slope == 2.0
    missing = ["compare", str(tmp_path / "no.csv"), "--person", "p", "--value", "y"]
    assert run([*missing, "--arms", "a", "--baseline-slope", "2", "--epsilon", "1"]) == 2
    assert "--baseline-slope=2.0: requires" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["label", "analyst"])
@pytest.mark.parametrize("value", [object(), 3, b"x", ["x"]])
def test_words_of_a_ledger_entry_are_text(name, value):
    ledger = pm.Ledger(epsilon=5.0)
    with pytest.raises(ArgumentError, match=f"{name}=.*must be text"):
        pm.mean(np.zeros(5000), epsilon=1.0, ledger=ledger, **{name: value})
    study = pm.Study(pm.Table({"p": [1], "x": [1.0]}, person="p"), epsilon=1.0)
    with pytest.raises(ArgumentError, match=f"{name}=.*must be text"):
        study.add("a", pm.Mean("x")).release(ledger=ledger, **{name: value})
    assert not ledger.entries


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        ({"by": "g", "keys": ["a", "b"], "bounds": (0, 1)}, "bounds"),
        ({"by": "g", "keys": ["a", "b"], "assume": (0, 1)}, "bounds"),
        ({"by": "g", "keys": ["a", "b"], "concentration": pm.SubGaussian(sd=1)}, "assume"),
        ({"by": "g", "keys": ["a", "b"], "bounds": np.array([0.0, 1.0])}, "bounds"),
        ({"method": pm.DefaultMean(), "bounds": (0, 1)}, "bounds"),
        ({"keys": np.array(["a", "b"])}, "keys"),
    ],
)
def test_bounds_that_are_refused_are_called_bounds(words, argument):
    table = {"who": ["x", "y"], "g": ["a", "b"], "v": [0.0, 1.0]}
    with pytest.raises(ArgumentError) as raised:
        pm.mean(table, "v", person="who", epsilon=1.0, **words)
    assert raised.value.argument == argument
