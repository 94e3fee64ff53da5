"""A limit for each analyst is one, however the name is spelled."""

import sys
import unicodedata

import pytest

import privmean as pm
from privmean.cli.app import run
from privmean.errors import ArgumentError, BudgetExceededError
from privmean.privacy.ledger_charges import comparable

SAME = [
    "zo\u00eb ann",
    "zoe\u0308 ann",
    " zo\u00eb ann ",
    "zo\u00eb\u00a0ann",
    "zo\u00eb  ann",
    "zo\u00eb\tann\n",
    "zo\u00eb\u200b ann",
    "\ufeffzo\u00eb ann",
    "zo\u00eb ann\u2060",
    "z\u00ado\u00eb ann",
    "zo\u00eb ann\u202e",
    "zo\u00eb ann\ufe0f",
    "zoe\u034f\u0308 ann",
    "zo\u00eb ann\u3164",
    "zo\u00eb \u2800ann",
    "zo\u00eb ann\0",
    "zo\u00eb ann\U000e0041",
    "zo\u00eb\u2003ann\u2028",
]
OTHERS = ["Zo\u00eb ann", "zoe ann", "zo\u00ebann", "ann", "\u0440\u0430ul"]
NOBODY = ["", " ", "\u200b", "\ufeff\u2060", "\u3164", "\t\n"]


@pytest.mark.parametrize("each", ["*", SAME[0], SAME[1], f"{SAME[0]}\u200b"])
def test_other_spellings_have_no_limit_of_their_own(each):
    ledger = pm.Ledger(epsilon=100, policies=[pm.Policy(epsilon=1, analyst=each)])
    spent = 0
    for name in SAME:
        try:
            pm.mean([1.0, 2.0, 3.0] * 500, epsilon=0.4, assume=(0, 9), ledger=ledger, analyst=name)
        except BudgetExceededError:
            continue
        spent += 1
    assert spent == 2
    if each == "*":
        for name in OTHERS:
            terms = {"epsilon": 0.4, "assume": (0, 9), "ledger": ledger, "analyst": name}
            pm.mean([1.0, 2.0, 3.0] * 500, **terms)
    assert [entry.analyst for entry in ledger.entries[:2]] == SAME[:2]  # as they were said


@pytest.mark.parametrize("name", NOBODY)
def test_a_name_of_which_nothing_shows_is_none(name):
    ledger = pm.Ledger(epsilon=100, policies=[pm.Policy(epsilon=1, analyst="*")])
    with pytest.raises(ArgumentError, match="is required"):
        pm.mean([1.0, 2.0] * 500, epsilon=0.4, assume=(0, 9), ledger=ledger, analyst=name)
    with pytest.raises(ArgumentError, match="is not a name"):
        pm.Policy(epsilon=1, analyst=name)
    assert ledger.entries == ()


def test_the_command_plans_by_the_same_names(tmp_path, capsys):
    place = str(tmp_path / "team.ledger")
    ledger = pm.Ledger(place, epsilon=100, policies=[pm.Policy(epsilon=1, analyst="ann")])
    pm.mean([1.0, 2.0] * 500, epsilon=0.8, assume=(0, 9), ledger=ledger, analyst="ann")
    said = ["ledger", "plan", place, "--epsilon", "0.5", "--analyst"]
    assert run([*said, "ann\u200b "]) == 3
    assert "does NOT fit" in capsys.readouterr().out
    assert run([*said, "ben"]) == 0


@pytest.mark.slow
def test_comparable_names_stay_as_they_are_and_show():
    """All characters of Unicode: compared once or twice is the same, and blanks are ordinary."""
    for code in range(sys.maxunicode + 1):
        sign = chr(code)
        if unicodedata.category(sign) in ("Cn", "Co"):
            continue
        found = comparable(f"a{sign}b")
        assert comparable(found) == found
        assert found == "ab" or found[1:2].isprintable() or found == "a b"
        if sign.isalnum() and sign not in "\u115f\u1160\u3164\uffa0":
            assert found != "ab", hex(code)
