"""Wrong arguments are refused before a table is opened, in Python, in a file of questions and in
the shell alike; and these three doors give the same release.

The tables of refusals do not exist: an answer that names one would show that it was looked for.
"""

from __future__ import annotations

import pytest

from doors import Refused, by_file, by_function, by_question, by_shell

NOWHERE = "there-is-no-such-table.parquet"
RIGHT = {
    "mean": {"values": ["x"]},
    "regression": {"formula": "y ~ a"},
    "curve": {"value": "y", "time": "t", "bins": [0, 1, 2]},
    "variance": {"value": "x", "within": [0.01, 10.0]},
}
DOORS = ("question", "function", "file", "shell")
BUDGET = {"epsilon": 1.0}
# a term that is wrong whatever is asked, and the word by which it is refused
TERMS = [
    ({"epsilon": -1.0}, "epsilon"),
    ({"epsilon": "one"}, "epsilon"),
    ({}, "epsilon"),
    ({"epsilon": 1.0, "rho": 1.0}, "epsilon"),
    ({"epsilon": 1.0, "delta": 2.0}, "delta"),
    ({"rho": 0.0}, "rho"),
    ({"epsilon": 1.0, "neighbors": "both"}, "neighbors"),
    ({"epsilon": 1.0, "neighbors": "zero-out"}, "neighbors"),
    ({"epsilon": 1.0, "level": 95}, "level"),
    ({"epsilon": 1.0, "n_design": 7}, "n_design"),
    ({"epsilon": 1.0, "neighbors": "add-remove", "n_design": 0}, "n_design"),
    ({"epsilon": 1.0, "epsilom": 2.0}, "epsilom"),
]
# words that are wrong for one question
WORDS = [
    ("mean", {"method": "winsorised"}, "method"),
    ("mean", {"method": "default target=median"}, "target"),
    ("mean", {"method": "default excess=-1"}, "excess"),
    ("mean", {"method": "winsorized gama=0.1"}, "gama"),
    ("mean", {"method": "bounded"}, "assume"),
    ("mean", {"method": "default", "assume": "0,8"}, "method"),
    ("mean", {"assume": "8,0"}, "bounds"),
    ("mean", {"assume": "sub-gaussian sd=-1"}, "sd"),
    ("mean", {"assume": "sub-gausian sd=1"}, "assume"),
    ("mean", {"assume": "bounded-moment order=1 bound=1"}, "order"),
    ("mean", {"assume": "covariance 1,x"}, "assume"),
    (
        "mean",
        {"assume": "bounded-moment order=3 bound=1", "estimand": "records", "cap": 3},
        "method",
    ),
    ("mean", {"estimand": "person"}, "estimand"),
    ("mean", {"estimand": "records"}, "cap"),
    ("mean", {"cap": 5}, "cap"),
    ("mean", {"resolution": 0.3}, "resolution"),
    ("mean", {"related": -1.0}, "related"),
    ("mean", {"related": "random-effects within_sd=1 records=3 group=g"}, "related"),
    ("mean", {"valuess": "y"}, "valuess"),
    ("regression", {"formula": "y ~"}, "formula"),
    ("regression", {"formula": "y + a"}, "formula"),
    ("regression", {"formula": "y ~ log(a)"}, "formula"),
    ("regression", {"formula": "y ~ C(a)"}, "formula"),
    ("regression", {"method": "magnitude"}, "method"),
    ("regression", {"method": "magnitudes target=median"}, "target"),
    ("regression", {"working": "ar2 phi=0.5"}, "working"),
    ("regression", {"working": "ar1 phi=2", "time": "t"}, "phi"),
    ("regression", {"working": "ar1 phi=0.5"}, "time"),
    ("regression", {"working": "exchangeable icc=0.1", "fixed_effects": True}, "working"),
    ("regression", {"threshold": -1.0}, "threshold"),
    ("regression", {"records": 0}, "records"),
    ("regression", {"scales": ["b=2"]}, "scales"),
    ("regression", {"resolution": 0.3}, "resolution"),
    ("regression", {"assume": "1,-1"}, "assume"),
    ("regression", {"assume": "errors residual_sd=-1"}, "residual_sd"),
    ("regression", {"assume": "bounded-moment order=3 bound=1"}, "assume"),
    ("regression", {"related": 0.0}, "related"),
    ("curve", {"bins": [0, 2, 1]}, "bins"),
    ("curve", {"bins": [1]}, "bins"),
    ("curve", {"bins": "early,late"}, "bins"),
    ("curve", {"assume": "8,0"}, "bounds"),
    ("curve", {"assume": "bounded-moment order=3 bound=1"}, "assume"),
    ("curve", {"method": "magic"}, "method"),
    ("curve", {"resolution": 3.0}, "resolution"),
    ("curve", {"related": 0.0}, "related"),
    ("variance", {"within": [10.0, 0.01]}, "smallest"),
    ("variance", {"within": [0.0, 10.0]}, "smallest"),
    ("variance", {"method": "pairs"}, "method"),
    ("variance", {"method": "coinpress"}, "center"),
    ("variance", {"resolution": 0.3}, "resolution"),
]


@pytest.fixture
def doors(tmp_path, capsys):
    """Each door as a function of (table, kind, words, terms)."""
    return {
        "question": by_question,
        "function": by_function,
        "file": lambda *said: by_file(tmp_path / "study.toml", *said),
        "shell": lambda *said: by_shell(capsys, *said),
    }


def refusal(door, kind, words, terms):
    with pytest.raises(Refused) as found:
        door(NOWHERE, kind, words, terms)
    text = str(found.value)
    assert NOWHERE not in text
    assert "Traceback" not in text
    return text.replace("-", "_")


def test_a_table_that_does_not_exist_is_said_to_be_missing_where_all_else_is_right(doors):
    for kind, words in RIGHT.items():
        for door in doors.values():
            with pytest.raises(Refused, match=NOWHERE):
                door(NOWHERE, kind, words, BUDGET)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", RIGHT)
@pytest.mark.parametrize(("terms", "word"), TERMS, ids=str)
def test_a_wrong_term_is_refused(doors, door, kind, terms, word):
    assert word in refusal(doors[door], kind, RIGHT[kind], terms)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("kind", "words", "word"), WORDS, ids=str)
def test_a_wrong_word_of_a_question_is_refused(doors, door, kind, words, word):
    assert word in refusal(doors[door], kind, RIGHT[kind] | words, BUDGET)


@pytest.mark.parametrize("door", ["question", "function", "file"])
@pytest.mark.parametrize("kind", RIGHT)
def test_a_question_lacks_no_word_that_it_needs(doors, door, kind):
    for name in ("formula", "value", "time", "bins", "within"):
        if name in RIGHT[kind]:
            left = {word: said for word, said in RIGHT[kind].items() if word != name}
            if (kind, name) != ("variance", "value"):  # people may have one column
                assert name in refusal(doors[door], kind, left, BUDGET)
