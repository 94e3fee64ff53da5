"""A ledger as a trail: who asked what, limits by analyst and period, one interface, two homes."""

import json
import shutil
import sqlite3
from fractions import Fraction

import numpy as np
import pytest

import privmean as pm
from privmean.cli.app import run
from privmean.errors import ArgumentError, BudgetExceededError
from privmean.privacy.ledger import _first
from privmean.privacy.ledger_charges import Policy
from privmean.storage.older_logs import CHAIN_START, line_of

VALUES = np.random.default_rng(1).normal(5, 1, 800)


def call(*arguments):
    return run([str(item) for item in arguments])


@pytest.fixture(params=["file", "sqlite"])
def place(request, tmp_path):
    return str(tmp_path / "book") if request.param == "file" else f"sqlite:///{tmp_path}/b.db#team"


def charge(ledger, epsilon=0.1, **about):
    return ledger.charge(pm.Budget(epsilon), "replace-one", label="x", about=about)


def test_a_path_is_a_ledger_in_every_call(place):
    pm.Ledger(place, epsilon=1.0)
    release = pm.mean(VALUES, epsilon=0.5, assume=(0, 10), ledger=place, label="a", analyst="ann")
    (entry,) = pm.Ledger.open(place).entries
    assert (entry.label, entry.analyst, entry.about["questions"]) == ("a", "ann", "mean")
    assert pm.verify(release, ledger=pm.Ledger.open(place))
    with pytest.raises(BudgetExceededError):
        pm.mean(VALUES, epsilon=0.6, assume=(0, 10), ledger=place)
    with pytest.raises(ArgumentError, match="is not a ledger"):
        pm.mean(VALUES, epsilon=0.6, ledger=3)


