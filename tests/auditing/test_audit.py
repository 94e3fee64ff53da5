"""`privmean.audit` and its command: what is audited, what is said, what is never said."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import privmean as pm
from auditing.rows import every_case, plan_of, run, shape_of, table_of
from auditing.twins import breaking, everybody
from privmean.auditing.audit import RUNS
from privmean.auditing.audit_local import audit_local
from privmean.auditing.findings import SUBJECTS, Findings, budget_of
from privmean.cli.app import run as command
from privmean.errors import ArgumentError, SchemaError
from privmean.estimators.concentration import SubGaussian
from privmean.estimators.heavy_tailed import BoundedMoment
from privmean.published import ThreadedMean, WinsorizedAsPublished
from registry import REGISTRY

RNG = np.random.default_rng(3)
WAGES = pl.DataFrame(
    {
        "id": np.repeat(np.arange(500), 3),
        "wage": np.round(RNG.lognormal(2, 0.5, 1500), 3) + 77_000_000.125,
    }
)


def test_every_estimator_is_a_subject():
    made = {type(subject.made) for subject in SUBJECTS}
    for entry in REGISTRY:  # those of a panel are asked in whole calls
        assert entry.people is not None or type(entry.make(1.0)) in made
    assert len({subject.name for subject in SUBJECTS}) == len(SUBJECTS)


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_every_subject_can_be_planned(subject):
    """A subject whose plans are all refused would be audited in name only."""
    rows = table_of(subject, "normal", subject.dimensions[0], 0)
    for relation in subject.relations:
        budget = budget_of(subject.budgets[-1], relation)
        assert plan_of(subject.made, budget, shape_of(rows, relation)).events


@pytest.mark.slow
@pytest.mark.parametrize("number", range(0, len(SUBJECTS), 3))
def test_a_few_neighbours_of_some_subjects(number):
    """One case of every third subject; `privmean audit` has them all."""
    cases = [case for case in every_case() if case.subject == number]
    for case in cases[:: max(1, len(cases) // 2)][:2]:
        found = run(case, max(3, int(20 * case.of.weight)), 7)
        assert found.count == 0, found.violations
        assert found.runs or found.refused


def test_local_randomizers_coin_by_coin():
    found = Findings()
    audit_local(found, thorough=False)
    assert found.count == 0
    assert found.runs > 1000
    assert all(item.largest > 0.999 for item in found.mechanisms.values())  # nothing is wasted


@pytest.mark.slow
def test_an_audit_of_one_question_on_a_table_says_nothing_of_it():
    report = pm.audit(pm.Mean("wage"), WAGES, person="id", runs=60, seed=1)
    assert report
    assert report.violations == 0
    assert report.runs >= 60
    text = str(report) + json.dumps(report.to_dict())
    assert "7700" not in text
    assert "77,0" not in text
    assert "1500" not in text
    assert "500 persons" not in text
    assert report.to_dict()["mechanisms"]["NoisyCounts"]["largest_loss_over_declared"] <= 1


def test_an_audit_of_an_estimator_on_built_in_tables():
    report = pm.audit(pm.BoundedMean((0.0, 8.0)), runs=60, epsilon=1.0, neighbors="add-remove")
    assert report
    assert report.findings.mechanisms["SumsOver, laplace"].largest == 1
    assert {"runs", "violations", "mechanisms"} <= report.to_dict().keys()


def test_wrong_arguments_are_refused():
    for wrong in (
        {"runs": 0},
        {"seed": -1},
        {"processes": 0},
        {"epsilon": 1.0},
        {"table": WAGES},
    ):
        with pytest.raises(ArgumentError):
            pm.audit(**wrong)
    with pytest.raises(ArgumentError):
        pm.audit(pm.Mean("wage"), WAGES, person="id", level=0.9)
    with pytest.raises(ArgumentError):
        pm.audit(pm.BoundedMean((0.0, 8.0)), WAGES, person="id")


@pytest.mark.slow
def test_the_command_prints_one_object(tmp_path, capsys):
    file = tmp_path / "wages.csv"
    WAGES.write_csv(file)
    said = ["audit", str(file), "--person", "id", "--value", "wage", "--runs", "40"]
    assert command([*said, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["violations"] == 0
    assert found["runs"] >= 40
    assert found["mechanisms"]["SumsOver, laplace"]["runs"] > 0
    assert command([*said, "--epsilon", "1"]) == 0
    assert "no violation found" in capsys.readouterr().out
    assert command(["audit", str(file), "--person", "id"]) == 2
    assert command(["audit", "--value", "wage"]) == 2


def test_the_command_ends_with_1_where_something_is_violated(monkeypatch, capsys):
    from privmean.auditing import audit
    from privmean.auditing.audit import AuditReport

    broken = Findings(runs=1)
    broken.violated("here", "a test of the exit status")
    report = AuditReport(broken, 0.1, "nothing", 0)
    monkeypatch.setattr(audit, "audit", lambda *_, **__: report)
    assert command(["audit", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["violations"] == 1
    assert command(["audit"]) == 1
    assert "1 VIOLATIONS" in capsys.readouterr().out


@pytest.fixture
def tiny(tmp_path):
    """Three persons: fewer than a mean of a small epsilon takes."""
    file = tmp_path / "tiny.csv"
    file.write_text("id,wage\n1,2\n2,3\n3,4\n")
    return ["audit", str(file), "--person", "id", "--value", "wage", "--runs", "20"]


def test_where_every_plan_is_refused_nothing_was_audited_and_that_is_said(tiny, capsys):
    said = [*tiny, "--epsilon", "0.0001", "--neighbors", "replace-one"]
    assert command(said) == 2
    shown = capsys.readouterr().out
    assert shown.startswith("audit of mean, your table (dry): NOTHING WAS AUDITED\n")
    assert "no violation" not in shown
    top = shown.partition("| mechanism")[0]
    assert "not run: 1 (mean, epsilon 0.0001, replace-one, own table)" in top
    assert "give a larger epsilon" in top
    assert command([*said, "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["runs"]) == ("NOTHING WAS AUDITED", 0)
    terms = {"epsilon": 1e-4, "neighbors": "replace-one"}
    report = pm.audit(pm.Mean("wage"), tiny[1], person="id", runs=5, **terms)
    assert not report
    assert not report.audited
    assert report.violations == 0


def test_no_time_is_no_audit_either():
    report = pm.audit(pm.BoundedMean((0.0, 8.0)), runs=5, seconds=1e-9)
    assert not report
    assert "the time was up" in str(report)


def test_what_was_refused_stands_beside_the_verdict_of_what_ran(tiny):
    report = pm.audit(pm.Mean("wage"), tiny[1], person="id", runs=5, epsilon=1e-4)
    assert report  # under add-remove it ran
    assert report.audited
    top = str(report).partition("| mechanism")[0]
    assert "not run: 1 (mean, epsilon 0.0001, replace-one, own table)" in top
    assert "give a larger" not in top


@pytest.mark.slow
@pytest.mark.parametrize("header", ["id,wage", "id,wage\n,3"])
def test_a_table_of_nobody_is_refused_as_a_mean_refuses_it(tmp_path, capsys, header):
    file = tmp_path / "h.csv"
    file.write_text(header + "\n")
    said = [str(file), "--person", "id", "--value", "wage"]
    assert command(["mean", *said, "--epsilon", "1"]) == 2
    words = capsys.readouterr().err
    for neighbors in ([], ["--neighbors", "replace-one"], ["--neighbors", "add-remove"]):
        assert command(["audit", *said, "--runs", "5", *neighbors]) == 2
        assert capsys.readouterr().err == words
    for question in (pm.Mean("wage", by="g", keys=["a"]), pm.Regression("wage ~ x")):
        none = {"id": np.array([], int), "wage": np.array([]), "x": np.array([]),
                "g": np.array([], str)}  # fmt: skip
        with pytest.raises(SchemaError, match="no person"):
            pm.audit(question, none, person="id", runs=5)


@pytest.mark.parametrize(
    "terms",
    [{"epsilon": 0}, {"epsilon": 0.0, "delta": 1e-6}, {"rho": 0.0}, {"delta": 1e-6}, {"delta": 0.0},
     {"neighbors": "both"}],
)  # fmt: skip
def test_a_budget_that_is_said_is_never_replaced(terms):
    """Before the table, which is not there, is looked for."""
    with pytest.raises(ArgumentError) as refused:
        pm.audit(pm.Mean("wage"), "none.csv", person="id", runs=5, **terms)
    assert refused.value.argument in terms or refused.value.argument == "epsilon"


def test_numbers_of_0_are_refused_by_the_command(tiny, capsys):
    for name in ("--epsilon", "--rho", "--processes", "--runs"):
        words = tiny if name != "--runs" else tiny[:-2]
        assert command([*words, name, "0"]) == 2
        assert f"{name}=0" in capsys.readouterr().err
    assert command(["audit", "--processes", "0"]) == 2
    assert command(["audit", "--processes", "-2"]) == 2


def test_findings_add_up_in_any_order():
    one, two = Findings(runs=2), Findings(runs=3)
    one.mechanism("a").runs = 5
    two.mechanism("a").runs = 7
    two.violated("x", "y")
    assert Findings.of([one, two]).mechanisms["a"].runs == 12
    assert Findings.of([two, one]).count == 1
    assert RUNS > 1000


QUESTIONS_ASKED = {
    "groups": pm.Mean("y", by="g", keys=["a", "b"], max_groups=2),
    "private keys": pm.Mean("y", by="g"),
    "arms": pm.Compare("y", arms="arm"),
    "pooled": pm.Regression("y ~ x"),
    "levels": pm.Regression("y ~ x + C(g, levels=['a', 'b'])", effect="within"),
    "own": pm.Regression("y ~ x", effect="per_person"),
    "quantile": pm.Quantile("y"),
}


@pytest.mark.slow
@pytest.mark.parametrize("asked", QUESTIONS_ASKED)
def test_every_question_can_be_audited_on_a_table(asked):
    ids = np.repeat(np.arange(120), 3)
    table = {
        "id": ids,
        "y": RNG.normal(5, 2, 360),
        "x": RNG.normal(0, 1, 360),
        "g": RNG.choice(["a", "b"], 360),
        "arm": ids % 2,
    }
    report = pm.audit(QUESTIONS_ASKED[asked], table, person="id", runs=4, epsilon=40.0, delta=1e-3)
    assert report.violations == 0, report.findings.violations
    assert report.runs >= 4


HALVES = {
    "halves as published": WinsorizedAsPublished(SubGaussian(1.0), splitting=True),
    "blocks as published": ThreadedMean(BoundedMoment(4, 1.4, range=(-9, 9))),
}
TERMS = {"epsilon": 6.0, "delta": 1e-6, "neighbors": "replace-one"}


@pytest.mark.slow
@pytest.mark.parametrize("halves", HALVES)
def test_one_person_in_two_parts_that_are_billed_as_disjoint_is_found(halves):
    """A twin whose curator lets every person into each part."""
    assert pm.audit(HALVES[halves], runs=60, **TERMS).violations == 0
    with everybody():
        report = pm.audit(HALVES[halves], runs=60, **TERMS)
    words = {item.what for item in report.findings.violations}
    assert "one person is in two parts that are billed as disjoint" in words


def test_a_question_to_people_that_follows_private_values_is_found():
    asked = pm.BoundedMean((0.0, 8.0))
    assert pm.audit(asked, runs=30, epsilon=1.0).violations == 0
    with breaking("SumsOver, laplace", peeks=True):
        found = pm.audit(asked, runs=30, epsilon=1.0).findings
    assert any("asked people.count_outside" in item.what for item in found.violations)


@pytest.mark.slow
def test_coins_and_noise_of_a_filter_that_are_not_seen_are_no_violation():
    """A filter has coins for some people only, and its last scale follows its noisy count."""
    report = pm.audit(pm.AnisotropicMean(1.0), runs=30, epsilon=20.0, delta=1e-6)
    assert report
    assert report.violations == 0, report.findings.violations
