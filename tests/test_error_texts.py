"""The texts of errors: every row of the table of texts, and the form that all others follow."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import privmean as pm

SOURCE = Path(pm.__file__).parent
FEW = np.ones(50)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("p,x,g\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(400)))
    return pm.Table(str(path), person="p")


# what is asked, and the whole text
ROWS = [
    (
        lambda t: pm.mean(t, "x", epsilon=1, seed=1),
        "mean() has no argument 'seed'. Releases use system entropy; in tests pass "
        "noise=pm.SimulatedNoise(1).",
    ),
    (
        lambda t: pm.mean(t, "x", epsilon=1, groupby="race"),
        "mean() has no argument 'groupby'. Use by='race'.",
    ),
    (
        lambda t: pm.mean(t, "x"),
        "epsilon is required. Pass epsilon (with optional delta), or rho; there is no default.",
    ),
    (
        lambda t: pm.mean(t, "x", epsilon=1, rho=1),
        "epsilon=1 and rho=1 cannot be combined. Pass one of them.",
    ),
    (
        lambda t: pm.mean(FEW, epsilon=1),
        "n=50 is too small at epsilon=1. Provide at least 200 people, epsilon=4, or bounds.",
    ),
    (
        lambda t: pm.mean(t, "x", bounds=(0, 1), concentration=pm.SubGaussian(sd=1), epsilon=1),
        "bounds and concentration cannot be combined. Pass one of them.",
    ),
    (
        lambda t: pm.quantile(t, "x", (50,), epsilon=1),
        "q=(50,): must lie between 0 and 1. Use q=(0.25, 0.5, 0.75).",
    ),
    (
        lambda t: pm.mean(t, "x", by="g", epsilon=1),
        "Private group keys require delta > 0. Pass delta=1e-6, or list public groups in keys.",
    ),
    (
        lambda t: pm.mean(t, "x", by="g", keys=[1, 2], contrasts="1-2", epsilon=1),
        "contrasts='1-2': is not a comparison of listed keys. Write '1 - 2' with spaces.",
    ),
    (
        lambda t: pm.mean(t, "x", epsilon=1, ledger=pm.Ledger(epsilon=0.5)),
        "The release needs epsilon=1, but the ledger has epsilon=0.5 left. Nothing was charged.",
    ),
]


@pytest.mark.parametrize(("ask", "text"), ROWS, ids=[text[:40] for _, text in ROWS])
def test_a_row_has_its_text(table, ask, text):
    with pytest.raises(pm.PrivmeanError) as found:
        ask(table)
    assert str(found.value) == text


def test_a_file_type_that_is_not_supported_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.xlsx").write_bytes(b"PK")
    with pytest.raises(pm.ArgumentError) as found:
        pm.mean("x.xlsx", "x", person="p", epsilon=1)
    assert str(found.value) == (
        "source='x.xlsx': file type .xlsx is not supported. Convert it to Parquet or CSV, or pass "
        "a DataFrame."
    )


def test_a_refusal_beside_a_ledger_says_that_nothing_was_charged(table):
    ledger = pm.Ledger(epsilon=3)
    with pytest.raises(pm.ArgumentError, match=r"^values='X': .*\. Nothing was charged\.$"):
        pm.mean(table, "X", epsilon=1, ledger=ledger)
    with pytest.raises(pm.InfeasibleError, match=r"or bounds\. Nothing was charged\.$"):
        pm.mean(FEW, epsilon=1, ledger=ledger)
    assert not ledger.entries
    with pytest.raises(pm.InfeasibleError, match=r"or bounds\.$"):
        pm.mean(FEW, epsilon=1)


# --- all errors of the source ---------------------------------------------------------------------

# the words of the old texts
RETIRED = re.compile(
    r"\bis no [a-z]|\bare no [a-z]|\bgoes with\b|\bgo with\b|\bpersons\b|\bis missing\b"
    r"|\bnobody\b|\bneeds\b|\bis needed\b|\bleave (it|them) out\b|\ba (person|column) each\b"
)


def texts():
    """(place, problem, remedy) of every ArgumentError and InfeasibleError with literal texts."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(getattr(node, "func", None), "id", "")
            first = {"ArgumentError": 2, "InfeasibleError": 0}.get(name)
            if first is not None:
                parts = [literal(item) for item in node.args[first : first + 2]]
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", *parts


def literal(node):
    """The text of a literal, with {} for what is filled in; "" for what is no literal."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(x.value if isinstance(x, ast.Constant) else "{}" for x in node.values)
    return ""


# a value of estimand and weights, which is quoted
QUOTED = re.compile(r"'persons'|persons'|--estimand persons")


def test_the_texts_of_errors_use_the_plain_words():
    found = [
        (place, part)
        for place, *parts in texts()
        for part in parts
        if RETIRED.search(QUOTED.sub("", part))
    ]
    assert found == []


def test_a_problem_is_a_clause_and_a_remedy_is_short():
    for place, problem, remedy in texts():
        assert not problem.endswith("."), place
        assert "; " not in problem, (place, problem)
        assert len(problem.split()) <= 25, (place, problem)
        for sentence in re.split(r"[.?;:] ", remedy):
            assert len(sentence.split()) <= 25, (place, remedy)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (pm.ArgumentError("a", 1, "is wrong", "give 2"), "a=1: is wrong. Give 2."),
        (pm.ArgumentError("a", None, "is required", "b=3 does"), "a is required. b=3 does."),
        (pm.ArgumentError("a", 1, "is wrong", "did you mean 2?"), "a=1: is wrong. Did you mean 2?"),
        (
            pm.ArgumentError("a", 1, "cannot be combined", "use a", subject="a and b"),
            "a and b cannot be combined. Use a.",
        ),
        (pm.InfeasibleError("n=5 is too small", ""), "n=5 is too small."),
        (
            pm.InfeasibleError("the budget is too small.", "give 2"),
            "The budget is too small. Give 2.",
        ),
    ],
)
def test_an_error_has_two_sentences(error, text):
    assert str(error) == text