CHANGES = {
    "an amount": "update privmean_ledger set line = replace(line, '1/2', '1/9') where number = 1",
    "a row removed": "delete from privmean_ledger where number = 1",
    "rows swapped": "update privmean_ledger set number = 4 where number = 1",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_row_is_noticed(tmp_path, change):
    place = f"sqlite:///{tmp_path}/b.db"
    ledger = pm.Ledger(place, epsilon=1.0)
    charge(ledger, 0.5)
    charge(ledger, 0.25)
    with sqlite3.connect(tmp_path / "b.db") as database:
        database.execute(CHANGES[change])
    database.close()
    with pytest.raises(ArgumentError, match="ledger=.*is damaged or was changed"):
        _ = pm.Ledger.open(place).entries


def test_a_database_put_back_is_refused(tmp_path):
    """Also where the older one went on by itself."""
    place, file, old = f"sqlite:///{tmp_path}/b.db#team", tmp_path / "b.db", tmp_path / "old"
    charge(pm.Ledger(place, epsilon=1.0))
    shutil.copy(file, old)
    ledger = pm.Ledger.open(place)
    charge(ledger)
    charge(ledger)
    newest = file.read_bytes()
    shutil.copy(old, file)
    for use in (lambda: charge(ledger), lambda: pm.Ledger.open(place)):
        with pytest.raises(ArgumentError, match="old copy: it holds 2 entries, and 4 were written"):
            use()
    with pytest.MonkeyPatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
        for _ in range(3):
            charge(ledger, 0.2)
    with pytest.raises(ArgumentError, match="went on by itself"):
        charge(ledger)
    file.write_bytes(newest)
    assert len(ledger.entries) == 3


def test_a_ledger_made_anew_at_the_same_address_is_another(tmp_path):
    place = f"sqlite:///{tmp_path}/b.db"
    charge(pm.Ledger(place, epsilon=1.0))
    (tmp_path / "b.db").unlink()
    assert pm.Ledger(place, epsilon=1.0).left().epsilon == 1


def test_a_database_ledger_of_0_2_has_a_witness_by_its_address(tmp_path):
    """Its first line is the same for every ledger of this total."""
    places = [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    for place in places:
        pm.Ledger(place, epsilon=1.0)
        first, _ = line_of(CHAIN_START, 0, _first(pm.Budget(1.0)))
        with sqlite3.connect(place.removeprefix("sqlite:///")) as database:
            database.execute("UPDATE privmean_ledger SET line = ?", (first,))
        database.close()
    charge(pm.Ledger.open(places[0]))
    shutil.copy(tmp_path / "a.db", tmp_path / "old")
    charge(pm.Ledger.open(places[0]))
    charge(pm.Ledger.open(places[1]))
    shutil.copy(tmp_path / "old", tmp_path / "a.db")
    with pytest.raises(ArgumentError, match="old copy"):
        charge(pm.Ledger.open(places[0]))


# --- policies -------------------------------------------------------------------------------------
def test_limits_of_analysts_and_periods_are_kept_before_noise(place, monkeypatch):
    limits = [
        Policy(epsilon=0.5, analyst="*", period="month"),
        Policy(epsilon=0.8, period="month"),
        Policy(epsilon=0.3, analyst="bob"),
    ]
    pm.Ledger(place, epsilon=10.0, policies=limits)
    ledger = pm.Ledger.open(place)
    assert ledger.policies == tuple(limits)
    charge(ledger, 0.4, analyst="ann")
    with pytest.raises(BudgetExceededError, match="each analyst in a month"):
        charge(ledger, 0.2, analyst="ann")
    charge(ledger, 0.3, analyst="bob")
    with pytest.raises(BudgetExceededError, match="bob"):
        charge(ledger, 0.05, analyst="bob")
    with pytest.raises(BudgetExceededError, match="all together in a month"):
        charge(ledger, 0.2, analyst="cat")
    charge(ledger, 0.1, analyst="cat")
    with pytest.raises(ArgumentError, match="is required"):
        charge(ledger, 0.01)
    assert ledger.spent().epsilon == Fraction(8, 10)


def test_a_period_ends():
    limit = Policy(epsilon=0.5, period="month")
    ledger = pm.Ledger(epsilon=10.0)
    entry = charge(ledger, 0.4)
    assert limit.left([entry], "", entry.when).epsilon == Fraction(1, 10)
    assert limit.left([entry], "", "2099-01-01T00:00:00").epsilon == Fraction(1, 2)
    # a clock that went back gives nothing back
    assert limit.left([entry], "", "2001-01-01T00:00:00").epsilon == Fraction(1, 10)


def test_limits_are_in_the_currency_of_the_ledger():
    with pytest.raises(ArgumentError, match="currency"):
        pm.Ledger(rho=1.0, policies=[Policy(epsilon=0.5)])


def test_another_table_is_said(place):
    ledger = pm.Ledger(place, epsilon=1.0)
    charge(ledger, table="a.csv by who")
    with pytest.warns(UserWarning, match=r"a\.csv by who before and now for b\.csv by who"):
        charge(ledger, table="b.csv by who")


# --- commands -------------------------------------------------------------------------------------
@pytest.mark.slow
def test_the_commands_make_show_check_and_plan(place, capsys):
    said = ("--epsilon", "2", "--delta", "1e-6", "--limit", "*/month=1.0,1e-6")
    assert call("ledger", "create", place, *said) == 0
    assert call("ledger", "create", place, *said) == 2
    charge(pm.Ledger.open(place), 0.75, analyst="ann", questions="mean")
    capsys.readouterr()
    assert call("ledger", "show", place) == 0
    out = capsys.readouterr().out
    assert "left epsilon=1.25" in out
    assert "analyst ann" in out
    assert call("ledger", "show", place, "--json") == 0
    assert json.loads(capsys.readouterr().out)["entries"][0]["about"]["analyst"] == "ann"
    assert call("ledger", "check", place) == 0
    assert "1 charges" in capsys.readouterr().out
    assert call("ledger", "plan", place, "--epsilon", "0.25", "--analyst", "ann") == 0
    assert call("ledger", "plan", place, "--epsilon", "0.5", "--analyst", "ann") == 3
    assert "does NOT fit" in capsys.readouterr().out
    assert call("ledger", "plan", place, "--epsilon", "0.5", "--analyst", "bob") == 0
    assert len(pm.Ledger.open(place).entries) == 1


@pytest.mark.parametrize(
    "text", ["ann", "ann=x", "ann/week=1", "=", "*=0", "*/month=2,1e-6,3", "*/month="]
)
def test_limits_that_are_none_are_refused(tmp_path, text, capsys):
    place = tmp_path / "book"
    assert call("ledger", "create", place, "--epsilon", "2", "--limit", text) == 2
    assert "--limit" in capsys.readouterr().err
    assert call("ledger", "create", place, "--rho", "1", "--limit", "*/month=0.1,1e-6") == 2
    assert "=RHO" in capsys.readouterr().err
    assert not place.exists()
