"""Any two questions of a study, genuinely asked, verify; a twin with a line too cheap does not."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import privmean as pm
from privmean.noise.noise_source import SimulatedNoise
from privmean.release.stored_release import PROVENANCE, digest_of
from tampering import resealed

N = 1500
KEYS = ("a", "b", "c")
QUESTIONS = {
    "mean": pm.Mean("y"),
    "limits": pm.Mean("y", assume=(0, 100)),
    "columns": pm.Mean(["x", "y"]),
    "groups": pm.Mean("y", by="key", keys=KEYS),
    "values": pm.Mean(["x", "y"], by="key", keys=KEYS),
    "curve": pm.Curve("y", "t", bins=[0, 2, 4]),
    "quantile": pm.Quantile("y"),
    "variance": pm.Variance("y"),
    "all": pm.Regression("y ~ x"),
    "own": pm.Regression("y ~ x", effect="per_person", assume=((0, 100), (-5, 5))),
    "compare": pm.Compare("y", arms="arm"),
}
LOOKING = ("mean", "groups", "curve", "quantile", "all")  # these can share a look
PURE = {"epsilon": 8.0}
BUDGETS = {"pure": PURE, "delta": {"epsilon": 4.0, "delta": 1e-6}, "rho": {"rho": 2.0}}


def records():
    rng = np.random.default_rng(4)
    who = np.repeat(np.arange(N), 3)
    x = rng.normal(5, 1, who.size)
    return {
        "who": who, "t": rng.uniform(0, 4, who.size), "x": x,
        "y": np.repeat(rng.normal(45, 8, N), 3) + x,
        "key": np.repeat(np.array(KEYS)[rng.integers(0, 3, N)], 3),
        "arm": np.repeat(rng.integers(0, 2, N), 3),
    }  # fmt: skip


TABLE = pm.Table(records(), person="who")


def asked(pair, **terms):
    made = pm.Study(TABLE, neighbors="replace-one", noise=SimulatedNoise(1), **terms)
    for name, kind in zip(("one", "two"), pair, strict=True):
        made.add(name, QUESTIONS[kind])
    return json.loads(json.dumps(made.release().to_dict(), allow_nan=False))


def wrong(stored):
    """What is wrong besides that the noise is simulated; every digest is made anew."""
    for question in stored["questions"]:
        release = question["release"]
        release["guarantee"] = resealed(release["guarantee"])
        release[PROVENANCE]["digest"] = digest_of(release)
    stored["guarantee"] = resealed(stored["guarantee"])
    stored[PROVENANCE]["digest"] = digest_of(stored)
    return [item for item in pm.verify(stored).problems if "simulated" not in item]


CASES = [
    *((pair, "pure") for pair in itertools.combinations_with_replacement(QUESTIONS, 2)),
    *(
        (pair, name)
        for name in ("delta", "rho")
        for pair in itertools.combinations_with_replacement(LOOKING, 2)
        if "groups" in pair or "curve" in pair
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "budget"), CASES, ids=str)
def test_every_pair_of_questions_verifies(pair, budget):
    stored = asked(pair, **BUDGETS[budget])
    assert [item["release"] is not None for item in stored["questions"]] == [True, True]
    assert wrong(stored) == []


# --- forged twins of a table by group beside a mean ----------------------------------------------
UNCOVERED = "two: its release has an accounting that its lines of the study do not cover"


def line(stored):
    """The one line of the table by group."""
    (at,) = stored["questions"][1]["lines"]
    found = stored["guarantee"]["mechanisms"][at]
    assert found["name"] == "two: whole"
    return found


def cheaper(stored, part):
    found = line(stored)
    for name in {"epsilon", "limit", "delta"} & set(found):
        value = found[name]
        found[name] = str(Fraction(value) * part) if isinstance(value, str) else value * float(part)


def bill(stored):
    return stored["questions"][1]["release"]["guarantee"]["mechanisms"]


def looked(stored):
    (look,) = stored["shared_locations"]
    return len(look["lines"])


FORGERIES = {
    "a line a little too cheap": lambda s: cheaper(s, 1 - Fraction(1, 10**9)),
    "a line much too cheap": lambda s: cheaper(s, Fraction(1, 2)),
    "a line for nothing": lambda s: cheaper(s, Fraction(1, 10**12)),
    "a look taken again and again": lambda s: bill(s).extend(
        dict(bill(s)[looked(s) - 1]) for _ in range(50)
    ),
    "a look left out in part": lambda s: bill(s).pop(0),
    "a look left out": lambda s: bill(s).__delitem__(slice(0, looked(s))),
    "a look swapped for an own answer": lambda s: bill(s).__setitem__(0, dict(bill(s)[-1])),
    "a louder look": lambda s: bill(s)[0].update(epsilon="1/100000"),
}


@cache
def text(budget):
    return json.dumps(asked(("mean", "groups"), **BUDGETS[budget]))


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGERIES)
@pytest.mark.parametrize("budget", BUDGETS)
def test_a_table_beside_a_look_keeps_its_one_line(budget, name):
    stored = json.loads(text(budget))
    assert wrong(stored) == []
    assert stored["questions"][1]["shared_locations"] == ["y"]
    FORGERIES[name](stored)
    assert UNCOVERED in wrong(stored)


def test_a_look_is_paid_once():
    """What the line of the question is worth holds no second one."""
    stored = json.loads(text("pure"))
    bill(stored).append(dict(bill(stored)[0]))
    assert UNCOVERED in wrong(stored)


def test_a_promise_beyond_line_and_looks_is_refused():
    """The path that was run may be a cheap one: what a question may lose is its promise."""
    stored = json.loads(text("pure"))
    release = stored["questions"][1]["release"]
    release["guarantee"]["epsilon"] += 1e-9
    assert UNCOVERED in wrong(stored)


def test_the_look_is_no_part_of_the_line_of_either_question():
    """Given to one of them, its lines are missing in the other, and the line is not enough."""
    stored = json.loads(text("pure"))
    stored["questions"][1]["shared_locations"] = []
    assert UNCOVERED in wrong(stored)
    stored["questions"][1]["shared_locations"] = ["y", "y"]
    assert "two: it names a shared location query that the study does not have" in wrong(stored)
