"""Tapes that others can read: their schema, and a checker that imports nothing of privmean."""

from __future__ import annotations

import ast
import copy
import importlib.util
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import json_schema
import tapes
from auditing.broken import twin
from privmean.auditing.findings import mechanisms

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "clients" / "tape-checker" / "check.py"
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "tape.schema.json").read_text())
PLANS = list(tapes.plans())
FIRST = list({case.of.name: case for case in reversed(PLANS)}.values())  # one of each subject
BY_NAME = {item.__name__: item for item in mechanisms()}


def checker():
    spec = importlib.util.spec_from_file_location("tape_check", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = checker()


def through_json(tape):
    return json.loads(json.dumps(tape))


def test_the_checker_is_short_and_imports_the_standard_library_alone():
    text = SCRIPT.read_text()
    assert len(text.splitlines()) <= 300
    named = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            named |= {item.name.split(".")[0] for item in node.names}
        elif isinstance(node, ast.ImportFrom):
            named.add(node.module.split(".")[0])
    assert named <= sys.stdlib_module_names


@pytest.mark.slow
@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.of.name)
def test_the_checker_agrees_with_the_audit(case):
    tape, audit = tapes.tape_of_plan(case, 6)
    tape = through_json(tape)
    assert json_schema.problems(tape, SCHEMA) == []
    found, measured, answers, largest = CHECK.check(tape)
    assert (found, audit.count) == ([], 0)
    assert measured <= answers
    known = [float(item.largest) for item in audit.mechanisms.values()]
    if measured == answers:  # the same loss, found without any formula of the package
        assert largest == pytest.approx(max(known), abs=1e-5)


WHOLE = ["mean, values", "mean, by", "regression, formula", "study, tables by group"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_the_checker_agrees_on_whole_calls(name):
    call = next(call for call in tapes.CALLS if call.name.startswith(name))
    for said, relation in tapes.TERMS:
        case = tapes.CallCase(call, said, relation, "normal")
        try:
            tape, audit = tapes.tape_of_call(case, 3)
        except ValueError:
            continue  # refused under these terms
        tape = through_json(tape)
        assert json_schema.problems(tape, SCHEMA) == []
        assert (CHECK.check(tape)[0], audit.count) == ([], 0)
        return
    raise AssertionError("refused under all terms")


TRIED = {  # mechanism: a case that asks it
    "NoisyCounts": "default, epsilon 2, replace-one",
    "PrivateCenter": "default, epsilon 2, replace-one",
    "PrivateLimits": "default, epsilon 2, replace-one",
    "SumsOver": "bounded, epsilon 2, replace-one",
    "StableHistogram": "sub-Gaussian, epsilon 2, delta 1e-06, replace-one",
    "NoisyArgmax": "bounded moment, epsilon 2, replace-one",
    "JointSums": "bounded moment, rho 1, replace-one",
    "GaussianCounts": "quantiles of one column, rho 1, replace-one",
    "PowerSums": "variance, nothing given, epsilon 60, replace-one",
}


@cache
def plain_tape(where):
    case = next(item for item in PLANS if item.where.startswith(where))
    return case, through_json(tapes.tape_of_plan(case, 10)[0])


KINDS = ("noise of 1/1000", "losses missing", "scale 1 % too small")
# without the losses of JointSums nothing is planned
TWINS = [(n, k) for n in TRIED for k in KINDS if (n, k) != ("JointSums", "losses missing")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), TWINS)
def test_twins_are_caught_from_their_tapes_alone(name, kind):
    case, plain = plain_tape(TRIED[name])
    assert name in {item["mechanism"] for item in plain["answers"]}
    assert CHECK.check(plain)[0] == []
    with twin(BY_NAME[name], kind):
        broken, _ = tapes.tape_of_plan(case, 10)
    assert CHECK.check(through_json(broken))[0]


@pytest.fixture(scope="module")
def tape():
    case = next(item for item in FIRST if item.of.name == "bounded")
    return through_json(tapes.tape_of_plan(case, 10)[0])


def narrower(tape):
    for answer in tape["answers"]:
        for draw in answer["draws"]:
            draw["scale"] = str(CHECK.Fraction(draw["scale"]) * 99 / 100)


def moved(tape):
    for one in tape["neighbors"]:
        for side in one["answers"]:
            for move in side["moves"]:
                move["by"] *= 2


def without_a_line(tape):
    del tape["account"][0]


def above_the_budget(tape):
    tape["budget"]["epsilon"] *= 0.99


def no_claim(tape):
    tape["answers"][0]["losses"] = []


def differing(tape):
    tape["neighbors"][0]["difference"] = "asked something else"


EDITS = (narrower, moved, without_a_line, above_the_budget, no_claim, differing)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_an_edited_tape_is_refused(tape, edit):
    assert CHECK.check(copy.deepcopy(tape))[0] == []
    changed = copy.deepcopy(tape)
    edit(changed)
    assert CHECK.check(changed)[0]


def test_the_command_says_what_it_found(tape, tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(tape))
    changed = copy.deepcopy(tape)
    no_claim(changed)
    bad.write_text(json.dumps(changed))

    def run(*paths):
        command = [sys.executable, "-I", str(SCRIPT), *map(str, paths)]  # -I: nothing beside it
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run(good).returncode == 0
    assert "1 tapes, 0 with a violation" in run(good).stdout
    assert run(good, bad).returncode == 1
    assert "VIOLATION" in run(bad).stdout
    assert run().returncode == 2
